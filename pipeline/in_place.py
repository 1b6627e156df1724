"""Which state a function may update in place.

IREE writes the new value of a state argument into the argument's own memory, and takes the two for different memory:
nothing makes the dispatch that writes wait for those that read. So a state is updated in place only where each
reader of its old value is known to come first (`update_order`).

A result that is the old value itself, or a view of it (``old = buf.clone(); buf.add_(1); return old``, two buffers
that swap their contents), would be read after it was overwritten too: IREE exports such a result without a
copy. So a state whose old value may reach another result unchanged gets new memory as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import linalg

from .update_order import callee, dimensions, reads_come_first

# How the functions of custom operators call native kernels.
_KERNEL_CALLS = ("flow.dispatch", "hal.dispatch.extern")


def may_update_in_place(block: ir.Block, argument: int, result: int) -> bool:
    """Whether a function's state argument, whose new value is result number `result`, may keep its memory."""
    new = list(block.operations)[-1].operation.operands[result]
    old = block.arguments[argument]
    return reads_come_first(old, new) and not is_returned_unchanged(block, argument, result)


def is_returned_unchanged(block: ir.Block, argument: int, but: int) -> bool:
    """Whether elements of an argument may be part of a result, other than result number `but`, as they are.

    What is computed from that result, the new value, holds nothing old.
    """
    returned = list(block.operations)[-1].operation.operands
    others = [value for i, value in enumerate(returned) if i != but]
    return _may_be_part_of(block.arguments[argument], others, returned[but])


def _may_be_part_of(source: Any, values: list[Any], past: Any = None) -> bool:
    """Whether one of `values` may hold elements of `source` that no operation in between computed anew.

    past: a value that is not looked behind.
    """
    seen: set[Any] = {past}
    pending = list(values)
    while pending:
        current = pending.pop()
        if current == source:
            return True
        if current not in seen and isinstance(current.owner, ir.Operation | ir.OpView):
            pending += _handed_through(current.owner.operation)
        seen.add(current)
    return False


def _handed_through(op: ir.Operation) -> Iterator[Any]:
    """The operands that the op may return as they are, now or after IREE has simplified it.

    ``x + 0`` and a sum over a dimension of one element simplify to `x`; a real reduction never does. A native
    kernel writes into memory of its own.
    """
    if op.name.startswith("linalg.") and _reduces(op):
        return
    if op.name in _KERNEL_CALLS and not _writes_into_operands(op):
        return
    if (function := callee(op)) is not None:
        block = function.regions[0].blocks[0]
        returned = list(block.operations)[-1].operation.operands
        pairs = zip(block.arguments, op.operands, strict=True)
        yield from (given for taken, given in pairs if _may_be_part_of(taken, list(returned)))
        return
    yield from op.operands
    yield from (value for inner in _nested(op) for value in inner.operands)


def _writes_into_operands(call: ir.Operation) -> bool:
    """Whether a result of a kernel takes the memory of an operand."""
    if "tied_operands" not in call.attributes:
        return False
    return any(ir.IntegerAttr(number).value >= 0 for number in ir.ArrayAttr(call.attributes["tied_operands"]))


def _reduces(op: ir.Operation) -> bool:
    """Whether each element of a linalg op's result combines several elements of an operand."""
    try:
        maps = [dimensions(attribute) for attribute in linalg.get_indexing_maps(op)]
    except TypeError:
        return False  # an op without maps, such as softmax
    return any(
        size != 1
        for loops, operand in zip(maps, op.operands, strict=True)
        if isinstance(operand.type, ir.RankedTensorType)
        for loop, size in zip(loops, operand.type.shape, strict=False)
        if loop is not None and loop not in maps[-1]
    )


def _nested(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from _nested(inner.operation)
