"""One row per element type: PyTorch's name, the short one on screen, NumPy's dtype, IREE's element type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Dtype:
    """An element type as every room of the house names it.

    name: PyTorch's name without the ``torch.`` prefix, which the manifest stores.
    short: as printed, and as ``--input 1x3xf32=...`` spells it.
    numpy: the NumPy dtype (ml_dtypes where NumPy has none).
    hal: attribute name of ``iree.runtime.HalElementType``.
    """

    name: str
    short: str
    numpy: np.dtype[Any]
    hal: str

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.numpy.itemsize

    def torch(self) -> torch.dtype:
        """The torch dtype; imports torch."""
        import torch

        return getattr(torch, self.name)


_ROWS = [
    Dtype("float64", "f64", np.dtype(np.float64), "FLOAT_64"),
    Dtype("float32", "f32", np.dtype(np.float32), "FLOAT_32"),
    Dtype("float16", "f16", np.dtype(np.float16), "FLOAT_16"),
    Dtype("bfloat16", "bf16", np.dtype(ml_dtypes.bfloat16), "BFLOAT_16"),
    Dtype("int64", "i64", np.dtype(np.int64), "SINT_64"),
    Dtype("int32", "i32", np.dtype(np.int32), "SINT_32"),
    Dtype("int16", "i16", np.dtype(np.int16), "SINT_16"),
    Dtype("int8", "i8", np.dtype(np.int8), "SINT_8"),
    Dtype("uint8", "u8", np.dtype(np.uint8), "UINT_8"),
    Dtype("uint32", "u32", np.dtype(np.uint32), "UINT_32"),
    Dtype("bool", "bool", np.dtype(np.bool_), "BOOL_8"),
    Dtype("complex64", "c64", np.dtype(np.complex64), "COMPLEX_64"),
    Dtype("complex128", "c128", np.dtype(np.complex128), "COMPLEX_128"),
]

PARTS = {"complex64": "float32", "complex128": "float64"}
"""The real type of the parts of each complex type, by name."""

BY_NAME = {row.name: row for row in _ROWS}
BY_SHORT = {row.short: row for row in _ROWS}
_BY_NUMPY = {row.numpy: row for row in _ROWS}
_BY_TORCH: dict[Any, Dtype | None] = {}  # filled as dtypes are met: torch may not be installed


def from_numpy(dtype: np.dtype[Any]) -> Dtype | None:
    """The row of a NumPy dtype (byte order ignored), None when artifacts cannot hold it."""
    return _BY_NUMPY.get(dtype.newbyteorder("="))


def from_torch(dtype: torch.dtype) -> Dtype | None:
    """The row of a torch dtype, None when artifacts cannot hold it."""
    if dtype not in _BY_TORCH:
        _BY_TORCH[dtype] = BY_NAME.get(str(dtype).removeprefix("torch."))
    return _BY_TORCH[dtype]
