"""separate-convolution-bias: the bias of a convolution is added behind it.

torch-mlir makes the bias the start of the sums, which IREE writes out as a tensor of the result's size first. A sum
behind the convolution becomes part of it, together with what else follows.

Before:  %r = torch.aten.convolution %x, %w, %b, ...        %b: [C]
After:   %y = torch.aten.convolution %x, %w, %none, ...
         %r = torch.aten.add.Tensor %y, %b', %int1          %b': [C,1,1]

Not in float16 and bfloat16, whose sums run in float32: there the result would be rounded twice. Not in groups either,
which become no matmuls: ConvNeXt, whose 7x7 convolutions are of one channel each, takes 1.12 times as long so.
"""

from __future__ import annotations

from torch_mlir import ir

from .torch_ops import Maker, constant, dtype, every, sizes


def run(module: ir.Module) -> int:
    """Changes `module` in place. Returns the number of convolutions that lost their bias."""
    return sum(_separate(op) for op in every(module, "torch.aten.convolution"))


def _separate(op: ir.Operation) -> bool:
    bias, result = op.operands[2], op.results[0]
    channels, shape = sizes(bias), sizes(result)
    if channels is None or channels[0] is None or shape is None or dtype(bias) != dtype(result):
        return False
    if dtype(result) in ("float16", "bfloat16") or constant(op.operands[8]) != 1:
        return False
    maker = Maker(op)
    bare = maker.again(op, {2: maker.none()})
    column = maker.view(bias, [channels[0], *[1] * (len(shape) - 2)])
    sum_ = maker.tensor("aten.add.Tensor", shape, dtype(result), [bare, column, maker.number(1)])
    result.replace_all_uses_with(sum_)
    op.erase()
    return True
