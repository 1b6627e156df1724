"""The random numbers that an entry point takes as arguments, drawn anew for each call.

Where torch is installed they come from its generator on the CPU, in the order in which eager draws them:
torch.manual_seed gives eager's own results. Elsewhere they come from a NumPy generator, which `seed` sets.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from . import dtypes
from .dims import evaluate
from .errors import ExecutionError
from .manifest import Draw


class NumpySource:
    """A generator that several threads may draw from. seed: a number or several; None for one that no one knows."""

    def __init__(self, seed: int | list[int] | None = None) -> None:
        self._lock = threading.Lock()
        self._generator = np.random.default_rng(seed)

    def seed(self, value: int) -> None:
        """Starts anew."""
        with self._lock:
            self._generator = np.random.default_rng(value)

    def draw(self, method: str, shape: list[int], arguments: list[Any]) -> Any:
        """An array of `shape`. Raises ExecutionError for a method that only torch has."""
        if method not in _NUMPY:
            raise ExecutionError(
                f"the model draws random numbers with '{method}', which needs torch installed"
            )
        with self._lock:
            return _NUMPY[method](self._generator, shape, *arguments)


_numpy = NumpySource()


def seed(value: int) -> None:
    """Seeds the draws made without torch; with torch, torch.manual_seed does."""
    _numpy.seed(value)


def make(draws: tuple[Draw, ...], sizes: dict[str, int], source: NumpySource | None = None) -> list[Any]:
    """One tensor (array without torch) per draw. sizes: value of each dynamic dimension in this call.

    source: where to draw from, instead of from torch or the common NumPy generator.
    """
    if source is None and _torch_is_installed():
        return [_with_torch(draw, *_settle(draw, sizes)) for draw in draws]
    return [_with_numpy(source or _numpy, draw, *_settle(draw, sizes)) for draw in draws]


@functools.cache
def _torch_is_installed() -> bool:
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def _settle(draw: Draw, sizes: dict[str, int]) -> tuple[list[int], list[Any]]:
    shape = [evaluate(dim, sizes) for dim in draw.tensor.shape]
    return shape, [evaluate(a, sizes) if isinstance(a, str) else a for a in draw.arguments]


def _with_torch(draw: Draw, shape: list[int], arguments: list[Any]) -> Any:
    import torch

    dtype = dtypes.BY_NAME[draw.tensor.dtype].torch()
    if draw.method == "randperm":
        return torch.randperm(*arguments, dtype=dtype)
    outermost_first = torch.empty([shape[axis] for axis in draw.order], dtype=dtype)
    tensor = outermost_first.permute([draw.order.index(axis) for axis in range(len(shape))])
    return getattr(tensor, draw.method)(*arguments)


def _with_numpy(source: NumpySource, draw: Draw, shape: list[int], arguments: list[Any]) -> Any:
    values = source.draw(draw.method, shape, arguments)
    dtype = dtypes.BY_NAME[draw.tensor.dtype].numpy
    if draw.method == "uniform_":
        # Rounding to a narrow type must not reach the upper end, which uniform draws exclude.
        low, high = arguments
        values = np.minimum(values.astype(dtype), np.nextafter(dtype.type(high), dtype.type(low)))
    return np.asarray(values).astype(dtype)


_NUMPY: dict[str, Callable[..., Any]] = {
    "bernoulli_": lambda g, shape, p: g.random(shape) < p,
    "uniform_": lambda g, shape, low, high: g.uniform(low, high, shape),
    "normal_": lambda g, shape, mean, std: g.normal(mean, std, shape),
    "random_": lambda g, shape, low, high: g.integers(low, high, shape),
    "exponential_": lambda g, shape, lambd: g.exponential(1 / lambd, shape),
    "log_normal_": lambda g, shape, mean, std: g.lognormal(mean, std, shape),
    "cauchy_": lambda g, shape, median, sigma: median + sigma * g.standard_cauchy(shape),
    "geometric_": lambda g, shape, p: g.geometric(p, shape),
    "randperm": lambda g, shape, n: g.permutation(n),
}
