"""merge-shared-input-matmuls: products of the same few rows with several weights become one, and its columns theirs.

Query, key and value of attention are such products, and gate and up of a gated layer. The weights are joined once, at
load. Biases that follow each of them are joined too.

Before:  %q = torch.aten.mm %x, %wq         %x: [R,K], %wq: [K,Q], %wk: [K,N] of weights alone
         %k = torch.aten.mm %x, %wk
After:   %w = torch.aten.cat [%wq, %wk], %int1
         %y = torch.aten.mm %x, %w
         %q = torch.aten.slice.Tensor %y, %int1, 0, Q, %int1
         %k = torch.aten.slice.Tensor %y, %int1, Q, Q + N, %int1

Only for up to 32 rows, which pay for the merging (docs/benchmarks.md): products of more rows are busy enough, and part
of what follows them is computed with each. Only for weights that no other entry point reads, or they would be there
twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from .dead_code import erase_dead
from .torch_ops import Maker, constant, dtype, producer, sizes, used_once
from .weight_values import WeightValues, weight_names

_ROWS = 32


def run(module: ir.Module) -> int:
    """Changes `module` in place. Returns the number of products that are part of another now."""
    readers = Counter(
        name for function in module.body.operations for name in weight_names(function.operation).values()
    )
    merged = 0
    for function in module.body.operations:
        weights = WeightValues(function.operation, lambda name: readers[name] == 1)
        for block in function.regions[0].blocks:
            merged += sum(_merge(group, weights) for group in _groups(block, weights))
    if merged:
        erase_dead(module)
    return merged


def _groups(block: ir.Block, weights: WeightValues) -> Iterable[list[ir.Operation]]:
    """Products in `block` that can be merged, those of each input together, in order."""
    found: dict[Any, list[ir.Operation]] = {}
    for op in block.operations:
        if op.operation.name == "torch.aten.mm" and _suits(op.operation, weights):
            found.setdefault(_input(op.operation.operands[0]), []).append(op.operation)
    return [group for group in found.values() if len(group) > 1]


def _suits(op: ir.Operation, weights: WeightValues) -> bool:
    x, weight = op.operands
    shape = _static(x)
    same = dtype(x) == dtype(weight) == dtype(op.results[0])
    return same and len(shape) == 2 and 0 < shape[0] <= _ROWS and weight in weights and x not in weights


def _input(x: ir.Value) -> Any:
    """The same for views of the same value in the same sizes, of which each product has its own."""
    op = producer(x)
    return (op.operands[0], x.type) if op is not None and op.name == "torch.aten.view" else x


@dataclass(frozen=True)
class _Part:
    """A product, the bias added to it, if any, and the result of both."""

    weight: ir.Value
    bias: ir.Value | None
    result: ir.Value

    @property
    def columns(self) -> int:
        """The number of columns of the result."""
        return _static(self.weight)[1]


def _merge(products: Sequence[ir.Operation], weights: WeightValues) -> int:
    """Replaces the results of `products`; the number of products."""
    first = products[0]
    parts = [_with_bias(op, weights) for op in products]
    biased = all(part.bias is not None for part in parts)
    if not biased:
        parts = [_Part(op.operands[1], None, op.results[0]) for op in products]
    maker = Maker(first)
    columns = sum(part.columns for part in parts)
    rows, inner = _static(first.operands[0])
    weight = _joined([part.weight for part in parts], [inner, columns], maker)
    result = maker.tensor("aten.mm", [rows, columns], dtype(weight), [first.operands[0], weight])
    if biased:
        bias = _joined(
            [maker.view(_copied(part.bias, maker), [part.columns]) for part in parts if part.bias],
            [columns],
            maker,
        )
        operands = [result, bias, maker.number(1)]
        result = maker.tensor("aten.add.Tensor", [rows, columns], dtype(weight), operands)
    begin = 0
    for part in parts:
        end = begin + part.columns
        numbers = [maker.number(number) for number in (1, begin, end, 1)]
        part.result.replace_all_uses_with(
            maker.tensor("aten.slice.Tensor", [rows, part.columns], dtype(weight), [result, *numbers])
        )
        begin = end
    return len(parts)


def _with_bias(product: ir.Operation, weights: WeightValues) -> _Part:
    """The product and, where that is all that follows, what is added to each row."""
    weight, result = product.operands[1], product.results[0]
    value = result
    op = _only_user(value)
    if op is not None and op.name == "torch.aten.mul.Scalar" and constant(op.operands[1]) == 1:
        value, op = op.results[0], _only_user(op.results[0])
    if op is None or op.name != "torch.aten.add.Tensor" or constant(op.operands[2]) != 1:
        return _Part(weight, None, result)
    bias = op.operands[1] if op.operands[0] == value else op.operands[0]
    columns = _static(weight)[1]
    if bias not in weights or sizes(bias) not in ((columns,), (1, columns)) or dtype(bias) != dtype(weight):
        return _Part(weight, None, result)
    return _Part(weight, bias, op.results[0])


def _only_user(value: ir.Value) -> ir.Operation | None:
    return next(iter(value.uses)).owner.operation if used_once(value) else None


def _joined(values: Sequence[ir.Value], shape: Sequence[int | None], maker: Maker) -> ir.Value:
    """Weights behind each other along their last dimension."""
    copies = [_copied(value, maker) for value in values]
    operands = [maker.tensors(copies), maker.number(len(shape) - 1)]
    return maker.tensor("aten.cat", shape, dtype(values[0]), operands)


def _copied(value: ir.Value, maker: Maker) -> ir.Value:
    """`value`, computed before the place of `maker`: all that it needs are arguments."""
    op = producer(value)
    if op is None:
        return value
    return maker.again(op, {number: _copied(operand, maker) for number, operand in enumerate(op.operands)})


def _static(value: ir.Value) -> list[int]:
    """The sizes of a tensor of which all are known."""
    return [size for size in sizes(value) or () if size is not None]
