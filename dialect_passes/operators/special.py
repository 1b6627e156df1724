"""Special functions: gamma, Bessel, orthogonal polynomials. torch-mlir has none of their shapes and dtypes."""

from __future__ import annotations

from pipeline.shape_lib.helpers.broadcasting import broadcast
from pipeline.shape_lib.helpers.promotion import promoted, real_inexact
from pipeline.shape_lib.registry import dtype_function, shape_function

_UNARY = (
    "aten.digamma.default",
    "aten.erfc.default",
    "aten.erfinv.default",
    "aten.i0.default",
    "aten.lgamma.default",
    "aten.special_airy_ai.default",
    "aten.special_bessel_j0.default",
    "aten.special_bessel_j1.default",
    "aten.special_bessel_y0.default",
    "aten.special_bessel_y1.default",
    "aten.special_erfcx.default",
    "aten.special_i0e.default",
    "aten.special_i1.default",
    "aten.special_i1e.default",
    "aten.special_modified_bessel_i0.default",
    "aten.special_modified_bessel_i1.default",
    "aten.special_modified_bessel_k0.default",
    "aten.special_modified_bessel_k1.default",
    "aten.special_ndtri.default",
    "aten.special_scaled_modified_bessel_k0.default",
    "aten.special_scaled_modified_bessel_k1.default",
    "aten.special_spherical_bessel_j0.default",
)

_BINARY = (
    "aten.special_chebyshev_polynomial_t.default",
    "aten.special_chebyshev_polynomial_u.default",
    "aten.special_chebyshev_polynomial_v.default",
    "aten.special_chebyshev_polynomial_w.default",
    "aten.special_hermite_polynomial_h.default",
    "aten.special_hermite_polynomial_he.default",
    "aten.special_laguerre_polynomial_l.default",
    "aten.special_legendre_polynomial_p.default",
    "aten.special_shifted_chebyshev_polynomial_t.default",
    "aten.special_shifted_chebyshev_polynomial_u.default",
    "aten.special_shifted_chebyshev_polynomial_v.default",
    "aten.special_shifted_chebyshev_polynomial_w.default",
    "aten.special_zeta.default",
)


@shape_function(*_UNARY)
def unary_shape(x: list[int]) -> list[int]:
    """That of the argument."""
    return x


@dtype_function(*_UNARY)
def unary_dtype(x: tuple[int, int]) -> int:
    """Integers are computed in the default float type."""
    _, dtype = x
    return real_inexact(dtype)


@shape_function("aten.polygamma.default")
def polygamma_shape(n: int, x: list[int]) -> list[int]:
    """That of the argument."""
    assert n >= 0, "polygamma(n, x) does not support negative n"
    return x


@dtype_function("aten.polygamma.default")
def polygamma_dtype(n: int, x: tuple[int, int]) -> int:
    """Integers are computed in the default float type."""
    _, dtype = x
    return real_inexact(dtype)


@shape_function(*_BINARY)
def binary_shape(a: list[int], b: list[int]) -> list[int]:
    """Both broadcast."""
    return broadcast(a, b)


@dtype_function(*_BINARY)
def binary_dtype(a: tuple[int, int], b: tuple[int, int]) -> int:
    """Integers are computed in the default float type."""
    return real_inexact(promoted(a, b))
