"""Recognizes attention in linalg: a batched product, a softmax over its rows, and the product of that with values.

Before:  %s = linalg.batch_matmul ins(%q, %kt);  ... elementwise;  max, subtract, exp, sum, divide over the last
         dimension;  %r = linalg.batch_matmul ins(%p, %v)
After:   %r = flow.dispatch of one kernel
"""

from __future__ import annotations

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


def _loop(value: ir.Value, *body: str) -> ir.Operation | None:
    """The loop that computes `value`, with just these operations in its body, in order."""
    op = _owner(value, "linalg.generic")
    if op is None:
        return None
    names = [inner.operation.name for inner in op.regions[0].blocks[0].operations]
    return op if names == [*body, "linalg.yield"] else None


def _behind_mask(value: ir.Value) -> tuple[ir.Value, str | None]:
    """What is chosen where not the whole row is -inf, and what is chosen there."""
    choice = _loop(value, "arith.select")
    if choice is None or len(choice.operands) != 4:
        return value, None
    condition, instead, weights, _ = choice.operands
    text = splat_text(instead)
    every = _loop(condition, "arith.andi")
    lowest = _loop(every.operands[0], "arith.cmpf") if every is not None else None
    softmaxed = _softmaxed(weights)
    if text is None or lowest is None or softmaxed is None or not _is_lowest(lowest, softmaxed):
        return value, None
    return weights, text


def _is_lowest(op: ir.Operation, scores: ir.Value) -> bool:
    """Whether `op` compares the scores with -inf."""
    comparison = next(iter(op.regions[0].blocks[0].operations)).operation
    equal = ir.IntegerAttr(comparison.attributes["predicate"]).value == _EQUAL
    bounds = [constant_text(value) for value in comparison.operands] + [splat_text(v) for v in op.operands]
    return equal and op.operands[0] == scores and _LOWEST in bounds


# arith.cmpf's "oeq", and -inf as a float32.
_EQUAL = 1
_LOWEST = "0xFF800000"


def _softmaxed(weights: ir.Value) -> ir.Value | None:
    """The scores of which `weights` are the softmax over the last dimension."""
    quotient = _loop(weights, "arith.divf")
    if quotient is None:
        return None
    exponentials, sums = quotient.operands[0], _reshaped(quotient.operands[1])
    total, exp = _loop(sums, "arith.addf"), _loop(exponentials, "math.exp")
    if total is None or exp is None or total.operands[0] != exponentials or not _is_over_rows(total):
        return None
    difference = _loop(exp.operands[0], "arith.subf")
    if difference is None:
        return None
    scores, most = difference.operands[0], _reshaped(difference.operands[1])
    return scores if _is_maximum(most, scores) else None


def _is_maximum(most: ir.Value, scores: ir.Value) -> bool:
    """Whether `most` are the maxima of the rows of `scores`, whose places nobody asks for."""
    op = _owner(most, "linalg.generic")
    if op is None or op.operands[0] != scores or not _is_over_rows(op) or most != op.results[0]:
        return False
    block = op.regions[0].blocks[0]
    first = list(block.operations)[-1].operation.operands[0].owner
    unused = all(not any(True for _ in result.uses) for result in list(op.results)[1:])
    return unused and not isinstance(first, ir.Block) and first.name == "arith.maximumf"


def _is_over_rows(op: ir.Operation) -> bool:
    kinds = ["reduction" in str(kind) for kind in op.attributes["iterator_types"]]
    map_ = ir.AffineMapAttr(next(iter(op.attributes["indexing_maps"]))).value
    return kinds == [False] * (len(kinds) - 1) + [True] and map_ == ir.AffineMap.get_identity(len(kinds))


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
