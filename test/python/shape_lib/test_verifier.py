# ruff: noqa: E501 (lines of IR are long)
"""What refinement leaves open is reported in one error, with operators and source lines."""

import pytest
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect

from pipeline.shape_lib.errors import Finding, UnrefinedError
from pipeline.shape_lib.refine import refine_shapes
from pipeline.shape_lib.verifier import verify_refined
from pipeline.tools import pipeline_opt


def parse(text):
    context = ir.Context()
    torch_dialect.register_dialect(context)
    return ir.Module.parse(text, context)


def test_all_unrefined_tensors_are_listed():
    """One finding per result: the operators that nobody knows, and all that follow from them."""
    module = parse("""
    func.func @main(%x: !torch.vtensor<[2,3],f32>, %y: !torch.vtensor) {
      %0 = torch.operator "torch.mylib.f"(%x) : (!torch.vtensor<[2,3],f32>) -> !torch.vtensor loc("model.py":7:0)
      %1 = torch.aten.relu %0 : !torch.vtensor -> !torch.vtensor loc(callsite("inner.py":1:0 at "model.py":8:0))
      %2:2 = torch.operator "torch.mylib.g"(%x) : (!torch.vtensor<[2,3],f32>) -> (!torch.vtensor<[2],f32>, !torch.vtensor<[2],unk>)
      %3 = torch.aten.relu %x : !torch.vtensor<[2,3],f32> -> !torch.vtensor
      return
    }
    func.func private @declared(!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>""")
    refine_shapes(module)
    with pytest.raises(UnrefinedError) as raised:
        verify_refined(module)
    assert raised.value.findings == (
        Finding("argument 1 of main", "its rank and dtype are unknown"),
        Finding("mylib.f", "its rank and dtype are unknown", (("model.py", 7),)),
        Finding("aten.relu", "its rank and dtype are unknown", (("inner.py", 1), ("model.py", 8))),
        Finding("mylib.g", "result 1: its dtype is unknown"),
    )
    assert "mylib.f: its rank and dtype are unknown (at model.py:7)" in str(raised.value)


def test_tensors_that_may_be_changed_are_listed():
    module = parse("""
    func.func @main(%x: !torch.tensor<[2],f32>) {
      %0 = torch.copy.to_vtensor %x : !torch.vtensor<[2],f32>
      return
    }""")
    with pytest.raises(UnrefinedError, match="argument 0 of main: it may be changed in place"):
        verify_refined(module)


def test_what_is_no_tensor_needs_no_type():
    """Lists and optional tensors never carry the types of what is in them."""
    verify_refined(
        parse("""
    func.func @main(%x: !torch.vtensor<[2],f32>, %b: !torch.optional<vtensor>) {
      %0 = torch.prim.ListConstruct %x, %x : (!torch.vtensor<[2],f32>, !torch.vtensor<[2],f32>) -> !torch.list<vtensor>
      return
    }""")
    )


UNKNOWN = """
func.func @main(%x: !torch.vtensor<[2,3],f32>) {
  %0 = torch.operator "torch.mylib.f"(%x) : (!torch.vtensor<[2,3],f32>) -> !torch.vtensor
  return
}"""
FAILING = """
func.func @main(%x: !torch.vtensor<[2,3],f32>) {
  %0 = torch.aten.mm %x, %x : !torch.vtensor<[2,3],f32>, !torch.vtensor<[2,3],f32> -> !torch.vtensor
  return
}"""


@pytest.mark.parametrize(
    ("text", "flags", "code", "message"),
    [
        (UNKNOWN, ["--refine-shapes", "--verify-refined"], 3, "mylib.f: its rank and dtype are unknown"),
        (FAILING, ["--refine-shapes"], 2, "aten.mm: Matrix dimensions don't match"),
        (UNKNOWN, ["--refine-shapes=missing.py"], 2, "the shape library missing.py does not exist"),
        (
            UNKNOWN,
            ["--pass-pipeline=refine-shapes{libary=a.py}"],
            2,
            "has no option 'libary': it has library",
        ),
    ],
)
def test_exit_codes_of_pipeline_opt(text, flags, code, message, tmp_path, monkeypatch, capsys):
    file = tmp_path / "program.mlir"
    file.write_text(text)
    monkeypatch.setattr("sys.argv", ["pipeline-opt", *flags, str(file)])
    with pytest.raises(SystemExit) as exit_:
        pipeline_opt.main()
    assert exit_.value.code == code
    assert message in capsys.readouterr().err
