"""Optimizers of torch.optim as graphs: what a graph gives is what PyTorch's own step gives."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn, optim

import pipeline
from pipeline.training.optimizers import SUPPORTED, OptimizerState, read_optimizer, trace_update
from pipeline.training.scalars import whole_power

SETTINGS: dict[str, tuple[type[optim.Optimizer], dict[str, Any]]] = {
    "SGD": (optim.SGD, {"lr": 0.1}),
    "SGD with Nesterov's momentum": (
        optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    ),
    "SGD with dampening": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "maximize": True}),
    "Adam": (optim.Adam, {"lr": 0.01}),
    "Adam with amsgrad": (optim.Adam, {"amsgrad": True, "weight_decay": 0.1, "maximize": True}),
    "AdamW": (optim.AdamW, {"lr": torch.tensor(0.01)}),
    "NAdam": (optim.NAdam, {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    "RAdam": (optim.RAdam, {"lr": 0.1}),
    "Adagrad": (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5}),
    "RMSprop": (optim.RMSprop, {"centered": True, "momentum": 0.9}),
    "Adafactor": (optim.Adafactor, {"weight_decay": 0.1}),
    "Muon": (optim.Muon, {"lr": 0.1}),
}


def parameters(matrices_only: bool) -> dict[str, nn.Parameter]:
    shapes = {"wide": (4, 5), "square": (3, 3)} | ({} if matrices_only else {"row": (5,), "number": ()})
    generator = torch.Generator().manual_seed(0)
    return {name: nn.Parameter(torch.randn(shape, generator=generator)) for name, shape in shapes.items()}


def two_groups(cls: Any, values: dict[str, nn.Parameter], settings: dict[str, Any]) -> optim.Optimizer:
    """The second group learns at half the rate; one parameter gets no gradient."""
    first, *others = values.values()
    groups = [{"params": [first]}, {"params": others, "lr": float(settings.get("lr", 1e-3)) / 2}]
    return cls(groups, **settings)


def steps(
    optimizer: optim.Optimizer, values: dict[str, nn.Parameter], with_gradient: list[str], seed: int
) -> None:
    """Ten of PyTorch's own, with clipping."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(10):
        for name in with_gradient:
            values[name].grad = torch.randn(values[name].shape, generator=generator)
        nn.utils.clip_grad_norm_(values.values(), 2.0)
        optimizer.step()


def traced_steps(
    state: OptimizerState, values: dict[str, nn.Parameter], seed: int
) -> dict[str, torch.Tensor]:
    """The same with the graph; the new parameters. Leaves the new state in `state`."""
    gradients = {name: value for name, value in values.items() if name in state.trained}
    update, generator = trace_update(state, gradients, 2.0), torch.Generator().manual_seed(seed)
    rates = [torch.tensor(group.rate, dtype=torch.float64) for group in state.groups]
    chosen = {name: values[name].detach() for name in state.trained}
    for count in range(state.steps, state.steps + 10):
        gradients = {name: torch.randn(tensor.shape, generator=generator) for name, tensor in chosen.items()}
        chosen, new = update(chosen, gradients, state.tensors, rates, torch.tensor(count))
        state.tensors |= new
    return chosen


@pytest.mark.parametrize("name", SETTINGS)
def test_a_graph_is_the_optimizer(name: str) -> None:
    """Ten steps from the beginning, ten more from the state that PyTorch is in then."""
    cls, settings = SETTINGS[name]
    values, expected = parameters(cls is optim.Muon), parameters(cls is optim.Muon)
    optimizer, eager = two_groups(cls, values, settings), two_groups(cls, expected, settings)
    trained = [name for name in values if name != "square"]
    for seed in (1, 2):
        state = read_optimizer(optimizer, values, trained)
        found = traced_steps(state, values, seed)
        assert found.keys() == set(trained)
        steps(eager, expected, trained, seed)
        torch.testing.assert_close(found, {name: expected[name].detach() for name in trained})
        for parameter, places in state.places.items():
            tensors = {key: state.tensors[place] for key, place in places.items()}
            torch.testing.assert_close(
                tensors, {k: v for k, v in eager.state[expected[parameter]].items() if v is not None}
            )
        steps(optimizer, values, trained, seed)


@pytest.mark.parametrize("name", SETTINGS)
def test_nothing_to_learn_and_no_rate(name: str) -> None:
    """A warm-up may begin at a rate of zero, and Adam's second moment is zero where the gradient is."""
    cls, settings = SETTINGS[name]
    values = parameters(matrices_only=True)
    optimizer = cls([{"params": [values["wide"]], "lr": 0.0}, {"params": [values["square"]]}], **settings)
    gradients = {"wide": torch.eye(4, 5), "square": torch.zeros(3, 3)}
    state = read_optimizer(optimizer, values, list(values))
    rates = [torch.tensor(group.rate, dtype=torch.float64) for group in state.groups]
    chosen = {name: value.detach().clone() for name, value in values.items()}
    found, _ = trace_update(state, values, None)(chosen, gradients, state.tensors, rates, torch.tensor(0))
    for key, value in values.items():
        value.grad = gradients[key]
    optimizer.step()
    torch.testing.assert_close(found, {key: value.detach() for key, value in values.items()})


@pytest.mark.parametrize("base", [0.5, 0.9, 0.99999])
def test_powers_to_counts_are_those_of_python(base: float) -> None:
    for count in (0, 1, 3, 10, 7000, 123456, 2**30 + 5):
        found = whole_power(base, torch.tensor(float(count), dtype=torch.float64))
        assert found.item() == pytest.approx(base**count, rel=1e-13, abs=1e-300)


def test_every_supported_class_is_tested() -> None:
    assert {cls for cls, _ in SETTINGS.values()} == set(SUPPORTED)


def test_the_users_optimizer_stays_as_it_is() -> None:
    values = parameters(False)
    optimizer = optim.Adam(values.values())
    read_optimizer(optimizer, values, list(values))
    assert not optimizer.state and all(value.grad is None for value in values.values())


def test_state_of_what_gets_no_gradient_is_kept() -> None:
    """A parameter that an earlier loss trained, and this one does not."""
    values = parameters(False)
    optimizer = optim.Adam(values.values())
    steps(optimizer, values, list(values), 1)
    state = read_optimizer(optimizer, values, ["wide", "row"])
    found = traced_steps(state, values, 2)
    assert list(found) == ["wide", "row"]
    at_rest = {key: state.tensors[place] for key, place in state.places["square"].items()}
    torch.testing.assert_close(at_rest, optimizer.state[values["square"]])
    assert state.places["wide"]["step"] == state.places["row"]["step"] != state.places["square"]["step"]


def test_dampening_begins_for_all_at_once() -> None:
    values = parameters(False)
    optimizer = optim.SGD([values["wide"]], lr=0.1, momentum=0.9, dampening=0.5)
    steps(optimizer, {"wide": values["wide"]}, ["wide"], 1)
    optimizer.add_param_group({"params": [values["row"]]})
    assert read_optimizer(optimizer, values, ["wide"]).trained == ["wide"]
    with pytest.raises(pipeline.UnsupportedError, match="in the middle of a run, but for some parameters"):
        read_optimizer(optimizer, values, ["wide", "row"])


def _hooked(model: nn.Module) -> optim.Optimizer:
    optimizer = optim.SGD(model.parameters())
    optimizer.register_step_pre_hook(lambda *_: None)
    return optimizer


class _OwnSGD(optim.SGD):
    pass


REFUSED: dict[str, tuple[Callable[[nn.Module], Any], Callable[..., Any], type[Exception], str]] = {
    "another class": (lambda m: optim.Rprop(m.parameters()), nn.functional.mse_loss, pipeline.UnsupportedError,
                      "the optimizer torch.optim.rprop.Rprop cannot be compiled; these of torch.optim can: SGD, Adam"),
    "a class of one's own": (lambda m: _OwnSGD(m.parameters()), nn.functional.mse_loss, pipeline.UnsupportedError,
                             "_OwnSGD cannot be compiled"),
    "hooks": (_hooked, nn.functional.mse_loss, pipeline.UnsupportedError, "step hooks"),
    "tensors among the settings": (
        lambda m: optim.Adam(m.parameters(), lr=torch.tensor(0.1), betas=(torch.tensor(0.9), torch.tensor(0.99))),
        nn.functional.mse_loss, pipeline.UnsupportedError, "the optimizer's betas is a tensor"),
    "parameters of another model": (lambda m: optim.SGD([nn.Parameter(torch.ones(2))]), nn.functional.mse_loss,
                                    pipeline.InputError, r"a parameter of shape \[2\] that is not the model's"),
    "no optimizer": (lambda m: 0.1, nn.functional.mse_loss, pipeline.InputError, "must be a torch.optim.Optimizer"),
    "a loss for each sample": (lambda m: optim.SGD(m.parameters()), lambda p, y: (p - y).square(), pipeline.InputError,
                               r"one floating number, got a tensor of shape \[2, 3\]"),
    "a loss without the model": (lambda m: optim.SGD(m.parameters()), lambda p, y: y.sum(), pipeline.InputError,
                                 "depends on no parameter"),
    "a loss that reads values": (lambda m: optim.SGD(m.parameters()), lambda p, y: p.sum() if p.sum() > 0 else y.sum(),
                                 pipeline.UnsupportedError, r"depends on a tensor's values \(at .*test_optimizers.py:"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_a_reason(case: str) -> None:
    make_optimizer, loss_fn, error, message = REFUSED[case]
    model = nn.Linear(4, 3)
    with pytest.raises(error, match=message):
        pipeline.compile_training(
            model, loss_fn, make_optimizer(model), args=(torch.ones(2, 4), torch.ones(2, 3))
        )


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_on_parameters_are_refused(register):
    model = torch.nn.Linear(2, 1)
    getattr(model.weight, register)(lambda gradient: None)
    with pytest.raises(pipeline.UnsupportedError, match="the parameter 'weight' has hooks"):
        pipeline.compile_training(
            model,
            torch.nn.functional.mse_loss,
            torch.optim.SGD(model.parameters()),
            args=(torch.ones(3, 2), torch.ones(3, 1)),
        )
