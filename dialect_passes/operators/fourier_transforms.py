"""Discrete Fourier transforms as products with matrices of sines and cosines.

A length of known factors is split as Cooley and Tukey do (N = n1 n2): transforms of n1 points, a product with
exp(-2 pi i b k / N), transforms of n2 points. A prime length, and one known only at run time, is one product.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor

# The longest transform that is one product even if its length has factors.
_DIRECT = 32

_COMPOSITES = (
    "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 "
    "fftn ifftn rfftn irfftn hfftn ihfftn fftshift ifftshift"
)


def _register_composite(name: str) -> None:
    """The functions of torch.fft in terms of the three transforms below, by torch's own kernels."""

    def composite(*args: Any, **kwargs: Any) -> Any:
        import torch

        # `decompose` would find this function again: export puts it over torch's kernel.
        key = torch._C.DispatchKey.CompositeImplicitAutograd
        return getattr(torch.ops.aten, name).default._op_dk(key, *args, **kwargs)

    decomposes(f"aten.{name}.default")(composite)


for _name in _COMPOSITES.split():
    _register_composite(f"fft_{_name}")


def _waves(rows: Any, columns: Any, n: Any, like: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin of 2 pi j k / n for j < rows, k < columns.

    The angle is reduced to an eighth of the circle in whole numbers, so that no digit is lost. They are kept as
    floats: IREE fails on quotients of constant integers.
    """
    import torch

    exact = isinstance(n, int) and rows * columns < 2**24
    dtype = like.dtype if exact else torch.float64
    j, k = torch.arange(rows, dtype=dtype), torch.arange(columns, dtype=dtype)
    steps = j[:, None] * k[None, :]
    steps = steps - n * torch.floor(steps / n)
    quarter = torch.round(4 * steps / n)
    angle = (4 * steps - quarter * n) * (0.5 * math.pi / n)
    angle, quarter = angle.to(like.dtype), (quarter - 4 * torch.floor(quarter / 4)).to(like.dtype)
    c, s = torch.cos(angle), torch.sin(angle)
    odd, back = (quarter == 1) | (quarter == 3), quarter >= 2
    cosine, sine = torch.where(odd, -s, c), torch.where(odd, c, s)
    return torch.where(back, -cosine, cosine), torch.where(back, -sine, sine)


def _factor(n: int) -> int:
    """The largest factor up to `_DIRECT`; n itself if it is not split."""
    if n <= _DIRECT:
        return n
    return next((f for f in range(_DIRECT, 1, -1) if n % f == 0), n)


def _transform(re: Tensor, im: Tensor | None, sign: float) -> tuple[Tensor, Tensor]:
    """The transform along the last dimension with exp(sign 2 pi i j k / n). im: None for real signals."""

    n = re.shape[-1]
    first = _factor(n) if isinstance(n, int) else n
    if first == n:
        return _product(re, im, _waves(n, n, n, re), sign)
    second = n // first
    shape = re.shape[:-1]
    columns = re.reshape(*shape, first, second).transpose(-1, -2)
    im_columns = None if im is None else im.reshape(*shape, first, second).transpose(-1, -2)
    a, b = _product(columns, im_columns, _waves(first, first, first, re), sign)
    c, s = _waves(second, first, n, re)
    s = sign * s
    a, b = a * c - b * s, a * s + b * c
    a, b = _transform(a.transpose(-1, -2), b.transpose(-1, -2), sign)
    return tuple(x.transpose(-1, -2).reshape(*shape, n) for x in (a, b))  # type: ignore[return-value]


def _product(
    re: Tensor, im: Tensor | None, waves: tuple[Tensor, Tensor], sign: float
) -> tuple[Tensor, Tensor]:
    """The signal along the last dimension times cos + sign i sin."""
    import torch

    c, s = waves[0], sign * waves[1]
    if im is None:
        return torch.matmul(re, c), torch.matmul(re, s)
    return torch.matmul(re, c) - torch.matmul(im, s), torch.matmul(re, s) + torch.matmul(im, c)


def _along(parts: tuple[Tensor, Tensor | None], dims: list[int], sign: float) -> tuple[Tensor, Tensor | None]:
    """Transforms over several dimensions."""
    re, im = parts
    for dim in dims:
        moved = None if im is None else im.movedim(dim, -1)
        a, b = _transform(re.movedim(dim, -1), moved, sign)
        re, im = a.movedim(-1, dim), b.movedim(-1, dim)
    return re, im


def _scale(sizes: list[Any], normalization: int) -> Any:
    """0: none, 1: by the root of the number of points, 2: by their number."""
    count = math.prod(sizes)
    return 1.0 if normalization == 0 else count**-0.5 if normalization == 1 else 1.0 / count


def _complex(parts: tuple[Tensor, Tensor | None], scale: Any) -> Tensor:
    import torch

    re, im = parts
    im = torch.zeros_like(re) if im is None else im
    if isinstance(scale, float) and scale == 1.0:
        return torch.complex(re, im)
    return torch.complex(re * scale, im * scale)


@decomposes("aten._fft_c2c.default")
def complex_to_complex(z: Tensor, dim: list[int], normalization: int, forward: bool) -> Tensor:
    """The transform of complex signals."""
    import torch

    parts = _along((torch.real(z), torch.imag(z)), dim, -1.0 if forward else 1.0)
    return _complex(parts, _scale([z.shape[d] for d in dim], normalization))


@decomposes("aten._fft_r2c.default")
def real_to_complex(x: Tensor, dim: list[int], normalization: int, onesided: bool) -> Tensor:
    """The transform of real signals; one half of it along the last of `dim` if one-sided."""
    last = dim[-1] % x.dim()
    parts = _along((x, None), [last], -1.0)
    if onesided:
        re, im = parts
        assert im is not None
        half = x.shape[last] // 2 + 1
        parts = re.narrow(last, 0, half), im.narrow(last, 0, half)
    parts = _along(parts, dim[:-1], -1.0)
    return _complex(parts, _scale([x.shape[d] for d in dim], normalization))


@decomposes("aten._fft_c2r.default")
def complex_to_real(z: Tensor, dim: list[int], normalization: int, last_dim_size: Any) -> Tensor:
    """The inverse transform to real signals: the half that is missing is the conjugate of the one given."""
    import torch

    last = dim[-1] % z.dim()
    re, im = _along((torch.real(z), torch.imag(z)), dim[:-1], 1.0)
    assert im is not None
    half = last_dim_size // 2 + 1
    rest = last_dim_size - half
    re, im = re.narrow(last, 0, half), im.narrow(last, 0, half)
    # Not `flip`: IREE fails on it beside a concatenation.
    backwards = torch.arange(rest, 0, -1, device=z.device)
    re = torch.cat([re, re.index_select(last, backwards)], last)
    im = torch.cat([im, -im.index_select(last, backwards)], last)
    value, _ = _along((re, im), [last], 1.0)
    sizes = [last_dim_size if d % z.dim() == last else z.shape[d] for d in dim]
    return value * _scale(sizes, normalization)
