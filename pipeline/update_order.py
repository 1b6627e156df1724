"""Whether all that reads a state's old value does so before the new value is written into the same memory.

Two forms are known to: the write into a part of the state by its only reader, as of a cache,

    %new = tm_tensor.scatter ins(%x, %places) outs(%state)

and arithmetic that takes each element from its own place, all of it on the way to the new value,

    %new = linalg.generic ins(%state, %x) { ... }    // every map the identity

which reads and writes an element in the same turn of a loop, in whatever dispatches IREE puts it. A matrix product,
a transposition, or a reader that the new value does not depend on may run later, or in the same dispatch on elements
that another turn has already written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import linalg

from .tensor_views import VIEWS

# The operand that a write takes as what it writes into.
_WRITES = {"tensor.insert_slice": 1, "tm_tensor.scatter": 2, "iree_linalg_ext.scatter": 2}

# IREE repeats conversions in the dispatches that read them, so their readers read the state.
_CONVERSIONS = ("arith.extf", "arith.extsi", "arith.extui", "arith.sitofp", "arith.uitofp", "arith.trunci")


def reads_come_first(old: Any, new: Any) -> bool:
    """Whether `new`, the value that takes the memory of `old`, is written after every read of `old`."""
    if old == new:
        return True
    readers = list(_readers(old))
    if not readers:
        return True
    if len(readers) == 1:
        written = _written_into(*readers[0])
        if written is not None:
            return reads_come_first(written, new)
    return _lead_to(readers, new)


def _readers(value: Any) -> Iterator[tuple[ir.Operation, int]]:
    """The operations that read elements of `value`, through views, and which of their operands it is."""
    for use in value.uses:
        op = use.owner.operation
        if op.name == "tensor.dim":
            continue
        if op.name in VIEWS or _converts(op):
            yield from _readers(op.results[0])
        else:
            yield op, use.operand_number


def _written_into(op: ir.Operation, number: int) -> Any:
    """The result that is operand `number` with new parts; None for an op that is no such write."""
    if _WRITES.get(op.name) == number:
        return op.results[0]
    function = callee(op)
    if function is None:
        return None
    block = function.regions[0].blocks[0]
    returned = list(block.operations)[-1].operation.operands
    pairs = zip(op.results, returned, strict=True)
    return next((result for result, value in pairs if reads_come_first(block.arguments[number], value)), None)


def callee(op: ir.Operation) -> ir.Operation | None:
    """The function that an op calls, where it has a body."""
    if op.name != "func.call":
        return None
    name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
    module = op
    while module.parent is not None:
        module = module.parent
    for other in module.regions[0].blocks[0].operations:
        function = other.operation
        if function.name == "func.func" and ir.StringAttr(function.attributes["sym_name"]).value == name:
            return function if function.regions[0].blocks else None
    return None


def _converts(op: ir.Operation) -> bool:
    if op.name in _CONVERSIONS:
        return True
    if op.name != "linalg.generic":
        return False
    *body, _ = op.regions[0].blocks[0].operations
    return all(inner.operation.name in _CONVERSIONS for inner in body) and _keeps_places(op, 0)


def _lead_to(readers: list[tuple[ir.Operation, int]], new: Any) -> bool:
    """Whether all that comes of these reads ends in the new value, element by element."""
    pending = list(readers)
    seen: set[Any] = {new}
    while pending:
        op, number = pending.pop()
        if not _keeps_places(op, number):
            return False
        for result in op.results:
            if result not in seen:
                seen.add(result)
                users = list(_readers(result))
                if not users:
                    return False
                pending += users
    return True


def _keeps_places(op: ir.Operation, number: int) -> bool:
    """Whether each element of the op's results takes the operand's element of the same place, and no other."""
    if op.name.startswith(("arith.", "math.")):
        return True
    if op.name != "linalg.generic":
        return False
    maps = [dimensions(attribute) for attribute in linalg.get_indexing_maps(op)]
    taken, given = maps[number], maps[-1]
    kinds = [str(kind) for kind in ir.ArrayAttr(op.attributes["iterator_types"])]
    if any("parallel" not in kind for kind in kinds) or not _is_whole(given):
        return False
    sizes = zip(op.operands[number].type.shape, op.results[0].type.shape, strict=False)
    # A dimension of one element has one place, whatever the map says.
    return len(taken) == len(given) and all(
        one == other or size == whole == 1
        for one, other, (size, whole) in zip(taken, given, sizes, strict=True)
    )


def _is_whole(given: list[int | None]) -> bool:
    return sorted(loop for loop in given if loop is not None) == list(range(len(given)))


def dimensions(attribute: ir.Attribute) -> list[int | None]:
    """The loop behind each dimension of an operand of a linalg op; None for a window or a constant."""
    expressions = str(attribute).partition("-> (")[2].removesuffix(")>").split(", ")
    return [int(text[1:]) if re.fullmatch(r"d\d+", text) else None for text in expressions if text]
