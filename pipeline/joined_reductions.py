"""Finds reductions over neighbouring dimensions of open size, which IREE's aggressive fusion gets wrong.

IREE joins the neighbours (`x[n, t, c]` summed over n and t is `x[n * t, c]`). Where it then fuses what subtracts the
sums from x, it takes sizes of the wrong dimensions for the joined one in its results: memory of other tensors is
overwritten, or rows lie elsewhere (3.13.0; `--iree-dispatch-creation-enable-aggressive-fusion`, part of O2 and O3).
"""

from __future__ import annotations

from itertools import pairwise

from iree.compiler import ir

_REDUCTION = "#linalg.iterator_type<reduction>"


def joins_open_sizes(module: ir.Module) -> bool:
    """Whether a loop of `module` reduces two neighbouring dimensions of a tensor, one of them of open size."""
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        if op.name == "linalg.generic":
            found = found or _joins(op)
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _joins(op: ir.Operation) -> bool:
    reduced = {
        f"d{dim}" for dim, kind in enumerate(op.attributes["iterator_types"]) if str(kind) == _REDUCTION
    }
    if len(reduced) < 2:
        return False
    maps = [ir.AffineMapAttr(item).value for item in op.attributes["indexing_maps"]]
    return any(
        _neighbours(list(map_.results), value.type, reduced)
        for map_, value in zip(maps, op.operands, strict=False)
        if isinstance(value.type, ir.RankedTensorType)
    )


def _neighbours(places: list[ir.AffineExpr], type_: ir.RankedTensorType, reduced: set[str]) -> bool:
    return any(
        str(places[a]) in reduced
        and str(places[b]) in reduced
        and (type_.is_dynamic_dim(a) or type_.is_dynamic_dim(b))
        for a, b in pairwise(range(type_.rank))
    )
