"""Which state a function may update in place.

IREE writes the new value of a state argument into the argument's own memory at the end of a call. A result
that is the old value itself, or a view of it (``old = buf.clone(); buf.add_(1); return old``, two buffers
that swap their contents), would then be read after it was overwritten: IREE exports such a result without a
copy. So a state whose old value may reach another result unchanged gets new memory instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iree.compiler import ir

_ELEMENTWISE = ("linalg.broadcast", "linalg.copy", "linalg.elementwise", "linalg.map", "linalg.transpose")


def may_update_in_place(block: ir.Block, argument: int, result: int) -> bool:
    """Whether a function's state argument, whose new value is result number `result`, may keep its memory."""
    returned = list(block.operations)[-1].operation.operands
    others = [value for i, value in enumerate(returned) if i != result]
    return not any(_may_be_part_of(block.arguments[argument], value) for value in others)


def _may_be_part_of(source: Any, value: Any) -> bool:
    """Whether `value` may hold elements of `source` that no operation in between computed anew."""
    seen: set[Any] = set()
    pending = [value]
    while pending:
        current = pending.pop()
        if current == source:
            return True
        if current not in seen and isinstance(current.owner, ir.Operation | ir.OpView):
            pending += _handed_through(current.owner.operation, current)
        seen.add(current)
    return False


def _handed_through(op: ir.Operation, result: Any) -> Iterator[Any]:
    """The operands that the op may return as they are, now or after IREE has simplified it.

    ``x + 0`` and a sum over a dimension of one element simplify to `x`; a real reduction never does.
    """
    if op.name.startswith("linalg.") and not _is_elementwise(op):
        yield from (value for value in op.operands if _same_static_size(value.type, result.type))
        return
    yield from op.operands
    if not op.name.startswith("linalg."):
        yield from (value for inner in _nested(op) for value in inner.operands)


def _is_elementwise(op: ir.Operation) -> bool:
    if "iterator_types" not in op.attributes:
        return op.name in _ELEMENTWISE
    return all("parallel" in str(kind) for kind in ir.ArrayAttr(op.attributes["iterator_types"]))


def _same_static_size(left: Any, right: Any) -> bool:
    return _elements(left) == _elements(right) is not None


def _elements(type_: Any) -> int | None:
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return None
    total = 1
    for size in type_.shape:
        total *= size
    return total


def _nested(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from _nested(inner.operation)
