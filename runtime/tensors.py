"""Tensors across the border: torch and NumPy in and out of IREE's buffers, shared where that is safe.

On the CPU a contiguous, 64-byte aligned array is shared through DLPack; everything else is copied.
Never is an input refused for its layout.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Sequence
from typing import Any

import iree.runtime as iree
import numpy as np

from . import dtypes
from .device import Device
from .dtypes import Dtype

_ALIGNMENT = 64
# Vulkan imports host memory in whole pages.
_PAGE = 4096
_DEVICE_MEMORY = iree.MemoryType.DEVICE_LOCAL
_STAGING_MEMORY = iree.MemoryType.HOST_LOCAL | iree.MemoryType.DEVICE_VISIBLE
_KDLCPU = 1


def is_torch(value: Any) -> bool:
    """Whether `value` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_array(value: Any) -> bool:
    """Whether `value` can be passed where a tensor is expected."""
    return is_torch(value) or isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__dlpack__")


def as_array(value: Any) -> Any:
    """`value` as a torch tensor or a NumPy array: other DLPack producers become NumPy arrays."""
    if is_torch(value) or isinstance(value, np.ndarray):
        return value
    return np.asarray(value) if isinstance(value, np.generic) else np.from_dlpack(value)


def dtype_of(value: Any) -> Dtype | None:
    """The element type of a torch tensor or NumPy array; None for types artifacts cannot hold."""
    return dtypes.from_torch(value.dtype) if is_torch(value) else dtypes.from_numpy(value.dtype)


def to_device(value: Any, dtype: Dtype, device: Device) -> iree.HalBufferView:
    """A buffer view with the contents of `value`: its own memory where the device can use it, else a copy."""
    hal_type = getattr(iree.HalElementType, dtype.hal)
    shape = list(value.shape)
    if device.is_host and is_torch(value) and _shareable(value):
        import torch

        raw = value.detach() if value.requires_grad else value
        # Element types that DLPack lacks travel as bytes; the view below names the real one.
        raw = raw.view(torch.uint8) if dtype.name == "bool" else raw
        shared = device.hal.from_dlpack_capsule(torch.utils.dlpack.to_dlpack(raw))
        return shared if dtype.name != "bool" else iree.HalBufferView(shared.get_buffer(), shape, hal_type)
    return _copy_to_device(to_numpy(value), shape, hal_type, device)


def _shareable(tensor: Any) -> bool:
    return (
        tensor.device.type == "cpu"
        and tensor.dim() > 0
        and tensor.numel() > 0
        and tensor.is_contiguous()
        and not tensor.is_conj()
        and not tensor.is_neg()
        and tensor.data_ptr() % _ALIGNMENT == 0
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


def _copy_to_device(
    array: np.ndarray[Any, Any], shape: Sequence[int], hal_type: Any, device: Device
) -> iree.HalBufferView:
    page_aligned = np.frombuffer(mmap.mmap(-1, max(_PAGE, -(-array.nbytes // _PAGE) * _PAGE)), np.uint8)
    page_aligned[: array.nbytes] = array.reshape(-1).view(np.uint8)
    # An empty buffer is still a buffer: IREE allocates nothing for zero bytes.
    source = page_aligned[: max(array.nbytes, 1)]
    buffer = device.hal.allocator.allocate_buffer_copy(
        _DEVICE_MEMORY | (iree.MemoryType.HOST_VISIBLE if device.is_host else 0),
        iree.BufferUsage.DEFAULT | (iree.BufferUsage.MAPPING if device.is_host else 0),
        device.hal,
        source,
    )
    return iree.HalBufferView(buffer, list(shape), hal_type)


def from_device(view: iree.HalBufferView, dtype: Dtype, device: Device, want_torch: bool) -> Any:
    """The contents of `view` as a torch tensor or NumPy array of `dtype`; shares its memory on the CPU."""
    shape = list(view.shape)
    if 0 in shape:
        array = np.empty(shape, dtype.numpy)
    elif device.is_host:
        array = _host_array(view, dtype, shape)
    else:
        array = _read_back(view.get_buffer(), view.byte_length, device).view(dtype.numpy).reshape(shape)
    return _to_torch(array, dtype) if want_torch else array


def _host_array(view: iree.HalBufferView, dtype: Dtype, shape: list[int]) -> np.ndarray[Any, Any]:
    # The mapping keeps the buffer alive, the array the mapping.
    mapped = view.map()
    count = dtype.itemsize * int(np.prod(shape))
    return mapped.asarray([count], np.dtype(np.uint8)).view(dtype.numpy).reshape(shape)


def _to_torch(array: np.ndarray[Any, Any], dtype: Dtype) -> Any:
    import torch

    if dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _read_back(buffer: iree.HalBuffer, nbytes: int, device: Device) -> np.ndarray[Any, Any]:
    staging = device.hal.allocator.allocate_buffer(
        _STAGING_MEMORY, iree.BufferUsage.TRANSFER | iree.BufferUsage.MAPPING, nbytes
    )
    copy_buffer(buffer, staging, device)
    return np.array(staging.map().asarray([nbytes], np.dtype(np.uint8)))


def copy_buffer(source: iree.HalBuffer, target: iree.HalBuffer, device: Device) -> None:
    """Copies the whole of `source` on the device's queue and waits."""
    done = device.hal.create_semaphore(0)
    device.hal.queue_copy(source, target, iree.HalFence.create_at(done, 0), iree.HalFence.create_at(done, 1))
    done.wait(1)


def clone_on_device(view: iree.HalBufferView, device: Device) -> iree.HalBufferView:
    """A buffer view of its own memory with the same contents."""
    length = max(view.byte_length, 1)
    memory = _DEVICE_MEMORY | (iree.MemoryType.HOST_VISIBLE if device.is_host else 0)
    usage = iree.BufferUsage.DEFAULT | (iree.BufferUsage.MAPPING if device.is_host else 0)
    copy = device.hal.allocator.allocate_buffer(memory, usage, length)
    if view.byte_length:
        copy_buffer(view.get_buffer(), copy, device)
    return iree.HalBufferView(copy, list(view.shape), view.element_type)


def torch_is_loaded() -> bool:
    """Whether the process has imported torch, so that torch tensors can be made without importing it."""
    return "torch" in sys.modules
