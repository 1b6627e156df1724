"""The interpreter knows what torch-mlir's own library functions are made of."""

import pytest
from torch_mlir import ir
from torch_mlir.dialects import _torch_ops_gen
from torch_mlir.dialects import torch as torch_dialect

from pipeline.shape_lib.abstract import lists, scalars
from pipeline.shape_lib.refine import refine_shapes
from pipeline.shape_lib.refinement.stock import stock_functions

# Run by the interpreter itself.
CONTROL = (
    "builtin.module",
    "func.",
    "torch.constant.",
    "torch.prim.If",
    "torch.prim.Loop",
    "torch.prim.Raise",
)
UNPACKING = ("torch.prim.TupleUnpack", "torch.prim.ListUnpack")
# One function each makes an object to warn with; `torch.operator` is aten.warn and the like.
UNKNOWN = {"torch.operator", "torch.prim.CreateObject", "torch.prim.CallMethod"}


@pytest.fixture
def context():
    context = ir.Context()
    torch_dialect.register_dialect(context)
    return context


def test_every_operation_of_the_stock_library_is_known(context):
    classes = vars(_torch_ops_gen).values()
    names = {item.OPERATION_NAME for item in classes if hasattr(item, "OPERATION_NAME")}
    module = stock_functions(sorted(name.removeprefix("torch.") for name in names), context)
    assert len(module.body.operations) > 900
    used = set()
    module.operation.walk(lambda op: used.add(op.operation.name) or ir.WalkResult.ADVANCE)
    bare = {name: name.removeprefix("torch.") for name in used if not name.startswith((*CONTROL, *UNPACKING))}
    known = {n for n, b in bare.items() if lists.find(b) or scalars.base_name(b) in scalars.KNOWN}
    assert set(bare) - known <= UNKNOWN


@pytest.mark.parametrize(
    ("number", "dtype", "expected"),
    [
        ("float 2.5", "f32", "f32"),
        ("int 2", "f32", "f32"),
        ("int 2", "si32", "si32"),
        ("float 2.5", "si32", "f32"),
    ],
)
def test_numbers_promote_as_scalars(context, number, dtype, expected):
    kind = number.partition(" ")[0]
    text = f"""
        func.func @main(%x: !torch.vtensor<[?,4],{dtype}>) -> !torch.vtensor {{
          %number = torch.constant.{number}
          %r = torch.aten.mul.Scalar %x, %number : !torch.vtensor<[?,4],{dtype}>, !torch.{kind} -> !torch.vtensor
          return %r : !torch.vtensor
        }}"""
    module = ir.Module.parse(text, context)
    refine_shapes(module)
    assert f"-> !torch.vtensor<[?,4],{expected}> {{" in str(module)
