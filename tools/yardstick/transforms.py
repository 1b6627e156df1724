"""Transforms, after the kinds of PyTorch's functorch tests: derivatives, batches, nesting, custom Functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
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
from torch.nn import functional as F

from .cases import Case, floats, integers

VECTOR, OTHER, ROWS, SQUARE = floats(4), floats(4), floats(3, 4), floats(4, 4)
CUBE, IMAGES = floats(2, 3, 4), floats(3, 2, 6, 6)


class Scaled(torch.autograd.Function):
    """x³ with 7 x for its gradient; a number beside the tensor; its vmap rule generated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, factor: float) -> Tensor:
        return x**3 * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # type: ignore[override]
        return gradient * 7 * ctx.saved_tensors[0] * ctx.factor, None


class Sorted(torch.autograd.Function):
    """Two results, of which the places have no gradient; its own rule for batches."""

    @staticmethod
    def forward(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        values, places = torch.sort(x, dim)
        return values, places

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])
        ctx.dim = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _places: Tensor) -> Any:  # type: ignore[override]
        (places,) = ctx.saved_tensors
        return torch.zeros_like(gradient).scatter(ctx.dim, places, gradient), None

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor, dim: int) -> Any:  # type: ignore[override]
        x = x.movedim(in_dims[0], 0)
        return Sorted.apply(x, dim + 1 if dim >= 0 else dim), (0, 0)


class Exponential(torch.autograd.Function):
    """Saves its result; a rule for forward mode that is twice the derivative."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:  # type: ignore[override]
        return 2 * tangent * ctx.saved_tensors[0]


def wave(x: Tensor) -> Tensor:
    """A vector of a vector."""
    return (SQUARE @ x).sin() * x


def height(x: Tensor) -> Tensor:
    """A number of a vector."""
    return wave(x).sum()


def affine(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
    """A number of a dict and a vector."""
    return (parameters["weight"] @ x + parameters["bias"]).tanh().square().sum()


PARAMETERS = {"weight": SQUARE, "bias": OTHER}


def written(x: Tensor) -> Tensor:
    """Works in place on what it made."""
    y = x.clone()
    y[1:].mul_(x[:-1])
    y.add_(1)
    return y.pow(2).sum()


def with_aux(x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """A number, and what is handed through."""
    return height(x), {"seen": x * 2}


def frozen(x: Tensor) -> Tensor:
    """Parts without a gradient."""
    with torch.no_grad():
        scale = x.sum()
    return (x * scale + x.detach() * x).sum()


def newton(x: Tensor) -> Tensor:
    """A step of Newton's method, from two derivatives."""
    return x - torch.linalg.solve(hessian(height)(x) + 10 * torch.eye(4), grad(height)(x))


def adapted(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    """A loss after two steps of descent."""
    for _ in range(2):
        slopes = grad(affine)(parameters, x)
        parameters = {name: value - 0.1 * slopes[name] for name, value in parameters.items()}
    return affine(parameters, y)


def both_products(x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Hessian times vector, forward over reverse and reverse over reverse."""
    return jvp(grad(height), (x,), (v,))[1], vjp(grad(height), x)[1](v)[0]


def linearized(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The value, and directional derivatives of a batch."""
    value, derivative = linearize(wave, x)
    return value, vmap(derivative)(rows)


def _net(*layers: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(1)
    net = nn.Sequential(*layers)
    for parameter in net.parameters():
        parameter.data.normal_(0, 0.5, generator=generator)
    return net


NETS = [_net(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)) for _ in range(3)]
STACKED = stack_module_state(NETS)
CONVOLUTIONS = _net(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 5))
NORMED = _net(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
LABELS = integers(5, 3)


def _weights(net: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in net.named_parameters()}


def image_loss(parameters: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
    """The loss of one sample."""
    return F.cross_entropy(functional_call(CONVOLUTIONS, parameters, (image[None],)), label[None])


def ensemble(x: Tensor) -> Tensor:
    """Each net over its own row of x."""
    return vmap(lambda p, b, row: functional_call(NETS[0], (p, b), (row,)))(*STACKED, x)


def tied(weight: Tensor, x: Tensor) -> Tensor:
    """One tensor in two places of a net."""
    return functional_call(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).to("meta"), {
        "0.weight": weight, "1.weight": weight, "0.bias": x, "1.bias": x,
    }, (x,)).sum()  # fmt: skip


def _drawn(randomness: str, draw: Callable[[Tensor], Tensor]) -> Case:
    return Case(vmap(draw, randomness=randomness), (ROWS,))


CASES: dict[str, Case] = {
    "grad": Case(grad(height), (VECTOR,)),
    "grad by two arguments": Case(grad(lambda a, b: (a * b).sin().sum(), argnums=(0, 1)), (VECTOR, OTHER)),
    "grad by the last argument": Case(grad(affine, argnums=-1), (PARAMETERS, VECTOR)),
    "grad of a dict": Case(grad(affine), (PARAMETERS, VECTOR)),
    "grad with aux": Case(grad(with_aux, has_aux=True), (VECTOR,)),
    "grad_and_value with aux": Case(grad_and_value(with_aux, has_aux=True), (VECTOR,)),
    "grad of what works in place": Case(grad(written), (VECTOR,)),
    "grad around no_grad and detach": Case(grad(frozen), (VECTOR,)),
    "grad of what does not matter": Case(grad(lambda x, y: y.sum()), (VECTOR, OTHER)),
    "third derivative": Case(grad(grad(grad(lambda x: x.tanh() * x))), (VECTOR[0],)),
    "grad of where": Case(grad(lambda x: torch.where(x > 0, x.exp(), x * x).sum()), (VECTOR,)),
    "grad of gather and index_put": Case(
        grad(lambda x: x.index_put((LABELS % 4,), x[:3] ** 2).gather(0, LABELS % 4).sum()), (VECTOR,)
    ),
    "grad of a complex magnitude": Case(grad(lambda x: torch.complex(x, x * x).abs().sum()), (VECTOR,)),
    "grad of a maximum over a dimension": Case(grad(lambda x: x.amax(1).sum() + x.max()), (ROWS,)),
    "grad of norms": Case(grad(lambda x: x.norm() + F.layer_norm(x, (4,)).pow(3).sum()), (ROWS,)),
    "grad of vmap": Case(grad(lambda x: vmap(height)(x).prod()), (ROWS,)),
    "grad of vmap of grad": Case(grad(lambda x: vmap(grad(height))(x).pow(2).sum()), (ROWS,)),
    "grad of two steps of descent": Case(grad(adapted), (PARAMETERS, VECTOR, OTHER)),
    "a step of Newton": Case(newton, (VECTOR,)),
    "vjp of two results": Case(
        lambda x, a, b: vjp(lambda x: (wave(x), x.sum()), x)[1]((a, b)), (VECTOR, OTHER, OTHER[0])
    ),
    "vjp of dicts": Case(
        lambda p, x: vjp(lambda p: {"out": p["weight"] @ x, "bias": p["bias"] ** 2}, p)[1](
            {
                "out": x,
                "bias": x,
            }
        ),
        (PARAMETERS, VECTOR),
    ),
    "vjp with aux": Case(lambda x: vjp(with_aux, x, has_aux=True)[::2], (VECTOR,)),
    "vjp called twice": Case(lambda x, v: tuple(map(vjp(wave, x)[1], (v, 2 * v))), (VECTOR, OTHER)),
    "vmap of a pulled-back function": Case(lambda x: vmap(vjp(wave, x)[1])(torch.eye(4)), (VECTOR,)),
    "jvp": Case(lambda x, t: jvp(wave, (x,), (t,)), (VECTOR, OTHER)),
    "jvp of two arguments": Case(lambda x, t: jvp(lambda a, b: a * b.exp(), (x, t), (t, x)), (VECTOR, OTHER)),
    "jvp with aux": Case(lambda x, t: jvp(with_aux, (x,), (t,), has_aux=True), (VECTOR, OTHER)),
    "jvp of what works in place": Case(lambda x, t: jvp(written, (x,), (t,)), (VECTOR, OTHER)),
    "jvp of jvp": Case(lambda x, t: jvp(lambda x: jvp(wave, (x,), (t,))[1], (x,), (t,)), (VECTOR, OTHER)),
    "jvp of vjp": Case(lambda x, t: jvp(lambda x: vjp(wave, x)[1](t)[0], (x,), (t,)), (VECTOR, OTHER)),
    "jvp of a net": Case(
        lambda p, x: jvp(lambda x: functional_call(CONVOLUTIONS, p, (x,)), (x,), (x * 2,)),
        (_weights(CONVOLUTIONS), IMAGES),
    ),
    "Hessian times vector": Case(both_products, (VECTOR, OTHER)),
    "linearize under vmap": Case(linearized, (VECTOR, ROWS)),
    "jacrev": Case(jacrev(wave), (VECTOR,)),
    "jacrev of dicts": Case(jacrev(lambda p: {"a": p["weight"] @ p["bias"]}), (PARAMETERS,)),
    "jacrev in chunks of one": Case(jacrev(wave, chunk_size=1), (VECTOR,)),
    "jacrev of a matrix": Case(jacrev(lambda x: x @ x.T), (ROWS,)),
    "jacfwd": Case(jacfwd(wave), (VECTOR,)),
    "jacfwd of a matrix": Case(jacfwd(lambda x: x.softmax(-1)), (ROWS,)),
    "jacfwd with aux": Case(jacfwd(lambda x: (wave(x), x * 3), has_aux=True), (VECTOR,)),
    "jacfwd of jacrev": Case(jacfwd(jacrev(wave)), (VECTOR,)),
    "jacrev of jacfwd": Case(jacrev(jacfwd(wave)), (VECTOR,)),
    "vmap of jacfwd": Case(vmap(jacfwd(wave)), (ROWS,)),
    "vmap of jacrev": Case(vmap(jacrev(wave)), (ROWS,)),
    "hessian": Case(hessian(height), (VECTOR,)),
    "hessian of a dict": Case(hessian(affine), (PARAMETERS, VECTOR)),
    "hessian by two arguments": Case(
        hessian(lambda a, b: (a**2 * b).sum().exp(), argnums=(0, 1)), (VECTOR / 4, OTHER / 4)
    ),
    "hessian of a net's loss": Case(
        lambda p, x: hessian(lambda b: functional_call(NETS[0], {**p, "2.bias": b}, (x,)).square().sum())(
            p["2.bias"]
        ),
        (_weights(NETS[0]), VECTOR),
    ),
    "vmap of hessian": Case(vmap(hessian(height)), (ROWS,)),
    "vmap": Case(vmap(torch.dot), (ROWS, ROWS + 1)),
    "vmap from the last dimension": Case(vmap(wave, in_dims=-1, out_dims=-1), (floats(4, 3),)),
    "vmap of dicts": Case(
        vmap(
            lambda d, y: (d["x"] * y, d["x"].sum()),
            in_dims=({"x": 1}, None),
            out_dims=(1, 0),
        ),
        ({"x": floats(4, 3)}, OTHER),
    ),
    "vmap of vmap": Case(vmap(vmap(torch.dot, in_dims=(None, 0)), in_dims=(0, None)), (ROWS, floats(5, 4))),
    "vmap in chunks that do not divide": Case(vmap(wave, chunk_size=2), (ROWS,)),
    "vmap of a result without batch": Case(vmap(lambda x: (x, torch.arange(3))), (ROWS,)),
    "vmap of work in place": Case(
        vmap(lambda x: x.clone().index_fill_(0, LABELS[:1], 2.0).cumsum_(0)), (ROWS,)
    ),
    "vmap of gather": Case(
        vmap(lambda x, i: (x.gather(0, i), x.index_select(0, i), x[i])), (ROWS, integers(4, 3, 2))
    ),
    "vmap of scatter": Case(
        vmap(lambda x, i: torch.zeros(4).scatter_add(0, i, x)), (ROWS, integers(4, 3, 4))
    ),
    "vmap of sort and topk": Case(vmap(lambda x: (x.sort(descending=True), x.topk(2))), (ROWS,)),
    "vmap of a batch of products": Case(
        vmap(lambda a, b: (a @ b, torch.einsum("ij,jk->ki", a, b)), in_dims=(0, None)), (CUBE, SQUARE)
    ),
    "vmap of reductions": Case(
        vmap(lambda x: (x.mean(), x.var(), x.argmax(), x.logsumexp(0), x.any())), (ROWS,)
    ),
    "vmap of a solver": Case(
        vmap(lambda a, b: torch.linalg.solve(a @ a.T + 4 * torch.eye(3), b)), (CUBE, floats(2, 3))
    ),
    "vmap of convolutions with their kernels": Case(
        vmap(lambda x, w: F.conv2d(x[None], w, padding=1)), (IMAGES, floats(3, 4, 2, 3, 3))
    ),
    "vmap of attention": Case(
        vmap(lambda q, k: F.scaled_dot_product_attention(q, k, k)), (floats(3, 2, 5, 4), floats(3, 2, 5, 4))
    ),
    "vmap of pooling and padding": Case(vmap(lambda x: F.avg_pool2d(F.pad(x, (1, 1)), 2)), (IMAGES,)),
    "vmap with the same draws": _drawn("same", lambda x: x + torch.rand(4)),
    "vmap with different draws": _drawn("different", lambda x: x + torch.randn(4)),
    "vmap with different masks": _drawn("different", lambda x: F.dropout(x, 0.5)),
    "vmap with the same mask": _drawn("same", lambda x: F.dropout(x, 0.5)),
    "vmap of rand_like with different draws": _drawn("different", lambda x: torch.rand_like(x).bernoulli()),
    "functional_call": Case(lambda p, x: functional_call(NETS[0], p, (x,)), (_weights(NETS[0]), ROWS)),
    "functional_call with one tensor twice": Case(grad(tied), (SQUARE, VECTOR)),
    "vmap of batch norm's averages": Case(
        vmap(lambda x: functional_call(NORMED, dict(NORMED.named_parameters()), (x,))), (CUBE,)
    ),
    "stack_module_state": Case(ensemble, (ROWS,)),
    "gradients of an ensemble": Case(
        lambda x: vmap(grad(lambda p, b, x: functional_call(NETS[0], (p, b), (x,)).sum()))(*STACKED, x),
        (ROWS,),
    ),
    "per-sample gradients": Case(
        vmap(grad(image_loss), in_dims=(None, 0, 0)), (_weights(CONVOLUTIONS), IMAGES, LABELS)
    ),
    "per-sample norms of gradients": Case(
        lambda p, x, y: vmap(lambda g: sum(v.pow(2).sum() for v in g.values()))(
            vmap(grad(image_loss), in_dims=(None, 0, 0))(p, x, y)
        ),
        (_weights(CONVOLUTIONS), IMAGES, LABELS),
    ),
    "functionalize": Case(functionalize(written), (VECTOR,)),
    "a Function": Case(lambda x: Scaled.apply(x, 0.5), (VECTOR,), backward=True),
    "grad of a Function": Case(grad(lambda x: Scaled.apply(x, 0.5).sum()), (VECTOR,)),
    "grad of grad of a Function": Case(
        grad(lambda x: grad(lambda y: Scaled.apply(y, 2.0).sum())(x).pow(2).sum()), (VECTOR,)
    ),
    "vmap of a Function": Case(vmap(lambda x: Scaled.apply(x, 0.5)), (ROWS,)),
    "vmap of grad of a Function": Case(vmap(grad(lambda x: Scaled.apply(x, 2.0).sum())), (ROWS,)),
    "jacrev of a Function": Case(jacrev(lambda x: Scaled.apply(x, 2.0)), (VECTOR,)),
    "jvp of a Function": Case(lambda x, t: jvp(Exponential.apply, (x,), (t,)), (VECTOR, OTHER)),
    "vmap of jvp of a Function": Case(vmap(lambda x, t: jvp(Exponential.apply, (x,), (t,))[1]), (ROWS, ROWS)),
    "a Function that saves its result": Case(vmap(grad(lambda x: Exponential.apply(x).sum())), (ROWS,)),
    "a Function with two results": Case(lambda x: Sorted.apply(x, 0), (VECTOR,)),
    "vmap of a Function with its rule": Case(vmap(lambda x: Sorted.apply(x, 0), in_dims=1), (ROWS,)),
    "grad of a Function with two results": Case(
        grad(lambda x: (Sorted.apply(x, 0)[0] * torch.arange(4.0)).sum()), (VECTOR,)
    ),
}
"""Name -> case."""
