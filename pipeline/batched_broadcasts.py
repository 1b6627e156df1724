"""Finds batched products of what was broadcast, which IREE's data tiling gets wrong on the CPU.

Of `(x - x.mean(-1, keepdim=True)) @ y`, with a batch, IREE packs the left factor as it computes it, and takes the rows
of the means for as many as a tile has (3.13.0): in each entry of the batch but the first they are others' numbers,
where the rows do not fill a tile. Every option set with data tiling does it, O0's too; without it all are right.
"""

from __future__ import annotations

import itertools

from iree.compiler import ir

_VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "linalg.transpose")


def multiplies_broadcasts(module: ir.Module) -> bool:
    """Whether a product in `module` has a factor that reads, elementwise, a tensor of fewer dimensions of its own."""
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found = found or any(_is_broadcast(value, set()) for value in _factors(op))
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _factors(op: ir.Operation) -> list[ir.Value]:
    """What `op` multiplies and sums up: a named product's inputs, or those of a loop that pairs rows with columns."""
    if op.name.startswith("linalg.batch_"):
        return list(op.operands)[:-1]
    if op.name != "linalg.generic" or not _reduces(op):
        return []
    inputs = _inputs(op)
    pairs = op if len(inputs) > 1 else _loop(inputs[0]) if inputs else None
    return _inputs(pairs) if pairs is not None and _pairs(pairs) else []


def _pairs(op: ir.Operation) -> bool:
    """Whether two inputs of a loop have each a dimension that the other lacks."""
    maps = [ir.AffineMapAttr(item).value for item in op.attributes["indexing_maps"]]
    used = [
        {str(place) for place in map_.results if isinstance(place, ir.AffineDimExpr)}
        for _, map_ in zip(_inputs(op), maps, strict=False)
    ]
    return any(a - b and b - a for a, b in itertools.combinations(used, 2))


def _reduces(op: ir.Operation) -> bool:
    return any("reduction" in str(kind) for kind in op.attributes["iterator_types"])


def _inputs(op: ir.Operation) -> list[ir.Value]:
    return list(op.operands)[: len(op.operands) - len(op.results)]


def _loop(value: ir.Value) -> ir.Operation | None:
    """The elementwise loop that computes `value`, behind views of it."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in _VIEWS:
        value = value.owner.operands[0]
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "linalg.generic" or _reduces(owner):
        return None
    return owner.operation


def _is_broadcast(value: ir.Value, seen: set[ir.Value]) -> bool:
    op = _loop(value)
    if op is None or value in seen:
        return False
    seen.add(value)
    inputs = _inputs(op)
    maps = [ir.AffineMapAttr(item).value for item in op.attributes["indexing_maps"]]
    long = _long(op.results[0])
    return any(
        1 < _long(operand) < long and map_.n_dims > 2 for operand, map_ in zip(inputs, maps, strict=False)
    ) or any(_is_broadcast(operand, seen) for operand in inputs)


def _long(value: ir.Value) -> int:
    """How many dimensions have more than one element."""
    if not isinstance(value.type, ir.RankedTensorType):
        return 0
    return sum(size != 1 for size in value.type.shape)
