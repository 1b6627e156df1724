"""Constants of torch and math that shape functions name."""

from __future__ import annotations

import math

from .. import dtypes

_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "chalf": "complex32",
    "int": "int32",
    "long": "int64",
    "short": "int16",
}
_MATH = {"inf": math.inf, "nan": math.nan, "pi": math.pi, "e": math.e}


def torch_constant(module: str, name: str) -> int | float | None:
    """The value of `torch.float32` (its scalar type's number) or `math.inf`; None for other names."""
    if module == "torch":
        return (dtypes.CODES | dtypes.QUANTIZED).get(_ALIASES.get(name, name))
    return _MATH.get(name) if module == "math" else None
