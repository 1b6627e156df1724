"""Gives convolutions with known weights channels-last images, and what lies between them too (runs in the worker).

The kernels' vectors run along the channels, which are then neighbours in memory. Images stay channels-last through
elementwise loops, padding, pooling, concatenation and transpositions; they are transposed where others read them.

Before:  %y = linalg.conv_2d_nchw_fchw ins(%x, %w);  %z = linalg.generic (elementwise) ins(%y)
After:   %xt = linalg.transpose %x [0, 2, 3, 1];  %wt = linalg.transpose %w [2, 3, 1, 0]
         %y = linalg.conv_2d_nhwc_hwcf ins(%xt, %wt);  %z = linalg.generic ins(%y)
         %zt = linalg.transpose %z [0, 3, 1, 2]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir
from iree.compiler.dialects import arith, linalg, tensor

from .values import Constants, is_made_by, is_zeros, static_shape, zeros

_TO_LAST = (0, 2, 3, 1)
_TO_FIRST = (0, 3, 1, 2)


def make_channels_last(function: ir.Operation) -> None:
    """Rewrites the body of `function` in place."""
    layouts = _Layouts(Constants(function))
    for op in list(function.regions[0].blocks[0].operations):
        layouts.visit(op.operation)
    layouts.finish()


class _Layouts:
    """The images that are there channels-last, by the value that has them with channels first."""

    def __init__(self, constants: Constants) -> None:
        self._constants = constants
        self._last: dict[ir.Value, ir.Value] = {}
        self._replaced: list[ir.Operation] = []

    def visit(self, op: ir.Operation) -> None:
        """Makes the channels-last form of `op`, where it takes such images or is a convolution."""
        rule = _RULES.get(op.name)
        if rule is None or not (op.name in _CONVOLUTIONS or any(v in self._last for v in op.operands)):
            return
        with ir.InsertionPoint(op), op.location:
            made = rule(self, op)
        if made is not None:
            self._last[op.results[0]] = made
            self._replaced.append(op)

    def finish(self) -> None:
        """Erases what was replaced; what still has readers is transposed for them."""
        for op in reversed(self._replaced):
            result = op.results[0]
            if any(True for _ in result.uses):
                with ir.InsertionPoint(op), op.location:
                    result.replace_all_uses_with(_transposed(self._last[result], _TO_FIRST))
            op.erase()

    def last(self, image: ir.Value) -> ir.Value:
        """`image` with its channels last."""
        if image not in self._last:
            self._last[image] = _transposed(image, _TO_LAST)
        return self._last[image]

    def _convolution(self, op: ir.Operation) -> ir.Value | None:
        image, weight = list(op.operands)[:2]
        if weight not in self._constants or not _takes(op):
            return None
        factors = [self.last(image), _transposed(weight, (2, 3, 1, 0))]
        return self._started(op, _named(linalg.conv_2d_nhwc_hwcf, op, factors, zeros(_to_last(op))))

    def _depthwise(self, op: ir.Operation) -> ir.Value | None:
        image, window = list(op.operands)[:2]
        if window not in self._constants or not _takes(op):
            return None
        factors = [self.last(image), _transposed(window, (1, 2, 0))]
        return self._started(op, _named(linalg.depthwise_conv_2d_nhwc_hwc, op, factors, zeros(_to_last(op))))

    def _started(self, op: ir.Operation, sums: ir.Value) -> ir.Value:
        """With what the sums of `op` begin with added behind them: torch-mlir begins with the bias."""
        start = op.operands[2]
        if is_zeros(start):
            return sums
        dims = [ir.AffineExpr.get_dim(i) for i in range(4)]
        if is_made_by(start, "linalg.broadcast") and list(start.owner.attributes["dimensions"]) == [0, 2, 3]:
            return _added(sums, start.owner.operands[0], ir.AffineMap.get(4, 0, dims[3:]))
        return _added(sums, self.last(start), ir.AffineMap.get(4, 0, dims))

    def _pooling(self, op: ir.Operation) -> ir.Value | None:
        image, window, start = op.operands
        if static_shape(op.results[0].type) is None or not is_made_by(start, "linalg.fill"):
            return None
        empty = tensor.empty(_sizes(_to_last(op)), _to_last(op).element_type)
        filled = linalg.fill(start.owner.operands[0], outs=[empty])
        build = linalg.pooling_nhwc_max if op.name.endswith("max") else linalg.pooling_nhwc_sum
        return _named(build, op, [self.last(image), window], filled)

    def _pad(self, op: ir.Operation) -> ir.Value | None:
        if len(op.operands) != 1 or op.results[0].type.rank != 4 or static_shape(op.results[0].type) is None:
            return None
        image = self.last(op.operands[0])
        padded = op.clone()
        padded.operands[0] = image
        for name in ("static_low", "static_high"):
            sizes = list(ir.DenseI64ArrayAttr(op.attributes[name]))
            padded.attributes[name] = ir.DenseI64ArrayAttr.get([sizes[i] for i in _TO_LAST])
        padded.results[0].set_type(_to_last(op))
        return padded.results[0]

    def _concat(self, op: ir.Operation) -> ir.Value | None:
        if op.results[0].type.rank != 4 or static_shape(op.results[0].type) is None:
            return None
        dim = _TO_LAST.index(ir.IntegerAttr(op.attributes["dim"]).value)
        return ir.Operation.create(
            "tensor.concat",
            results=[_to_last(op)],
            operands=[self.last(value) for value in op.operands],
            attributes={"dim": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)},
        ).result

    def _transpose(self, op: ir.Operation) -> ir.Value | None:
        """The readers get what is transposed from channels-last: for [0, 2, 3, 1] that is the image itself."""
        order = [_TO_LAST.index(dim) for dim in op.attributes["permutation"]]
        source = self._last[op.operands[0]]
        op.results[0].replace_all_uses_with(source if order == [0, 1, 2, 3] else _transposed(source, order))
        return None

    def _loop(self, op: ir.Operation) -> ir.Value | None:
        if not _is_elementwise_on_images(op):
            self._read_last(op)
            return None
        inputs = len(op.operands) - 1
        operands = list(op.operands)
        maps = [ir.AffineMapAttr(item).value for item in op.attributes["indexing_maps"]]
        for number, (value, map_) in enumerate(zip(op.operands, maps, strict=True)):
            results = [result.compose(_new_loops()) for result in map_.results]
            if number == inputs:
                operands[number] = tensor.empty(_sizes(_to_last(op)), _to_last(op).element_type)
                results = [results[i] for i in _TO_LAST]
            elif value in self._last or _is_image(value, map_):
                operands[number] = self.last(value)
                results = [results[i] for i in _TO_LAST]
            maps[number] = ir.AffineMap.get(4, 0, results)
        made = op.clone()
        for number, value in enumerate(operands):
            made.operands[number] = value
        made.attributes["indexing_maps"] = _map_attributes(maps)
        made.results[0].set_type(_to_last(op))
        return made.results[0]

    def _read_last(self, op: ir.Operation) -> None:
        """The loop reads the channels-last images in the order of their dimensions."""
        maps = [ir.AffineMapAttr(item).value for item in op.attributes["indexing_maps"]]
        for number in range(len(op.operands) - len(op.results)):
            if op.operands[number] in self._last:
                maps[number] = ir.AffineMap.get(
                    maps[number].n_dims, 0, [list(maps[number].results)[i] for i in _TO_LAST]
                )
                op.operands[number] = self._last[op.operands[number]]
        op.attributes["indexing_maps"] = _map_attributes(maps)


_CONVOLUTIONS = {"linalg.conv_2d_nchw_fchw", "linalg.depthwise_conv_2d_nchw_chw"}

_RULES: dict[str, Callable[[_Layouts, ir.Operation], ir.Value | None]] = {
    "linalg.conv_2d_nchw_fchw": _Layouts._convolution,
    "linalg.depthwise_conv_2d_nchw_chw": _Layouts._depthwise,
    "linalg.pooling_nchw_max": _Layouts._pooling,
    "linalg.pooling_nchw_sum": _Layouts._pooling,
    "linalg.transpose": _Layouts._transpose,
    "linalg.generic": _Layouts._loop,
    "tensor.pad": _Layouts._pad,
    "tensor.concat": _Layouts._concat,
}


def _takes(op: ir.Operation) -> bool:
    """Convolutions of float32 whose sizes are known."""
    types = [value.type for value in op.operands]
    return all(
        isinstance(type_.element_type, ir.F32Type) and static_shape(type_) is not None for type_ in types
    )


def _is_elementwise_on_images(op: ir.Operation) -> bool:
    if len(op.results) != 1 or static_shape(op.results[0].type) is None or op.results[0].type.rank != 4:
        return False
    kinds = [str(kind) for kind in op.attributes["iterator_types"]]
    own = ir.AffineMapAttr(list(op.attributes["indexing_maps"])[-1]).value
    body = [inner.operation.name for inner in op.regions[0].blocks[0].operations]
    return (
        all("parallel" in kind for kind in kinds)
        and own == ir.AffineMap.get_identity(4)
        and "linalg.index" not in body
        and "tensor.extract" not in body
    )


def _is_image(value: ir.Value, map_: ir.AffineMap) -> bool:
    return map_ == ir.AffineMap.get_identity(4) and not is_made_by(value, "tensor.empty", "linalg.fill")


def _new_loops() -> ir.AffineMap:
    """What the old loops' dimensions are among the new ones."""
    return ir.AffineMap.get(4, 0, [ir.AffineExpr.get_dim(i) for i in _TO_FIRST])


def _map_attributes(maps: Sequence[ir.AffineMap]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([ir.AffineMapAttr.get(map_) for map_ in maps])


def _to_last(op: ir.Operation) -> ir.RankedTensorType:
    """The type of the result of `op`, channels-last."""
    type_ = ir.RankedTensorType(op.results[0].type)
    return ir.RankedTensorType.get([type_.shape[i] for i in _TO_LAST], type_.element_type)


def _sizes(type_: ir.RankedTensorType) -> list[int]:
    return list(type_.shape)


def _transposed(value: ir.Value, order: Sequence[int]) -> ir.Value:
    type_ = ir.RankedTensorType(value.type)
    empty = tensor.empty([type_.shape[i] for i in order], type_.element_type)
    return linalg.transpose(value, outs=[empty], permutation=list(order)).result[0]


def _added(images: ir.Value, other: ir.Value, map_: ir.AffineMap) -> ir.Value:
    """The loop that adds `other`, read as `map_` says."""
    type_ = ir.RankedTensorType(images.type)
    identity = ir.AffineMap.get_identity(4)
    loop = ir.Operation.create(
        "linalg.generic",
        results=[type_],
        operands=[images, other, tensor.empty(_sizes(type_), type_.element_type)],
        attributes={
            "indexing_maps": _map_attributes([identity, map_, identity]),
            "iterator_types": ir.Attribute.parse(f"[{', '.join(['#linalg.iterator_type<parallel>'] * 4)}]"),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([2, 1]),
        },
        regions=1,
    )
    block = loop.regions[0].blocks.append(*[type_.element_type] * 3)
    with ir.InsertionPoint(block):
        linalg.yield_([arith.addf(block.arguments[0], block.arguments[1])])
    return loop.results[0]


def _named(
    build: Callable[..., ir.Value], op: ir.Operation, inputs: Sequence[ir.Value], start: ir.Value
) -> ir.Value:
    """A named operation with the strides and dilations of `op`."""
    numbers = {
        name: [int(number) for number in ir.DenseIntElementsAttr(op.attributes[name])]
        for name in ("strides", "dilations")
    }
    return build(*inputs, outs=[start], **numbers)
