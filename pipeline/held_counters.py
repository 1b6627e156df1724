"""Long counters (0, 1, 2, ...) in dispatches of their own, for shaders (runs in the worker).

IREE computes a counter anew in each dispatch that reads it, and unrolls that: of 8000 elements into so many
operations that it does not end.

Before:  %i = linalg.generic outs(%e : tensor<8000xi32>) { linalg.index 0 ... };  <reads %i>
After:   %i = ...;  %held = util.optimization_barrier %i;                         <reads %held>
"""

from __future__ import annotations

from iree.compiler import ir

_SHORT = 256


def hold_counters(module: ir.Module) -> None:
    """Rewrites the functions of `module` in place."""
    counters: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "linalg.generic" and len(op.operands) == 1 and _is_long(op.results[0].type):
            counters.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in counters:
        uses = [(use.owner, use.operand_number) for use in op.results[0].uses]
        with ir.InsertionPoint.after(op), op.location:
            held = ir.Operation.create(
                "util.optimization_barrier", results=[op.results[0].type], operands=[op.results[0]]
            ).result
        for user, number in uses:
            user.operation.operands[number] = held


def _is_long(type_: ir.Type) -> bool:
    shape = ir.RankedTensorType(type_)
    sizes = shape.shape if shape.has_static_shape else []
    elements = 1
    for size in sizes:
        elements *= size
    return elements > _SHORT or not shape.has_static_shape
