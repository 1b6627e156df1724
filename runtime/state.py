"""The state of an executable: the buffers its calls update, by the model's names for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from . import dtypes, structure, tensors
from .device import Device
from .errors import ArgumentError
from .manifest import TensorSpec
from .sharing import Span


class StateTensor(NamedTuple):
    """A state tensor on the device. span: its place in host memory, NOWHERE on devices with their own."""

    view: Any
    buffer: Any
    span: Span

    @classmethod
    def of(cls, view: Any, device: Device) -> StateTensor:
        """The state tensor in `view`, which nobody else may write to."""
        return cls(view, view.get_buffer(), tensors.span_of_view(view, device))


class State:
    """State tensors on a device, updated in place by calls.

    lock: held by a call from reading the state to storing it, so calls on one state never interleave.
    tensors: current value of each.
    """

    def __init__(
        self, initial: Callable[[], list[Any]], specs: Mapping[str, TensorSpec], device: Device
    ) -> None:
        self.lock = threading.Lock()
        self._initial = initial
        self._specs = specs
        self._device = device
        self.tensors: dict[str, StateTensor] = {}
        self.reset()

    def __del__(self) -> None:
        # Before the device, which may be closed with the last executable on it.
        self.tensors = {}

    def reset(self) -> None:
        """Back to the initial values."""
        fresh = self._initial() if self._specs else []
        self._replace(dict(zip(self._specs, fresh, strict=True)))

    def snapshot(self, names: Collection[str] | None = None) -> dict[str, Any]:
        """Copies of all tensors, or of those named; later calls do not change them."""
        with self.lock:
            copies = {
                name: tensors.clone_on_device(self.tensors[name].view, self._device)
                for name in (self.tensors if names is None else names)
            }
        want_torch = tensors.torch_is_loaded()
        return {name: self._on_host(name, view, want_torch) for name, view in copies.items()}

    def _on_host(self, name: str, view: Any, want_torch: bool) -> Any:
        dtype = dtypes.BY_NAME[self._specs[name].dtype]
        array = tensors.from_device(view, dtype, self._device)
        return tensors.to_torch(array, dtype) if want_torch else array

    def update(self, values: Mapping[str, Any]) -> None:
        """Copies `values` over some of the tensors, all or none. Raises ArgumentError for what does not fit."""
        views = {name: self._checked_copy(name, value) for name, value in values.items()}
        fresh = {name: StateTensor.of(view, self._device) for name, view in views.items()}
        with self.lock:
            self.tensors = {**self.tensors, **fresh}

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
        self._replace({name: self._checked_copy(name, values[name]) for name in self._specs})

    def _replace(self, views: Mapping[str, Any]) -> None:
        fresh = {name: StateTensor.of(view, self._device) for name, view in views.items()}
        with self.lock:
            self.tensors = fresh

    def _checked_copy(self, name: str, value: Any) -> Any:
        spec = self._specs[name]
        if not tensors.is_array(value):
            raise ArgumentError(f"state '{name}' must be a tensor {spec}, got {structure.describe(value)}")
        try:
            array = tensors.as_array(value)
        except tensors.UnreadableError as error:
            raise ArgumentError(f"state '{name}' must be {spec}: {error}") from error
        dtype = tensors.dtype_of(array)
        found = TensorSpec(dtype.name, tuple(array.shape)) if dtype else f"{array.dtype}"
        if found != spec:
            raise ArgumentError(f"state '{name}' must be {spec}, got {found}")
        return tensors.copy_to_device(array, dtypes.BY_NAME[spec.dtype], self._device)
