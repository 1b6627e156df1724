"""A loaded artifact: call it with tensors, read and set its state, save it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .artifact import Artifact
from .calls import EntryCall, Program
from .device import Device, open_for
from .errors import ArgumentError, ArtifactError
from .manifest import Manifest
from .state import State


class Executable:
    """An artifact on a device.

    ``exe(...)`` calls its only entry point (or the one named ``main``); ``exe.NAME(...)`` and
    ``exe.entry_point(NAME)(...)`` call the others. Results nest like the model's; they are torch
    tensors, or NumPy arrays when only NumPy arrays were passed. Calls on one state are serialised;
    `new_state` gives an independent one over the same weights.
    """

    def __init__(
        self, artifact: Artifact, *, device: str | None = None, bound: Mapping[str, Any] | None = None
    ) -> None:
        """bound: tensors by name, for an artifact that was compiled to be given its weights here.

        Their memory is read now, and may be read by later calls: whoever changes them loads the artifact again.
        """
        opened = open_for(artifact.manifest, device, artifact.vmfb.name)
        if artifact.manifest.weights.storage == "bound" and bound is None:
            raise ArtifactError(f"{artifact.vmfb}: its weights must be given by whoever loads it")
        self._set_up(artifact, opened, Program(artifact, opened, bound))

    def _set_up(self, artifact: Artifact, device: Device, program: Program) -> None:
        self._artifact = artifact
        self._device = device
        self._program = program
        self._state = State(program.initial_state, artifact.manifest.state, device)
        self._default = program.calls.get(self._default_name())

    @property
    def manifest(self) -> Manifest:
        """What the artifact says about itself."""
        return self._artifact.manifest

    @property
    def device(self) -> Device:
        """The device it was loaded onto."""
        return self._device

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the only entry point, or the one named ``main``."""
        return self._run(self._default or self._call_of(None), args, kwargs)

    def entry_point(self, name: str | None = None) -> Callable[..., Any]:
        """The callable of an entry point. Raises ArgumentError listing the names when it is not there."""
        call = self._call_of(name)
        return lambda *args, **kwargs: self._run(call, args, kwargs)

    def _run(self, call: EntryCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return call(self._state, args, kwargs)

    def _default_name(self) -> str:
        calls = self._program.calls
        return next(iter(calls)) if len(calls) == 1 else "main"

    def _call_of(self, name: str | None) -> EntryCall:
        calls = self._program.calls
        chosen = name or self._default_name()
        if chosen not in calls:
            raise ArgumentError(
                f"no entry point '{chosen}'; this artifact has: {', '.join(calls)}"
                if name
                else f"this artifact has several entry points, call one by name: {', '.join(calls)}"
            )
        return calls[chosen]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.manifest.entry_points:
            raise AttributeError(f"{type(self).__name__} has no attribute or entry point '{name}'")
        return self.entry_point(name)

    def state_dict(self) -> dict[str, Any]:
        """A snapshot of the state by buffer name (torch tensors where torch is imported)."""
        return self._state.snapshot()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Sets the state. Raises ArgumentError for missing or unknown names, dtypes and shapes."""
        self._state.set(state)

    def reset(self) -> None:
        """Puts the state back to its value at compile time."""
        self._state.reset()

    def new_state(self) -> Executable:
        """An executable with a state of its own, at the initial value, that shares program and weights."""
        fork = object.__new__(type(self))
        fork._set_up(self._artifact, self._device, self._program)
        return fork

    def save(self, path: str | os.PathLike[str]) -> list[Path]:
        """Writes the `.vmfb` (and its `.irpa`); returns the files. The current state is not part of it."""
        return self._artifact.save(path)

    def __repr__(self) -> str:
        names = ", ".join(self.manifest.entry_points)
        return f"<Executable {names} on {self._device.uri}>"
