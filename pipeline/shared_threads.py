"""Finds dispatches for Vulkan in which a thread reads what another one computes (runs in the worker).

IREE's simplest way to a shader (``BaseDistribute``) gives each operation of a dispatch its own loop over the threads of
a workgroup, with no barrier in between. That is right where a thread reads of the operation before only what it wrote
itself, which IREE does not check: a depthwise convolution, whose loops have another order than its result, had its
first elements set to zero by threads that came later (IREE 3.13).

Wrong:  linalg.fill outs(%r[d0, d1, d2])                        thread x has all of one d2
        linalg.generic outs(%r[d2, d0, d1]) loops d0, d1, d2    thread x has all of one first index
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from iree.compiler import ir

from .tensor_views import VIEWS

_SIMPLEST = "BaseDistribute"
_THREADS = re.compile(r"workgroup_size = \[([\d, ]*)\]")
# Of workgroups, and then of threads.
_TILES = re.compile(r"tile_sizes = \[\[[\d, ]*\], \[([\d, ]*)\]")


def shared_between_threads(module: ir.Module) -> list[str]:
    """A line for each pair of operations of a configured dispatch where threads read what others have written."""
    found: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "func.func" and _SIMPLEST in _text(op, "translation_info"):
            found.extend(_pairs(op))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _pairs(function: ir.Operation) -> Iterator[str]:
    name = ir.StringAttr(function.attributes["sym_name"]).value
    threads = [int(n) for n in _THREADS.findall(_text(function, "translation_info"))[0].split(",")]
    axes = sum(1 for count in threads if count > 1)
    operations = [op.operation for block in function.regions[0].blocks for op in block.operations]
    tiled = next((loops for loops in map(_tiled, operations) if loops is not None), [])
    for op in operations if axes else ():
        for number, value in enumerate(op.operands):
            reshaped, root = _root(value)
            if not _is_computed(root) or not _computes(op):
                continue
            if reshaped or not _same_threads(root, op, number, tiled):
                yield f"{name}: {op.name} reads {root.owner.operation.name}"


def _tiled(op: ir.Operation) -> list[int] | None:
    """The loops that IREE shares out among threads, of the operation that decides it for all of its dispatch."""
    found = _TILES.findall(_text(op, "lowering_config"))
    if not found:
        return None
    return [i for i, size in enumerate(found[0].split(",")) if size.strip() not in ("", "0")]


def _root(value: ir.Value) -> tuple[bool, ir.Value]:
    """What a value is a view of, and whether there is a view in between."""
    reshaped = False
    while not isinstance(value.owner, ir.Block) and value.owner.operation.name in VIEWS:
        reshaped, value = True, value.owner.operation.operands[0]
    return reshaped, value


def _is_computed(value: ir.Value) -> bool:
    """Whether it is a tensor that an operation of the dispatch computes, and not one number."""
    if isinstance(value.owner, ir.Block) or not isinstance(value.type, ir.RankedTensorType):
        return False
    return value.type.rank > 0 and _computes(value.owner.operation)


def _computes(op: ir.Operation) -> bool:
    return op.name.startswith(("linalg.", "iree_linalg_ext."))


def _same_threads(result: ir.Value, reader: ir.Operation, operand: int, tiled: list[int]) -> bool:
    """Whether each thread reads of `result`, as the operand of that number, what it wrote."""
    writer = result.owner.operation
    first, second = _Loops.of(writer), _Loops.of(reader)
    if first is None or second is None:
        return False
    written = first.maps[len(writer.operands) - len(writer.results) + ir.OpResult(result).result_number]
    read = second.maps[operand]
    mine, its = first.shared_out(tiled), second.shared_out(tiled)
    for axis, loop in enumerate(mine):
        if loop not in written or axis >= len(its) or read[written.index(loop)] != its[axis]:
            return False
    return True


@dataclass(frozen=True)
class _Loops:
    """The loops of a linalg operation.

    parallel: their numbers. maps: per operand, for each dimension the loop that is its index; None for other indices.
    """

    parallel: list[int]
    maps: list[list[int | None]]

    @staticmethod
    def of(op: ir.Operation) -> _Loops | None:
        """Those of an operation that spells them out, of a fill and of a scan."""
        if op.name == "linalg.fill":
            dims = list(range(ir.RankedTensorType(op.operands[-1].type).rank))
            return _Loops(dims, [[], [*dims]])
        if op.name == "iree_linalg_ext.scan":
            return _of_scan(op)
        if "indexing_maps" not in op.attributes:
            return None
        kinds = ir.ArrayAttr(op.attributes["iterator_types"])
        parallel = [i for i, kind in enumerate(kinds) if "parallel" in str(kind)]
        return _Loops(parallel, [_indices(item) for item in ir.ArrayAttr(op.attributes["indexing_maps"])])

    def shared_out(self, tiled: list[int]) -> list[int]:
        """The loops whose turns the threads share, the one along x first: at most three."""
        return [loop for loop in reversed(self.parallel) if loop in tiled][:3]


def _of_scan(op: ir.Operation) -> _Loops:
    """Of its operands, input, output and totals, the last lacks the dimension that is scanned."""
    along = ir.IntegerAttr(op.attributes["dimension"]).value
    dims: list[int | None] = list(range(ir.RankedTensorType(op.operands[0].type).rank))
    others = [dim for dim in dims if dim != along]
    return _Loops([dim for dim in range(len(dims)) if dim != along], [dims, dims, others])


def _indices(attribute: ir.Attribute) -> list[int | None]:
    exprs = ir.AffineMapAttr(attribute).value.results
    return [e.position if isinstance(e, ir.AffineDimExpr) else None for e in exprs]


def _text(op: ir.Operation, name: str) -> str:
    return str(op.attributes[name]) if name in op.attributes else ""
