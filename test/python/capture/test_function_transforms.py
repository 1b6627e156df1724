"""torch.func ahead of time: `pipeline.compile` of a function gives eager's results, with every autograd.Function's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

import pipeline

Tensor = torch.Tensor
W = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))


class Skewed(torch.autograd.Function):
    """Its gradient is not that of its operations."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient * 7 * ctx.saved_tensors[0]


class OwnRules(torch.autograd.Function):
    """Neither its gradient, its tangent nor its batch is that of its operations."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient * 5 * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:  # type: ignore[override]
        return tangent * 11 * ctx.saved_tensors[0]

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor) -> tuple[Tensor, int]:  # type: ignore[override]
        return OwnRules.apply(x) * 2, in_dims[0]


def wave(x: Tensor) -> Tensor:
    return (W @ x).sin()


def height(x: Tensor) -> Tensor:
    return wave(x).sum()


def skewed(x: Tensor) -> Tensor:
    return Skewed.apply(x).sum()


def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
    return (parameters["weight"] @ x + parameters["bias"]).tanh().square().sum()


def linearized(x: Tensor, tangents: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    value, derivative = linearize(lambda x: wave(x) * x, x)
    return value, derivative(tangents[0]), vmap(derivative)(tangents)


MODELS = [nn.Linear(4, 2) for _ in range(3)]
STACKED = stack_module_state(MODELS)
VECTOR, ROWS = torch.randn(4), torch.randn(3, 4)

TRANSFORMED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "no transform": (lambda x: x * 2, (VECTOR,)),
    "grad": (grad(height), (VECTOR,)),
    "grad_and_value": (grad_and_value(height), (VECTOR,)),
    "grad of grad": (grad(lambda x: grad(height)(x).sum()), (VECTOR,)),
    "vjp": (lambda x: vjp(wave, x)[1](x), (VECTOR,)),
    "jvp": (lambda x: jvp(wave, (x,), (x * 2,)), (VECTOR,)),
    "jacfwd": (jacfwd(lambda x: wave(x) * x), (VECTOR,)),
    "jacfwd of jacfwd": (jacfwd(jacfwd(lambda x: wave(x) * x)), (VECTOR,)),
    "jacfwd of jacrev": (jacfwd(jacrev(lambda x: wave(x) * x)), (VECTOR,)),
    "jacrev of jacfwd": (jacrev(jacfwd(lambda x: wave(x) * x)), (VECTOR,)),
    "hessian of two arguments": (
        hessian(lambda a, b: (wave(a) * b**2).sum(), argnums=(0, 1)),
        (VECTOR, VECTOR + 1),
    ),
    "vmap of hessian": (vmap(hessian(height)), (ROWS,)),
    "vmap of jvp": (
        lambda x, rows: vmap(lambda row: jvp(lambda x: wave(x) * x, (x,), (row,)))(rows),
        (VECTOR, ROWS),
    ),
    "linearize": (linearized, (VECTOR, ROWS)),
    "jacrev in chunks": (jacrev(wave, chunk_size=2), (VECTOR,)),
    "vmap with in_dims and out_dims": (
        vmap(lambda a, b: (torch.outer(a, b), a.sum()), in_dims=(1, 0), out_dims=(2, 0)),
        (torch.randn(4, 3), ROWS),
    ),
    "vmap in chunks": (vmap(wave, chunk_size=2), (ROWS,)),
    "vmap with the same draws": (vmap(lambda x: x * torch.rand(4), randomness="same"), (ROWS,)),
    "vmap with different draws": (
        vmap(lambda x: torch.dropout(x, 0.5, True), randomness="different"),
        (ROWS,),
    ),
    "functionalize": (functionalize(lambda x: x.clone().add_(1).mul_(x)), (VECTOR,)),
    "per-sample gradients": (
        vmap(grad(loss), in_dims=(None, 0)),
        ({"weight": W, "bias": VECTOR}, ROWS),
    ),
    "ensemble": (
        lambda x: vmap(lambda p, b: functional_call(MODELS[0], (p, b), (x,)))(*STACKED),
        (VECTOR,),
    ),
    "grad of a Function": (grad(skewed), (VECTOR,)),
    "vmap of grad of a Function": (vmap(grad(skewed)), (ROWS,)),
    "grad of vmap of a Function": (grad(lambda x: vmap(Skewed.apply)(x).sum()), (ROWS,)),
    "jacrev of grad of a Function": (jacrev(grad(skewed)), (VECTOR,)),
    "vmap of a Function with its rule": (vmap(OwnRules.apply), (ROWS,)),
    "vmap of grad of a Function with its rule": (vmap(grad(lambda x: OwnRules.apply(x).sum())), (ROWS,)),
    "jvp of a Function with its rule": (lambda x: jvp(OwnRules.apply, (x,), (x,)), (VECTOR,)),
    "a function of C": (torch.add, (VECTOR, ROWS)),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_as_eager(name: str) -> None:
    function, args = TRANSFORMED[name]
    results = []
    for call in (pipeline.compile(function, args=args), function):
        torch.manual_seed(2)
        results.append(call(*args))
    torch.testing.assert_close(*results)


class PerSample(nn.Module):
    """Transforms inside of a model: its weights stay weights, its buffer state."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.calls = nn.Linear(4, 2), nn.Buffer(torch.zeros(()))

    def forward(self, x: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        self.calls += 1
        parameters = dict(self.linear.named_parameters())

        def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
            return functional_call(self.linear, parameters, (x,)).square().sum()

        return vmap(grad(loss), in_dims=(None, 0))(parameters, x), self.calls.clone()


def test_a_model_of_any_batch() -> None:
    model = PerSample()
    run = pipeline.compile(
        model, args=(ROWS,), dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=64)},)
    )
    expected = PerSample()
    expected.load_state_dict(model.state_dict())
    expected.calls.zero_()
    for batch in (3, 7):
        x = torch.randn(batch, 4)
        torch.testing.assert_close(run(x), expected(x))


@pytest.mark.parametrize(("model", "given"), [(3, "int"), (nn.ReLU, "the class ReLU")])
def test_what_is_no_model(model: Any, given: str) -> None:
    with pytest.raises(
        pipeline.InputError, match=f"model must be a torch.nn.Module, a function .* got {given}"
    ):
        pipeline.compile(model, args=(VECTOR,))
