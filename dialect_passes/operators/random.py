"""Sampling, from the few draws that the runtime makes before a call: each draws what eager on the CPU draws.

The draws left here (``bernoulli.p``, ``rand``, ``exponential``, ...) depend on shapes and numbers only, so
they can be made outside of the graph; what depends on tensor values is computed from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.helpers.dims import assert_sizes
from pipeline.shape_lib.helpers.promotion import floating
from pipeline.shape_lib.registry import dtype_function, shape_function

from .registry import decomposes, keeps

if TYPE_CHECKING:
    from torch import Tensor

# torch's decompositions of these draw other numbers than eager does.
keeps(
    "aten.bernoulli.p",
    "aten.uniform.default",
    "aten.normal_functional.default",
    "aten.normal.float_float",
    "aten.rand_like.default",
    "aten.randn_like.default",
    "aten.randint.default",
    "aten.exponential.default",
    "aten.log_normal.default",
    "aten.cauchy.default",
    "aten.geometric.default",
)


@decomposes("aten.native_dropout.default")
def native_dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Zeros with probability p, the rest scaled by 1 / (1 - p); and the mask of what was kept."""
    import torch

    if train is False:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if p == 1:
        # Eager's dropout draws nothing here; x * 0 keeps NaN, as eager does.
        return x * 0, torch.zeros_like(x, dtype=torch.bool)
    kept = torch.ops.aten.bernoulli.p(torch.empty_like(x), 1 - p)
    return x * (kept / (1 - p)), kept.to(torch.bool)


@decomposes("aten.bernoulli.default")
def bernoulli(p: Tensor) -> Tensor:
    """1 with the probability that each element gives; eager compares with f32 draws unless p is f64."""
    import torch

    wide = torch.float64 if p.dtype == torch.float64 else torch.float32
    return (torch.rand(p.shape, dtype=wide, device=p.device) < p).to(p.dtype)


@decomposes("aten.normal.Tensor_float")
def normal_of_means(mean: Tensor, std: float = 1.0) -> Tensor:
    """A normal draw per element of `mean`."""
    import torch

    return torch.randn_like(mean) * std + mean


@decomposes("aten.normal.float_Tensor")
def normal_of_deviations(mean: float, std: Tensor) -> Tensor:
    """A normal draw per element of `std`."""
    import torch

    return torch.randn_like(std) * std + mean


@decomposes("aten.normal.Tensor_Tensor")
def normal_of_both(mean: Tensor, std: Tensor) -> Tensor:
    """A normal draw per element of `mean` and `std`, broadcast."""
    import torch

    return torch.randn_like(mean + std) * std + mean


@decomposes("aten.multinomial.default")
def multinomial(weights: Tensor, count: int, replacement: bool = False) -> Tensor:
    """`count` indices per row, drawn by weight. Weights that are no distribution are not detected.

    With replacement: the first index whose cumulative share reaches a uniform draw. Without: the largest
    of weight / exponential draw.
    """
    import torch

    if not replacement or count == 1:
        ranked = weights / torch.ops.aten.exponential.default(torch.empty_like(weights))
        return ranked.argmax(-1, keepdim=True) if count == 1 else torch.topk(ranked, count, -1).indices
    wide = weights if weights.dtype == torch.float64 else weights.float()
    shares = wide.cumsum(-1)
    shares = (shares / shares[..., -1:]).unsqueeze(-2)
    draws = torch.rand((*weights.shape[:-1], count, 1), dtype=torch.float64, device=weights.device)
    return (shares < draws).sum(-1)


@decomposes("aten.rrelu_with_noise_functional.default")
def rrelu(
    x: Tensor,
    noise: Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> tuple[Tensor, Tensor]:
    """A random slope where x <= 0; and the slopes. Eager draws for those elements only, one after the other.

    Here as many are drawn as there are elements, and the first are used: later draws differ from eager's.
    """
    import torch

    if not training:
        return torch.nn.functional.leaky_relu(x, (lower + upper) / 2), noise
    down = (x <= 0).reshape(-1)
    draws = torch.ops.aten.uniform.default(x.new_empty(down.shape, dtype=torch.float64), lower, upper)
    drawn = draws.index_select(0, (down.cumsum(0) - 1).clamp(min=0)).to(x.dtype)
    slopes = torch.where(down, drawn, 1.0).to(x.dtype).reshape(x.shape)
    return x * slopes, slopes


@shape_function("aten.bernoulli.p", "aten.geometric.default")
def probable_shape(x: list[int], p: float, generator: Any) -> list[int]:
    """A draw per element."""
    assert p >= 0 and p <= 1, "p is a probability"
    return x


# torch-mlir has no dtype function for bernoulli.p.
@dtype_function("aten.bernoulli.p", "aten.geometric.default")
def probable_dtype(x: tuple[int, int], p: float, generator: Any) -> int:
    """That of the tensor that gives the shape."""
    _, dtype = x
    assert not dtypes.is_complex_dtype(dtype), "complex numbers are not drawn so"
    return dtype


@shape_function("aten.cauchy.default", "aten.log_normal.default")
def located_shape(x: list[int], location: float, scale: float, generator: Any) -> list[int]:
    """A draw per element."""
    assert scale > 0, "the scale must be positive"
    return x


@dtype_function("aten.cauchy.default", "aten.log_normal.default")
def located_dtype(x: tuple[int, int], location: float, scale: float, generator: Any) -> int:
    """That of the tensor that gives the shape."""
    _, dtype = x
    return floating(dtype)


@shape_function("aten.normal.float_float")
def normal_shape(
    mean: float,
    std: float,
    size: list[int],
    generator: Any,
    dtype: int | None,
    layout: int | None,
    device: Any,
    pin_memory: bool | None,
) -> list[int]:
    """The sizes given."""
    assert std >= 0, "the deviation must not be negative"
    assert_sizes(size)
    return size


@dtype_function("aten.normal.float_float")
def normal_dtype(
    mean: float,
    std: float,
    size: list[int],
    generator: Any,
    dtype: int | None,
    layout: int | None,
    device: Any,
    pin_memory: bool | None,
) -> int:
    """The dtype given, or the default."""
    if dtype is None:
        return dtypes.float32
    return dtype


@shape_function("aten.randint.default")
def randint_shape(
    high: int, size: list[int], dtype: int | None, layout: int | None, device: Any, pin_memory: bool | None
) -> list[int]:
    """The sizes given."""
    assert high > 0, "there is no number below the bound"
    assert_sizes(size)
    return size


# torch-mlir has no dtype function for randint without a dtype.
@dtype_function("aten.randint.default")
def randint_dtype(
    high: int, size: list[int], dtype: int | None, layout: int | None, device: Any, pin_memory: bool | None
) -> int:
    """The dtype given, or int64."""
    if dtype is None:
        return dtypes.int64
    return dtype


@shape_function("aten.randint_like.default")
def randint_like_shape(
    x: list[int],
    high: int,
    dtype: int | None,
    layout: int | None,
    device: Any,
    pin_memory: bool | None,
    memory_format: int | None,
) -> list[int]:
    """A draw per element."""
    assert high > 0, "there is no number below the bound"
    return x


@dtype_function("aten.randint_like.default")
def randint_like_dtype(
    x: tuple[int, int],
    high: int,
    dtype: int | None,
    layout: int | None,
    device: Any,
    pin_memory: bool | None,
    memory_format: int | None,
) -> int:
    """The dtype given, or that of the tensor."""
    _, own = x
    if dtype is None:
        return own
    return dtype


@shape_function("aten.randint_like.low_dtype")
def randint_like_between_shape(
    x: list[int],
    low: int,
    high: int,
    dtype: int | None,
    layout: int | None,
    device: Any,
    pin_memory: bool | None,
    memory_format: int | None,
) -> list[int]:
    """A draw per element."""
    assert low < high, "there is no number between the bounds"
    return x


@dtype_function("aten.randint_like.low_dtype")
def randint_like_between_dtype(
    x: tuple[int, int],
    low: int,
    high: int,
    dtype: int | None,
    layout: int | None,
    device: Any,
    pin_memory: bool | None,
    memory_format: int | None,
) -> int:
    """The dtype given, or that of the tensor."""
    _, own = x
    if dtype is None:
        return own
    return dtype


@shape_function("pipeline.threefry.default")
def threefry_shape(
    first: list[int], second: list[int], low: list[int], high: list[int]
) -> tuple[list[int], list[int]]:
    """Two words for each counter."""
    return first, first


@dtype_function("pipeline.threefry.default")
def threefry_dtype(
    first: tuple[int, int], second: tuple[int, int], low: tuple[int, int], high: tuple[int, int]
) -> tuple[int, int]:
    """All are int32."""
    return dtypes.int32, dtypes.int32
