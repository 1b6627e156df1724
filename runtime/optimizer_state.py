"""An optimizer's state between the artifact's form, named tensors, and that of ``Optimizer.state_dict()``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import structure
from .dtypes import BY_NAME
from .errors import ArgumentError
from .manifest import TensorSpec
from .tensors import is_torch, to_numpy
from .training_manifest import STEPS, ParameterGroup, Training, rate_name

# What a state begins with where that is not zero.
_FIRST = {"mu_product": 1}


def to_torch_form(training: Training, values: Mapping[str, Any]) -> dict[str, Any]:
    """``Optimizer.state_dict()`` from tensors by name. An optimizer that did no step has no state in PyTorch."""
    has_state = not training.begins_empty or int(values[STEPS]) > 0
    groups: list[dict[str, Any]] = []
    state: dict[int, dict[str, Any]] = {}
    count = 0
    for number, group in enumerate(training.groups):
        indices = list(range(count, count + len(group.parameters)))
        count += len(indices)
        options = {key: structure.unflatten(node, []) for key, node in group.options.items()}
        groups.append({"lr": float(values[rate_name(number)]), **options, "params": indices})
        for index, name in zip(indices, group.parameters, strict=True):
            if has_state and group.state[name]:
                state[index] = {key: _own(values[place]) for key, place in group.state[name].items()}
    return {"state": state, "param_groups": groups}


def from_torch_form(
    training: Training, specs: Mapping[str, TensorSpec], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Tensors by name from ``Optimizer.state_dict()``. Raises ArgumentError for another optimizer's."""
    if not isinstance(given, Mapping) or not {"state", "param_groups"} <= given.keys():
        raise ArgumentError("the optimizer's state must be a dict with 'state' and 'param_groups'")
    groups, states = given["param_groups"], given["state"]
    if len(groups) != len(training.groups):
        raise ArgumentError(f"the optimizer has {len(training.groups)} parameter groups, got {len(groups)}")
    found: dict[str, Any] = {}
    for number, (group, own) in enumerate(zip(groups, training.groups, strict=True)):
        _check_group(number, group, own)
        found[rate_name(number)] = np.float64(group["lr"])
        for index, name in zip(group["params"], own.parameters, strict=True):
            _add(found, specs, name, own.state[name], states.get(index) or {})
    _refuse_late_dampening(training, groups, states)
    found[STEPS] = np.int64(_steps(states))
    return found


def is_empty(value: Any) -> bool:
    """Whether a tensor or array has no elements, which weights files leave out."""
    return 0 in tuple(value.shape)


def _own(value: Any) -> Any:
    """A copy: numbers that parameters share here are each parameter's own in PyTorch."""
    return value.clone() if is_torch(value) else np.array(value)


def _check_group(number: int, given: Mapping[str, Any], own: ParameterGroup) -> None:
    if len(given["params"]) != len(own.parameters):
        raise ArgumentError(
            f"parameter group {number} has {len(own.parameters)} parameters, got {len(given['params'])}"
        )
    for key in own.compared:
        compiled = structure.unflatten(own.options[key], [])
        value = given.get(key, compiled)
        value = type(compiled)(value) if isinstance(value, (tuple, list)) else value
        if value != compiled:
            raise ArgumentError(
                f"parameter group {number} was compiled with {key}={compiled!r}, got {value!r}; compile again for it"
            )


def _add(
    found: dict[str, Any],
    specs: Mapping[str, TensorSpec],
    name: str,
    places: Mapping[str, str],
    state: Mapping[str, Any],
) -> None:
    state = {key: value for key, value in state.items() if value is not None}
    unknown = [key for key in state if key not in places]
    missing = [key for key in places if key not in state] if state else []
    if unknown or missing:
        raise ArgumentError(
            f"the optimizer's state of '{name}' has {sorted(state)}, expected {sorted(places)}"
        )
    for key, place in places.items():
        value = state[key] if state else _first(key, specs[place])
        value = _as_array(value, specs[place])
        if place in found and not np.array_equal(to_numpy(found[place]), to_numpy(value)):
            raise ArgumentError(
                f"'{key}' of '{name}' differs from that of other parameters, and the step was compiled with one for "
                "all of the group; compile again from this optimizer"
            )
        found[place] = value


def _first(key: str, spec: TensorSpec) -> Any:
    return np.full([int(dim) for dim in spec.shape], _FIRST.get(key, 0), BY_NAME[spec.dtype].numpy)


def _as_array(value: Any, spec: TensorSpec) -> Any:
    """Older checkpoints count steps with Python numbers."""
    return np.asarray(value, BY_NAME[spec.dtype].numpy) if isinstance(value, (int, float)) else value


def _steps(states: Mapping[Any, Mapping[str, Any]]) -> int:
    counts = [int(state["step"]) for state in states.values() if "step" in state]
    return max(counts, default=int(any(map(_has_begun, states.values()))))


def _has_begun(state: Mapping[str, Any]) -> bool:
    return any(value is not None for value in state.values())


def _refuse_late_dampening(
    training: Training, groups: Sequence[Mapping[str, Any]], states: Mapping[Any, Mapping[str, Any]]
) -> None:
    """SGD's first step of a parameter is not damped; a compiled step does its first for all of them at once."""
    if not any(map(_has_begun, states.values())):
        return
    for group, own in zip(groups, training.groups, strict=True):
        names = zip(group["params"], own.parameters, strict=True)
        late = [name for index, name in names if own.state[name] and not _has_begun(states.get(index) or {})]
        if late and group.get("dampening") and group.get("momentum"):
            raise ArgumentError(
                f"'{late[0]}' has no momentum yet while other parameters have, and the optimizer has dampening; do a "
                "step of PyTorch's with all of them first"
            )
