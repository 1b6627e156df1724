"""What an artifact says about itself: JSON that travels inside the `.vmfb` as a reflection attribute."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from . import dtypes
from .dims import Bounds, Dim
from .errors import ArtifactError
from .training_manifest import Training
from .training_manifest import parse as parse_training

FORMAT = 1
"""Raised when a reader of the older format would misunderstand the newer one."""

REFLECTION_KEY = "pipeline.manifest"
WEIGHTS_SCOPE = "model"
INITIAL_STATE = "initial_state"
"""Exported function that returns the initial value of every state tensor, in the manifest's order."""


@dataclass(frozen=True)
class TensorSpec:
    """A tensor in a signature: dtype name and dimensions (int, or an expression over dynamic symbols)."""

    dtype: str
    shape: tuple[Dim, ...]

    def __str__(self) -> str:
        return "x".join([*map(str, self.shape), dtypes.BY_NAME[self.dtype].short])


@dataclass(frozen=True)
class ValueSpec:
    """One flat input or output.

    name: as a user would write it (``input_ids``, ``cache[0]['key']``).
    kind: "tensor", or "int" for a symbolic Python int.
    """

    name: str
    kind: str
    tensor: TensorSpec | None = None

    def __str__(self) -> str:
        return str(self.tensor) if self.tensor else self.kind


@dataclass(frozen=True)
class Parameter:
    """One Python parameter of an entry point, with the structure of what it takes."""

    name: str
    positional: bool
    structure: dict[str, Any]


@dataclass(frozen=True)
class Draw:
    """Random numbers that every call draws anew.

    method: as torch names it (``bernoulli_``, ``normal_``, ...). arguments: numbers, or expressions over
    dynamic symbols. order: the axes from outermost to innermost in memory, the order of drawing.
    """

    method: str
    arguments: tuple[Any, ...]
    tensor: TensorSpec
    order: tuple[int, ...]


@dataclass(frozen=True)
class EntryPoint:
    """One callable of the artifact.

    The function takes the flat inputs, then one tensor per draw, then the state named in `state_inputs`.
    It returns the flat outputs, then a new value for each input number in `mutated_inputs`, then for each
    name in `state_outputs`.
    """

    name: str
    parameters: tuple[Parameter, ...]
    inputs: tuple[ValueSpec, ...]
    outputs: tuple[ValueSpec, ...]
    result: dict[str, Any]
    mutated_inputs: tuple[int, ...] = ()
    state_inputs: tuple[str, ...] = ()
    state_outputs: tuple[str, ...] = ()
    draws: tuple[Draw, ...] = ()
    example: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WeightsInfo:
    """Where the weights are and what they must be, by name.

    storage: "none", "inline", "external" (a file beside the artifact) or "bound" (given by whoever loads it).
    """

    storage: str
    table: dict[str, TensorSpec]

    @property
    def nbytes(self) -> int:
        """Bytes of all weights."""
        return sum(spec_nbytes(spec) for spec in self.table.values())


@dataclass(frozen=True)
class Manifest:
    """The whole self-description; see the field types."""

    versions: dict[str, str]
    targets: tuple[dict[str, Any], ...]
    dimensions: dict[str, Bounds]
    weights: WeightsInfo
    state: dict[str, TensorSpec]
    entry_points: dict[str, EntryPoint]
    notes: tuple[str, ...] = ()
    training: Training | None = None
    format: int = FORMAT

    def to_json(self) -> str:
        """Canonical JSON: the same manifest is the same bytes."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), allow_nan=False)


def spec_nbytes(spec: TensorSpec) -> int:
    """Bytes of a static tensor."""
    total = dtypes.BY_NAME[spec.dtype].itemsize
    for dim in spec.shape:
        total *= int(dim)
    return total


def parse(text: str, where: str) -> Manifest:
    """The manifest in `text`. Raises ArtifactError naming `where` for another format or broken JSON."""
    damaged = f"{where}: its manifest is damaged; compile the model again"
    try:
        data = json.loads(text)
        found = data["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError(damaged) from error
    if found != FORMAT:
        raise ArtifactError(
            f"{where}: made with manifest format {found}, this version of pipeline reads format {FORMAT}; "
            "compile the model again with the installed version"
        )
    try:
        return _manifest(data)
    except (KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(damaged) from error


def _manifest(data: dict[str, Any]) -> Manifest:
    return Manifest(
        versions=data["versions"],
        targets=tuple(data["targets"]),
        dimensions={name: Bounds(**bounds) for name, bounds in data["dimensions"].items()},
        weights=WeightsInfo(data["weights"]["storage"], _specs(data["weights"]["table"])),
        state=_specs(data["state"]),
        entry_points={name: _entry_point(entry) for name, entry in data["entry_points"].items()},
        notes=tuple(data["notes"]),
        training=parse_training(data.get("training")),
    )


def _spec(data: dict[str, Any]) -> TensorSpec:
    return TensorSpec(data["dtype"], tuple(data["shape"]))


def _specs(table: dict[str, Any]) -> dict[str, TensorSpec]:
    return {name: _spec(data) for name, data in table.items()}


def _values(items: list[dict[str, Any]]) -> tuple[ValueSpec, ...]:
    return tuple(
        ValueSpec(item["name"], item["kind"], _spec(item["tensor"]) if item["tensor"] else None)
        for item in items
    )


def _draw(data: dict[str, Any]) -> Draw:
    return Draw(data["method"], tuple(data["arguments"]), _spec(data["tensor"]), tuple(data["order"]))


def _entry_point(data: dict[str, Any]) -> EntryPoint:
    return EntryPoint(
        name=data["name"],
        parameters=tuple(Parameter(**item) for item in data["parameters"]),
        inputs=_values(data["inputs"]),
        outputs=_values(data["outputs"]),
        result=data["result"],
        mutated_inputs=tuple(data["mutated_inputs"]),
        state_inputs=tuple(data["state_inputs"]),
        state_outputs=tuple(data["state_outputs"]),
        draws=tuple(_draw(item) for item in data["draws"]),
        example=data["example"],
    )
