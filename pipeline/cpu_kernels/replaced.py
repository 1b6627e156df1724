"""What a kernel takes the place of: an operation, the elementwise loops behind it, the padding of its images."""

from __future__ import annotations

import math

from iree.compiler import ir
from iree.compiler.dialects import tensor

from . import epilogues
from .epilogues import constant_text
from .views import Border, Counts, Shape


class Replaced:
    """What a kernel computes in the place of `op`: its epilogue too, and the border that is put around images."""

    def __init__(self, op: ir.Operation, counts: Counts) -> None:
        self._op = op
        self.epilogue = epilogues.find(op.results[0], counts)
        self._pads: list[ir.Operation] = []
        border = None
        if tuple(self.epilogue.result.type.shape[:-1]) == counts:
            self._pads, border = _border(self.epilogue.result)
        self.shape = Shape(counts, op.results[0].type.shape[-1], border)

    @property
    def place(self) -> ir.Operation:
        """Where everything is known that the kernel reads."""
        return self.epilogue.loops[-1] if self.epilogue.loops else self._op

    @property
    def type(self) -> ir.RankedTensorType:
        """With the border; of matrices [rows, columns]."""
        open_ = [ir.ShapedType.get_dynamic_size()] if self.shape.is_open else []
        return ir.RankedTensorType.get([*open_, *self.shape.padded, self.shape.columns], ir.F32Type.get())

    def replace(self, made: ir.Value) -> None:
        """Puts `made` in the place of what the operation, its epilogue and its padding compute."""
        result = self.epilogue.result
        for pad in self._pads:
            pad.results[0].replace_all_uses_with(made)
            pad.erase()
        if any(True for _ in result.uses):
            result.replace_all_uses_with(_shaped(self._inside(made), result.type))
        for loop in reversed(self.epilogue.loops):
            loop.erase()
        self._op.erase()

    def _inside(self, made: ir.Value) -> ir.Value:
        border = self.shape.border
        if border is None:
            return made
        offsets, sizes = [0, border.top, border.left, 0], [*self.shape.known, self.shape.columns]
        return tensor.extract_slice(
            ir.RankedTensorType.get(sizes, ir.F32Type.get()), made, [], [], [], offsets, sizes, [1] * 4
        )


def _border(images: ir.Value) -> tuple[list[ir.Operation], Border | None]:
    """The paddings of `images` that are all alike, and what they put around them."""
    users = [use.owner.operation for use in images.uses]
    found = [(op, border) for op in users if (border := _padding(op)) is not None]
    alike = [op for op, border in found if border == found[0][1]]
    return alike, found[0][1] if found else None


def _padding(op: ir.Operation) -> Border | None:
    """The border, where `op` puts the same constant around all images and channels."""
    if op.name != "tensor.pad" or len(op.operands) != 1 or op.results[0].type.rank != 4:
        return None
    low, high = (list(ir.DenseI64ArrayAttr(op.attributes[name])) for name in ("static_low", "static_high"))
    value = constant_text(list(op.regions[0].blocks[0].operations)[-1].operation.operands[0])
    known = op.results[0].type.has_static_shape and value is not None and min(*low, *high) >= 0
    if not known or any((low[0], low[3], high[0], high[3])):
        return None
    return Border(low[1], high[1], low[2], high[2], str(value))


def _shaped(value: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    """`value` with the sizes of `type_`, whose last one is the same."""
    if value.type == type_:
        return value
    if value.type.rank > 2:
        shape = value.type.shape
        flat = ir.RankedTensorType.get([math.prod(shape[:-1]), shape[-1]], type_.element_type)
        value = tensor.collapse_shape(flat, value, _rows_and_columns(value.type.rank))
    if value.type == type_:
        return value
    return tensor.expand_shape(type_, value, _rows_and_columns(type_.rank), [], list(type_.shape))


def _rows_and_columns(rank: int) -> list[list[int]]:
    return [list(range(rank - 1)), [rank - 1]]
