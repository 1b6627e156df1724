"""Where a wider tolerance than `torch.testing.assert_close`'s default is right, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Tolerance:
    """rtol, atol: for float32 results. reason: why the default cannot be met, printed in docs/operators.md."""

    rtol: float
    atol: float
    reason: str


TOLERANCES: dict[str, Tolerance] = {}
"""By operator name."""


def tolerance_of(operator: str, dtype: torch.dtype) -> dict[str, Any]:
    """Keyword arguments for `assert_close`: none for the default."""
    found = TOLERANCES.get(operator)
    if found is None or dtype not in (torch.float32, torch.complex64):
        return {}
    return {"rtol": found.rtol, "atol": found.atol}
