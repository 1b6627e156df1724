"""What a manifest says about a training step: which state tensors are the model's, which the optimizer's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

STEPS = "step.count"
"""State: how many updates were done, int64."""


SCALE, TRACKER = "scaler.scale", "scaler.growth_tracker"
"""State of a loss scale: float32, and since how many steps it has not changed, int32."""

SKIPPED = "step.skipped"
"""State beside a loss scale: how many updates were left out for gradients that were not finite, int64."""


def rate_name(group: int) -> str:
    """State: the learning rate of a parameter group, float64."""
    return f"step.rate.{group}"


@dataclass(frozen=True)
class ParameterGroup:
    """One parameter group of the optimizer.

    parameters: in the optimizer's order. options: structure nodes of its other settings, as they are compiled in;
    compared: those of them that decide what a step computes. state: parameter -> key -> state tensor.
    """

    parameters: tuple[str, ...]
    options: dict[str, dict[str, Any]]
    compared: tuple[str, ...]
    state: dict[str, dict[str, str]]


@dataclass(frozen=True)
class Scaler:
    """The settings of a loss scale, as `torch.amp.GradScaler` calls them."""

    growth_factor: float
    backoff_factor: float
    growth_interval: int


@dataclass(frozen=True)
class Training:
    """The training step of an artifact.

    model: name in the model's state_dict -> state tensor; tied names share one.
    optimizer: class name. begins_empty: PyTorch's optimizer has no state before its first step.
    scaler: of its loss scale, if it has one.
    """

    model: dict[str, str]
    optimizer: str
    groups: tuple[ParameterGroup, ...]
    begins_empty: bool
    scaler: Scaler | None = None


def parse(data: dict[str, Any] | None) -> Training | None:
    """The part `training` of a manifest; None for an artifact without."""
    if data is None:
        return None
    groups = tuple(
        ParameterGroup(tuple(g["parameters"]), g["options"], tuple(g["compared"]), g["state"])
        for g in data["groups"]
    )
    scaler = data.get("scaler")
    return Training(
        data["model"], data["optimizer"], groups, data["begins_empty"], Scaler(**scaler) if scaler else None
    )
