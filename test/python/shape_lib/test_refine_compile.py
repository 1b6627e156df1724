"""Shape functions on the way through the compiler: types that a lowering leaves open, the user's library, errors."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn
from torch.export import Dim
from torch.testing import assert_close

import pipeline
from pipeline.api import capture_checked, compile_options, entry_specs
from pipeline.cli import cli
from pipeline.compiler import _Build, emit
from pipeline.errors import InputError, UnsupportedError
from pipeline.refinement_errors import from_refinement
from pipeline.shape_lib.registry import shape_function

HERE = Path(__file__).name


@pipeline.op("refinetest::scaled")
def scaled(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([torch.tanh(x * 2.0), y], dim=1)


@scaled.lowering(form="torch")
def write_scaled(call):
    x, y = call["x"].torch, call["y"].torch
    return f"""
      %two = torch.constant.float 2.0
      %one = torch.constant.int 1
      %0 = torch.aten.mul.Scalar %x, %two : {x}, !torch.float -> !torch.vtensor
      %1 = torch.aten.tanh %0 : !torch.vtensor -> !torch.vtensor
      %2 = torch.prim.ListConstruct %1, %y : (!torch.vtensor, {y}) -> !torch.list<vtensor>
      %3 = torch.aten.cat %2, %one : !torch.list<vtensor>, !torch.int -> !torch.vtensor
      return %3 : !torch.vtensor"""


class Model(nn.Module):
    def forward(self, x, y):
        return scaled(x, y).sum(0)


ARGS = (torch.randn(3, 4), torch.randn(3, 2))


def program(**options):
    settings = compile_options("cpu", **options)
    return capture_checked(Model(), entry_specs(ARGS, None, None, None), settings), settings


def test_a_lowering_may_leave_types_open():
    assert_close(pipeline.compile(Model(), args=ARGS)(*ARGS), Model()(*ARGS))


def test_a_lowering_may_leave_types_open_with_dynamic_sizes():
    rows = Dim("rows")
    compiled = pipeline.compile(Model(), args=ARGS, dynamic_shapes=({0: rows}, {0: rows}))
    for count in (2, 5):
        args = torch.randn(count, 4), torch.randn(count, 2)
        assert_close(compiled(*args), Model()(*args))


@shape_function("aten::tanh")
def strict_tanh(x: list[int]) -> list[int]:
    assert x[0] == 5, "tanh is for five rows only"
    return x


def test_a_check_of_the_users_function_is_quoted_with_the_line():
    line = Model.forward.__code__.co_firstlineno + 1
    with pytest.raises(
        InputError, match=rf"aten\.tanh.*: tanh is for five rows only.* \(at .*{HERE}:{line}\)"
    ):
        pipeline.compile(Model(), args=ARGS, shape_lib=[strict_tanh])


def test_the_users_library_reaches_explain():
    explanation = pipeline.explain(Model(), args=ARGS, shape_lib=strict_tanh)
    (found,) = [item for item in explanation.operators if item.operator == "aten.tanh"]
    assert found.problem is not None


WRONG = """
from pipeline.shape_lib.registry import shape_function

@shape_function("aten::tanh")
def tanh(x: list[int]) -> list[int]:
    return [7, 7]
"""


def test_files_of_the_users_library(tmp_path):
    """They win over torch-mlir's, and lie in the folder that a reproducer keeps."""
    file = tmp_path / "wrong.py"
    file.write_text(WRONG)
    graph, settings = program(shape_lib=file)
    build = _Build(graph, settings)
    with pytest.raises(InputError, match=r"aten\.cat"):
        build.run_until("refined")
    assert "[7" not in emit(graph, compile_options("cpu"), "refined")
    assert "__torch_mlir_shape_fn.aten.tanh" in (build._folder / "shape_library_0.mlir").read_text()


MODEL = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x)

def get_model():
    return Model()

def get_example_inputs():
    return (torch.ones(2),)
"""


def test_the_command_takes_libraries(tmp_path):
    """A library that is none is refused also where capture knows all types and no function is asked."""
    model, right, wrong = (tmp_path / name for name in ("model.py", "right.py", "wrong.py"))
    model.write_text(MODEL)
    right.write_text(WRONG)
    wrong.write_text(WRONG.replace("[7, 7]", "eval('x')"))
    command = ["compile", str(model), "--emit", "refined", "--shape-lib"]
    refused = CliRunner().invoke(cli, [*command, str(wrong)])
    assert isinstance(refused.exception, InputError)
    assert "wrong.py:6: eval is not known" in str(refused.exception)
    assert "torch.aten.tanh" in CliRunner().invoke(cli, [*command, str(right)]).stdout


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "missing.py does not exist"),
        (
            "@shape_function('aten::tanh')\ndef f(x: list[int]) -> list[int]:\n    return eval('x')\n",
            r"wrong\.py:5: eval is not known",
        ),
    ],
)
def test_a_library_that_cannot_be_read(source, message, tmp_path):
    file = tmp_path / ("missing.py" if source is None else "wrong.py")
    if source is not None:
        file.write_text(f"from pipeline.shape_lib.registry import shape_function\n\n{source}")
    with pytest.raises(InputError, match=message):
        compile_options("cpu", shape_lib=str(file))


def test_a_function_that_two_libraries_define(tmp_path):
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(WRONG)
    with pytest.raises(
        InputError, match=r"the shape function of aten\.tanh is defined in .*one\.py and in .*two\.py"
    ):
        compile_options("cpu", shape_lib=[tmp_path / "one.py", tmp_path / "two.py"])


def test_what_stays_unrefined_is_unsupported():
    frames = [["model.py", 3]]
    unknown = {"operator": "mylib.f", "problem": "its rank is unknown", "frames": frames}
    error = from_refinement({"heading": "unknown:", "unsupported": True, "findings": [unknown, unknown]})
    assert isinstance(error, UnsupportedError)
    (found,) = error.operators
    assert (found.operator, found.count, found.lines) == ("mylib.f", 2, ("model.py:3",))
