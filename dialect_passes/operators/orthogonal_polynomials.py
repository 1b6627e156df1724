"""Orthogonal polynomials of integer degree n, which is a number or a tensor of them.

Eager loops up to the degree of each element. Here a degree that is a tensor is unrolled: Chebyshev's polynomials by
its bits, Hermite's until all of them are NaN (their values overflow), Laguerre's and Legendre's up to `_STEPS`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor

_STEPS = 64


def _decomposes_polynomial(name: str) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Registers a function of x and the truncated degree for the three overloads of an operator."""

    def register(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        @functools.wraps(function)
        def decomposition(x: Any, n: Any) -> Tensor:
            import torch
            from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

            kind = ELEMENTWISE_TYPE_PROMOTION_KIND.INT_TO_FLOAT
            compute, result = elementwise_dtypes(x, n, type_promotion_kind=kind)
            x = x.to(compute) if isinstance(x, torch.Tensor) else torch.scalar_tensor(x, dtype=compute)
            degree = torch.trunc(n.to(compute)) if isinstance(n, torch.Tensor) else int(n)
            value = function(x, degree)
            return torch.where(_is(degree < 0, value), 0.0, value).to(result)

        overloads = ("default", "x_scalar", "n_scalar")
        decomposes(*(f"aten.special_{name}.{overload}" for overload in overloads))(decomposition)
        return function

    return register


def _is(condition: Tensor | bool, like: Tensor) -> Tensor:
    import torch

    if isinstance(condition, torch.Tensor):
        return condition
    return torch.full_like(like, condition, dtype=torch.bool)


def _powers(x: Tensor, n: Tensor | int) -> tuple[Tensor, Tensor]:
    """(T_n(x), U_{n-1}(x)) by the bits of n.

    T_{m+n} = T_m T_n + (x² - 1) U_{m-1} U_{n-1} and U_{m+n-1} = U_{m-1} T_n + T_m U_{n-1}, the powers of
    x + sqrt(x² - 1): beyond 1 all terms of a sum have one sign, so nothing cancels.
    """
    import torch

    factor = (x - 1) * (x + 1)
    t, u, base_t, base_u = torch.ones_like(x), torch.zeros_like(x), x, torch.ones_like(x)
    if isinstance(n, int):
        n, bits = torch.full_like(x, n), n.bit_length()
    else:
        # In f32 larger degrees overflow for every x beyond 1.
        bits = 31 if x.dtype == torch.float64 else 20
    rest = n.clamp(0.0, 2.0**bits - 1)
    for _ in range(bits):
        half = torch.floor(rest * 0.5)
        odd = rest - 2 * half != 0
        both_t, both_u = t * base_t + factor * u * base_u, u * base_t + t * base_u
        t, u = torch.where(odd, both_t, t), torch.where(odd, both_u, u)
        base_t, base_u = base_t * base_t + factor * base_u * base_u, 2 * base_t * base_u
        rest = half
    return t, u


# Each kind of Chebyshev polynomial, from T_n, U_{n-1} and x (DLMF 18.9.9 and following).
_KINDS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "t": lambda t, u, x: t,
    "u": lambda t, u, x: t + x * u,
    "v": lambda t, u, x: t + (x - 1) * u,
    "w": lambda t, u, x: t + (x + 1) * u,
}


def _waves(kind: str, n: Tensor, angle: Tensor) -> Tensor:
    """Of x = cos(angle) (DLMF 18.5.1 to 18.5.4)."""
    import torch

    if kind == "t":
        return torch.cos(n * angle)
    if kind == "u":
        return torch.sin((n + 1) * angle) / torch.sin(angle)
    if kind == "v":
        return torch.cos((n + 0.5) * angle) / torch.cos(0.5 * angle)
    return torch.sin((n + 0.5) * angle) / torch.sin(0.5 * angle)


def _chebyshev(kind: str, x: Tensor, n: Tensor | int) -> Tensor:
    """Small degrees and |x| >= 1 by powers, the others by trigonometric functions, as in eager.

    Eager's recurrence overflows to infinity and then is NaN two degrees later.
    """
    import torch

    t, u = _powers(x, n)
    degree = n if isinstance(n, torch.Tensor) else torch.full_like(x, n)
    value = _KINDS[kind](t, u, x)
    growth = torch.log(x.abs().clamp(min=1.0) + torch.sqrt(((x - 1) * (x + 1)).clamp(min=0.0)))
    beyond = (degree - 2) * growth > math.log(2) + math.log(torch.finfo(x.dtype).max)
    value = torch.where(beyond, math.nan, value)
    inside = (degree > (6 if kind == "t" else 8)) & (x.abs() < 1)
    value = torch.where(inside, _waves(kind, degree, torch.acos(x.clamp(-1.0, 1.0))), value)
    return torch.where(degree == 0, 1.0, value)


def _register_chebyshev(kind: str) -> None:
    _decomposes_polynomial(f"chebyshev_polynomial_{kind}")(lambda x, n: _chebyshev(kind, x, n))
    _decomposes_polynomial(f"shifted_chebyshev_polynomial_{kind}")(
        lambda x, n: _chebyshev(kind, x + x - 1, n)
    )


for _kind in _KINDS:
    _register_chebyshev(_kind)


def _recurrence(
    n: Tensor | int, first: Tensor, step: Callable[[int, Tensor, Tensor], Tensor], limit: int
) -> Tensor:
    """p_0 = 1, p_1 = first, p_{k+1} = step(k, p_k, p_{k-1}), up to degree n; NaN beyond the limit."""
    import torch

    before, value = torch.ones_like(first), first
    if isinstance(n, int):
        for k in range(1, min(n, limit)):
            before, value = value, step(k, value, before)
        return torch.ones_like(first) if n <= 0 else value if n <= limit else torch.full_like(first, math.nan)
    result = torch.where(n <= 0, 1.0, first)
    for k in range(1, limit):
        before, value = value, step(k, value, before)
        result = torch.where(n == k + 1, value, result)
    return torch.where(n <= limit, result, math.nan)


def _hermite_limit(x: Tensor) -> int:
    """From here on eager's recurrence has overflowed and is NaN for every x."""
    import torch

    return 320 if x.dtype == torch.float64 else 64


def _for_numbers(n: Tensor | int, limit: int) -> int:
    """A degree that is a number is unrolled as far as it goes."""
    return max(n, limit) if isinstance(n, int) else limit


@_decomposes_polynomial("hermite_polynomial_h")
def hermite_polynomial_h(x: Tensor, n: Tensor | int) -> Tensor:
    """The physicist's: H_{k+1} = 2x H_k - 2k H_{k-1}."""
    return _recurrence(n, x + x, lambda k, p, q: (x + x) * p - (2 * k) * q, _hermite_limit(x))


@_decomposes_polynomial("hermite_polynomial_he")
def hermite_polynomial_he(x: Tensor, n: Tensor | int) -> Tensor:
    """The probabilist's: He_{k+1} = x He_k - k He_{k-1}."""
    return _recurrence(n, x, lambda k, p, q: x * p - k * q, _hermite_limit(x))


@_decomposes_polynomial("laguerre_polynomial_l")
def laguerre_polynomial_l(x: Tensor, n: Tensor | int) -> Tensor:
    """(k + 1) L_{k+1} = (2k + 1 - x) L_k - k L_{k-1}."""

    def step(k: int, p: Tensor, q: Tensor) -> Tensor:
        return ((2 * k + (1 - x)) * p - k * q) / (k + 1)

    return _recurrence(n, 1 - x, step, _for_numbers(n, _STEPS))


@_decomposes_polynomial("legendre_polynomial_p")
def legendre_polynomial_p(x: Tensor, n: Tensor | int) -> Tensor:
    """(k + 1) P_{k+1} = (2k + 1) x P_k - k P_{k-1}."""

    def step(k: int, p: Tensor, q: Tensor) -> Tensor:
        return ((2 * k + 1) * x * p - k * q) / (k + 1)

    return _recurrence(n, x, step, _for_numbers(n, _STEPS))
