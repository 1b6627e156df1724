"""Reads elements of a slice at their places in the whole tensor (runs in the worker).

With a strided slice in the dispatch that reads elements of it IREE leaves casts of places behind ("LLVM Translation
failed"), as for `x[..., 0].flip(0)`. Where the places in the whole tensor cannot be told, the slice is held.

Before:  %slice = tensor.extract_slice %x[0, 1] [8, 1] [1, 1] : tensor<8x2xf32> to tensor<8xf32>
         tensor.extract %slice[%place] : tensor<8xf32>
After:   tensor.extract %x[%place, %c1] : tensor<8x2xf32>
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir
from iree.compiler.dialects import arith

from .loop_operations import in_loops

_VIEWS = ("tensor.extract_slice", "tensor.collapse_shape", "tensor.expand_shape", "linalg.transpose")


def read_whole_tensors(module: ir.Module) -> None:
    """Rewrites the loops of `module` in place."""
    with ir.Location.unknown(module.context):
        for op in in_loops(module, "tensor.extract"):
            _read_whole(op)


def _read_whole(read: ir.Operation) -> None:
    views = _views(read.operands[0])
    while views and views[-1].name != "tensor.extract_slice":
        views.pop()
    if not views:
        return
    places: list[ir.Value] | None = list(read.operands)[1:]
    with ir.InsertionPoint(read):
        for view in views:
            places = _behind(view, places)
            if places is None:
                _hold(read)
                return
        whole = ir.Operation.create(
            "tensor.extract", results=[read.results[0].type], operands=[views[-1].operands[0], *places]
        )
    read.results[0].replace_all_uses_with(whole.results[0])
    read.erase()


def _views(value: ir.Value) -> list[ir.Operation]:
    found: list[ir.Operation] = []
    while not isinstance(value.owner, ir.Block) and value.owner.name in _VIEWS:
        found.append(value.owner)
        value = value.owner.operands[0]
    return found


def _behind(view: ir.Operation, places: Sequence[ir.Value]) -> list[ir.Value] | None:
    """The places of a view's elements in its source; None where a dimension is split or joined."""
    source = ir.ShapedType(view.operands[0].type)
    result = ir.ShapedType(view.results[0].type)
    if view.name == "tensor.extract_slice":
        return _behind_slice(
            view, source.rank, _matched(list(view.attributes["static_sizes"]), result, places)
        )
    if view.name == "linalg.transpose":
        order = list(view.attributes["permutation"])
        return [places[order.index(dim)] for dim in range(source.rank)]
    groups = [[part.value for part in group] for group in view.attributes["reassociation"]]
    if view.name == "tensor.expand_shape":
        inner = [_only([(_size(result, dim), places[dim]) for dim in group]) for group in groups]
        return (
            None if any(place is None for place in inner) else [place for place in inner if place is not None]
        )
    return _split([[_size(source, dim) for dim in group] for group in groups], places)


def _size(shape: ir.ShapedType, dim: int) -> int:
    return ir.ShapedType.get_dynamic_size() if shape.is_dynamic_dim(dim) else shape.get_dim_size(dim)


def _matched(sizes: list[int], result: ir.ShapedType, places: Sequence[ir.Value]) -> list[ir.Value]:
    """A place for each size of a slice: dimensions of one element may be missing in its result."""
    matched: list[ir.Value] = []
    left = list(range(result.rank))
    for size in sizes:
        if left and _size(result, left[0]) == size:
            matched.append(places[left.pop(0)])
        else:
            matched.append(_constant(0))
    return matched


def _behind_slice(view: ir.Operation, rank: int, places: Sequence[ir.Value]) -> list[ir.Value]:
    segments = list(view.attributes["operandSegmentSizes"])
    operands = list(view.operands)
    offsets = _mixed(list(view.attributes["static_offsets"]), operands[1 : 1 + segments[1]])
    strides = _mixed(list(view.attributes["static_strides"]), operands[1 + segments[1] + segments[2] :])
    return [
        arith.addi(arith.muli(places[dim], _value(strides[dim])), _value(offsets[dim])) for dim in range(rank)
    ]


def _mixed(static: list[int], dynamic: list[ir.Value]) -> list[int | ir.Value]:
    values = iter(dynamic)
    return [next(values) if number == ir.ShapedType.get_dynamic_size() else number for number in static]


def _value(number: int | ir.Value) -> ir.Value:
    return _constant(number) if isinstance(number, int) else number


def _constant(number: int) -> ir.Value:
    return arith.constant(ir.IndexType.get(), number)


def _only(group: list[tuple[int, ir.Value]]) -> ir.Value | None:
    """The place in a dimension that was given further ones of one element; None where it was split."""
    long = [place for size, place in group if size != 1]
    if len(long) > 1:
        return None
    return long[0] if long else _constant(0)


def _split(groups: list[list[int]], places: Sequence[ir.Value]) -> list[ir.Value] | None:
    """The places in dimensions of one element that were joined with at most one other; None where more were."""
    found: list[ir.Value] = []
    for sizes, place in zip(groups, places, strict=True):
        if sum(size != 1 for size in sizes) > 1:
            return None
        found.extend(_constant(0) if size == 1 else place for size in sizes)
    return found


def _hold(read: ir.Operation) -> None:
    source = read.operands[0]
    with ir.InsertionPoint(read.parent):
        held = ir.Operation.create("util.optimization_barrier", results=[source.type], operands=[source])
    read.operands[0] = held.result
