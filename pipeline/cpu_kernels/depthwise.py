"""Text of the kernel of depthwise convolutions of channels-last images: each channel with a window of its own.

    result[n, y, x, c] = sum over i, j of image[n, y * down + i, x * right + j, c] * window[i * wide + j, c]

Vectors run along the channels. The sums of some neighbouring pixels are in registers together: what their windows share
is read once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .epilogues import Epilogue
from .even_blocks import EvenBlocks
from .isa import VectorUnit
from .views import Indices, Shape, View
from .writing import Columns, Results, Work, executable

# Pixels whose sums are in registers together, with what their windows hold and a row of weights.
_PIXELS = {32: 7, 16: 4}


@dataclass(frozen=True)
class Depthwise:
    """shape: of the result; its rows are batch, rows and pixels of a row. image: where those of the images are.

    window, steps, dilation: down and to the right.
    """

    shape: Shape
    image: View
    window: tuple[int, int]
    steps: tuple[int, int]
    dilation: tuple[int, int]
    unit: VectorUnit


def kernel_text(symbol: str, convolution: Depthwise, epilogue: Epilogue) -> str:
    """The executable `symbol`: bindings are the image, the window, the epilogue's tensors, the result."""
    return _Writer(convolution, epilogue).text(symbol)


class _Writer:
    def __init__(self, convolution: Depthwise, epilogue: Epilogue) -> None:
        self._own = convolution
        self._bindings = 3 + len(epilogue.extra)
        self._index = Indices()
        self._batch, self._rows, self._row = convolution.shape.known
        self._channels = convolution.shape.columns
        self._results = Results(convolution.shape, convolution.unit, epilogue, self._index)
        self._vector = f"vector<{convolution.unit.lanes}xf32>"
        self._blocks = EvenBlocks(self._row, _PIXELS[convolution.unit.registers])

    def text(self, symbol: str) -> str:
        """The whole: a workgroup takes a row of pixels."""
        zero, count = self._index(0), self._index(self._blocks.count)
        blocks = self._blocks.loops(zero, count, self._index, self._block)
        lines = [*self._bind(), *self._border(), *blocks]
        workgroups = (self._rows, self._batch)
        window = math.prod(self._own.window)
        operations = 2 * self._own.shape.rows * self._channels * window
        tensors = (self._own.image.size or 0) + window * self._channels + self._results.size
        work = Work(operations, 4 * tensors)
        return executable(symbol, self._bindings, workgroups, [*self._index.lines(), *lines], work)

    def _bind(self) -> list[str]:
        zero = self._index(0)
        image = self._own.image
        return [
            *image.bind("%image", 0, "f32", self._index),
            f"%window = stream.binding.subspan %arg1[{zero}] : !stream.binding -> {self._window}",
            *self._results.bind(2),
            "%y = stream.dispatch.workgroup.id[0] : index",
            "%n = stream.dispatch.workgroup.id[1] : index",
            f"%top = arith.muli %y, {self._index(self._own.steps[0])} : index",
            *image.start("%corner", ["%n", "%top", zero], self._index),
        ]

    def _border(self) -> list[str]:
        """Once for all: the first workgroup fills it."""
        columns, own = self._results.columns("bc", "%bchannel", 1)
        lines = self._results.fill_border(own, "b")
        if not lines:
            return []
        return [
            "%workgroup = arith.addi %y, %n : index",
            f"%isfirst = arith.cmpi eq, %workgroup, {self._index(0)} : index",
            "scf.if %isfirst {",
            self._channel_loop("%bchannel"),
            *columns,
            *lines,
            "}",
            "}",
        ]

    def _channel_loop(self, name: str) -> str:
        lanes = self._index(self._own.unit.lanes)
        return f"scf.for {name} = {self._index(0)} to {self._index(self._channels)} step {lanes} {{"

    @property
    def _window(self) -> str:
        tall, wide = self._own.window
        return f"memref<{tall * wide * self._channels}xf32>"

    def _block(self, pixels: int, prefix: str) -> list[str]:
        """So many neighbouring pixels, for all channels."""
        index, own = self._index, f"%{prefix}"
        columns, [channels] = self._results.columns(f"{prefix}c", f"{own}channel", 1)
        return [
            f"{own}right = arith.muli {own}start, {index(self._own.steps[1] * self._own.image.strides[2])} : index",
            f"{own}left = arith.addi %corner, {own}right : index",
            self._channel_loop(f"{own}channel"),
            *columns,
            *self._sums(pixels, prefix, channels),
            "}",
        ]

    def _sums(self, pixels: int, prefix: str, channels: Columns) -> list[str]:
        sums = ["%zero"] * pixels
        lines: list[str] = []
        for i in range(self._own.window[0]):
            text, sums = self._row_of_window(i, sums, f"%{prefix}{i}", f"%{prefix}left", channels)
            lines += text
        for p in range(pixels):
            x = f"%{prefix}p{p}"
            lines.append(f"{x} = arith.addi %{prefix}start, {self._index(p)} : index")
            lines += self._results.row(["%n", "%y", x], [sums[p]], [channels], f"{prefix}r{p}")
        return lines

    def _row_of_window(
        self, i: int, sums: list[str], own: str, left: str, channels: Columns
    ) -> tuple[list[str], list[str]]:
        """Adds what row `i` of each pixel's window gives; what windows share is read once."""
        wide, right, apart = self._own.window[1], self._own.steps[1], self._own.dilation[1]
        _, line, pixel = self._own.image.strides
        lines: list[str] = []
        for j in range(wide):
            lines += self._load(
                f"{own}w{j}", "%window", self._index((i * wide + j) * self._channels), channels
            )
        reads = sorted({p * right + j * apart for p in range(len(sums)) for j in range(wide)})
        for x in reads:
            place = i * self._own.dilation[0] * line + x * pixel
            lines.append(f"{own}x{x} = arith.addi {left}, {self._index(place)} : index")
            lines += self._load(f"{own}v{x}", "%image", f"{own}x{x}", channels)
        for p in range(len(sums)):
            for j in range(wide):
                read = f"{own}v{p * right + j * apart}"
                lines.append(f"{own}s{p}_{j} = vector.fma {read}, {own}w{j}, {sums[p]} : {self._vector}")
                sums[p] = f"{own}s{p}_{j}"
        return lines, sums

    def _load(self, name: str, memory: str, start: str, channels: Columns) -> list[str]:
        type_ = self._own.image.memory if memory == "%image" else self._window
        at = f"{name}at"
        lines = [f"{at} = arith.addi {start}, {channels.place} : index"]
        if channels.mask is None:
            return [*lines, f"{name} = vector.load {memory}[{at}] : {type_}, {self._vector}"]
        masked = f"{type_}, vector<{self._own.unit.lanes}xi1>, {self._vector} into {self._vector}"
        return [*lines, f"{name} = vector.maskedload {memory}[{at}], {channels.mask}, %zero : {masked}"]
