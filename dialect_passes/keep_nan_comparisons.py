"""keep-nan-comparisons: float comparisons of a tensor with itself keep their meaning for NaN.

torch-mlir folds ``x == x`` to true, although it is false where x is NaN; it folds no ordering.

Before:  %r = torch.aten.eq.Tensor %x, %x : !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32> -> ...
After:   %r = torch.aten.le.Tensor %x, %x : ...

``ne`` becomes the negation of that.
"""

from __future__ import annotations

from torch_mlir import ir
from torch_mlir.dialects import torch

from .patterns import Rewriter, pattern, rewrite_once
from .torch_ops import dtype


def run(module: ir.Module) -> int:
    """Changes `module` in place. Returns how many comparisons it rewrote."""
    return rewrite_once(module, [equal, unequal])


@pattern
def equal(op: torch.AtenEqTensorOp, make: Rewriter) -> ir.Value | None:
    """``x == x`` as ``x <= x``."""
    return _ordered(op, make) if _compares_with_itself(op) else None


@pattern
def unequal(op: torch.AtenNeTensorOp, make: Rewriter) -> ir.Value | None:
    """``x != x`` as the negation of ``x <= x``."""
    if not _compares_with_itself(op):
        return None
    return make("aten.logical_not", _ordered(op, make), result=op.result.type)


def _compares_with_itself(op: torch.AtenEqTensorOp | torch.AtenNeTensorOp) -> bool:
    element = dtype(op.self_) or ""
    return op.self_ == op.other and element.startswith(("float", "bfloat", "complex"))


def _ordered(op: torch.AtenEqTensorOp | torch.AtenNeTensorOp, make: Rewriter) -> ir.Value:
    return make("aten.le.Tensor", op.self_, op.self_, result=op.result.type)
