"""The loss scale of mixed precision, as `torch.amp.GradScaler` keeps it, inside of the step.

A step does what PyTorch's loop does: ``scaler.scale(loss).backward()``, ``scaler.unscale_(optimizer)``, clipping,
``scaler.step(optimizer)``, ``scaler.update()``. What the scaler has beside its numbers is compiled in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from pipeline.errors import InputError
from pipeline.runtime.training_manifest import SCALE, SKIPPED, TRACKER, Scaler

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class LossScale:
    """A scaler in the middle of its run. settings: what is compiled in. scale, tracker: its numbers now."""

    settings: Scaler
    scale: float
    tracker: int

    def initial(self) -> Tensors:
        """Its state by name; beside PyTorch's, how many updates were left out."""
        return {
            SCALE: torch.tensor(self.scale, dtype=torch.float32),
            TRACKER: torch.tensor(self.tracker, dtype=torch.int32),
            SKIPPED: torch.tensor(0, dtype=torch.int64),
        }

    def updated(self, scale: torch.Tensor, tracker: torch.Tensor, finite: torch.Tensor) -> Tensors:
        """The state after a step whose gradients were finite, or were not."""
        settings = self.settings
        grown = (scale.double() * settings.growth_factor).float()
        due = tracker + 1 == settings.growth_interval
        larger = torch.where(due & grown.isfinite(), grown, scale)
        smaller = (scale.double() * settings.backoff_factor).float()
        return {
            SCALE: torch.where(finite, larger, smaller),
            TRACKER: torch.where(finite & ~due, tracker + 1, torch.zeros_like(tracker)),
        }


def read_scaler(scaler: Any, parameters: Mapping[str, torch.Tensor]) -> LossScale | None:
    """The scale of a `torch.amp.GradScaler`; None without one and for one that is not enabled.

    parameters: those with gradients. Raises InputError for what is no scaler, and for float16 parameters, whose
    gradients PyTorch does not unscale.
    """
    if scaler is None:
        return None
    if not isinstance(scaler, torch.amp.GradScaler):
        raise InputError(f"scaler must be a torch.amp.GradScaler, got {type(scaler).__name__}")
    if not scaler.is_enabled():
        return None
    narrow = [name for name, parameter in parameters.items() if parameter.dtype == torch.float16]
    if narrow:
        raise InputError(
            f"scaler: the parameter '{narrow[0]}' is float16, and PyTorch unscales no float16 gradients; keep the "
            "parameters in float32 and compute in float16 with torch.autocast"
        )
    settings = Scaler(
        float(scaler.get_growth_factor()), float(scaler.get_backoff_factor()), scaler.get_growth_interval()
    )
    return LossScale(settings, float(scaler.get_scale()), int(scaler.state_dict()["_growth_tracker"]))


def unscaled(
    gradients: Tensors, trained: Collection[str], scale: torch.Tensor
) -> tuple[Tensors, torch.Tensor]:
    """The gradients, those of `trained` divided by the scale; and whether these are finite, a bool without dimensions.

    As in eager, gradients of parameters that the optimizer does not hold keep their scale.
    """
    inverse = scale.double().reciprocal().float()
    own = {name: gradients[name] for name in trained}
    finite = torch.stack([gradient.isfinite().all() for gradient in own.values()]).all()
    return {**gradients, **{name: _times(gradient, inverse) for name, gradient in own.items()}}, finite


def _times(gradient: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """In float32 at least, rounded once."""
    wide = torch.promote_types(gradient.dtype, torch.float32)
    return (gradient.to(wide) * factor).to(gradient.dtype)
