"""Where a wider tolerance than `torch.testing.assert_close`'s default is right, and why."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Tolerance:
    """rtol, atol: for float32 results. reason: why the default cannot be met, printed in docs/operators.md."""

    rtol: float
    atol: float
    reason: str


TOLERANCES: dict[str, Tolerance] = {}
"""By operator name."""


def tolerance_of(operator: str, dtype: torch.dtype) -> tuple[float, float] | None:
    """(rtol, atol), or None for the default."""
    found = TOLERANCES.get(operator)
    if found is None or dtype not in (torch.float32, torch.complex64):
        return None
    return found.rtol, found.atol


WRONG_IN_EAGER: dict[tuple[str, torch.dtype], str] = {
    ("matrix_exp", dtype): "eager's powers of the matrix overflow or are far off; judged by float64"
    for dtype in (torch.float16, torch.bfloat16)
}
"""(operator, dtype) -> why eager's own results decide nothing, printed in docs/operators.md."""
