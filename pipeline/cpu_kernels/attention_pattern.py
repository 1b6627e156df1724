"""Recognizes attention in linalg: a batched product, a softmax over its rows, and the product of that with values.

Before:  %s = linalg.batch_matmul ins(%q, %kt);  ... elementwise;  max, subtract, exp, sum, divide over the last
         dimension;  %r = linalg.batch_matmul ins(%p, %v)
After:   %r = flow.dispatch of one kernel
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir

from . import epilogues
from .epilogues import Epilogue, constant_text, splat_text
from .values import is_zeros, static_shape


@dataclass(frozen=True)
class Found:
    """queries [heads, rows, width], keys [heads, width, keys] and values [heads, keys, width]. counts: of the rows, by
    dimension. scores: what happens to the product before the softmax. masked: see `Attention`."""

    queries: ir.Value
    keys: ir.Value
    values: ir.Value
    counts: tuple[int, ...]
    scores: Epilogue
    masked: str | None


def find(op: ir.Operation) -> Found | None:
    """The attention whose second product is `op`."""
    probabilities, values, start = op.operands
    if not _is_product(op) or not is_zeros(start):
        return None
    probabilities = _reshaped(probabilities)
    if len(list(probabilities.uses)) > 1:
        return None
    weights, masked = _behind_mask(probabilities)
    scores = _softmaxed(weights)
    if scores is None:
        return None
    product = _product(scores)
    if product is None:
        return None
    counts = tuple(scores.type.shape[:-1])
    epilogue = epilogues.find(product.results[0], counts)
    if epilogue.result != scores:
        return None
    queries, keys, _ = product.operands
    if op.operands[0].type != product.results[0].type:
        return None
    return Found(queries, keys, values, counts, epilogue, masked)


def _is_product(op: ir.Operation) -> bool:
    types = [value.type for value in op.operands]
    return op.name == "linalg.batch_matmul" and all(
        isinstance(type_.element_type, ir.F32Type) and static_shape(type_) is not None for type_ in types
    )


def _owner(value: ir.Value, name: str) -> ir.Operation | None:
    owner = value.owner
    return owner.operation if not isinstance(owner, ir.Block) and owner.name == name else None


def _reshaped(value: ir.Value) -> ir.Value:
    """Behind views that hold the heads apart."""
    while True:
        view = _owner(value, "tensor.collapse_shape") or _owner(value, "tensor.expand_shape")
        if view is None:
            return value
        value = view.operands[0]


def _loop(value: ir.Value, name: str, *reads: str) -> ir.Operation | None:
    """The loop that computes `value` as operation `name` of what it reads, in this order.

    reads: "whole" for a tensor of the result's shape, "row" for one that has a value for each of its rows, "constant".
    """
    op = _owner(value, "linalg.generic")
    if op is None or len(op.results) != 1 or len(op.operands) != len(reads) + 1:
        return None
    maps = [ir.AffineMapAttr(item).value for item in op.attributes["indexing_maps"]]
    read = [
        _reads(kind, operand, map_, op.results[0].type)
        for kind, operand, map_ in zip(reads, op.operands, maps, strict=False)
    ]
    rank = op.results[0].type.rank
    own = maps[-1] == ir.AffineMap.get_identity(rank) and maps[-1].n_dims == rank
    return op if own and all(read) and _computes(op, name, range(len(reads))) else None


def _reads(kind: str, operand: ir.Value, map_: ir.AffineMap, type_: ir.RankedTensorType) -> bool:
    shape = list(type_.shape)
    if kind == "constant":
        return splat_text(operand) is not None
    if kind == "whole":
        return list(operand.type.shape) == shape and map_ == ir.AffineMap.get_identity(len(shape))
    if list(operand.type.shape) != [*shape[:-1], 1]:
        return False
    places = list(map_.results)[:-1]
    return all(
        place == ir.AffineExpr.get_dim(i) or (size == 1 and isinstance(place, ir.AffineConstantExpr))
        for i, (place, size) in enumerate(zip(places, shape, strict=False))
    )


def _computes(op: ir.Operation, name: str, order: Sequence[int]) -> bool:
    """Whether the body of `op` is the operation `name` of its arguments in this order, and nothing else."""
    block = op.regions[0].blocks[0]
    body = [inner.operation for inner in block.operations]
    return (
        [inner.name for inner in body] == [name, "linalg.yield"]
        and list(body[0].operands) == [block.arguments[i] for i in order]
        and list(body[1].operands) == list(body[0].results)
    )


def _reduced(value: ir.Value, source: ir.Value, name: str, start: str) -> bool:
    """Whether `value` is `source` reduced over its last dimension by operation `name`, from the constant `start` on.

    Other results of the same loop (the places of maxima) must have no readers.
    """
    value = _reshaped(value)
    op = _owner(value, "linalg.generic")
    if op is None or op.operands[0] != source or len(op.operands) != len(op.results) + 1:
        return False
    if value != op.results[0] or not _is_over_rows(op) or _filled_with(op.operands[1]) != start:
        return False
    block = op.regions[0].blocks[0]
    made = list(block.operations)[-1].operation.operands[0].owner
    if isinstance(made, ir.Block) or made.name != name:
        return False
    both = list(made.operands) in (list(block.arguments)[:2], list(block.arguments)[1::-1])
    return both and all(not any(True for _ in result.uses) for result in list(op.results)[1:])


def _filled_with(value: ir.Value) -> str | None:
    fill = _owner(value, "linalg.fill")
    return constant_text(fill.operands[0]) if fill is not None else None


def _is_over_rows(op: ir.Operation) -> bool:
    """Whether a loop goes along the rows of what it reads, to results with a value for each of them."""
    rank = len(op.attributes["iterator_types"])
    kinds = ["reduction" in str(kind) for kind in op.attributes["iterator_types"]]
    maps = [ir.AffineMapAttr(item).value for item in op.attributes["indexing_maps"]]
    dims = [ir.AffineExpr.get_dim(i) for i in range(rank - 1)]
    places = list(maps[1].results)
    one_each = places[: rank - 1] == dims and all(
        isinstance(p, ir.AffineConstantExpr) for p in places[rank - 1 :]
    )
    return kinds == [False] * (rank - 1) + [True] and maps[0] == ir.AffineMap.get_identity(rank) and one_each


def _behind_mask(value: ir.Value) -> tuple[ir.Value, str | None]:
    """What is chosen where not the whole row is -inf, and what is chosen there."""
    choice = _loop(value, "arith.select", "row", "constant", "whole")
    if choice is None:
        return value, None
    condition, instead, weights, _ = choice.operands
    scores = _softmaxed(weights)
    every = _owner(_reshaped(condition), "linalg.generic")
    if scores is None or every is None:
        return value, None
    lowest = every.operands[0]
    if not _reduced(condition, lowest, "arith.andi", "true") or not _is_lowest(lowest, scores):
        return value, None
    return weights, splat_text(instead)


def _is_lowest(value: ir.Value, scores: ir.Value) -> bool:
    """Whether `value` says where the scores are -inf."""
    op = _owner(value, "linalg.generic")
    if op is None or op.operands[0] != scores or len(op.operands) > _COMPARED:
        return False
    block = op.regions[0].blocks[0]
    body = [inner.operation for inner in block.operations]
    if [inner.name for inner in body] != ["arith.cmpf", "linalg.yield"] or body[0].operands[
        0
    ] != block.arguments[0]:
        return False
    maps = [ir.AffineMapAttr(item).value for item in op.attributes["indexing_maps"]]
    equal = ir.IntegerAttr(body[0].attributes["predicate"]).value == _EQUAL
    bound = constant_text(body[0].operands[1]) or splat_text(op.operands[1])
    return equal and bound == _LOWEST and maps[0] == maps[-1] == ir.AffineMap.get_identity(scores.type.rank)


# arith.cmpf's "oeq"; what it compares and writes into at most; -inf and 0 as float32.
_EQUAL = 1
_COMPARED = 3
_LOWEST = "0xFF800000"
_ZERO = "0.000000e+00"


def _softmaxed(weights: ir.Value) -> ir.Value | None:
    """The scores of which `weights` are the softmax over the last dimension."""
    quotient = _loop(weights, "arith.divf", "whole", "row")
    exp = _loop(quotient.operands[0], "math.exp", "whole") if quotient is not None else None
    difference = _loop(exp.operands[0], "arith.subf", "whole", "row") if exp is not None else None
    if quotient is None or exp is None or difference is None:
        return None
    scores = difference.operands[0]
    summed = _reduced(quotient.operands[1], exp.results[0], "arith.addf", _ZERO)
    return scores if summed and _reduced(difference.operands[1], scores, "arith.maximumf", _LOWEST) else None


def _product(scores: ir.Value) -> ir.Operation | None:
    """The first product, through elementwise loops that change its result."""
    seen = 0
    value: ir.Value | None = scores
    while value is not None and seen < _LONGEST:
        seen += 1
        value = _reshaped(value)
        found = _owner(value, "linalg.batch_matmul")
        if found is not None:
            return found if _is_product(found) and is_zeros(found.operands[2]) else None
        loop = _owner(value, "linalg.generic")
        value = _changed(loop) if loop is not None else None
    return None


_LONGEST = 16


def _changed(loop: ir.Operation) -> ir.Value | None:
    """The operand that leads to a product."""
    shape = loop.results[0].type.shape
    return next(
        (value for value in list(loop.operands)[:-1] if _is_computed(value) and value.type.shape == shape),
        None,
    )


def _is_computed(value: ir.Value) -> bool:
    owner = _reshaped(value).owner
    return not isinstance(owner, ir.Block) and owner.name in ("linalg.batch_matmul", "linalg.generic")
