"""What a tensor type of the Torch dialect says, and the type that says it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from torch_mlir import ir

from .dtypes import CODES, QUANTIZED, SPELLED

_SPELLED = SPELLED | {name: f"!torch.{name}" for name in QUANTIZED}
_NAMES_OF_SPELLED = {spelled: name for name, spelled in _SPELLED.items()}
_CODES = CODES | QUANTIZED
_NAMES = {code: name for name, code in _CODES.items()}

_TENSOR = re.compile(r"!torch\.(v?tensor)(?:<(\*|\[[^\]]*\]),(.*)>)?$")

Sizes = tuple[int | None, ...] | None
"""None for an unknown rank, and in it for an unknown size."""


@dataclass(frozen=True)
class TensorInfo:
    """A tensor as far as it is known. dtype: torch's name without ``torch.``; None when unknown."""

    sizes: Sizes
    dtype: str | None

    @property
    def refined(self) -> bool:
        """Whether rank and dtype are known, which is what the lowering needs."""
        return self.sizes is not None and self.dtype is not None

    @property
    def code(self) -> int | None:
        """The dtype as torch's ScalarType code."""
        return None if self.dtype is None else _CODES[self.dtype]

    def meet(self, other: TensorInfo) -> TensorInfo | None:
        """What both say together; None where they contradict each other."""
        if not _agree(self.sizes, other.sizes) or (self.dtype and other.dtype and self.dtype != other.dtype):
            return None
        return TensorInfo(_merge(self.sizes, other.sizes), self.dtype or other.dtype)

    def __str__(self) -> str:
        sizes = "unknown rank" if self.sizes is None else f"[{','.join(map(_size_text, self.sizes))}]"
        return f"{sizes}, {self.dtype or 'unknown dtype'}"


def _size_text(size: int | None) -> str:
    return "?" if size is None else str(size)


def _agree(a: Sizes, b: Sizes) -> bool:
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(x == y or None in (x, y) for x, y in zip(a, b, strict=True))


def _merge(a: Sizes, b: Sizes) -> Sizes:
    if a is None or b is None:
        return b if a is None else a
    return tuple(y if x is None else x for x, y in zip(a, b, strict=True))


def dtype_name(code: int) -> str | None:
    """torch's name of a ScalarType code, None for one that the Torch dialect does not have."""
    name = _NAMES.get(code)
    return name if name in _SPELLED else None


def parse(type_: str) -> TensorInfo | None:
    """What the type says; None when it is no tensor's. Both value and non-value tensors are read."""
    found = _TENSOR.match(type_)
    if found is None:
        return None
    _, sizes, element = found.groups()
    if sizes is None:
        return TensorInfo(None, None)
    if element != "unk" and element not in _NAMES_OF_SPELLED:
        # A sparse encoding behind the dtype: such tensors are left alone.
        return None
    return TensorInfo(_parse_sizes(sizes), None if element == "unk" else _NAMES_OF_SPELLED[element])


def reader() -> Callable[[ir.Type], TensorInfo | None]:
    """`parse` for types of the IR, each distinct one once: printing them costs more than all else here."""
    return cache(lambda type_: parse(str(type_)))


def is_value_tensor(type_: str) -> bool:
    """Whether it is a tensor that is never changed, as all are that get lowered."""
    return type_.startswith("!torch.vtensor")


def _parse_sizes(text: str) -> Sizes:
    if text == "*":
        return None
    inner = text[1:-1].strip()
    return tuple(None if size == "?" else int(size) for size in inner.split(",")) if inner else ()


def build(info: TensorInfo) -> ir.Type:
    """The value tensor type that says `info`. Needs an active MLIR context."""
    sizes = "*" if info.sizes is None else f"[{','.join(map(_size_text, info.sizes))}]"
    element = "unk" if info.dtype is None else _SPELLED[info.dtype]
    return ir.Type.parse(f"!torch.vtensor<{sizes},{element}>")
