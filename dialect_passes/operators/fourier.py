"""Discrete Fourier transforms."""

from __future__ import annotations

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.helpers.dims import with_size, wrap_dim, wrap_dims
from pipeline.shape_lib.helpers.fourier import halved, last_size, resized, transform_dims, transformed
from pipeline.shape_lib.helpers.promotion import inexact, to_complex
from pipeline.shape_lib.registry import dtype_function, shape_function


def _assert_transformable(dtype: int) -> int:
    """The dtype that a transform computes in: on the CPU there is none for half precision."""
    result = inexact(dtype)
    assert result != dtypes.float16 and result != dtypes.bfloat16 and result != dtypes.complex32, (
        "there are no Fourier transforms of half precision"
    )
    return result


def _assert_norm(norm: str | None) -> None:
    if norm is not None:
        assert norm == "forward" or norm == "backward" or norm == "ortho", (
            "the norm is forward, backward or ortho"
        )


@shape_function("aten._fft_c2c.default")
def c2c_shape(x: list[int], dim: list[int], normalization: int, forward: bool) -> list[int]:
    """That of the signal."""
    return resized(x, None, wrap_dims(dim, len(x)))


@dtype_function("aten._fft_c2c.default")
def c2c_dtype(x: tuple[int, int], dim: list[int], normalization: int, forward: bool) -> int:
    """Complex to complex."""
    _, dtype = x
    assert dtypes.is_complex_dtype(dtype), "the signal must be complex"
    return dtype


def _dims_of_real(dims: list[int], rank: int) -> list[int]:
    assert rank > 0 and len(dims) > 0, "a transform of real signals needs at least one dimension"
    return wrap_dims(dims, rank)


@shape_function("aten._fft_r2c.default")
def r2c_shape(x: list[int], dim: list[int], normalization: int, onesided: bool) -> list[int]:
    """Half of the spectrum along the last of `dim`, or all of it."""
    dims = _dims_of_real(dim, len(x))
    shape = resized(x, None, dims)
    if onesided:
        return halved(shape, dims[-1])
    return shape


@dtype_function("aten._fft_r2c.default")
def r2c_dtype(x: tuple[int, int], dim: list[int], normalization: int, onesided: bool) -> int:
    """Real to complex."""
    _, dtype = x
    assert not dtypes.is_complex_dtype(dtype) and not dtypes.is_integer_dtype(dtype), (
        "the signal must be real"
    )
    return to_complex(dtype)


@shape_function("aten._fft_c2r.default")
def c2r_shape(x: list[int], dim: list[int], normalization: int, last_dim_size: int) -> list[int]:
    """A real signal of the size given along the last of `dim`."""
    dims = _dims_of_real(dim, len(x))
    assert last_dim_size >= 1, "a transform needs at least one point"
    return with_size(x, dims[-1], last_dim_size)


@dtype_function("aten._fft_c2r.default")
def c2r_dtype(x: tuple[int, int], dim: list[int], normalization: int, last_dim_size: int) -> int:
    """Complex to real."""
    _, dtype = x
    assert dtypes.is_complex_dtype(dtype), "the spectrum must be complex"
    return dtypes.real_dtype(dtype)


@shape_function("aten.fft_fft.default", "aten.fft_ifft.default")
def fft_shape(x: list[int], n: int | None, dim: int, norm: str | None) -> list[int]:
    """`n` points, or as many as there are."""
    _assert_norm(norm)
    return transformed(x, n, dim)


@shape_function("aten.fft_rfft.default", "aten.fft_ihfft.default")
def rfft_shape(x: list[int], n: int | None, dim: int, norm: str | None) -> list[int]:
    """Half of the spectrum of a real signal."""
    _assert_norm(norm)
    return halved(transformed(x, n, dim), wrap_dim(dim, len(x)))


@shape_function("aten.fft_irfft.default", "aten.fft_hfft.default")
def irfft_shape(x: list[int], n: int | None, dim: int, norm: str | None) -> list[int]:
    """A real signal, of even size unless `n` says otherwise."""
    _assert_norm(norm)
    shape = transformed(x, None, dim)
    wrapped = wrap_dim(dim, len(x))
    size = 2 * (shape[wrapped] - 1)
    if n is not None:
        size = n
    assert size >= 1, "a transform needs at least one point"
    return with_size(shape, wrapped, size)


@dtype_function("aten.fft_fft.default", "aten.fft_ifft.default")
def fft_dtype(x: tuple[int, int], n: int | None, dim: int, norm: str | None) -> int:
    """Complex."""
    _, dtype = x
    return to_complex(_assert_transformable(dtype))


@dtype_function("aten.fft_rfft.default", "aten.fft_ihfft.default")
def rfft_dtype(x: tuple[int, int], n: int | None, dim: int, norm: str | None) -> int:
    """Complex, of a real signal."""
    _, dtype = x
    assert not dtypes.is_complex_dtype(dtype), "the signal must be real"
    return to_complex(_assert_transformable(dtype))


@dtype_function("aten.fft_irfft.default", "aten.fft_hfft.default")
def irfft_dtype(x: tuple[int, int], n: int | None, dim: int, norm: str | None) -> int:
    """Real."""
    _, dtype = x
    return dtypes.real_dtype(_assert_transformable(dtype))


_COMPLEX_2D = ("aten.fft_fft2.default", "aten.fft_ifft2.default")
_COMPLEX_ND = ("aten.fft_fftn.default", "aten.fft_ifftn.default")
_FORWARD_2D = ("aten.fft_rfft2.default", "aten.fft_ihfft2.default")
_FORWARD_ND = ("aten.fft_rfftn.default", "aten.fft_ihfftn.default")
_BACK_2D = ("aten.fft_irfft2.default", "aten.fft_hfft2.default")
_BACK_ND = ("aten.fft_irfftn.default", "aten.fft_hfftn.default")


@shape_function(*_COMPLEX_ND)
def fftn_shape(x: list[int], s: list[int] | None, dim: list[int] | None, norm: str | None) -> list[int]:
    """The sizes `s`, or those that there are."""
    _assert_norm(norm)
    return resized(x, s, transform_dims(len(x), s, dim))


@shape_function(*_COMPLEX_2D)
def fft2_shape(x: list[int], s: list[int] | None, dim: list[int], norm: str | None) -> list[int]:
    """The same over two dimensions."""
    return fftn_shape(x, s, dim, norm)


@shape_function(*_FORWARD_ND)
def rfftn_shape(x: list[int], s: list[int] | None, dim: list[int] | None, norm: str | None) -> list[int]:
    """Half of the spectrum along the last transformed dimension."""
    _assert_norm(norm)
    dims = transform_dims(len(x), s, dim)
    assert len(dims) > 0, "a transform of real signals needs at least one dimension"
    return halved(resized(x, s, dims), dims[-1])


@shape_function(*_FORWARD_2D)
def rfft2_shape(x: list[int], s: list[int] | None, dim: list[int], norm: str | None) -> list[int]:
    """The same over two dimensions."""
    return rfftn_shape(x, s, dim, norm)


@shape_function(*_BACK_ND)
def irfftn_shape(x: list[int], s: list[int] | None, dim: list[int] | None, norm: str | None) -> list[int]:
    """A real signal, of even size along the last transformed dimension unless `s` says otherwise."""
    _assert_norm(norm)
    dims = transform_dims(len(x), s, dim)
    assert len(dims) > 0, "a transform to real signals needs at least one dimension"
    last = dims[-1]
    shape = resized(x, s, dims)
    size = last_size(s, 2 * (x[last] - 1))
    assert size >= 1, "a transform needs at least one point"
    return with_size(shape, last, size)


@shape_function(*_BACK_2D)
def irfft2_shape(x: list[int], s: list[int] | None, dim: list[int], norm: str | None) -> list[int]:
    """The same over two dimensions."""
    return irfftn_shape(x, s, dim, norm)


@dtype_function(*_COMPLEX_ND)
def fftn_dtype(x: tuple[int, int], s: list[int] | None, dim: list[int] | None, norm: str | None) -> int:
    """Complex."""
    _, dtype = x
    return to_complex(_assert_transformable(dtype))


@dtype_function(*_COMPLEX_2D)
def fft2_dtype(x: tuple[int, int], s: list[int] | None, dim: list[int], norm: str | None) -> int:
    """Complex."""
    return fftn_dtype(x, s, dim, norm)


@dtype_function(*_FORWARD_ND)
def rfftn_dtype(x: tuple[int, int], s: list[int] | None, dim: list[int] | None, norm: str | None) -> int:
    """Complex, of a real signal."""
    _, dtype = x
    assert not dtypes.is_complex_dtype(dtype), "the signal must be real"
    return to_complex(_assert_transformable(dtype))


@dtype_function(*_FORWARD_2D)
def rfft2_dtype(x: tuple[int, int], s: list[int] | None, dim: list[int], norm: str | None) -> int:
    """Complex, of a real signal."""
    return rfftn_dtype(x, s, dim, norm)


@dtype_function(*_BACK_ND)
def irfftn_dtype(x: tuple[int, int], s: list[int] | None, dim: list[int] | None, norm: str | None) -> int:
    """Real."""
    _, dtype = x
    return dtypes.real_dtype(_assert_transformable(dtype))


@dtype_function(*_BACK_2D)
def irfft2_dtype(x: tuple[int, int], s: list[int] | None, dim: list[int], norm: str | None) -> int:
    """Real."""
    return irfftn_dtype(x, s, dim, norm)


@shape_function("aten.fft_fftshift.default", "aten.fft_ifftshift.default")
def fftshift_shape(x: list[int], dim: list[int] | None) -> list[int]:
    """That of the spectrum."""
    if dim is not None:
        for each in dim:
            wrap_dim(each, len(x))
    return x


@dtype_function("aten.fft_fftshift.default", "aten.fft_ifftshift.default")
def fftshift_dtype(x: tuple[int, int], dim: list[int] | None) -> int:
    """That of the spectrum."""
    _, dtype = x
    return dtype
