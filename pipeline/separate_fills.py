"""A fill of its own for each operation that writes into one of dynamic size (runs in the worker).

IREE gives a scatter or an inserted slice the memory of what it starts from. Where that is a fill of dynamic size
which something else uses too, it forgets the copy: all see the last one's values, without an error. So each gets
a fill of its own, behind a barrier that keeps IREE from finding out that they are equal.

Before:  %zeros = linalg.fill ins(%c : f32) outs(%e);  tm_tensor.scatter outs(%zeros);  tm_tensor.scatter outs(%zeros)
After:   %own = util.optimization_barrier %c : f32;  %zeros_0 = linalg.fill ins(%own : f32) outs(%e)
         tm_tensor.scatter outs(%zeros_0)                                              ... and likewise for the second
"""

from __future__ import annotations

from iree.compiler import ir
from iree.compiler.passmanager import PassManager

from .tensor_views import VIEWS

# Which operand each of them writes into.
_WRITERS = {"tm_tensor.scatter": -1, "tensor.insert_slice": 1, "tensor.insert": 1}


def separate_fills(module: ir.Module) -> None:
    """Rewrites the functions of `module` in place."""
    # IREE merges equal fills itself: they must be one by now, to be told from fills that are used once.
    PassManager.parse("builtin.module(func.func(cse))", module.context).run(module.operation)
    with ir.Location.unknown(module.context):
        for function in module.body.operations:
            for op in _writers(function.operation):
                number = _WRITERS[op.name] % len(op.operands)
                if _is_shared_fill(op.operands[number]):
                    with ir.InsertionPoint(op):
                        op.operands[number] = _own(op.operands[number])


def _writers(function: ir.Operation) -> list[ir.Operation]:
    blocks = [block for region in function.regions for block in region.blocks]
    return [op.operation for block in blocks for op in block.operations if op.operation.name in _WRITERS]


def _is_shared_fill(value: ir.Value) -> bool:
    """Whether `value` is a fill of dynamic size, or a view of one, that has other uses."""
    shared = False
    while True:
        shared = shared or len(list(value.uses)) > 1
        owner = value.owner
        if isinstance(owner, ir.Block):
            return False
        if owner.operation.name not in VIEWS:
            type_ = ir.RankedTensorType(value.type)
            return shared and not type_.has_static_shape and _is_fill(owner.operation)
        value = owner.operation.operands[0]


def _own(value: ir.Value) -> ir.Value:
    """A copy of the fill, and of the view of it, that nothing else uses."""
    op = value.owner.operation
    source = op.operands[0]
    if op.name in VIEWS:
        source = _own(source)
    else:
        source = ir.Operation.create(
            "util.optimization_barrier", results=[source.type], operands=[source]
        ).result
    copy = op.clone().operation
    copy.operands[0] = source
    return copy.results[0]


def _is_fill(op: ir.Operation) -> bool:
    """``linalg.fill``, or the ``linalg.generic`` that torch-mlir writes for it: one number to every place."""
    if op.name == "linalg.fill":
        return True
    if op.name != "linalg.generic" or len(op.operands) != 2:
        return False
    value = op.operands[0].type
    if not isinstance(value, ir.RankedTensorType) or value.rank:
        return False
    body = op.regions[0].blocks[0]
    first = body.operations[0].operation
    return len(first.operands) == 1 and first.operands[0] == body.arguments[0]
