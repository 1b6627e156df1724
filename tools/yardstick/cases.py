"""What a case is, and tensors to make cases of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

AHEAD, JUST_IN_TIME = "ahead of time", "just in time"
WAYS = (AHEAD, JUST_IN_TIME)

_generator = torch.Generator().manual_seed(0)


@dataclass(frozen=True)
class Case:
    """A function and the arguments to try it with.

    others: further arguments for the same compiled function, of other sizes. dynamic_shapes: what ahead of time must
        know of these, as for `torch.export.export`.
    backward: just in time, compare the gradients of all float arguments too.
    ways: those that apply; a graph break, say, does not ahead of time.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    others: tuple[tuple[Any, ...], ...] = ()
    dynamic_shapes: Any = None
    backward: bool = False
    ways: tuple[str, ...] = WAYS


def floats(*shape: int) -> torch.Tensor:
    """Normal numbers, the same ones in each process."""
    return torch.randn(*shape, generator=_generator)


def integers(high: int, *shape: int) -> torch.Tensor:
    """Whole numbers below `high`."""
    return torch.randint(0, high, shape, generator=_generator)
