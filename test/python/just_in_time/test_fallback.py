"""What cannot be compiled runs in eager: counted, in eager's order, with everything around it compiled."""

import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

import pipeline
from pipeline.just_in_time import splitting
from pipeline.just_in_time.splitting import Parts, split


@torch.library.custom_op("test_fallback::host_double", mutates_args=())
def host_double(x: torch.Tensor) -> torch.Tensor:
    """No compiler sees into this one."""
    return torch.from_numpy(x.detach().numpy() * 2)


@host_double.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


torch.library.register_autograd(
    "test_fallback::host_double", lambda _context, gradient: host_double(gradient)
)


class Mixed(nn.Module):
    """Long parts before and after two operators that nothing compiles, and one beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = self.first(x).relu().sin().sigmoid()
        beside = (x + 1).cos().tanh() * 3
        doubled = host_double(host_double(before).neg())
        return (self.second(doubled) * beside).tanh().sum(1)


def test_around_an_operator_in_eager_all_is_compiled() -> None:
    model, x = Mixed(), torch.randn(4, 8)
    call = torch.compile(model, backend="pipeline")
    results = []
    for function in (call, model):
        model.zero_grad()
        y = function(x)
        y.sum().backward()
        results.append([y, *(parameter.grad for parameter in model.parameters())])
    torch.testing.assert_close(*results)
    found = pipeline.counters()
    assert found.eager["test_fallback.host_double.default"].calls == 4
    assert found.neighbours == 2  # the negations between: a program for one would cost more than it
    assert any("test_fallback.py" in line for line in found.eager["test_fallback.host_double.default"].lines)
    assert found.programs == 4
    assert not found.failures


@torch.no_grad()
def test_weights_of_parts_are_bound_and_guarded() -> None:
    model, x = Mixed(), torch.randn(4, 8)
    call = torch.compile(model, backend="pipeline")
    for _ in range(2):
        torch.testing.assert_close(call(x), model(x))
    assert pipeline.counters().bindings == 2
    model.second.weight.mul_(2)
    torch.testing.assert_close(call(x), model(x))
    assert pipeline.counters().bindings == 3


def test_forbidden_it_is_an_error_with_the_users_line() -> None:
    call = torch.compile(Mixed(), backend="pipeline", options={"fallback": "error"})
    with pytest.raises(Exception, match=r"test_fallback\.host_double x2.*\(at .*test_fallback\.py:\d+"):
        call(torch.randn(4, 8))


def test_what_leaves_the_cpu_runs_in_eager() -> None:
    def leave(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.sin().cos().tanh().exp()
        return y, (y.to("meta") + 1)

    y, away = torch.compile(leave, backend="pipeline")(torch.ones(3))
    torch.testing.assert_close(y, leave(torch.ones(3))[0])
    assert away.device.type == "meta"
    assert "it works on a tensor on meta" in str(pipeline.counters().eager)
    assert pipeline.counters().programs == 1


@torch.no_grad()
def test_memory_around_an_argument_is_eagers() -> None:
    """Where in its memory an argument begins may change from call to call."""

    def around(x: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(x, (3,), (2,), 1) + 1

    call, memory = torch.compile(around, backend="pipeline"), torch.arange(12.0)
    for x in (memory[4:9], memory[3:8]):
        torch.testing.assert_close(call(x), around(x))
    assert pipeline.counters().eager["aten.as_strided.default"].calls == 1


@torch.no_grad()
def test_memory_of_a_graphs_own_tensors_is_known() -> None:
    def strides(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        columns = (x * 2).t()[1:]
        counted = torch.as_strided(columns, (x.shape[0] - 1, 2), (1, 3)) + 1
        return counted, torch.as_strided(columns, (3,), (2,), 0) + 1, torch.as_strided(x[1:], (2,), (2,)) + 1

    call = torch.compile(strides, backend="pipeline", options={"fallback": "error"})
    for rows in (4, 6):
        x = torch.arange(4.0 * rows).view(rows, 4)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(call(x), strides(x))
    assert pipeline.counters().programs == 1


def test_random_operators_draw_in_eagers_order() -> None:
    """The draws of programs are ours, poisson's is eager's: all from one generator."""

    def draws(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = (torch.rand(3, 4) + x).sin().exp().tanh().sigmoid()
        chosen = torch.poisson(x * 9)
        last = (torch.rand(3, 4) + x).sin().exp().tanh().sigmoid()
        return first, chosen, last

    results = []
    for function in (torch.compile(draws, backend="pipeline"), draws):
        torch.manual_seed(5)
        results.append(function(torch.ones(3, 4)))
    torch.testing.assert_close(*results)
    assert list(pipeline.counters().eager) == ["aten.poisson.default"]


def test_a_compiler_that_takes_too_long_leaves_a_warning_and_a_reproducer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIPELINE_REPRODUCERS", str(tmp_path))
    x = torch.randn(3)
    call = torch.compile(lambda x: x.sin() + 1, backend="pipeline", options={"timeout": 0.001})
    with pytest.warns(
        RuntimeWarning, match=r"runs in eager PyTorch.*time limit(?s:.*)reproducer: " + str(tmp_path)
    ):
        torch.testing.assert_close(call(x), x.sin() + 1)
    assert len(pipeline.counters().failures) == 1
    assert list(tmp_path.glob("*/README.txt"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(call(x), x.sin() + 1)


def traced(function: object, *args: torch.Tensor) -> GraphModule:
    """The function's aten operators."""
    return torch.fx.experimental.proxy_tensor.make_fx(function, tracing_mode="fake")(*args)


def test_parts_run_what_the_graph_runs() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = x.sin().cos().tan().exp()
        b = a.erf()
        c = b.sin().cos().tan().exp()
        d = x.exp2()
        return a, c + d, b

    x = torch.randn(3)
    graph = traced(function, x)
    graph.graph.output_node().args = (tuple(graph.graph.output_node().args[0]),)
    names = ("erf.default", "exp2.default")
    unable = [node for node in graph.graph.nodes if str(node.target).removeprefix("aten.") in names]
    parts = split(graph, unable)
    # exp2 depends on no part, so it runs with erf.
    assert [(part.eager, len(part.members)) for part in parts] == [(False, 4), (True, 2), (False, 5)]
    torch.testing.assert_close(
        Parts(graph, [(part, part.module.forward) for part in parts])(x), list(function(x))
    )


def test_small_parts_join_their_neighbours() -> None:
    graph = traced(lambda x: x.sin().erf().cos().tan().erf().exp(), torch.randn(3))
    unable = [node for node in graph.graph.nodes if node.target is torch.ops.aten.erf.default]
    (part,) = split(graph, unable)
    assert part.eager
    assert len(part.members) == 6
    assert splitting._SMALLEST > 2
