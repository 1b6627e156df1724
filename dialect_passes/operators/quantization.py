"""Quantized models of PT2E and QAT whose scales are tensors: chosen while the program runs, or by channel or token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .registry import decomposes

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_SINGLE = ("tensor", "tensor2")


def _names(operator: str, *overloads: str) -> list[str]:
    return [f"quantized_decomposed.{operator}.{overload}" for overload in overloads]


@decomposes(*_names("quantize_per_tensor", *_SINGLE))
def quantize_per_tensor(
    x: Tensor, scale: Tensor, zero_point: Tensor, quant_min: Any, quant_max: Any, dtype: torch.dtype
) -> Tensor:
    """round(x / scale) + zero point in bounds. As eager, which reads the scale as a number, by its inverse in f32."""
    import torch

    inverse = (1.0 / scale.to(torch.float64)).to(torch.float32).reshape(())
    whole = torch.round(x.to(torch.float32) * inverse) + zero_point.to(torch.float32).reshape(())
    return _bounded(whole, quant_min, quant_max).to(dtype)


@decomposes(*_names("dequantize_per_tensor", *_SINGLE))
def dequantize_per_tensor(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: Any,
    quant_max: Any,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """(x - zero point) * scale."""
    import torch

    out = out_dtype or torch.float32
    return (x.to(out) - zero_point.to(out).reshape(())) * scale.to(out).reshape(())


def _bounded(x: Tensor, low: Any, high: Any) -> Tensor:
    import torch

    low, high = (bound.reshape(()) if isinstance(bound, torch.Tensor) else bound for bound in (low, high))
    return torch.clamp(x, low, high)


@decomposes(*_names("choose_qparams", "tensor"))
def choose_qparams(
    x: Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Scale and zero point, one element each, with which 0 and all of x are in bounds."""
    import torch

    low, high = x.amin().clamp(max=0), x.amax().clamp(min=0)
    scale = _at_least((high - low) / (quant_max - quant_min), eps)
    zero_point = (quant_min - torch.round(low / scale).to(torch.int32)).clamp(quant_min, quant_max)
    return scale.reshape(1).to(torch.float64), zero_point.reshape(1).to(torch.int64)


@decomposes(*_names("choose_qparams_symmetric", "tensor"))
def choose_qparams_symmetric(
    x: Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The same with a zero point that is fixed."""
    import torch

    largest = torch.maximum(-x.amin().clamp(max=0), x.amax().clamp(min=0))
    scale = _at_least(largest / (float(quant_max - quant_min) / 2), eps)
    middle = 128 if dtype == torch.uint8 else 0
    return scale.reshape(1).to(torch.float64), torch.full([1], middle, dtype=torch.int64, device=x.device)


def _at_least(scale: Tensor, eps: float) -> Tensor:
    """Eager's bound is a tensor of f32, to which it promotes."""
    import torch

    return torch.maximum(scale.reshape(1), torch.full([1], eps, dtype=torch.float32, device=scale.device))


@decomposes(*_names("choose_qparams_per_token", "default"))
def choose_qparams_per_token(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Symmetric, for each row."""
    import torch

    largest = x.abs().amax(-1, True)
    largest = largest.float() if largest.dtype == torch.float16 else largest
    scales = largest.clamp(min=1e-5) / 127
    return scales, torch.zeros_like(scales)


@decomposes(
    *_names("choose_qparams_per_token_asymmetric", "default"),
    *_names("_choose_qparams_per_token_asymmetric_impl", "default"),
)
def choose_qparams_per_token_asymmetric(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """For each row; the zero point comes from the bound that it makes the smaller error at, as in XNNPACK."""
    import torch

    low, high = x.amin(-1, True).clamp(max=0), x.amax(-1, True).clamp(min=0)
    scale = ((high - low) / 255.0).clamp(min=torch.finfo(torch.float32).eps)
    down, up = low / scale, high / scale
    zero_point = torch.where((down - 128) + (up + 127) > 0, -128 - down, 127 - up)
    return scale.to(torch.float64), zero_point.clamp(-128, 127).round().to(torch.int64)


@decomposes(*_names("quantize_per_token", "default"))
def quantize_per_token(
    x: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int, dtype: torch.dtype
) -> Tensor:
    """In the type of the scales, which may be f64."""
    return (x * (1.0 / scales) + zero_points).round().clamp(quant_min, quant_max).to(dtype)


@decomposes(*_names("dequantize_per_token", "default"))
def dequantize_per_token(
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    output_dtype: torch.dtype,
) -> Tensor:
    """(x - zero point) * scale of each row."""
    return ((x - zero_points) * scales).to(output_dtype)


@decomposes(*_names("quantize_per_channel_group", "default"))
def quantize_per_channel_group(
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    group_size: int = 128,
) -> Tensor:
    """A scale for so many elements of a row."""
    groups = x.reshape(-1, _group(x, scales, group_size))
    return quantize_per_token(
        groups, scales.reshape(-1, 1), zero_points.reshape(-1, 1), quant_min, quant_max, dtype
    ).reshape(x.shape)


@decomposes(*_names("dequantize_per_channel_group", "default"))
def dequantize_per_channel_group(
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    group_size: int = 128,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """(x - zero point) * scale of each group."""
    import torch

    groups = x.reshape(-1, _group(x, scales, group_size))
    zeros = torch.zeros([], dtype=torch.int32) if zero_points is None else zero_points.reshape(-1, 1)
    return ((groups - zeros) * scales.reshape(-1, 1)).reshape(x.shape).to(output_dtype or torch.float32)


def _group(x: Tensor, scales: Tensor, size: int) -> Any:
    """One scale for rows shorter than a group is for all of the row."""
    return x.shape[-1] if size > x.shape[-1] and scales.shape[-1] == 1 else size


@decomposes("aten._weight_int8pack_mm.default")
def weight_int8pack_mm(x: Tensor, weight: Tensor, scales: Tensor) -> Tensor:
    """x times the transposed weight, a scale for each of its rows."""
    import torch

    return torch.mm(x, weight.to(x.dtype).t()) * scales


@decomposes("aten.fake_quantize_per_channel_affine_cachemask.default")
def fake_quantize_per_channel(
    x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """Rounded to what the quantized type holds, and where x is in its bounds."""
    import torch

    shape = [-1 if dim == axis % x.dim() else 1 for dim in range(x.dim())]
    scale, zero = scale.reshape(shape), zero_point.to(scale.dtype).reshape(shape)
    product = x * (1.0 / scale)
    whole = torch.round(product + zero) if zero_point.is_floating_point() else torch.round(product) + zero
    inside = (whole >= quant_min) & (whole <= quant_max)
    return ((whole.clamp(quant_min, quant_max) - zero) * scale).to(x.dtype), inside
