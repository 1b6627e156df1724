"""The torch.compile backend against eager: training, inference with bound weights, dynamic sizes, memory."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import pipeline
from pipeline import cache
from pipeline.errors import InputError
from pipeline.just_in_time import compiled_graph
from pipeline.just_in_time.settings import read_settings
from pipeline.runtime import Executable


def compiled(function: Any, **settings: Any) -> Callable[..., Any]:
    """`function` compiled so that nothing may run in eager."""
    return torch.compile(function, backend="pipeline", options={"fallback": "error"}, **settings)


def small_cnn() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(36, 5),
    )


def trained(model: nn.Module, call: Callable[..., Any], steps: int) -> torch.Tensor:
    """The losses of a few steps, from one seed."""
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x, y = torch.randn(4, 3, 8, 8), torch.randint(5, (4,))
    losses = []
    for _ in range(steps):
        loss = nn.functional.cross_entropy(call(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def test_training_a_cnn_with_batch_norm_and_dropout() -> None:
    eager = small_cnn()
    ours = copy.deepcopy(eager)
    torch.testing.assert_close(trained(ours, compiled(ours), 50), trained(eager, eager, 50))
    assert pipeline.counters().programs == 2  # forward and backward
    for actual, expected in zip(ours.state_dict().values(), eager.state_dict().values(), strict=True):
        torch.testing.assert_close(actual, expected)


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4, bias=False)
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu()) + self.shift


def change_in_place(model: Tower) -> None:
    model.first.weight.mul_(2)


def change_a_buffer(model: Tower) -> None:
    model.shift.add_(1)


def load_others(model: Tower) -> None:
    torch.manual_seed(7)
    model.load_state_dict(Tower().state_dict())


def exchange_memory(model: Tower) -> None:
    model.second.weight.data = model.second.weight.data * 3


def exchange_parameter(model: Tower) -> None:
    model.second.weight = nn.Parameter(model.second.weight.detach() * 5)


def step_fused(model: Tower) -> None:
    model.first.bias.grad = torch.ones(16)
    torch.optim.AdamW([model.first.bias, model.second.weight], lr=0.5, fused=True).step()


class ThroughData(torch.optim.SGD):
    def step(self, closure: None = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.data.sub_(parameter.grad)


def step_through_data(model: Tower) -> None:
    model.first.bias.grad = torch.ones(16)
    ThroughData([model.first.bias]).step()


CHANGES = [
    change_in_place,
    change_a_buffer,
    load_others,
    exchange_memory,
    exchange_parameter,
    step_fused,
    step_through_data,
]


@torch.no_grad()
def test_weights_are_bound_once_and_never_stale() -> None:
    model, x = Tower(), torch.randn(3, 8)
    call = compiled(model)
    for _ in range(3):
        torch.testing.assert_close(call(x), model(x))
    assert pipeline.counters().bindings == 1
    for change in CHANGES:
        change(model)
        torch.testing.assert_close(call(x), model(x))
    assert pipeline.counters().programs == 1
    assert pipeline.counters().bindings == 1 + len(CHANGES)
    for _ in range(10):
        change_in_place(model)
        torch.testing.assert_close(call(x), model(x))
    # What changes all the time is passed at each call, by a second program.
    assert pipeline.counters().programs == 2
    assert pipeline.counters().bindings < 10


@torch.no_grad()
def test_weights_that_change_now_and_then_stay_bound() -> None:
    """As where a model in training is evaluated after each epoch."""
    model, x = Tower(), torch.randn(3, 8)
    call = compiled(model)
    for _ in range(10):
        change_in_place(model)
        for _ in range(16):
            y = call(x)
        torch.testing.assert_close(y, model(x))
    assert pipeline.counters().programs == 1
    assert pipeline.counters().bindings == 10


@torch.no_grad()
def test_results_made_of_weights_alone_are_the_callers() -> None:
    class Weights(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = nn.Parameter(torch.randn(8, 8))
            self.handed_on = nn.Parameter(torch.randn(8))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x + self.own.sum(), self.own.clone(), self.own * 1, self.handed_on

    model, x = Weights(), torch.randn(8)
    call = compiled(model)
    for _ in range(2):
        results = call(x)
        torch.testing.assert_close(results, model(x))
        for result in results[:3]:
            result.add_(1)
    assert results[3] is model.handed_on
    assert pipeline.counters().bindings == 1


def test_weights_made_in_inference_mode_have_no_version_to_look_at() -> None:
    with torch.inference_mode():
        model, x = Tower(), torch.randn(3, 8)
        call = compiled(model)
        torch.testing.assert_close(call(x), model(x))
        change_in_place(model)
        torch.testing.assert_close(call(x), model(x))
    assert pipeline.counters().bindings == 0


def test_one_program_for_all_batch_sizes_in_training() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2))
    call = compiled(model, dynamic=True)
    for batch in (3, 5, 8):
        x = torch.randn(batch, 6)
        gradients = []
        for function in (call, model):
            model.zero_grad()
            function(x).square().sum().backward()
            gradients.append([parameter.grad for parameter in model.parameters()])
        torch.testing.assert_close(*gradients)
    assert pipeline.counters().programs == 2


def write_into_argument(x: torch.Tensor) -> torch.Tensor:
    x[:, 1].zero_()
    y = x.add_(1) * 2
    return y.mul_(3)


def share_with_argument(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x, x.flatten(1), x.transpose(0, 1), x + 1


def share_with_each_other(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    return y, y[0], y.transpose(0, 1), y


def channels_last_through_a_convolution(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = nn.functional.conv2d(x, torch.ones(2, 4, 3, 3)).relu()
    return y, y.expand(2, 2, 2, 4, 4)


def sizes(x: torch.Tensor) -> tuple[Any, ...]:
    return x * 3, x.shape[0] * 3, x.shape[1] ** 2, None, torch.arange(3)


def places(values: list[Any]) -> list[Any]:
    """Who shares memory with whom."""
    storages = [v.untyped_storage().data_ptr() for v in values if isinstance(v, torch.Tensor)]
    return [storages.index(storage) for storage in storages]


@pytest.mark.parametrize(
    ("train", "layout"),
    [(False, torch.channels_last), (True, torch.channels_last), (True, torch.contiguous_format)],
    ids=["inference", "training", "contiguous"],
)
@pytest.mark.parametrize(
    "function",
    [
        write_into_argument,
        share_with_argument,
        share_with_each_other,
        channels_last_through_a_convolution,
        sizes,
    ],
)
def test_memory_is_eagers(function: Any, train: bool, layout: Any) -> None:
    """Values, strides and sharing of results, and what becomes of arguments, are eager's."""
    given = torch.randn(2, 4, 6, 6).contiguous(memory_format=layout)
    results = []
    for call in (compiled(function, dynamic=function is sizes or None), function):
        leaf = given.clone(memory_format=torch.preserve_format).requires_grad_(train)
        # A leaf that requires gradients may not be written to.
        argument = leaf.clone(memory_format=torch.preserve_format) if train else leaf
        values = [argument, *tree_leaves(call(argument))]
        loss = sum(v.square().sum() for v in values if isinstance(v, torch.Tensor) and v.requires_grad)
        if isinstance(loss, torch.Tensor):
            loss.backward()
        results.append((values, leaf.grad))
    (ours, our_gradient), (eager, gradient) = results
    torch.testing.assert_close(our_gradient, gradient)
    for actual, expected in zip(ours, eager, strict=True):
        if isinstance(expected, torch.Tensor):
            torch.testing.assert_close(actual, expected)
            assert actual.stride() == expected.stride()
            assert actual.requires_grad == expected.requires_grad
        else:
            assert actual == expected
    assert places(ours) == places(eager)


def test_results_may_be_changed_and_keep_nothing_of_ours() -> None:
    x = torch.randn(2, 4, 6, 6).contiguous(memory_format=torch.channels_last).requires_grad_()
    y = compiled(lambda x: x * 2)(x)
    y.mul_(2)
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 4))


@pytest.mark.parametrize("train", [False, True])
def test_autocast(train: bool) -> None:
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)), torch.randn(4, 8)
    call, results = compiled(model), []
    for function in (call, model):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(train):
            y = function(x)
        assert y.dtype is torch.bfloat16
        if train:
            y.float().sum().backward()
        results.append([y.detach(), *(p.grad for p in model.parameters() if train)])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("train", [False, True])
def test_values_that_the_graph_holds_itself(train: bool) -> None:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(20, 20)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.linear(x) + torch.tensor([float(i) for i in range(20)])).sin()

    model, x = Positions(), torch.randn(2, 20)
    call = compiled(model)
    with torch.set_grad_enabled(train):
        torch.testing.assert_close(call(x), model(x))
        model.linear.bias.data = model.linear.bias.data + 1
        torch.testing.assert_close(call(x), model(x))


@pytest.mark.parametrize("train", [False, True])
def test_a_singular_matrix_raises_as_in_eager(train: bool) -> None:
    def solved(a: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve(a, a.sin()).exp()

    call, results = compiled(solved), []
    for function in (call, solved):
        a = (torch.ones(3, 3).tril()).requires_grad_(train)
        y = function(a)
        if train:
            y.sum().backward()
        results.append([y, a.grad])
        with pytest.raises(torch._C._LinAlgError, match="the input matrix is singular"):
            function(torch.ones(3, 3).requires_grad_(train))
    torch.testing.assert_close(*results)


def test_draws_are_eagers_between_graph_breaks() -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.dropout(x * 2, 0.3) + torch.rand_like(x)
        torch._dynamo.graph_break()
        return nn.functional.dropout(x, 0.5) + torch.randn(3, 4)

    results = []
    for function in (compiled(noisy), noisy):
        torch.manual_seed(3)
        x = torch.ones(3, 4, requires_grad=True)
        y = function(x)
        y.sum().backward()
        results.append([y, x.grad, torch.rand(2)])
    torch.testing.assert_close(*results)
    assert pipeline.counters().graphs == 4


def test_double_backward_is_refused_in_pytorchs_words() -> None:
    x = torch.randn(3, requires_grad=True)
    y = compiled(lambda x: x.sin().exp())(x)
    (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()


@pytest.mark.parametrize(
    ("mode", "size", "device"),
    [
        (None, 8, "local-sync"),
        (None, 600, "local-task"),
        ("reduce-overhead", 600, "local-sync"),
        ("max-autotune", 8, "local-task"),
    ],
)
def test_mode_and_size_say_how_many_threads(
    mode: str | None, size: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []

    def load(*args: Any, **settings: Any) -> Executable:
        used.append(settings["device"])
        return Executable(*args, **settings)

    monkeypatch.setattr(compiled_graph, "Executable", load)
    x = torch.randn(size, size)
    call = torch.compile(lambda x: x.sin() + 1, backend="pipeline", mode=mode, fullgraph=True)
    torch.testing.assert_close(call(x), x.sin() + 1)
    assert used == [device]


def test_another_mode_is_refused() -> None:
    with pytest.raises(InputError, match="mode 'fast' is unknown; choose from default, reduce-overhead"):
        read_settings({}, "fast")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"callbacks": print}, "unknown options for the backend 'pipeline': callbacks; known: fallback"),
        ({"targt": "cpu"}, "unknown options for the backend 'pipeline': targt; known: fallback"),
        ({"fallback": "never"}, "fallback 'never' is unknown; choose from eager, error"),
        ({"weights": "inline"}, "keeps the weights where the model has them"),
        ({"target": "abacus"}, "abacus"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], message: str) -> None:
    call = torch.compile(lambda x: x + 1, backend="pipeline", options=options)
    with pytest.raises(Exception, match=message) as raised:
        call(torch.ones(2))
    assert isinstance(raised.value.__cause__ or raised.value, Exception)


def test_arguments_and_parameters_on_other_devices_are_named() -> None:
    with pytest.raises(
        Exception, match=r"InputError: L\['x'\] is on meta.* takes and gives tensors on the CPU"
    ):
        torch.compile(lambda x: x + 1, backend="pipeline")(torch.ones(2, device="meta"))
    with pytest.raises(Exception, match=r"InputError: .*weight.* is on meta"):
        torch.compile(nn.Linear(2, 2, device="meta"), backend="pipeline")(torch.ones(2, 2, device="meta"))


def test_another_process_takes_programs_from_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIPELINE_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "_sources_digest", lambda: cache._SOURCES)  # whoever edits meanwhile
    torch.manual_seed(0)
    x, results = torch.randn(2, 8), []
    for _ in range(2):
        torch._dynamo.reset()
        model = Tower()
        y = compiled(model)(x)
        y.sum().backward()
        torch.testing.assert_close(y, model(x))
        results.append(y)
    # Weights are no part of a program.
    assert not torch.equal(*results)
    assert pipeline.counters().cache_misses == 2
    assert pipeline.counters().cache_hits == 2
