"""Long counters (0, 1, 2, ...) as constants, for shaders (runs in the worker).

IREE computes a counter anew in each dispatch that reads it, and unrolls that: of 8000 elements into so many
operations that it does not end. A barrier would not do: IREE keeps what stands behind it from call to call, and lets
others work in its memory.

Before:  %i = linalg.generic outs(%e : tensor<8000xi32>) { linalg.index 0;  arith.index_cast;  linalg.yield }
After:   %i = arith.constant dense<[0, 1, 2, ...]> : tensor<8000xi32>
"""

from __future__ import annotations

import numpy as np
from iree.compiler import ir

_SHORT, _LONG = 256, 2**20
_CASTS = [
    *("arith.index_cast", "arith.index_castui", "arith.trunci", "arith.extsi", "arith.extui"),
    *("arith.sitofp", "arith.uitofp"),
]
_TYPES = {"i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64}


def make_counters_constant(module: ir.Module) -> None:
    """Rewrites the functions of `module` in place."""
    counters: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "linalg.generic" and _is_counter(op):
            counters.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in counters:
        type_ = ir.RankedTensorType(op.result.type)
        values = np.arange(type_.shape[0], dtype=_TYPES[str(type_.element_type)])
        with ir.InsertionPoint(op), op.location:
            constant = ir.Operation.create(
                "arith.constant", results=[type_], attributes={"value": ir.DenseElementsAttr.get(values)}
            )
        op.result.replace_all_uses_with(constant.result)
        op.erase()


def _is_counter(op: ir.Operation) -> bool:
    """Whether it counts the places of a vector whose length asks for it."""
    if len(op.operands) != 1 or not isinstance(op.result.type, ir.RankedTensorType):
        return False
    type_ = ir.RankedTensorType(op.result.type)
    if type_.rank != 1 or not type_.has_static_shape or str(type_.element_type) not in _TYPES:
        return False
    first, *casts, _ = [inner.operation.name for inner in op.regions[0].blocks[0].operations]
    is_plain = first == "linalg.index" and bool(casts) and all(name in _CASTS for name in casts)
    return is_plain and _SHORT < type_.shape[0] <= _LONG
