"""Writing by index, by mask and through strided views, brought down to the scatters that are lowered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor

_SCATTERED = {"add": "sum", "multiply": "prod"}


@decomposes("aten.take.default")
def take(x: Tensor, index: Tensor) -> Tensor:
    """Elements of the flattened tensor; negative indices count from the end."""
    flat = x.reshape(-1)
    return flat.index_select(0, _wrapped(index.reshape(-1), flat.shape[0])).reshape(index.shape)


def _wrapped(index: Tensor, size: Any) -> Tensor:
    import torch

    return torch.where(index < 0, index + size, index)


@decomposes("aten.put.default")
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Writes into the flattened tensor."""
    flat = x.reshape(-1)
    place = _wrapped(index.reshape(-1), flat.shape[0])
    source = source.reshape(-1)
    written = flat.scatter_add(0, place, source) if accumulate else flat.scatter(0, place, source)
    return written.reshape(x.shape)


@decomposes("aten.scatter.reduce")
def scatter_reduce_source(x: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str) -> Tensor:
    """Adds or multiplies elements of `src`."""
    return x.scatter_reduce(dim, index, src, _SCATTERED[reduce])


@decomposes("aten.scatter.value_reduce")
def scatter_reduce_value(x: Tensor, dim: int, index: Tensor, value: Any, *, reduce: str) -> Tensor:
    """Adds or multiplies one number."""
    import torch

    source = torch.full(index.shape, value, dtype=x.dtype, device=x.device)
    return x.scatter_reduce(dim, index, source, _SCATTERED[reduce])


@decomposes("aten.index_reduce.default")
def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """The index holds for whole rows."""
    if x.dim() == 0:
        rows = index_reduce(
            x.reshape(1), 0, index.reshape(-1), source.reshape(-1), reduce, include_self=include_self
        )
        return rows.reshape(())
    shape = [-1 if d == dim % x.dim() else 1 for d in range(x.dim())]
    places = index.reshape(shape).expand(source.shape)
    return x.scatter_reduce(dim, places, source, reduce, include_self=include_self)


@decomposes("aten.masked_scatter_backward.default")
def masked_scatter_backward(grad: Tensor, mask: Tensor, sizes: list[Any]) -> Tensor:
    """The gradient of the source: that of the masked places in order, and zero for what was not used."""
    import torch

    mask = mask.expand(grad.shape).reshape(-1)
    count: Any = 1
    for size in sizes:
        count = count * size
    # What is not masked goes to a place of its own behind the last.
    order = mask.to(torch.int64).cumsum(0) - 1
    place = torch.where(mask & (order < count), order, count)
    source = torch.zeros([count + 1], dtype=grad.dtype, device=grad.device)
    return source.scatter(0, place, grad.reshape(-1))[:count].reshape(sizes)


@decomposes("aten.diagonal_scatter.default")
def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """x with a diagonal replaced: a choice by place, not a scatter."""
    import torch

    whole = x.movedim((dim1, dim2), (-2, -1))
    rows, columns = whole.shape[-2], whole.shape[-1]
    row = torch.arange(rows, device=x.device).unsqueeze(1)
    column = torch.arange(columns, device=x.device).unsqueeze(0)
    length = src.shape[-1]
    if offset >= 0:
        spread = torch.ops.aten.constant_pad_nd(src, [0, rows - length]).unsqueeze(-1)
    else:
        spread = torch.ops.aten.constant_pad_nd(src, [0, columns - length]).unsqueeze(-2)
    chosen = torch.where(column - row == offset, spread, whole)
    return chosen.movedim((-2, -1), (dim1, dim2))


def _strided_places(size: list[Any], stride: list[Any], offset: Any, device: Any) -> Tensor:
    import torch

    places = torch.full([1] * len(size), offset or 0, dtype=torch.int64, device=device)
    for dim, (count, step) in enumerate(zip(size, stride, strict=True)):
        shape = [-1 if d == dim else 1 for d in range(len(size))]
        places = places + (torch.arange(count, device=device) * step).reshape(shape)
    return places.reshape(-1)


@decomposes("aten.as_strided_copy.default")
def as_strided_copy(
    x: Tensor, size: list[Any], stride: list[Any], storage_offset: int | None = None
) -> Tensor:
    """Elements by their places in memory. In a traced graph the tensor lies there row by row."""
    places = _strided_places(size, stride, storage_offset, x.device)
    return x.reshape(-1).index_select(0, places).reshape(size)


@decomposes("aten.as_strided_scatter.default")
def as_strided_scatter(
    x: Tensor, src: Tensor, size: list[Any], stride: list[Any], storage_offset: int | None = None
) -> Tensor:
    """x with the elements at these places in memory replaced."""
    places = _strided_places(size, stride, storage_offset, x.device)
    return x.reshape(-1).scatter(0, places, src.expand(size).reshape(-1)).reshape(x.shape)


@decomposes("aten.nonzero_static.default")
def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The places of what is not zero: so many, filled up where there are fewer."""
    import torch

    truth = (x != 0).reshape(-1)
    order = truth.to(torch.int64).cumsum(0) - 1
    place = torch.where(truth & (order < size), order, size)
    flat = torch.arange(truth.shape[0], device=x.device)
    columns = []
    for count in reversed(x.shape):
        column = torch.full([size + 1], fill_value, dtype=torch.int64, device=x.device)
        columns.append(column.scatter(0, place, flat % count)[:size])
        flat = flat // count
    if not columns:
        return torch.zeros([size, 0], dtype=torch.int64, device=x.device)
    return torch.stack(columns[::-1], 1)


@decomposes("aten.gather.default")
def gather(x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """Of a number, and of one place: torch-mlir reads with a dimension."""
    if x.dim() and index.dim():
        return NotImplemented
    return x.reshape(-1).gather(0, index.reshape(-1)).reshape(index.shape)


@decomposes("aten.index_select.default")
def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Likewise; of a number the number itself."""
    if x.dim() == 0:
        return x.clone()
    return NotImplemented if index.dim() else x.index_select(dim, index.reshape(1))


@decomposes("aten.index_add.default")
def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """A write that adds; to a number, as to a vector of one element."""
    import torch

    if x.dim() == 0:
        return index_add(x.reshape(1), 0, index, source.reshape(-1), alpha=alpha).reshape(())
    source = source if alpha == 1 else source * alpha
    places = [*[None] * (dim % x.dim()), index.reshape(-1)]
    return torch.ops.aten.index_put.default(x, places, source.to(x.dtype), True)


@decomposes("aten.scatter_reduce.two")
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Likewise. Means of integers are rounded down, which torch-mlir does not do, nor does it compare bools."""
    import torch

    if x.dtype == torch.bool:
        wide = x.to(torch.int32), dim, index, src.to(torch.int32), reduce
        return torch.ops.aten.scatter_reduce.two(*wide, include_self=include_self) != 0
    if reduce == "mean" and not x.is_floating_point():
        return _scattered_mean(x, dim, index, src, include_self)
    if x.dim() and index.dim():
        return NotImplemented
    flat = x.reshape(-1).scatter_reduce(
        0, index.reshape(-1), src.reshape(-1), reduce, include_self=include_self
    )
    return flat.reshape(x.shape)


def _scattered_mean(x: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool) -> Tensor:
    import torch

    start = x if include_self else x.scatter(dim, index, 0)
    total = start.scatter_reduce(dim, index, src, "sum")
    ones = torch.ones_like(index)
    count = torch.full(x.shape, int(include_self), device=x.device).scatter_add(dim, index, ones)
    return torch.div(total, count.clamp(min=1), rounding_mode="floor").to(x.dtype)


@decomposes("aten.scatter_add.default")
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """IREE crashes on scatters of nothing, and on those without dimensions, which become vectors. Of bools: or."""
    import torch

    if x.dtype == torch.bool:
        return x.to(torch.int32).scatter_add(dim, index, src.to(torch.int32)) != 0
    if 0 in index.shape:
        return x.clone()
    if x.dim() and index.dim():
        return NotImplemented
    return x.reshape(-1).scatter_add(0, index.reshape(-1), src.reshape(-1)).reshape(x.shape)


@decomposes("aten.scatter.src", "aten.scatter.value")
def scatter(x: Tensor, dim: int, index: Tensor, src: Any) -> Tensor:
    """The same of plain writes, of a tensor or of one number."""
    import torch

    if 0 in index.shape:
        return x.clone()
    if x.dim() and index.dim():
        return NotImplemented
    flat = src.reshape(-1) if isinstance(src, torch.Tensor) else src
    return x.reshape(-1).scatter(0, index.reshape(-1), flat).reshape(x.shape)
