"""Lowering functions: text or built IR, in linalg and the Torch dialect."""

import re

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from pipeline.dialect_passes.custom_operators.declaration import op
from pipeline.dialect_passes.custom_operators.lowering import LoweringError, Refused


@op("written::halves")
def halves(x: Tensor, others: list[Tensor], scale: float) -> tuple[Tensor, Tensor]:
    return x * scale, others[0] + others[1]


X, Y = torch.randn(5, 6), torch.randn(5, 6)
ARGS = (X, [X, Y], 0.5)
DYNAMIC = {(0, 0), (1, 0), (2, 0)}


@pytest.fixture(autouse=True)
def _no_lowerings():
    halves.lowerings.clear()


def text(call):
    type_ = call["x"].builtin
    return f"""
      %zero = arith.constant 0 : index
      %rows = tensor.dim %x, %zero : {type_}
      %scale = arith.constant {call["scale"]:e} : f32
      %empty = tensor.empty({"%rows" if call["x"].dynamic_dims else ""}) : {type_}
      %scales = linalg.fill ins(%scale : f32) outs(%empty : {type_}) -> {type_}
      %scaled = arith.mulf %x, %scales : {type_}
      %sum = arith.addf %others_0, %others_1 : {type_}
      return %scaled, %sum : {type_}, {type_}
    """


@pytest.mark.parametrize("device", ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
@pytest.mark.parametrize("dynamic", [set(), DYNAMIC], ids=["static", "dynamic"])
def test_text(compiled, device, dynamic):
    halves.lowering("cpu", "vulkan")(text)
    results = compiled(halves, ARGS, device, dynamic=dynamic)(*ARGS)
    for result, expected in zip(results, halves.meaning(*ARGS), strict=True):
        assert_close(result, expected)


def test_a_builder(compiled):
    @halves.lowering("cpu")
    def build(call, x, *others):
        from iree.compiler import ir
        from iree.compiler.dialects import arith

        scale = ir.FloatAttr.get(ir.F32Type.get(), call["scale"])
        scales = arith.constant(x.type, ir.DenseElementsAttr.get_splat(x.type, scale))
        return arith.mulf(x, scales), arith.addf(*others)

    assert halves.lowerings[0].title == "linalg lowering build"
    for result, expected in zip(compiled(halves, ARGS, "cpu")(*ARGS), halves.meaning(*ARGS), strict=True):
        assert_close(result, expected)


@op("written::cast")
def cast(x: Tensor, dtype: torch.dtype = torch.float64, dims: list[int] = (1, 2)) -> Tensor:  # type: ignore[assignment]
    return x.to(dtype)


def test_defaults_come_as_they_were_written(call_types):
    arguments = call_types(cast, (X,)).arguments
    assert arguments["dtype"] is torch.float64
    assert arguments["dims"] == (1, 2)


def test_none_means_all_targets():
    halves.lowering()(text)
    assert halves.lowerings[0].targets == ("cpu", "vulkan", "cuda")


TORCH_TEXT = """
  %scale = torch.constant.float {scale}
  %0 = torch.aten.mul.Scalar %x, %scale : {x}, !torch.float -> !torch.vtensor
  %one = torch.constant.int 1
  %1 = torch.aten.add.Tensor %others_0, %others_1, %one : {x}, {x}, !torch.int -> {x}
  return %0, %1 : !torch.vtensor, {x}
"""


def test_the_torch_dialect_may_leave_types_open(call_types):
    @halves.lowering(form="torch")
    def lower(call):
        return TORCH_TEXT.format(scale=call["scale"], x=call["x"].torch)

    written = halves.lowerings[0].define("f", call_types(halves, ARGS, DYNAMIC), None, None)
    from torch_mlir import ir
    from torch_mlir.dialects import torch as torch_dialect

    with ir.Context() as context:
        torch_dialect.register_dialect(context)
        parsed = str(ir.Module.parse(written))
    known = "!torch.vtensor<[?,6],f32>"
    assert (
        f"func.func private @f(%arg0: {known}, %arg1: {known}, %arg2: {known}) -> ({known}, {known})"
        in parsed
    )
    # Only what was left open is cast.
    assert re.findall(r"static_info_cast %\S+ : (.*)", parsed) == [f"!torch.vtensor to {known}"]


def test_a_builder_in_the_torch_dialect(call_types):
    @halves.lowering(form="torch")
    def build(call, x, first, second):
        from torch_mlir import ir

        open_type = ir.Type.parse("!torch.vtensor")
        return ir.Operation.create("torch.aten.neg", results=[open_type], operands=[x]), second

    written = halves.lowerings[0].define("f", call_types(halves, ARGS), None, None)
    assert "torch.aten.neg %arg0 : !torch.vtensor<[5,6],f32> -> !torch.vtensor" in written
    assert written.count("static_info_cast") == 1


# --- Wrong ones ---


def failure(call_types, function, **options) -> str:
    halves.lowering("cpu", **options)(function)
    with pytest.raises(LoweringError) as error:
        halves.lowerings[0].refuses(call_types(halves, ARGS))
    return str(error.value)


def test_text_that_is_no_ir(call_types):
    message = failure(call_types, lambda call: text(call).replace("arith.mulf %x", "arith.mulf %w"))
    assert "undeclared SSA value name" in message
    assert "in: %scaled = arith.mulf %w" in message
    assert (
        "its arguments: %x: tensor<5x6xf32>, %others_0: tensor<5x6xf32>, %others_1: tensor<5x6xf32>"
        in message
    )
    assert "test_written.py:" in message


def test_results_of_another_type(call_types):
    message = failure(call_types, lambda call: "return %x : tensor<5x6xf32>")
    assert "made invalid IR" in message


@pytest.mark.parametrize("answer", [None, 7, b"return"])
def test_an_answer_that_is_no_text(call_types, answer):
    assert "must return the text of a function's body" in failure(call_types, lambda call: answer)


def test_a_builder_that_returns_no_values(call_types):
    assert "must return the values of its results" in failure(call_types, lambda call, *tensors: "text")


def test_a_builder_of_wrong_ir(call_types):
    assert "made invalid IR" in failure(call_types, lambda call, x, *others: (x,))


def test_an_exception_names_the_users_line(call_types):
    def lower(call):
        return call["gate"].builtin

    message = failure(call_types, lower)
    assert "the operator has no parameter 'gate', only x, others, scale" in message
    assert "test_written.py" in message


def test_refusing(call_types):
    @halves.lowering("cpu")
    def lower(call):
        raise Refused("rank 2 only")

    call = call_types(halves, ARGS)
    assert halves.lowerings[0].refuses(call) == "rank 2 only"
    with pytest.raises(LoweringError, match="refuses this call: rank 2 only"):
        halves.lowerings[0].define("f", call, None, None)


@pytest.mark.parametrize(
    ("targets", "options", "says"),
    [(("gpu",), {}, "'gpu' is no target"), ((), {"form": "stablehlo"}, "form 'stablehlo' is unknown")],
)
def test_wrong_declarations(targets, options, says):
    with pytest.raises(LoweringError, match=says):
        halves.lowering(*targets, **options)(text)
    with pytest.raises(LoweringError, match="must take the call's types"):
        halves.lowering("cpu")(lambda: "")


@op("written::wide")
def wide(x: Tensor) -> Tensor:
    return x.to(torch.int32)


def test_dtypes_that_torch_mlir_lacks_are_refused(call_types):
    wide.lowering("cpu")(
        lambda call: f"%r = arith.extui %x : {call['x'].builtin} to {call.results[0].builtin}"
    )
    refusal = wide.lowerings[0].refuses(call_types(wide, (torch.ones(3, dtype=torch.uint16),)))
    assert refusal == "torch-mlir has no tensors of uint16"
