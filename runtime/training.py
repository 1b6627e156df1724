"""A loaded training step: call it with batches, move its state from and to PyTorch, keep it in files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from . import optimizer_state, weights
from .artifact import write_whole
from .calls import EntryCall
from .draws import NumpySource
from .errors import ArgumentError, ArtifactError
from .executable import Executable
from .manifest import TensorSpec
from .optimizer_state import is_empty
from .tensors import to_numpy
from .training_manifest import SCALE, SKIPPED, STEPS, TRACKER, Training, rate_name


class TrainingStep(Executable):
    """A training step on a device.

    ``step(*batch)`` runs forward, backward and the update, and returns the loss. ``step.forward(*inputs)`` is the
    model in evaluation mode, ``step.loss_and_gradients(*batch)`` returns the loss and a dict of gradients by
    parameter, and ``step.apply_gradients(gradients)`` updates with them (summed, averaged or changed in between).
    """

    _seed: int | None = None
    _drawn: tuple[int, int] = (-1, 0)  # after how many steps numbers were drawn last, and how many times

    @property
    def training(self) -> Training:
        """What the state stands for."""
        found = self.manifest.training
        assert found is not None
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One step; the loss."""
        return self._run(self._call_of("train_step"), args, kwargs)

    def _run(self, call: EntryCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return call(self._state, args, kwargs, self._source() if call.draws else None)

    def _source(self) -> NumpySource | None:
        """A generator of its own for each call, so that micro-batches of one step draw different numbers."""
        if self._seed is None:
            return None
        steps, (before, count) = self.steps + self.skipped, self._drawn
        self._drawn = steps, count + 1 if steps == before else 0
        return NumpySource([self._seed, *self._drawn])

    def seed(self, value: int | None) -> None:
        """From now on random numbers come from NumPy, with or without torch.

        They are seeded by `value`, the step's number and that of the call since the step before, so that a run that
        is resumed draws what it would have drawn. None: from torch's generator again, where it is.
        """
        if value is not None and value < 0:
            raise ArgumentError(f"a seed must not be negative, got {value}")
        self._seed = value
        self._drawn = -1, 0

    @property
    def steps(self) -> int:
        """How many updates were done, including those before the step was compiled as far as PyTorch counts them."""
        return int(self._state.snapshot([STEPS])[STEPS])

    @property
    def skipped(self) -> int:
        """How many updates were left out, as gradients were not finite; 0 without a loss scale."""
        if self.training.scaler is None:
            return 0
        return int(self._state.snapshot([SKIPPED])[SKIPPED])

    @property
    def learning_rates(self) -> list[float]:
        """The learning rate of each parameter group."""
        names = self._rate_names()
        values = self._state.snapshot(names)
        return [float(values[name]) for name in names]

    @learning_rates.setter
    def learning_rates(self, value: float | Sequence[float]) -> None:
        names = self._rate_names()
        rates = _as_rates(value, len(names))
        if len(rates) != len(names):
            raise ArgumentError(f"the optimizer has {len(names)} parameter groups, got {len(rates)} rates")
        self._state.update({name: np.float64(rate) for name, rate in zip(names, rates, strict=True)})

    def _rate_names(self) -> list[str]:
        return [rate_name(i) for i in range(len(self.training.groups))]

    def state_dict(self) -> dict[str, Any]:
        """The model's parameters and buffers, as ``model.state_dict()`` has them."""
        places = self.training.model
        values = self._state.snapshot(set(places.values()))
        return {name: values[place] for name, place in places.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Sets parameters and buffers, all or none.

        Raises ArgumentError for missing or unknown names, dtypes and shapes, and for tied names that differ.
        """
        places = self.training.model
        missing = [name for name in places if name not in state]
        unknown = [name for name in state if name not in places]
        if missing or unknown:
            raise ArgumentError(
                "the state is not this model's"
                + (f"; missing {missing[:4]}" if missing else "")
                + (f"; unknown {unknown[:4]}" if unknown else "")
            )
        values: dict[str, Any] = {}
        for name, place in places.items():
            if place in values and not _same(values[place], state[name]):
                raise ArgumentError(
                    f"'{name}' is tied to another name of the model, and the two values differ"
                )
            values[place] = state[name]
        self._state.update(values)

    def optimizer_state_dict(self) -> dict[str, Any]:
        """What PyTorch's optimizer would have as ``state_dict()``; its ``load_state_dict`` takes it."""
        groups = self.training.groups
        places = {place for group in groups for keys in group.state.values() for place in keys.values()}
        values = self._state.snapshot({*places, *self._rate_names(), STEPS})
        return optimizer_state.to_torch_form(self.training, values)

    def load_optimizer_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes what an optimizer of the same class and settings has as ``state_dict()``, learning rates included.

        Raises ArgumentError for other parameters, or settings that differ from those compiled in.
        """
        values = optimizer_state.from_torch_form(self.training, self.manifest.state, state)
        self._state.update(values)

    def scaler_state_dict(self) -> dict[str, Any]:
        """What PyTorch's GradScaler would have as ``state_dict()``; empty where the step has no loss scale."""
        settings = self.training.scaler
        if settings is None:
            return {}
        values = self._state.snapshot([SCALE, TRACKER])
        return {
            "scale": float(values[SCALE]),
            **asdict(settings),
            "_growth_tracker": int(values[TRACKER]),
        }

    def load_scaler_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes what a GradScaler of the same settings has as ``state_dict()``.

        Raises ArgumentError for other settings than those compiled in, and where the step has no loss scale.
        """
        own, settings = self.scaler_state_dict(), self.training.scaler
        if settings is None or own.keys() != state.keys():
            raise ArgumentError(
                f"the step's loss scale has {sorted(own) or 'no state: it was compiled without a scaler'}, "
                f"got {sorted(state)}"
            )
        for key in asdict(settings):
            if state[key] != own[key]:
                raise ArgumentError(
                    f"the loss scale was compiled with {key}={own[key]}, got {state[key]}; compile again for it"
                )
        scale, tracker = np.float32(state["scale"]), np.int32(state["_growth_tracker"])
        self._state.update({SCALE: scale, TRACKER: tracker})

    def save(self, path: str | os.PathLike[str]) -> list[Path]:
        """Writes the `.vmfb`, and beside it the current state in a `.irpa`; returns the files."""
        with tempfile.TemporaryDirectory(prefix="pipeline-") as folder:
            archive = Path(folder) / "state.irpa"
            weights.write(archive, self._all_tensors())
            return replace(self._artifact, weights=archive).save(path)

    def save_checkpoint(self, path: str | os.PathLike[str]) -> Path:
        """Writes the current state alone, as a `.irpa` that appears whole or not at all.

        `load_checkpoint` takes it back, and so does ``pipeline.load(artifact, weights=path)``.
        """
        target = Path(path)
        with tempfile.TemporaryDirectory(prefix="pipeline-") as folder:
            archive = Path(folder) / "state.irpa"
            weights.write(archive, self._all_tensors())
            return write_whole(archive, target, move=False)

    def load_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Sets model, optimizer, learning rates and count of steps. Raises ArtifactError for another model's file."""
        archive = Path(path)
        if not archive.is_file():
            raise ArtifactError(f"{archive}: no such file")
        weights.check(archive, self.manifest.weights.table)
        self._state.set(weights.read(archive, self.manifest.state))

    def _all_tensors(self) -> dict[str, Any]:
        """The state, and the weights that no step changes."""
        state = self._state.snapshot()
        fixed: dict[str, TensorSpec] = {
            name: spec for name, spec in self.manifest.weights.table.items() if name not in state
        }
        found = {name: value for name, value in state.items() if not is_empty(value)}
        if fixed:
            assert self._artifact.weights is not None
            found |= weights.read(self._artifact.weights, fixed)
        return found


def _as_rates(value: Any, count: int) -> list[float]:
    """`value`, a number (one of NumPy's or a tensor too) for all groups or one for each."""
    try:
        return [float(value)] * count if np.ndim(value) == 0 else [float(part) for part in value]
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"learning_rates must be a number or a sequence of numbers, got {value!r}"
        ) from error


def _same(first: Any, second: Any) -> bool:
    return first is second or bool(np.array_equal(to_numpy(first), to_numpy(second), equal_nan=True))
