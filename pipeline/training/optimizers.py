"""The optimizer of a training step: its state as named tensors, and its update as a graph.

Neither is written anew: the first state comes from the class's own ``_init_group``, the graph from its own ``step``,
run on stand-ins for the parameters (see `scalars`).
"""

from __future__ import annotations

import collections
import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn, optim
from torch._functorch.compile_utils import fx_graph_cse
from torch.fx.experimental.proxy_tensor import make_fx

from pipeline.errors import InputError, UnsupportedError
from pipeline.runtime.training_manifest import ParameterGroup
from pipeline.signatures import constant_node

from .scalars import as_number, numbers_stay_tensors

SUPPORTED: tuple[type[optim.Optimizer], ...] = (
    optim.SGD,
    optim.Adam,
    optim.AdamW,
    optim.NAdam,
    optim.RAdam,
    optim.Adagrad,
    optim.RMSprop,
    optim.Adafactor,
    optim.Muon,
)

# Numbers that all parameters of a group have in common, unless some joined it later.
_COUNTS = ("step", "mu_product")

_TRACED = {"foreach": False, "fused": False, "differentiable": False, "capturable": False}

Tensors = dict[str, torch.Tensor]


@dataclass
class Group:
    """One parameter group. options: all that is compiled in, without the learning rate.

    names: its parameters, in the optimizer's order. trained: those that get gradients.
    """

    options: dict[str, Any]
    rate: float
    names: list[str]
    trained: list[str]


@dataclass
class OptimizerState:
    """What an optimizer keeps between steps.

    tensors: its state by name in the artifact. places: parameter -> key in PyTorch's state -> name in `tensors`.
    steps: how many it has done already, as far as its state tells.
    """

    optimizer: optim.Optimizer
    groups: list[Group]
    tensors: Tensors = field(default_factory=dict)
    places: dict[str, dict[str, str]] = field(default_factory=dict)
    steps: int = 0

    @property
    def trained(self) -> list[str]:
        """All parameters that an update changes."""
        return [name for group in self.groups for name in group.trained]

    def described(self) -> tuple[ParameterGroup, ...]:
        """The groups as the manifest has them."""
        compared = _compared(self.optimizer)
        return tuple(
            ParameterGroup(
                parameters=tuple(group.names),
                options={
                    key: _option_node(key, value) for key, value in group.options.items() if _is_plain(value)
                },
                compared=tuple(sorted(compared & group.options.keys())),
                state={name: self.places.get(name, {}) for name in group.names},
            )
            for group in self.groups
        )


def read_optimizer(
    optimizer: optim.Optimizer, parameters: Mapping[str, nn.Parameter], with_gradient: Sequence[str]
) -> OptimizerState:
    """The state of `optimizer`, which may be new or in the middle of a run.

    parameters: the model's, by name. with_gradient: those that the loss depends on; as in eager, the others are
    left as they are, weight decay included.
    Raises UnsupportedError for another class than `SUPPORTED`, InputError for parameters that are not the model's.
    """
    _check_class(optimizer)
    names = {id(parameter): name for name, parameter in parameters.items()}
    groups = [_group(optimizer, group, names, set(with_gradient)) for group in optimizer.param_groups]
    state = OptimizerState(optimizer, groups)
    for number, values in enumerate(_states(optimizer, names, groups)):
        _add_states(state, number, values)
    for name, values in _states_at_rest(optimizer, names, state.trained).items():
        _add_state(state, name, values, shared=(), number=0)
    _refuse_late_dampening(state)
    state.steps = _steps_done(optimizer)
    return state


def _check_class(optimizer: Any) -> None:
    if type(optimizer) not in SUPPORTED:
        known = ", ".join(cls.__name__ for cls in SUPPORTED)
        name = f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
        if not isinstance(optimizer, optim.Optimizer):
            raise InputError(f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}")
        raise UnsupportedError(f"the optimizer {name} cannot be compiled; these of torch.optim can: {known}")
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise UnsupportedError("the optimizer has step hooks, which a compiled step would not call")


def _compared(optimizer: optim.Optimizer) -> set[str]:
    """The settings that decide what a step computes."""
    return set(optimizer.defaults) - {"lr", *_TRACED}


def _group(
    optimizer: optim.Optimizer, group: dict[str, Any], names: Mapping[int, str], with_gradient: set[str]
) -> Group:
    found = []
    for parameter in group["params"]:
        if id(parameter) not in names:
            raise InputError(
                f"the optimizer holds a parameter of shape {list(parameter.shape)} that is not the model's"
            )
        found.append(names[id(parameter)])
    options = {key: value for key, value in group.items() if key not in ("params", "lr")}
    for key in _compared(optimizer) & options.keys():
        if not _is_plain(options[key]):
            raise UnsupportedError(f"the optimizer's {key} is a tensor; only the learning rate may be one")
    return Group(options, float(group["lr"]), found, [name for name in found if name in with_gradient])


def _states(
    optimizer: optim.Optimizer, names: Mapping[int, str], groups: Sequence[Group]
) -> list[dict[str, Tensors]]:
    """Per group the state of each trained parameter: what there is, and what the first step would begin with."""
    found = []
    for group, own in zip(optimizer.param_groups, groups, strict=True):
        parameters = {
            names[id(parameter)]: parameter
            for parameter in group["params"]
            if names[id(parameter)] in own.trained
        }
        stand_ins = {name: _with_zero_gradient(parameter) for name, parameter in parameters.items()}
        given = {stand_ins[name]: dict(optimizer.state.get(p, {})) for name, p in parameters.items()}
        begun = {key: False for key in _TRACED if key in group}
        copy = _copy(optimizer, [{**group, **begun, "params": list(stand_ins.values())}], given)
        _begin(copy)
        found.append({name: _tensors(copy, stand_in) for name, stand_in in stand_ins.items()})
    return found


def _states_at_rest(
    optimizer: optim.Optimizer, names: Mapping[int, str], trained: Collection[str]
) -> dict[str, Tensors]:
    """The state from earlier steps of parameters that get no gradient now, which no step changes."""
    return {
        names[id(parameter)]: {
            key: torch.as_tensor(value) for key, value in values.items() if value is not None
        }
        for parameter, values in optimizer.state.items()
        if id(parameter) in names and names[id(parameter)] not in trained
    }


def _traced(optimizer: optim.Optimizer, group: dict[str, Any]) -> dict[str, Any]:
    """The settings that choose among PyTorch's implementations, for tracing: the one that says most plainly what to do.

    RAdam looks at its step count in Python, but where it is capturable.
    """
    found = _TRACED | {"capturable": isinstance(optimizer, optim.RAdam)}
    return {key: value for key, value in found.items() if key in group}


def _with_zero_gradient(parameter: nn.Parameter) -> torch.Tensor:
    stand_in = parameter.detach()
    stand_in.grad = torch.zeros_like(stand_in)
    return stand_in


def _begin(optimizer: Any) -> None:
    """Gives every parameter the state that PyTorch gives it in the first step."""
    lists = len(inspect.signature(optimizer._init_group).parameters) - 1
    optimizer._init_group(optimizer.param_groups[0], *([] for _ in range(lists)))


def _tensors(optimizer: optim.Optimizer, parameter: torch.Tensor) -> Tensors:
    state = {key: value for key, value in optimizer.state[parameter].items() if value is not None}
    if _has_momentum_buffer(optimizer) and optimizer.param_groups[0]["momentum"]:
        state.setdefault("momentum_buffer", torch.zeros_like(parameter))
    return state


def _has_momentum_buffer(optimizer: optim.Optimizer) -> bool:
    """SGD makes its buffer in the first step, of the gradient."""
    return isinstance(optimizer, optim.SGD)


def _copy(
    optimizer: optim.Optimizer, groups: list[dict[str, Any]], state: Mapping[torch.Tensor, dict[str, Any]]
) -> Any:
    """An optimizer like the given one over other tensors; nothing done to it reaches the user's."""
    copy = object.__new__(type(optimizer))
    copy.__dict__.update(optimizer.__dict__)
    copy.param_groups = groups
    copy.state = collections.defaultdict(dict, state)
    return copy


def _add_states(state: OptimizerState, number: int, values: Mapping[str, Tensors]) -> None:
    shared = [
        key for key in _COUNTS if _agree([tensors[key] for tensors in values.values() if key in tensors])
    ]
    for name, tensors in values.items():
        _add_state(state, name, tensors, shared, number)


def _add_state(
    state: OptimizerState, name: str, tensors: Tensors, shared: Collection[str], number: int
) -> None:
    """Adds a parameter's state. shared: the keys that all parameters of its group, number `number`, have in common."""
    for key, tensor in tensors.items():
        place = f"optimizer.{key}." + (f"group{number}" if key in shared else name)
        state.tensors.setdefault(place, tensor.detach())
        state.places.setdefault(name, {})[key] = place


def _refuse_late_dampening(state: OptimizerState) -> None:
    """SGD's first step of a parameter is not damped; a compiled step does its first for all of them at once."""
    optimizer = state.optimizer
    begun = {id(parameter) for parameter, values in optimizer.state.items() if _has_begun(values)}
    for group, own in zip(optimizer.param_groups, state.groups, strict=True):
        trained = [p for p, name in zip(group["params"], own.names, strict=True) if name in own.trained]
        if begun and _is_damped(own.options) and any(id(parameter) not in begun for parameter in trained):
            raise UnsupportedError(
                "the optimizer has dampening and is in the middle of a run, but for some parameters at its beginning; "
                "do a step with all of them first"
            )


def _has_begun(state: Mapping[str, Any]) -> bool:
    return any(value is not None for value in state.values())


def _is_damped(options: Mapping[str, Any]) -> bool:
    return bool(options.get("dampening") and options.get("momentum"))


def _agree(tensors: Sequence[torch.Tensor]) -> bool:
    return bool(tensors) and all(torch.equal(tensor, tensors[0]) for tensor in tensors)


def _steps_done(optimizer: optim.Optimizer) -> int:
    states = [state for state in optimizer.state.values() if state]
    counts = [int(state["step"]) for state in states if "step" in state]
    if counts:
        return max(counts)
    return int(any(map(_has_begun, states)))


def _is_plain(value: Any) -> bool:
    parts = value if isinstance(value, (tuple, list)) else (value,)
    return all(isinstance(part, (bool, int, float, str, type(None))) for part in parts)


def _option_node(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, (tuple, list)):
        return {type(value).__name__: [constant_node(part, key) for part in value]}
    return constant_node(value, key)


@dataclass
class Update:
    """One step of the optimizer as a graph over (parameters, gradients, state, learning rates, steps).

    The first three are dicts by name; it returns the new parameters and the new state.
    """

    module: torch.fx.GraphModule

    def __call__(
        self, parameters: Tensors, gradients: Tensors, state: Tensors, rates: list[torch.Tensor], steps: Any
    ) -> tuple[Tensors, Tensors]:
        """New parameters and state by name."""
        return self.module(parameters, gradients, state, rates, steps)


def trace_update(
    state: OptimizerState, gradients: Mapping[str, torch.Tensor], clip_norm: float | None
) -> Update:
    """Traces a step of the optimizer behind the clipping of the gradients' common norm.

    gradients: tensors like those of the step, by parameter; of all parameters that count for the norm.
    """
    gradients = {name: tensor.detach() for name, tensor in gradients.items()}
    chosen = {name: torch.empty_like(gradients[name]) for name in state.trained}
    rates = [torch.zeros((), dtype=torch.float64) for _ in state.groups]
    example = (chosen, gradients, state.tensors, rates, torch.zeros((), dtype=torch.int64))
    # At first in place, as PyTorch's optimizers work.
    graph = make_fx(_Step(state, clip_norm), tracing_mode="fake")(*example)
    graph = make_fx(torch.func.functionalize(graph), tracing_mode="fake")(*example)
    # Parameters of a group do the same with its learning rate and its count of steps.
    once = fx_graph_cse(graph.graph)
    once.set_codegen(graph.graph._codegen)
    return Update(torch.fx.GraphModule(graph, once))


class _Step:
    """A step of the optimizer as a function of tensors, for make_fx."""

    def __init__(self, state: OptimizerState, clip_norm: float | None) -> None:
        self._state = state
        self._clip_norm = clip_norm

    def __call__(
        self, parameters: Tensors, gradients: Tensors, state: Tensors, rates: list[torch.Tensor], steps: Any
    ) -> tuple[Tensors, Tensors]:
        """New parameters and state."""
        later = self._run(parameters, gradients, state, rates, first=False)
        if not self._differs_at_first():
            return later
        first = self._run(parameters, gradients, state, rates, first=True)
        return _chosen(steps == 0, first[0], later[0]), _chosen(steps == 0, first[1], later[1])

    def _differs_at_first(self) -> bool:
        """SGD with dampening begins with the whole gradient in its buffer."""
        return any(_is_damped(group.options) for group in self._state.groups)

    def _run(
        self,
        parameters: Tensors,
        gradients: Tensors,
        state: Tensors,
        rates: list[torch.Tensor],
        *,
        first: bool,
    ) -> tuple[Tensors, Tensors]:
        stand_ins = {name: tensor.clone() for name, tensor in parameters.items()}
        for name, stand_in in stand_ins.items():
            stand_in.grad = gradients[name].clone()
        values = {stand_in: self._values(name, state, first) for name, stand_in in stand_ins.items()}
        groups = [
            {**group.options, **_traced(self._state.optimizer, group.options)}
            | {"lr": rate, "params": [stand_ins[name] for name in group.trained]}
            for group, rate in zip(self._state.groups, rates, strict=True)
        ]
        optimizer = _copy(self._state.optimizer, groups, values)
        counts = [
            (values[stand_in]["step"], self._state.places[name]["step"])
            for name, stand_in in stand_ins.items()
            if "step" in values[stand_in]
        ]
        with torch.no_grad(), numbers_stay_tensors(counts):
            if self._clip_norm is not None:
                _clip(stand_ins, gradients, self._clip_norm)
            inspect.unwrap(type(optimizer).step)(optimizer)
        return stand_ins, self._new_state(optimizer, stand_ins, state)

    def _values(self, name: str, state: Tensors, first: bool) -> dict[str, torch.Tensor]:
        places = self._state.places.get(name, {})
        return {
            key: as_number(state[place]) if key in _COUNTS else state[place].clone()
            for key, place in places.items()
            if not (first and key == "momentum_buffer")
        }

    def _new_state(self, optimizer: Any, stand_ins: Tensors, state: Tensors) -> Tensors:
        """By place: of a number that parameters share, all compute the same."""
        return {
            place: optimizer.state[stand_in][key].to(state[place].dtype)
            for name, stand_in in stand_ins.items()
            for key, place in self._state.places.get(name, {}).items()
        }


def _clip(stand_ins: Tensors, gradients: Tensors, norm: float) -> None:
    """Clips as for all of a model's parameters, some of which the optimizer may not have."""
    everything = [stand_ins.get(name, gradient.detach()) for name, gradient in gradients.items()]
    for tensor, gradient in zip(everything, gradients.values(), strict=True):
        if tensor.grad is None:
            tensor.grad = gradient.clone()
    nn.utils.clip_grad_norm_(everything, norm, foreach=False)


def _chosen(condition: torch.Tensor, these: Tensors, others: Tensors) -> Tensors:
    return {name: torch.where(condition, these[name], other) for name, other in others.items()}
