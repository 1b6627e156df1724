"""Elementwise functions, complex arithmetic and Fourier transforms, many in one program each."""

from __future__ import annotations

import math

import torch

import pipeline


class _All(torch.nn.Module):
    def __init__(self, *functions):
        super().__init__()
        self.functions = functions

    def forward(self, *args):
        return tuple(function(*args) for function in self.functions)


def _check(functions, *args):
    model = _All(*functions)
    for ours, eager in zip(pipeline.compile(model, args=args)(*args), model(*args), strict=True):
        torch.testing.assert_close(ours, eager.resolve_conj(), equal_nan=True)


def test_elementwise_edges():
    """Large arguments of sines, and powers of zeros, infinities and negative bases."""
    x = torch.tensor([0.0, 0.5, -0.5, 2.5, -3.0, 88.0, 1e3, -12345.6, 1e5, math.inf, -math.inf, math.nan])
    y = torch.tensor([2.0, -2.5, 3.0, 7.3, -3.0, 0.0, 5.5, 2.0, -1.0, 0.5, 3.0, 1.0])
    _check(
        [
            lambda x, y: torch.sin(x),
            lambda x, y: torch.tan(x),
            lambda x, y: torch.cos(x * 1e33),
            lambda x, y: torch.sin(x.double() * 1e300),
            lambda x, y: torch.atan2(x[:, None], -x),
            lambda x, y: torch.atan(x.double()),
            torch.pow,
            lambda x, y: torch.pow(x, -2),
            lambda x, y: (x.abs() ** y) ** y.abs(),  # never compiled, as tensor operations
            lambda x, y: torch.exp2(x[:5]),
            lambda x, y: torch.logaddexp2(x.double(), y.double()),
            lambda x, y: torch.pow(x[:5].half(), torch.arange(5)),
            lambda x, y: torch.logspace(0, 3, 4, base=5, dtype=torch.int64),
            lambda x, y: torch.copysign(y, x),
            torch.hypot,
            lambda x, y: torch.erfinv(x),
        ],
        x,
        y,
    )


def test_whole_powers():
    """Not one bit beside the whole number: what is rounded down would be the number before."""
    x, y = torch.tensor([5.0, 3.0, 7.0, -2.0]), torch.tensor([2.0, 11.0, 3.0, 21.0])
    model = _All(torch.pow, lambda x, y: torch.pow(x.double(), y))
    for ours, eager in zip(pipeline.compile(model, args=(x, y))(x, y), model(x, y), strict=True):
        torch.testing.assert_close(ours, eager, rtol=0, atol=0)


def test_bits_and_divisors():
    """Neighbours and mantissas below the normal numbers too; divisors of the least integer."""
    x = torch.tensor([1.0, 0.0, -0.0, 1e-45, -1e-40, math.inf, math.nan, -3.4028234663852886e38])
    n = torch.tensor([12, 0, -30, 7, -(2**63), 64, 1, 0])
    _check(
        [
            lambda x, n: torch.nextafter(x, x.flip(0)).view(torch.int32),
            lambda x, n: torch.nextafter(x.to(torch.bfloat16)[:, None], x.to(torch.bfloat16)),
            lambda x, n: torch.frexp(x).mantissa,
            lambda x, n: torch.frexp(x.double() * 1e-300).exponent,
            lambda x, n: torch.gcd(n, n.flip(0)[:, None]),
            lambda x, n: torch.lcm(n.int(), n.short().flip(0)),
            lambda x, n: torch.gcd(n.to(torch.int8) * 64, n.flip(0).to(torch.int8)),
        ],
        x,
        n,
    )


def test_integers():
    """Shifts by too much or too little, powers that wrap or are negative, and constants of bytes."""
    n = torch.tensor([1, -1, 5, -77, 2**63 - 1, -(2**63), 0, -2])
    k = torch.tensor([0, 1, 62, 63, 64, -1, 100, 3])
    _check(
        [
            lambda n, k: n << k,
            lambda n, k: n.int()[:, None] >> k.int(),
            lambda n, k: (n.to(torch.uint8) >> 3) | 65,
            lambda n, k: torch.bitwise_left_shift(5, k) ^ 3,
            lambda n, k: n >> 70,
            lambda n, k: n ** k.abs(),
            lambda n, k: torch.pow(-1, -k) + n**2,
            lambda n, k: n.to(torch.uint8) ** 0,
            lambda n, k: torch.full((2,), 255, dtype=torch.uint8),
            lambda n, k: torch.addbmm(n[:1], n.reshape(2, 2, 2), k.reshape(2, 2, 2), beta=2, alpha=3),
            lambda n, k: torch.cat([torch.full((2,), 200.7).to(torch.uint8), k.to(torch.uint8)]),
        ],
        n,
        k,
    )


def test_incomplete_gamma_functions():
    """On both sides of where one formula takes over from another, and where eager looks before it sees NaN."""
    a = torch.tensor([0.5, 3.0, 19.9, 20.1, 150.0, 0.0, math.inf, math.nan, -1.0])
    x = torch.tensor([0.1, 4.0, 25.0, 300.0, 0.0, math.inf, math.nan])[:, None]
    _check([torch.igamma, lambda a, x: torch.igammac(a.double(), x)], a, x)


def test_constants_are_compared_as_what_they_are():
    """torch-mlir folds a float constant's comparison with an int by its bits."""
    _check(
        [
            lambda x: torch.full_like(x, 2.5) > 3,
            lambda x: torch.full_like(x, -2.5) < 0,
            lambda x: torch.full((2,), 3) < 3.5,
        ],
        torch.ones(2),
    )


def test_complex_numbers_and_transforms():
    """In and out of the program, arithmetic, and a Fourier transform."""
    torch.manual_seed(0)
    a, b = torch.randn(3, 4, dtype=torch.complex64), torch.randn(3, 4, dtype=torch.complex64)
    _check(
        [
            lambda a, b: a * b / (a + 2j),
            lambda a, b: a @ b.T.conj(),
            lambda a, b: a.angle(),
            lambda a, b: a.prod(0),
            lambda a, b: a**b + b**a.real,
            lambda a, b: torch.fft.fft(a, 5),
        ],
        a,
        b,
    )


def test_floats_out_of_an_integers_range():
    """Bytes keep the low bits of an int32, as eager's do: neither saturated nor whatever the vectors' width gives."""
    x = torch.tensor([300.0, -3.7, 178.0, 1e10, -3e9, math.nan, math.inf, 2.0**33 + 5000] * 5 + [-0.5])
    integers = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)
    _check(
        [lambda x, y, dtype=dtype: x.to(dtype) for dtype in integers]
        + [lambda x, y, dtype=dtype: y.to(dtype) for dtype in integers],
        x,
        x.double(),
    )
