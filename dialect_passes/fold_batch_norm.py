"""fold-batch-norm: factors and summands per channel go into the weights of the convolution or linear layer before.

Batch norm in inference is x * scale + shift, where scale and shift depend on weights alone. So does everything that
this pass computes, and IREE does that once, at load. It takes in the LayerScale behind a linear layer as well.

Before:  %y = torch.aten.convolution %x, %w, %none, ...          %s, %t: [1,C,1,1], of weights alone
         %m = torch.aten.mul.Tensor %y, %s
         %r = torch.aten.add.Tensor %m, %t, %int1
After:   %v = torch.aten.mul.Tensor %w, %s'                       %s': [C,1,1,1]
         %y = torch.aten.convolution %x, %v, %none, ...
         %r = torch.aten.add.Tensor %y, %t, %int1

A summand joins a bias that is there already, and makes none: a sum behind the layer is computed with it.
Only where nothing else uses the layer's result, and in float32 and float64: narrower weights would be rounded once more
than eager rounds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from torch_mlir import ir

from .torch_ops import Maker, constant, dtype, producer, sizes, used_once
from .weight_values import WeightValues

_MUL, _ADD, _ONCE = "torch.aten.mul.Tensor", "torch.aten.add.Tensor", "torch.aten.mul.Scalar"
_CONVOLUTION, _PRODUCT = "torch.aten.convolution", "torch.aten.mm"
# What may stand between: a linear layer's result in its other dimensions, the one of a convolution over one dimension.
_SQUEEZE = "torch.aten.squeeze.dim"
_BETWEEN = {_CONVOLUTION: (_SQUEEZE,), _PRODUCT: ("torch.aten.view", "torch.aten.unflatten.int")}


def run(module: ir.Module) -> int:
    """Changes `module` in place. Returns how many factors and summands were folded."""
    # Erased at the end: a value made meanwhile would take the place of one that is still known.
    dead: list[ir.Operation] = []
    folded = 0
    for function in module.body.operations:
        weights = WeightValues(function.operation)
        for block in function.regions[0].blocks:
            affine = [op.operation for op in block.operations if op.operation.name in (_MUL, _ADD)]
            folded += sum(_fold(op, weights, dead) for op in affine)
    for op in dead:
        op.erase()
    return folded


@dataclass(frozen=True)
class _Layer:
    """A convolution or product with weights, and what follows it and keeps its channels apart.

    path: from the layer on, each the only user of the one before. axis: the channels' in the last result.
    """

    path: list[ir.Operation]
    axis: int


def _fold(op: ir.Operation, weights: WeightValues, dead: list[ir.Operation]) -> bool:
    if op.results[0] in weights or dtype(op.results[0]) not in ("float32", "float64"):
        return False
    x, term = op.operands[0], op.operands[1]
    if x in weights:
        x, term = term, x
    if term not in weights or x.type != op.results[0].type or dtype(term) != dtype(x) or _has_factor(op):
        return False
    layer = _layer(x, weights)
    if layer is None or not _is_per_channel(term, x, layer.axis):
        return False
    change = _Factor(op, term, weights) if op.name == _MUL else _Summand(op, term, weights, layer)
    if not change.possible:
        return False
    result = _again(layer, change)
    op.results[0].replace_all_uses_with(result)
    dead += [op, *reversed(layer.path)]
    return True


def _has_factor(op: ir.Operation) -> bool:
    """Whether an addition multiplies its second operand."""
    return op.name == _ADD and constant(op.operands[2]) != 1


def _layer(value: ir.Value, weights: WeightValues) -> _Layer | None:
    """The layer that gives `value`, None for anything else."""
    path: list[ir.Operation] = []
    while used_once(value):
        op = producer(value)
        if op is None:
            return None
        path.insert(0, op)
        if op.name in _BETWEEN:
            return _checked(path, weights)
        if op.name not in (_ADD, _ONCE, *(name for names in _BETWEEN.values() for name in names)):
            return None
        value = op.operands[_main(op, weights)]
    return None


def _checked(path: list[ir.Operation], weights: WeightValues) -> _Layer | None:
    root = path[0]
    shape = sizes(path[-1].results[0])
    if shape is None or root.operands[1] not in weights or root.operands[0] in weights:
        return None
    if root.name == _CONVOLUTION and not _has_plain_weights(root, weights):
        return None
    layer = _Layer(path, 1 if root.name == _CONVOLUTION else len(shape) - 1)
    steps = pairwise(path)
    return (
        layer
        if all(_keeps_channels(step, before.results[0], root, weights) for before, step in steps)
        else None
    )


def _has_plain_weights(convolution: ir.Operation, weights: WeightValues) -> bool:
    """Whether one axis of the weights is the channels of the result; a transposed one in groups has them in two."""
    transposed, groups = constant(convolution.operands[6]), constant(convolution.operands[8])
    return convolution.operands[2] in weights and transposed is not None and (not transposed or groups == 1)


def _keeps_channels(op: ir.Operation, x: ir.Value, root: ir.Operation, weights: WeightValues) -> bool:
    """Whether `op`, on the result `x` of the operation before it, keeps the channels of the layer `root` apart."""
    before, after = sizes(x), sizes(op.results[0])
    if before is None or after is None:
        return False
    if op.name == _ONCE:
        return constant(op.operands[1]) == 1 and x.type == op.results[0].type
    if op.name == _ADD:
        term = op.operands[1 - _main(op, weights)]
        axis = 1 if root.name == _CONVOLUTION else len(after) - 1
        return (
            x.type == op.results[0].type
            and not _has_factor(op)
            and term in weights
            and _is_per_channel(term, x, axis)
        )
    if op.name not in _BETWEEN[root.name]:
        return False
    if op.name != _SQUEEZE:
        return before[-1:] == after[-1:] != (None,)
    dim = constant(op.operands[1])
    return dim is not None and dim > 1 and len(after) == len(before) - 1


def _main(op: ir.Operation, weights: WeightValues) -> int:
    """The number of the operand that is not of weights alone."""
    return 1 if op.name == _ADD and op.operands[0] in weights else 0


def _is_per_channel(term: ir.Value, x: ir.Value, axis: int) -> bool:
    """Whether `term` has one number for each channel of `x`."""
    shape, whole = sizes(term), sizes(x)
    if shape is None or whole is None or whole[axis] is None or len(shape) > len(whole):
        return False
    aligned = (1,) * (len(whole) - len(shape)) + shape
    return all(size == (whole[axis] if i == axis else 1) for i, size in enumerate(aligned))


def _again(layer: _Layer, change: _Factor | _Summand) -> ir.Value:
    """The result of the same layer with changed weights."""
    result: ir.Value | None = None
    for op in layer.path:
        if op.name != _ONCE:
            operands = change.operands(op)
            if result is not None:
                operands[_main(op, change.weights)] = result
            result = change.maker.again(op, operands)
    assert result is not None
    return result


class _Factor:
    """The layer's weights, and all that is added behind them, times a factor."""

    possible = True

    def __init__(self, op: ir.Operation, factor: ir.Value, weights: WeightValues) -> None:
        self.maker = Maker(op)
        self.weights = weights
        self._factor = factor

    def operands(self, op: ir.Operation) -> dict[int, ir.Value]:
        """The operands of `op` that change."""
        if op.name == _ADD:
            number = 1 - _main(op, self.weights)
            return {number: self._times(op.operands[number])}
        if op.name == _PRODUCT:
            return {1: self._times(op.operands[1], axis=1)}
        if op.name != _CONVOLUTION:
            return {}
        weight = self._times(op.operands[1], axis=1 if _is_transposed(op) else 0)
        return {1: weight, 2: self._times(op.operands[2])} if _has_bias(op) else {1: weight}

    def _times(self, value: ir.Value, axis: int | None = None) -> ir.Value:
        """`value`, whose channels are along `axis` or which has no other numbers, times the factor."""
        shape = _static(value)
        per_channel = shape if axis is None else [size if i == axis else 1 for i, size in enumerate(shape)]
        factor = self.maker.view(self._factor, per_channel)
        return self.maker.tensor("aten.mul.Tensor", shape, dtype(value), [value, factor])


class _Summand:
    """A summand added to the layer's bias, or to what is added behind it."""

    def __init__(self, op: ir.Operation, summand: ir.Value, weights: WeightValues, layer: _Layer) -> None:
        self.maker = Maker(op)
        self.weights = weights
        self._summand = summand
        taking = [step for step in layer.path if step.name == _ADD or _has_bias(step)]
        self._into = taking[-1] if taking else None

    @property
    def possible(self) -> bool:
        """Whether there is something to add it to."""
        return self._into is not None

    def operands(self, op: ir.Operation) -> dict[int, ir.Value]:
        """The operands of `op` that change."""
        if op != self._into:
            return {}
        number = 2 if op.name == _CONVOLUTION else 1 - _main(op, self.weights)
        return {number: self._plus(op.operands[number])}

    def _plus(self, value: ir.Value) -> ir.Value:
        shape = _static(value)
        operands = [value, self.maker.view(self._summand, shape), self.maker.number(1)]
        return self.maker.tensor("aten.add.Tensor", shape, dtype(value), operands)


def _static(value: ir.Value) -> list[int]:
    """The sizes of a tensor of weights, all known."""
    return [size for size in sizes(value) or () if size is not None]


def _has_bias(op: ir.Operation) -> bool:
    return op.name == _CONVOLUTION and sizes(op.operands[2]) is not None


def _is_transposed(convolution: ir.Operation) -> bool:
    return bool(constant(convolution.operands[6]))
