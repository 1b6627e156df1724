"""keep-nan-comparisons: float comparisons of a tensor with itself keep their meaning for NaN.

torch-mlir folds ``x == x`` to true, although it is false where x is NaN; it folds no ordering.

Before:  %r = torch.aten.eq.Tensor %x, %x : !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32> -> ...
After:   %r = torch.aten.le.Tensor %x, %x : ...

``ne`` becomes the negation of that.
"""

from __future__ import annotations

from torch_mlir import ir

_EQUAL = ("torch.aten.eq.Tensor", "torch.aten.ne.Tensor")


def run(module: ir.Module) -> None:
    """Rewrites every function of `module` in place."""
    for function in module.body.operations:
        for block in function.regions[0].blocks:
            for op in list(block.operations):
                if _compares_with_itself(op.operation):
                    _rewrite(op.operation)


def _compares_with_itself(op: ir.Operation) -> bool:
    return op.name in _EQUAL and op.operands[0] == op.operands[1] and _is_float(op.operands[0].type)


def _is_float(type_: ir.Type) -> bool:
    element = str(type_).rstrip(">").rpartition(",")[2]
    return element.startswith(("f", "bf", "complex"))


def _rewrite(op: ir.Operation) -> None:
    result = op.results[0].type
    with ir.InsertionPoint(op), op.location:
        ordered = ir.Operation.create("torch.aten.le.Tensor", [result], list(op.operands))
        if op.name == "torch.aten.ne.Tensor":
            ordered = ir.Operation.create("torch.aten.logical_not", [result], [ordered.result])
    op.results[0].replace_all_uses_with(ordered.result)
    op.erase()
