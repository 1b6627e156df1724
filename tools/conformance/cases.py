"""What to run: a case is one sample of one operator in one dtype, of one kind, on one target."""

from __future__ import annotations

import functools
import itertools
import random
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

KINDS = ("forward", "backward", "just-in-time", "errors")
GRADIENTS = ("backward", "just-in-time")
LAYOUTS = ("contiguous", "strided")
DTYPES = ("float32", "int64", "bool", "bfloat16", "float16", "float64", "int32", "uint8", "complex64")

_MOST = 400
"""Samples generated for an operator and dtype; some generators never end."""


@dataclass(frozen=True)
class Case:
    """One run. sample: its number among the operator's samples (or error inputs)."""

    operator: str
    dtype: str
    sample: int
    kind: str = "forward"
    target: str = "cpu"
    layout: str = "contiguous"
    dynamic: bool = False

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes it the same case in a file of records."""
        return (
            self.operator,
            self.dtype,
            self.sample,
            self.kind,
            self.target,
            self.layout,
            self.dynamic,
        )


@functools.cache
def operators() -> dict[str, Any]:
    """Name (with variant) -> OpInfo."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {_name(info): info for info in op_db}


def _name(info: Any) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


def first_dtypes(info: Any) -> list[str]:
    """float32 where the operator takes it, else int64 and bool, else what it takes."""
    supported = {str(dtype).removeprefix("torch.") for dtype in info.supported_dtypes("cpu")}
    if "float32" in supported:
        return ["float32"]
    return [dtype for dtype in ("int64", "bool") if dtype in supported] or [
        dtype for dtype in DTYPES if dtype in supported
    ][:1]


def supported_dtypes(info: Any, wanted: Iterable[str]) -> list[str]:
    """Those of `wanted` that the operator takes on the CPU."""
    supported = info.supported_dtypes("cpu")
    return [dtype for dtype in wanted if getattr(torch, dtype) in supported]


@functools.lru_cache(maxsize=4)
def samples(operator: str, dtype: str, kind: str) -> list[Any]:
    """The samples of an operator, always the same ones."""
    info = operators()[operator]
    with quiet(), seeded():
        if kind == "errors":
            return (
                [error.sample_input for error in info.error_inputs("cpu")] if info.error_inputs_func else []
            )
        found = info.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False)
        return list(itertools.islice(found, _MOST))


def chosen(count: int, how_many: int | None) -> list[int]:
    """Numbers of `how_many` samples, from first to last; one is the middle one, None are all."""
    if how_many is None or how_many >= count:
        return list(range(count))
    if how_many == 1:
        return [round((count - 1) / 2)]
    return sorted({round(k * (count - 1) / (how_many - 1)) for k in range(how_many)})


def matching(pattern: str | None) -> Iterator[str]:
    """Operators whose whole name the regular expression matches."""
    return (name for name in operators() if pattern is None or re.fullmatch(pattern, name))


class seeded:
    """Fixes every generator that samples and random operators draw from; 42 is what random OpInfos set themselves."""

    def __enter__(self) -> None:
        import numpy as np

        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(42)

    def __exit__(self, *_: object) -> None:
        return None


def quiet() -> warnings.catch_warnings:
    """No warnings of torch's: samples provoke them by the thousand."""
    return warnings.catch_warnings(action="ignore")
