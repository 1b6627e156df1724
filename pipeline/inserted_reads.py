"""Whether a part of a tensor is computed from that tensor, in which IREE would compute it in place.

IREE computes what is inserted into a tensor in its place there, in the dispatch that makes it. Where that dispatch
reads the same tensor it sees what it has written itself: of ``y[1] = y[1].cumsum(0)`` the start of the sums, so
nothing but zeros. A part that is only moved fails at run time where the two places overlap. Only what reads and
writes the same elements one by one may work in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from iree.compiler import ir

from .tensor_views import VIEWS, viewed

# What a value is handed through in the same memory.
_VIEWS = (*VIEWS, "util.optimization_barrier")


def versions(value: ir.Value) -> Iterator[ir.Value]:
    """A tensor, and those that it was before parts were inserted."""
    value = viewed(value, _VIEWS)
    yield value
    if not isinstance(value.owner, ir.Block) and value.owner.operation.name == "tensor.insert_slice":
        yield from versions(value.owner.operation.operands[1])


class Insertion:
    """A ``tensor.insert_slice`` in a block. positions: of the block's operations in it."""

    def __init__(self, update: ir.Operation, positions: dict[ir.Operation, int]) -> None:
        self._update = update
        self._positions = positions
        self._versions = set(versions(update.operands[1]))

    @cached_property
    def _readers(self) -> set[ir.Operation]:
        """What reads the tensor, whole or as it was before."""
        found = set()
        for version in self._versions:
            found.update(self._reading(version))
        return found

    def _reading(self, version: ir.Value) -> Iterator[ir.Operation]:
        for use in version.uses:
            user = use.owner.operation
            if user.name in VIEWS:
                yield from self._reading(user.results[0])
            elif user.name != "tensor.dim" and not (
                user.name == "tensor.insert_slice" and use.operand_number == 1
            ):
                yield self._in_block(user)

    def _in_block(self, operation: ir.Operation) -> ir.Operation:
        while operation not in self._positions:
            operation = operation.parent.operation
        return operation

    @cached_property
    def _first(self) -> int:
        """Where the first reader stands: what comes before cannot depend on any."""
        return min((self._positions[reader] for reader in self._readers), default=len(self._positions))

    def reads_its_target(self) -> bool:
        """Whether the part depends on the tensor in another way than element for element."""
        seen: set[ir.Operation] = set()
        waiting = [self._update.operands[0]]
        computed = False
        while waiting:
            value = viewed(waiting.pop())
            if value in self._versions:
                return True
            operation = self._maker(value)
            if operation is None or operation in seen:
                continue
            seen.add(operation)
            if computed and self._is_same_place(operation):
                continue
            computed = True
            if operation in self._readers:
                return True
            for operand, at_its_place in _reads(operation):
                if at_its_place:
                    waiting.append(operand)
                elif self._depends(operand):
                    return True
        return False

    def _maker(self, value: ir.Value) -> ir.Operation | None:
        """What computes a value; None where it cannot depend on a reader, or is in memory of its own."""
        if isinstance(value.owner, ir.Block):
            return None
        operation = value.owner.operation
        if self._positions.get(operation, -1) < self._first or operation.name == "util.optimization_barrier":
            return None
        return operation

    def _is_same_place(self, operation: ir.Operation) -> bool:
        """Whether it takes out what stands where the part will."""
        if operation.name != "tensor.extract_slice" or viewed(operation.operands[0]) not in self._versions:
            return False
        update = self._update
        static = ("static_offsets", "static_sizes", "static_strides")
        return (
            all(operation.attributes[name] == update.attributes[name] for name in static)
            and list(operation.operands)[1:] == list(update.operands)[2:]
        )

    def _depends(self, value: ir.Value) -> bool:
        """Whether the tensor is needed for the value, in whatever way."""
        seen: set[ir.Operation] = set()
        waiting = [value]
        while waiting:
            current = waiting.pop()
            if current in self._versions:
                return True
            maker = self._maker(current)
            if maker is not None and maker not in seen:
                if maker in self._readers:
                    return True
                seen.add(maker)
                waiting.extend(_needed(maker))
        return False


def _reads(operation: ir.Operation) -> Iterator[tuple[ir.Value, bool]]:
    """What the operation needs, and whether each element of it only for the element of the result at its place."""
    count = len(operation.operands)
    identities = _identities(operation)
    # Where the result's map is the identity every loop is of a dimension of the result, so none reduces.
    elementwise = len(identities) == count and all(identities[count - len(operation.results) :])
    for number, value in enumerate(_needed(operation)):
        yield value, elementwise and number < count and identities[number]


def _identities(operation: ir.Operation) -> list[bool]:
    if operation.name != "linalg.generic":
        return []
    maps = [ir.AffineMapAttr(item).value for item in operation.attributes["indexing_maps"]]
    return [item == ir.AffineMap.get_identity(item.n_dims) for item in maps]


def _needed(operation: ir.Operation) -> Iterator[ir.Value]:
    """The operands, and what is used inside of the operation's regions."""
    yield from operation.operands
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _needed(inner.operation)
