"""Errors of PyTorch that are no matter of shapes and dtypes: why a function may be silent where PyTorch raises."""

from __future__ import annotations

import re

# (operator or "*", what PyTorch's message has, why it does not concern shapes and dtypes)
REASONS: tuple[tuple[str, str, str], ...] = (
    ("*", r"not implemented for", "the CPU has no kernel for the dtype; other devices may"),
    ("*", r"MKL FFT error", "a limit of the library behind the CPU's transforms, such as empty batches"),
    (
        "aten.as_strided_scatter.default",
        r"out of bounds for storage",
        "what lies in the storage beyond the tensor is not for shapes to say",
    ),
)


def excused(operator: str, error: str) -> str | None:
    """The reason why functions need not refuse what PyTorch refuses with `error`, if there is one."""
    for name, pattern, reason in REASONS:
        if name in ("*", operator) and re.search(pattern, error):
            return reason
    return None
