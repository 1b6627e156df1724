"""Matrix products and convolutions of complex tensors, as four real ones; products and means over elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .arithmetic import add, multiply
from .rules import Call, Pair, pair_of, rule


def bilinear(function: Callable[[Any, Any], Any], a: Pair, b: Pair) -> Pair:
    """A function that is linear in both arguments."""
    return Pair(
        function(a.re, b.re) - function(a.im, b.im),
        function(a.re, b.im) + function(a.im, b.re),
    )


@rule("aten.mm", "aten.bmm", "aten.matmul", "aten.mv", "aten.dot", "aten.kron", "aten.outer", "aten.linear")
def product(call: Call, a: Any, b: Any) -> Pair:
    """A product of matrices or vectors."""
    return bilinear(call.target, pair_of(a, call), pair_of(b, call))


@rule("aten.vdot")
def vdot(call: Call, a: Any, b: Any) -> Pair:
    """The product of a's conjugate and b."""
    import torch

    x = pair_of(a, call)
    return bilinear(torch.dot, Pair(x.re, -x.im), pair_of(b, call))


def _sum_with_product(call: Call, c: Any, product: Pair, beta: Any, alpha: Any) -> Pair:
    if alpha != 1:
        product = multiply(product, pair_of(alpha, call))
    if beta == 0:
        return product
    base = pair_of(c, call)
    return add(call, base if beta == 1 else multiply(base, pair_of(beta, call)), product)


@rule("aten.addmm", "aten.baddbmm", "aten.addmv", "aten.addr")
def addmm(call: Call, c: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Pair:
    """beta c + alpha a b."""
    import torch

    function = torch.outer if "addr" in str(call.target) else torch.matmul
    return _sum_with_product(call, c, bilinear(function, pair_of(a, call), pair_of(b, call)), beta, alpha)


@rule("aten.addbmm")
def addbmm(call: Call, c: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Pair:
    """beta c + alpha times the sum of all a b."""
    import torch

    value = bilinear(torch.matmul, pair_of(a, call), pair_of(b, call))
    return _sum_with_product(call, c, Pair(value.re.sum(0), value.im.sum(0)), beta, alpha)


@rule("aten.convolution")
def convolution(call: Call, x: Any, weight: Any, bias: Any, *rest: Any) -> Pair:
    """A convolution, and the bias."""
    value = bilinear(lambda a, b: call.target(a, b, None, *rest), pair_of(x, call), pair_of(weight, call))
    if bias is None:
        return value
    b = pair_of(bias, call)
    shape = [1, -1] + [1] * (value.re.dim() - 2)
    return Pair(value.re + b.re.view(shape), value.im + b.im.view(shape))


@rule("aten.prod")
def prod(call: Call, z: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Pair:
    """The product over one dimension, or all elements: by halves."""
    z = pair_of(z, call)
    if dim is None:
        z, dim = Pair(z.re.reshape(-1), z.im.reshape(-1)), 0
    z = _halved(Pair(z.re.movedim(dim, 0), z.im.movedim(dim, 0)), z.re.shape[dim])
    return Pair(z.re.unsqueeze(dim), z.im.unsqueeze(dim)) if keepdim else z


def _halved(z: Pair, size: int) -> Pair:
    import torch

    if size == 0:
        shape = z.re.shape[1:]
        return Pair(z.re.new_ones(shape), z.im.new_zeros(shape))
    while size > 1:
        half = size // 2
        first, second = Pair(z.re[:half], z.im[:half]), Pair(z.re[half : 2 * half], z.im[half : 2 * half])
        rest = Pair(z.re[2 * half :], z.im[2 * half :])
        value = multiply(first, second)
        z = Pair(torch.cat([value.re, rest.re]), torch.cat([value.im, rest.im])) if size % 2 else value
        size -= half
    return Pair(z.re[0], z.im[0])


@rule("aten.cumprod")
def cumprod(call: Call, z: Any, dim: int, *, dtype: Any = None) -> Pair:
    """Products of all prefixes, each step joining twice as many."""
    import torch

    z = pair_of(z, call)
    if not z.re.dim():
        return z
    size, step = z.re.shape[dim], 1
    while step < size:
        head = Pair(z.re.narrow(dim, 0, step), z.im.narrow(dim, 0, step))
        tail = Pair(z.re.narrow(dim, step, size - step), z.im.narrow(dim, step, size - step))
        before = Pair(z.re.narrow(dim, 0, size - step), z.im.narrow(dim, 0, size - step))
        value = multiply(before, tail)
        z = Pair(torch.cat([head.re, value.re], dim), torch.cat([head.im, value.im], dim))
        step *= 2
    return z


@rule("aten.var")
def var(call: Call, z: Pair, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The sum of the variances of the parts."""
    return call.target(z.re, dim, *args, **kwargs) + call.target(z.im, dim, *args, **kwargs)


@rule("aten.var_mean")
def var_mean(call: Call, z: Pair, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The variance, which is real, and the mean."""
    re, re_mean = call.target(z.re, dim, *args, **kwargs)
    im, im_mean = call.target(z.im, dim, *args, **kwargs)
    return [re + im, Pair(re_mean, im_mean)]


@rule("aten.std")
def std(call: Call, z: Pair, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The root of the variance."""
    import torch

    return torch.hypot(call.target(z.re, dim, *args, **kwargs), call.target(z.im, dim, *args, **kwargs))
