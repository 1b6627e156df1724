"""The state of an executable: the buffers its calls update, by the model's names for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from . import dtypes, tensors
from .device import Device
from .errors import ArgumentError
from .manifest import TensorSpec


class State:
    """State tensors on a device, updated in place by calls.

    lock: held by a call from reading the state to storing it, so calls on one state never interleave.
    buffers: current buffer view of each state tensor.
    """

    def __init__(
        self, initial: Callable[[], list[Any]], specs: Mapping[str, TensorSpec], device: Device
    ) -> None:
        self.lock = threading.Lock()
        self._initial = initial
        self._specs = specs
        self._device = device
        self.buffers: dict[str, Any] = {}
        self.reset()

    def reset(self) -> None:
        """Back to the initial values."""
        with self.lock:
            self.buffers = dict(zip(self._specs, self._initial() if self._specs else [], strict=True))

    def snapshot(self) -> dict[str, Any]:
        """Copies of all tensors; later calls do not change them."""
        want_torch = tensors.torch_is_loaded()
        with self.lock:
            return {
                name: tensors.from_device(
                    tensors.clone_on_device(view, self._device),
                    dtypes.BY_NAME[self._specs[name].dtype],
                    self._device,
                    want_torch,
                )
                for name, view in self.buffers.items()
            }

    def set(self, values: Mapping[str, Any]) -> None:
        """Copies `values` in, all or none. Raises ArgumentError naming the tensor that does not fit."""
        unknown = [name for name in values if name not in self._specs]
        missing = [name for name in self._specs if name not in values]
        if unknown or missing:
            raise ArgumentError(
                f"the state is {list(self._specs)}"
                + (f"; missing {missing}" if missing else "")
                + (f"; unknown {unknown}" if unknown else "")
            )
        fresh = {name: self._checked_copy(name, value) for name, value in values.items()}
        with self.lock:
            self.buffers = {name: fresh[name] for name in self._specs}

    def _checked_copy(self, name: str, value: Any) -> Any:
        spec = self._specs[name]
        array = tensors.as_array(value)
        dtype = tensors.dtype_of(array)
        found = TensorSpec(dtype.name, tuple(array.shape)) if dtype else f"{array.dtype}"
        if found != spec:
            raise ArgumentError(f"state '{name}' must be {spec}, got {found}")
        view = tensors.to_device(array, dtypes.BY_NAME[spec.dtype], self._device)
        return tensors.clone_on_device(view, self._device)
