"""Torch's scalar types as the integers that dtype functions compute with.

The numbers are those of torch's ``ScalarType``. Everything here runs as plain Python and is compiled where a dtype
function calls it; ``promote_dtypes`` and ``get_dtype_of_scalar`` become operations that torch-mlir resolves.
"""

uint8 = 0
int8 = 1
int16 = 2
int32 = 3
int64 = 4
float16 = 5
float32 = 6
float64 = 7
complex32 = 8
complex64 = 9
complex128 = 10
bool_ = 11
bfloat16 = 15
float8_e5m2 = 23
float8_e4m3fn = 24
float8_e5m2fnuz = 25
float8_e4m3fnuz = 26
uint16 = 27
uint32 = 28
uint64 = 29

CODES = {
    "uint8": uint8,
    "int8": int8,
    "int16": int16,
    "int32": int32,
    "int64": int64,
    "float16": float16,
    "float32": float32,
    "float64": float64,
    "complex32": complex32,
    "complex64": complex64,
    "complex128": complex128,
    "bool": bool_,
    "bfloat16": bfloat16,
    "float8_e5m2": float8_e5m2,
    "float8_e4m3fn": float8_e4m3fn,
    "float8_e5m2fnuz": float8_e5m2fnuz,
    "float8_e4m3fnuz": float8_e4m3fnuz,
    "uint16": uint16,
    "uint32": uint32,
    "uint64": uint64,
}
"""By torch's names, without ``torch.``."""

QUANTIZED = {"qint8": 12, "quint8": 13, "qint32": 14}
"""The scalar types that no dtype function computes with, but a program may have."""

SPELLED = {
    "uint8": "ui8",
    "int8": "si8",
    "int16": "si16",
    "int32": "si32",
    "int64": "si64",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "complex32": "complex<f16>",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "bool": "i1",
    "bfloat16": "bf16",
    "float8_e5m2": "f8E5M2",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
}
"""As element types of the Torch dialect, which has no others. Its linalg has the same without the signs."""


def all_integer_dtypes() -> list[int]:
    """bool and the integers that torch-mlir's library means by integers."""
    return [bool_, uint8, int8, int16, int32, int64]


def all_float_dtypes() -> list[int]:
    return [float16, bfloat16, float32, float64]


def all_complex_dtypes() -> list[int]:
    return [complex64, complex128]


def is_integer_dtype(dtype: int) -> bool:
    """Whether `dtype` is an integer or bool, as torch-mlir's library means it."""
    return dtype in (bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64)


def is_float_dtype(dtype: int) -> bool:
    return dtype in (float16, bfloat16, float32, float64)


def is_complex_dtype(dtype: int) -> bool:
    return dtype in (complex32, complex64, complex128)


def get_priority_of_dtype(dtype: int) -> int:
    """The place of `dtype` in the order in which promotion prefers. Raises ValueError for dtypes without one."""
    floats = [bfloat16, float16, float32, float64]
    order = all_integer_dtypes() + floats + all_complex_dtypes()
    return order.index(dtype)


def real_dtype(dtype: int) -> int:
    """The dtype of a complex number's real part; other dtypes are themselves."""
    if dtype == complex32:
        return float16
    if dtype == complex64:
        return float32
    if dtype == complex128:
        return float64
    return dtype


def promote_dtypes(ranks: list[int | None], dtypes: list[int]) -> int:
    """The dtype of a result computed from all of these, by the rules of ``torch.result_type``.

    ranks: of each operand; None for a Python number, whose dtype is that of `get_dtype_of_scalar`.

    Raises:
        ValueError: if PyTorch promotes no such dtypes, or there are none.
    """
    if not ranks or len(ranks) != len(dtypes):
        raise ValueError("promote_dtypes needs one rank for each dtype, and at least one of both")
    only_numbers = all(rank is None for rank in ranks)
    found: list[int | None] = [None, None, None]
    for rank, dtype in zip(ranks, dtypes, strict=True):
        number = rank is None and not only_numbers
        category = 2 if rank is None else int(rank == 0)
        found[category] = _promote(found[category], _default_dtype(dtype) if number else dtype)
    result = _combine(found[0], _combine(found[1], found[2]))
    assert result is not None
    return result


def get_dtype_of_scalar(scalar: int | float | complex) -> int:
    """The dtype of a Python number, as wide as Python's own."""
    if isinstance(scalar, bool):
        return bool_
    if isinstance(scalar, int):
        return int64
    return complex128 if isinstance(scalar, complex) else float64


# What follows serves promote_dtypes in plain Python; it is never compiled.

_INTEGERS = (uint8, int8, int16, int32, int64)
_WIDE_UNSIGNED = (uint16, uint32, uint64)
_FLOATS = (float16, bfloat16, float32, float64)
_COMPLEX_OF = {float16: complex32, bfloat16: complex64, float32: complex64, float64: complex128}


def _default_dtype(dtype: int) -> int:
    """The dtype that a Python number has beside tensors."""
    if is_complex_dtype(dtype):
        return complex64
    return float32 if dtype in _FLOATS else dtype


def _combine(higher: int | None, lower: int | None) -> int | None:
    """Operands of the higher category decide, unless the lower one is of another kind (integer, float, complex)."""
    if higher is None or lower is None:
        return lower if higher is None else higher
    if is_complex_dtype(higher):
        return higher
    if higher in _FLOATS:
        return _COMPLEX_OF[higher] if is_complex_dtype(lower) else higher
    if is_complex_dtype(lower):
        return lower
    if higher == bool_ or lower in _FLOATS:
        return _promote(higher, lower)
    return higher


def _promote(a: int | None, b: int) -> int:
    """torch.promote_types."""
    if a is None or a == b:
        return b
    if (a in _WIDE_UNSIGNED and b not in _FLOATS) or (b in _WIDE_UNSIGNED and a not in _FLOATS):
        raise ValueError(f"PyTorch promotes no {_name(a)} with {_name(b)}")
    if is_complex_dtype(a) or is_complex_dtype(b):
        return _promote_complex(a, b)
    if a == bool_ or b == bool_:
        return b if a == bool_ else a
    if a in _FLOATS or b in _FLOATS:
        return _promote_floats(a, b)
    if a in _INTEGERS and b in _INTEGERS:
        wider = max(a, b)
        return int16 if {a, b} == {uint8, int8} else wider
    raise ValueError(f"PyTorch promotes no {_name(a)} with {_name(b)}")


def _promote_floats(a: int, b: int) -> int:
    known = (*_FLOATS, *_INTEGERS, *_WIDE_UNSIGNED)
    if a not in known or b not in known:
        raise ValueError(f"PyTorch promotes no {_name(a)} with {_name(b)}")
    if a in _FLOATS and b in _FLOATS:
        return float32 if {a, b} == {float16, bfloat16} else _FLOATS[max(_FLOATS.index(a), _FLOATS.index(b))]
    return a if a in _FLOATS else b


def _promote_complex(a: int, b: int) -> int:
    kinds = [_COMPLEX_OF.get(dtype, dtype) for dtype in (a, b)]
    found = [dtype for dtype in kinds if is_complex_dtype(dtype)]
    return max(found)


def _name(dtype: int) -> str:
    return next((name for name, code in CODES.items() if code == dtype), f"scalar type {dtype}")
