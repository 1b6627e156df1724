"""Tensors across the border: torch and NumPy in and out of IREE's buffers, shared where that is safe.

On the CPU a contiguous, 64-byte aligned torch tensor is shared through DLPack; everything else is copied.
Never is an input refused for its layout.
"""

from __future__ import annotations

import mmap
import sys
from typing import Any

import iree.runtime as iree
import numpy as np

from . import dtypes
from .device import Device
from .dtypes import Dtype
from .sharing import NOWHERE, Span

ALIGNMENT = 64
"""Bytes: what IREE asks of memory that it shares."""
# Vulkan imports host memory in whole pages.
_PAGE = 4096
_DEVICE_MEMORY = iree.MemoryType.DEVICE_LOCAL
_STAGING_MEMORY = iree.MemoryType.HOST_LOCAL | iree.MemoryType.DEVICE_VISIBLE
_BYTE = np.dtype(np.uint8)


class UnreadableError(ValueError):
    """A tensor whose values cannot be read here; the message lacks only the argument's name."""


def is_torch(value: Any) -> bool:
    """Whether `value` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_array(value: Any) -> bool:
    """Whether `value` can be passed where a tensor is expected."""
    return isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__dlpack__")


def as_array(value: Any) -> Any:
    """`value` as a torch tensor or a NumPy array: other DLPack producers become NumPy arrays.

    Raises UnreadableError for a tensor that has no plain memory, and for one that no route can read.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_meta:
            where = "on the meta device" if value.is_meta else f"of the layout {value.layout}"
            raise UnreadableError(f"a tensor {where} cannot be read; pass a dense one")
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        # DLPack in NumPy knows no bf16 and no device but the CPU; many libraries convert themselves.
        if not hasattr(value, "__array__"):
            raise UnreadableError(
                f"a {type(value).__name__} that NumPy cannot read ({error}); "
                "pass a torch tensor or a NumPy array"
            ) from error
        return np.asarray(value)


def dtype_of(value: Any) -> Dtype | None:
    """The element type of a torch tensor or NumPy array; None for types artifacts cannot hold."""
    return dtypes.from_numpy(value.dtype) if isinstance(value, np.ndarray) else dtypes.from_torch(value.dtype)


def unwritable(array: Any) -> str | None:
    """Why new values cannot be stored in a torch tensor or NumPy array; None when they can."""
    if isinstance(array, np.ndarray):
        if not array.flags.writeable:
            return "is read-only"
        strides, shape = array.strides, array.shape
    else:
        strides, shape = array.stride(), array.shape
    expanded = any(stride == 0 and size > 1 for stride, size in zip(strides, shape, strict=True))
    return "has several elements in one place (it was expanded or broadcast)" if expanded else None


def to_device(value: Any, dtype: Dtype, device: Device) -> Any:
    """A buffer view with the contents of `value`: its own memory where the device can use it, else a copy."""
    if not device.is_host or isinstance(value, np.ndarray) or not _shareable(value):
        return copy_to_device(value, dtype, device)
    import torch

    raw = value.detach() if value.requires_grad else value
    if raw.is_complex():
        raw = torch.view_as_real(raw)
    if dtype.name != "bool":
        return device.hal.from_dlpack_capsule(torch.utils.dlpack.to_dlpack(raw))
    # IREE's DLPack knows no bool: it travels as bytes, and the view names the real type.
    shared = device.hal.from_dlpack_capsule(torch.utils.dlpack.to_dlpack(raw.view(torch.uint8)))
    return iree.HalBufferView(shared.get_buffer(), list(value.shape), iree.HalElementType.BOOL_8)


def _shareable(tensor: Any) -> bool:
    return (
        tensor.is_cpu
        and tensor.dim() > 0
        and tensor.numel() > 0
        and tensor.is_contiguous()
        and not tensor.is_conj()
        and not tensor.is_neg()
        and tensor.data_ptr() % ALIGNMENT == 0
    )


def to_numpy(value: Any) -> np.ndarray[Any, Any]:
    """A contiguous NumPy array with the same bytes (bf16 as ml_dtypes), copied only where needed."""
    if not is_torch(value):
        array = np.asarray(value)
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        return np.ascontiguousarray(array).reshape(array.shape)
    import torch

    tensor = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(dtypes.BY_NAME["bfloat16"].numpy)
    return tensor.numpy()


def copy_to_device(value: Any, dtype: Dtype, device: Device) -> Any:
    """A buffer view of its own memory with the contents of `value`."""
    array = to_numpy(value)
    # An empty buffer is still a buffer: IREE allocates nothing for zero bytes.
    source = array.reshape(-1).view(_BYTE) if array.size else np.zeros(1, _BYTE)
    if not device.is_host:
        source = _page_aligned(source)
    buffer = device.hal.allocator.allocate_buffer_copy(*_placement(device), device.hal, source)
    shape, stored = stored_as(list(array.shape), dtype)
    return iree.HalBufferView(buffer, shape, getattr(iree.HalElementType, stored.hal))


def stored_as(shape: list[Any], dtype: Dtype) -> tuple[list[Any], Dtype]:
    """Shape and type by which a program knows a tensor: of complex numbers both parts, along a last dimension."""
    part = dtypes.PARTS.get(dtype.name)
    return (shape, dtype) if part is None else ([*shape, 2], dtypes.BY_NAME[part])


def _page_aligned(source: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    pages = np.frombuffer(mmap.mmap(-1, -(-source.nbytes // _PAGE) * _PAGE), np.uint8)
    pages[: source.nbytes] = source
    return pages[: source.nbytes]


def _placement(device: Device) -> tuple[int, int]:
    """Memory type and usage of a buffer that calls read."""
    if device.is_host:
        return (
            _DEVICE_MEMORY | iree.MemoryType.HOST_VISIBLE,
            iree.BufferUsage.DEFAULT | iree.BufferUsage.MAPPING,
        )
    return int(_DEVICE_MEMORY), int(iree.BufferUsage.DEFAULT)


def from_device(view: Any, dtype: Dtype, device: Device) -> np.ndarray[Any, Any]:
    """The contents of `view` as an array of `dtype`: its own memory on the CPU, a copy elsewhere."""
    shape, nbytes = view.shape, view.byte_length
    if dtype.name in dtypes.PARTS:
        shape = shape[:-1]
    if nbytes == 0:
        return np.empty(shape, dtype.numpy)
    # The mapping keeps the buffer alive, the array the mapping.
    raw = view.map().asarray([nbytes], _BYTE) if device.is_host else _read_back(view, nbytes, device)
    return raw.view(dtype.numpy).reshape(shape)


def to_torch(array: np.ndarray[Any, Any], dtype: Dtype) -> Any:
    """The same memory as a torch tensor."""
    import torch

    if dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _read_back(view: Any, nbytes: int, device: Device) -> np.ndarray[Any, Any]:
    staging = device.hal.allocator.allocate_buffer(
        _STAGING_MEMORY, iree.BufferUsage.TRANSFER | iree.BufferUsage.MAPPING, nbytes
    )
    copy_buffer(view.get_buffer(), staging, device)
    return np.array(staging.map().asarray([nbytes], _BYTE))


def copy_buffer(source: Any, target: Any, device: Device) -> None:
    """Copies the whole of the HAL buffer `source` on the device's queue and waits."""
    done = device.hal.create_semaphore(0)
    device.hal.queue_copy(source, target, iree.HalFence.create_at(done, 0), iree.HalFence.create_at(done, 1))
    done.wait(1)


def clone_on_device(view: Any, device: Device) -> Any:
    """A buffer view of its own memory with the same contents."""
    copy = device.hal.allocator.allocate_buffer(*_placement(device), max(view.byte_length, 1))
    if view.byte_length:
        copy_buffer(view.get_buffer(), copy, device)
    return iree.HalBufferView(copy, list(view.shape), view.element_type)


def span(array: Any) -> Span:
    """The place in host memory of a contiguous torch tensor or NumPy array.

    Of others it says only where they begin: they are never shared, so nothing can lie over them.
    """
    if isinstance(array, np.ndarray):
        first = array.__array_interface__["data"][0]
        return first, first + array.nbytes
    first = array.data_ptr()
    return first, first + array.numel() * array.element_size()


def span_of_view(view: Any, device: Device) -> Span:
    """The place in host memory of a buffer view, NOWHERE where the device has memory of its own."""
    if not device.is_host or view.byte_length == 0:
        return NOWHERE
    return span(view.map().asarray([view.byte_length], _BYTE))


def torch_is_loaded() -> bool:
    """Whether the process has imported torch, so that torch tensors can be made without importing it."""
    return "torch" in sys.modules
