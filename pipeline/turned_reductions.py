"""Finds reductions that are read along other dimensions than they were made along: IREE's aggressive fusion is wrong.

Of `e / e.sum(-1)[None]` IREE makes one dispatch where e is computed in it too, and there each row is divided by its own
sum (3.13.0, O2 and O3; GPUs are right). Where the sizes differ that cannot be confused; here they are the same.
"""

from __future__ import annotations

from iree.compiler import ir

_REDUCTION = "#linalg.iterator_type<reduction>"


def reads_turned(module: ir.Module) -> bool:
    """Whether an elementwise loop of `module` reads results of a reduction by other dimensions than that has."""
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found = found or _is_turned(op)
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _is_turned(op: ir.Operation) -> bool:
    if op.name != "linalg.generic" or _reduces(op):
        return False
    rank = len(op.attributes["iterator_types"])
    maps = [ir.AffineMapAttr(item).value for item in op.attributes["indexing_maps"]]
    inputs = list(op.operands)[: len(op.operands) - len(op.results)]
    for value, map_ in zip(inputs, maps, strict=False):
        read = _dims(value, map_)
        made = _made_along(value) if read and len(read) < rank else None
        if made is not None and made != read:
            return True
    return False


def _made_along(value: ir.Value) -> list[int] | None:
    """The dimensions of a reduction's loop that its results have; None for what comes of none.

    Looks through views of the same dimensions, and elementwise loops.
    """
    while not isinstance(value.owner, ir.Block):
        op = value.owner
        if op.name in ("tensor.expand_shape", "tensor.collapse_shape") and _same_dims(op):
            value = op.operands[0]
        elif op.name != "linalg.generic":
            return None
        elif _reduces(op):
            place = len(op.operands) - len(op.results) + ir.OpResult(value).result_number
            return _dims(op.operands[place], ir.AffineMapAttr(op.attributes["indexing_maps"][place]).value)
        elif not _is_of_one(op):
            return None
        else:
            value = op.operands[0]
    return None


def _reduces(op: ir.Operation) -> bool:
    return any(str(kind) == _REDUCTION for kind in op.attributes["iterator_types"])


def _is_of_one(op: ir.Operation) -> bool:
    """Whether a loop goes through its first input in the order of its result."""
    maps = [ir.AffineMapAttr(item).value for item in op.attributes["indexing_maps"]]
    return len(op.operands) > len(op.results) and _dims(op.operands[0], maps[0]) == _dims(
        op.operands[-1], maps[-1]
    )


def _dims(value: ir.Value, map_: ir.AffineMap) -> list[int]:
    """The dimensions of a loop that walk along those of `value` with more than one element."""
    if not isinstance(value.type, ir.RankedTensorType):
        return []
    return [
        place.position
        for place, size in zip(map_.results, value.type.shape, strict=True)
        if size != 1 and isinstance(place, ir.AffineDimExpr)
    ]


def _same_dims(op: ir.Operation) -> bool:
    """Whether a view only adds or drops dimensions of one element."""
    before, after = (
        [size for size in value.type.shape if size != 1] for value in (op.operands[0], op.results[0])
    )
    return before == after
