"""recognize-attention: a product, a softmax of it and a product with that become one fused attention.

Off unless asked for (`pipeline.stages.OFFERED`): on the CPU IREE's code for it takes 16 to 20 times as long as that for
the three (docs/benchmarks.md). It stores no scores, though, so that long sequences need less memory.

Before:  %s = torch.aten.bmm %q, %kt            with or without * or / a number behind it, then + a mask,
         %w = torch.aten._softmax %s, -1        or where(mask, -inf, ...)
         %r = torch.aten.bmm %w, %v
After:   %r = torch.aten.scaled_dot_product_attention %q, %k, %v, %mask, ...

Views between them, which hold the heads apart, are looked through. All sizes must be known. Filling with another number
than -inf is left alone: it makes a row that is masked altogether an even one, where a sum with a mask does not. Torch's
own attention with a mask is left alone as well: such a row is zero there, and NaN in the fused one as in the three.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import torch

from pipeline.shape_lib.tensor_types import parse

from .patterns import Rewriter, pattern, rewrite_once
from .torch_ops import constant, constants, dtype, producer, sizes, used_once

_SAME = ("torch.aten.view", "torch.aten.clone", "torch.aten.expand")


@dataclass(frozen=True)
class _Scores:
    """What the softmax is of: product * scale + mask. below: what takes the place of scores where the mask is true."""

    product: ir.Operation
    scale: float
    mask: ir.Value | None = None
    below: ir.Value | None = None


@pattern
def attention(op: torch.AtenBmmOp, make: Rewriter) -> ir.Value | None:
    softmax = _through(op.self_)
    if softmax is None or softmax.name != "torch.aten._softmax" or not _is_over_rows(softmax):
        return None
    scores = _masked(softmax.operands[0])
    if scores is None or not _is_static(scores, softmax, op):
        return None
    query, columns = scores.product.operands
    batch, rows, _ = _static(query)
    keys = _transposed(columns, make)
    shape = [batch, rows, _static(columns)[2]]
    mask = None if scores.mask is None else _summand(scores, _static(softmax.results[0]), shape, make)
    operands = (query, keys, op.mat2, mask, 0.0, False, scores.scale, False)
    return make("aten.scaled_dot_product_attention", *operands, result=op.result.type)


def run(module: ir.Module) -> int:
    """Changes `module` in place. Returns the number of attentions."""
    return rewrite_once(module, [attention])


def _through(value: ir.Value) -> ir.Operation | None:
    """What gives `value`, views in between left out; None where something else uses one of them."""
    op = producer(value)
    while op is not None and used_once(value) and op.name in _SAME and _keeps_elements(op):
        value = op.operands[0]
        op = producer(value)
    return op if used_once(value) else None


def _keeps_elements(op: ir.Operation) -> bool:
    return op.name != "torch.aten.expand" or op.operands[0].type == op.results[0].type


def _is_over_rows(softmax: ir.Operation) -> bool:
    rank = len(_static(softmax.results[0]))
    same = softmax.operands[0].type == softmax.results[0].type
    return same and rank >= 3 and constant(softmax.operands[1]) in (-1, rank - 1)


def _masked(value: ir.Value) -> _Scores | None:
    """The scores with their mask."""
    op = producer(value)
    if op is None or not used_once(value):
        return None
    if op.name == "torch.aten.add.Tensor" and constant(op.operands[2]) == 1:
        for number in (0, 1):
            found = _scaled(op.operands[number]) if op.operands[number].type == value.type else None
            if found is not None and dtype(op.operands[1 - number]) == dtype(value):
                return _Scores(found.product, found.scale, op.operands[1 - number])
        return None
    if op.name == "torch.aten.where.self" and _is_minus_infinity(op.operands[1]):
        found = _scaled(op.operands[2]) if op.operands[2].type == value.type else None
        return None if found is None else _Scores(found.product, found.scale, op.operands[0], op.operands[1])
    return _scaled(value)


def _is_minus_infinity(value: ir.Value) -> bool:
    op = producer(value)
    return op is not None and op.name == "torch.aten.scalar_tensor" and constant(op.operands[0]) == -math.inf


def _scaled(value: ir.Value) -> _Scores | None:
    """The scores without a mask."""
    op = _through(value)
    scale = 1.0
    if op is not None and op.name in ("torch.aten.mul.Scalar", "torch.aten.div.Scalar"):
        number = constant(op.operands[1])
        if not number or op.results[0].type != op.operands[0].type:
            return None
        scale = float(number) if op.name == "torch.aten.mul.Scalar" else 1.0 / number
        op = _through(op.operands[0])
    return None if op is None or op.name != "torch.aten.bmm" else _Scores(op, scale)


def _is_static(scores: _Scores, softmax: ir.Operation, op: ir.Operation) -> bool:
    """Whether all sizes are known, and views in between only hold the first dimensions apart."""
    values = [*scores.product.operands, *op.operands, softmax.results[0], op.results[0]]
    if scores.mask is not None:
        values.append(scores.mask)
    if any(None in (sizes(value) or (None,)) for value in values):
        return False
    shapes = [_static(value) for value in (scores.product.results[0], softmax.results[0], op.operands[0])]
    return all(shape[-2:] == shapes[0][-2:] and math.prod(shape) > 0 for shape in shapes)


def _transposed(columns: ir.Value, make: Rewriter) -> ir.Value:
    """[B,K,N] as [B,N,K], without a second transposition where it is one itself."""
    batch, inner, count = _static(columns)
    op = _through(columns)
    if op is not None and op.name == "torch.aten.permute" and len(op.results) == 1:
        rank = len(_static(op.results[0]))
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        if constants(op.operands[1]) == swapped and _static(op.results[0])[-2:] == [inner, count]:
            return make.view(op.operands[0], [batch, count, inner])
    order = make.numbers([0, 2, 1])
    return make.tensor("aten.permute", [batch, count, inner], dtype(columns), [columns, order])


def _summand(scores: _Scores, whole: list[int], shape: list[int], make: Rewriter) -> ir.Value:
    """The mask as a summand for each of the scores, `shape`, which the softmax has as `whole`."""
    mask, below = scores.mask, scores.below
    assert mask is not None
    kind = dtype(scores.product.results[0])
    if below is not None:
        info = parse(str(below.type))
        zero = make("aten.scalar_tensor", 0.0, info and info.code, None, None, None, result=below.type)
        mask = make.tensor("aten.where.self", _static(mask), kind, [mask, below, zero])
    mask = make.tensor("aten.broadcast_to", whole, kind, [mask, make.numbers(whole)])
    return make.view(mask, shape)


def _static(value: ir.Value) -> list[int]:
    """The sizes of a tensor, known ones only."""
    return [size for size in sizes(value) or () if size is not None]
