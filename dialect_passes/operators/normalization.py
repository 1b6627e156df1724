"""Batch norm in eval mode, as eager's kernels compute it: one product and one sum per element."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.registry import dtype_function, shape_function

from .registry import Sample, call_samples, decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten._native_batch_norm_legit_no_training.default")
def batch_norm_inference(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """x * scale + shift per channel, with scale = weight / sqrt(var + eps) and shift = bias - mean * scale.

    torch's own decomposition subtracts the mean and multiplies twice: two roundings more per element, in
    every layer of a deep network. scale and shift depend on weights alone and are computed once, at load.
    """
    import torch

    wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    scale = torch.rsqrt(running_var.to(wide) + eps)
    if weight is not None:
        scale = scale * weight.to(wide)
    shift = -running_mean.to(wide) * scale
    if bias is not None:
        shift = shift + bias.to(wide)
    shape = [1, -1] + [1] * (x.dim() - 2)
    out = x.to(wide) * scale.reshape(shape) + shift.reshape(shape)
    nothing = x.new_zeros((0,))
    return out.to(x.dtype), nothing, nothing


@shape_function("aten._batch_norm_with_update_functional.default")
def batch_norm_with_update_shape(
    x: list[int],
    weight: list[int] | None,
    bias: list[int] | None,
    running_mean: list[int],
    running_var: list[int],
    momentum: float,
    eps: float,
) -> tuple[list[int], list[int], list[int], list[int], list[int], list[int]]:
    """The output, mean and deviation of each channel, an empty reserve, and the new running statistics."""
    assert len(x) >= 2, "the input has a batch and a channel dimension"
    assert len(running_mean) == 1 and running_mean[0] == x[1], "there is one running mean per channel"
    assert len(running_var) == 1 and running_var[0] == x[1], "there is one running variance per channel"
    statistics = [x[1]]
    return x, statistics, statistics, [0], running_mean, running_var


@dtype_function("aten._batch_norm_with_update_functional.default")
def batch_norm_with_update_dtype(
    x: tuple[int, int],
    weight: tuple[int, int] | None,
    bias: tuple[int, int] | None,
    running_mean: tuple[int, int],
    running_var: tuple[int, int],
    momentum: float,
    eps: float,
) -> tuple[int, int, int, int, int, int]:
    """Mean and deviation have the weight's dtype, or else that of the running statistics."""
    _, dtype = x
    _, mean_dtype = running_mean
    _, var_dtype = running_var
    statistics = mean_dtype
    if weight is not None:
        _, statistics = weight
    return dtype, statistics, statistics, dtypes.uint8, mean_dtype, var_dtype


@shape_function("aten.batch_norm_backward.default")
def batch_norm_backward_shape(
    grad: list[int],
    x: list[int],
    weight: list[int],
    running_mean: list[int] | None,
    running_var: list[int] | None,
    save_mean: list[int] | None,
    save_var: list[int] | None,
    update: bool,
    eps: float,
    output_mask: list[bool],
    reserve: list[int],
) -> tuple[list[int], list[int], list[int]]:
    """Those of input, weight and bias."""
    assert len(x) >= 2, "the input has a batch and a channel dimension"
    return x, [x[1]], [x[1]]


@dtype_function("aten.batch_norm_backward.default")
def batch_norm_backward_dtype(
    grad: tuple[int, int],
    x: tuple[int, int],
    weight: tuple[int, int],
    running_mean: tuple[int, int] | None,
    running_var: tuple[int, int] | None,
    save_mean: tuple[int, int] | None,
    save_var: tuple[int, int] | None,
    update: bool,
    eps: float,
    output_mask: list[bool],
    reserve: tuple[int, int],
) -> tuple[int, int, int]:
    """That of the input, and of the weight for both of its gradients."""
    _, dtype = x
    _, weight_dtype = weight
    return dtype, weight_dtype, weight_dtype


@call_samples("aten.batch_norm_backward.default")
def batch_norm_backward_samples() -> Iterable[Sample]:
    """Torch's samples take it apart."""
    import torch

    for dtype in (torch.float32, torch.float64):
        for shape in ((4, 3), (4, 3, 5), (2, 3, 4, 4)):
            x, channels = torch.ones(shape, dtype=dtype), torch.ones(3, dtype=dtype)
            reserve = torch.empty(0, dtype=torch.uint8)
            statistics = [channels, channels, channels, channels]
            yield [x, x, channels, *statistics, True, 1e-5, [True, True, True], reserve], {}


@decomposes("aten.rms_norm.default")
def rms_norm(
    x: Tensor, normalized_shape: list[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimensions, in float32 for narrower types.

    torch's own decomposition multiplies x by itself and sums, which IREE makes a slow contraction of: 1.9 (float32)
    and 5.8 times (bfloat16) as long as this.
    """
    import torch

    wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    value = x.to(wide)
    mean = value.square().mean(list(range(-len(normalized_shape), 0)), keepdim=True)
    value = value * torch.rsqrt(mean + (torch.finfo(wide).eps if eps is None else eps))
    return (value if weight is None else value * weight.to(wide)).to(x.dtype)
