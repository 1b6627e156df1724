"""`Program`: captured entry points and the tensors they share, the input of every later stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from pipeline.runtime.dims import Bounds
from pipeline.runtime.manifest import EntryPoint
from pipeline.runtime.training_manifest import Training

from .custom_calls import Choice, Definition

Role = Literal["input", "draw", "state", "weight"]


@dataclass(frozen=True)
class Argument:
    """One argument of an imported function: what it stands for, and its name in that role."""

    role: Role
    name: str


@dataclass
class EntryGraph:
    """A captured entry point.

    module: FX graph in Torch's functional ATen form. Its placeholders are `arguments` in order; it
        returns the user's outputs, then updated inputs, then updated state, as `signature` says.
    signature: what the manifest will say about it.
    """

    name: str
    module: torch.fx.GraphModule
    arguments: list[Argument]
    signature: EntryPoint


@dataclass
class Program:
    """Everything that was captured of a model.

    weights: tensors that no call changes, by name; tied ones appear once. The user's own memory, not copied.
    state: buffers that some entry point updates, with their value at capture.
    dimensions: bounds of each dynamic symbol.
    examples: the example inputs per entry point, flat, as given by the user.
    definitions: functions that calls of custom operators became, by symbol. choices: what each such call got.
    training: for a training step, what its state stands for.
    """

    entries: dict[str, EntryGraph]
    weights: dict[str, torch.Tensor]
    state: dict[str, torch.Tensor]
    dimensions: dict[str, Bounds]
    examples: dict[str, list[Any]]
    notes: list[str] = field(default_factory=list)
    definitions: dict[str, Definition] = field(default_factory=dict)
    choices: list[Choice] = field(default_factory=list)
    training: Training | None = None
