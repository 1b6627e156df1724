"""torch.func through torch.compile: eager's results, and no gradient that PyTorch gets wrong."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import (
    functional_call,
    functionalize,
    grad,
    hessian,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

import pipeline

W = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))


class Skewed(torch.autograd.Function):
    """Its gradient is not that of its operations."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient * 7 * ctx.saved_tensors[0]


def wave(x: torch.Tensor) -> torch.Tensor:
    return (W @ x).sin()


def loss(parameters: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return (parameters["weight"] @ x + parameters["bias"]).tanh().square().sum()


def per_sample_gradients(x: torch.Tensor) -> dict[str, torch.Tensor]:
    parameters = {"weight": W, "bias": W[0]}
    return vmap(grad(loss), in_dims=(None, 0))(parameters, x.expand(3, 4) * torch.arange(3.0)[:, None])


def ensemble(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    models = [nn.Linear(4, 2) for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    return vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(parameters, buffers)


TRANSFORMED: dict[str, Callable[[torch.Tensor], Any]] = {
    "vjp and jvp": lambda x: (vjp(wave, x)[1](x), jvp(wave, (x,), (x * 2,))),
    "hessian": hessian(lambda y: wave(y).sum()),
    "per-sample": per_sample_gradients,
    "vmap with draws": lambda x: vmap(lambda y: y * torch.rand(4), randomness="different")(x.expand(3, 4)),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transforms(name: str) -> None:
    function, results = TRANSFORMED[name], []
    x = torch.randn(4)
    for call in (torch.compile(function, backend="pipeline"), function):
        torch.manual_seed(2)
        results.append(call(x))
    torch.testing.assert_close(*results)
    assert pipeline.counters().programs


def test_a_functions_own_gradient_below_autograd() -> None:
    x = torch.randn(4, requires_grad=True)
    torch.compile(lambda x: Skewed.apply(x * 1).sum(), backend="pipeline")(x).backward()
    torch.testing.assert_close(x.grad, 7 * x.detach())


@pytest.mark.parametrize("transform", ["grad", "jacrev"])
def test_a_functions_own_gradient_below_torch_func_is_refused(transform: str) -> None:
    """PyTorch would give 3 x² in place of 7 x."""
    functions = {
        "grad": lambda x: Skewed.apply(x).sum() + grad(lambda y: Skewed.apply(y).sum())(x),
        "jacrev": jacrev(Skewed.apply),
    }
    with pytest.raises(Exception, match=r"torch\.func differentiates Skewed"):
        torch.compile(functions[transform], backend="pipeline")(torch.randn(4))


def test_what_aotautograd_cannot_trace_runs_in_eager() -> None:
    """functionalize below torch.compile fails in PyTorch's own eager backend too."""
    function = functionalize(lambda x: x.clone().add_(1) * 2)
    x = torch.randn(4)
    with pytest.warns(RuntimeWarning, match="runs in eager PyTorch, since AOTAutograd cannot trace it"):
        torch.testing.assert_close(torch.compile(function, backend="pipeline")(x), (x + 1) * 2)
    assert len(pipeline.counters().failures) == 1
