"""Calls of operators as they happen: the arguments in the order of the schema, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pipeline.shape_lib import dtypes

CODES = {getattr(torch, name): code for name, code in dtypes.CODES.items() if hasattr(torch, name)}


@dataclass(frozen=True)
class Tensor:
    """A tensor's type. dtype: torch's code for it."""

    shape: tuple[int, ...]
    dtype: int


@dataclass(frozen=True)
class Call:
    """One call. arguments: by position, with defaults filled in, tensors as `Tensor`, lists as tuples.

    results: flat, None for a tensor that was not computed. error: what PyTorch said instead.
    """

    operator: str
    arguments: tuple[Any, ...]
    results: tuple[Tensor | None, ...] = ()
    error: str | None = None

    def __str__(self) -> str:
        return f"{self.operator}({', '.join(map(_text, self.arguments))})"


def _text(value: Any) -> str:
    if isinstance(value, Tensor):
        name = next(name for name, code in dtypes.CODES.items() if code == value.dtype)
        return f"{name}{list(value.shape)}"
    return f"[{', '.join(map(_text, value))}]" if isinstance(value, tuple) else repr(value)


class UnusableError(Exception):
    """A call with something that shape and dtype functions cannot be asked about, such as a sparse tensor."""


def describe(value: Any) -> Any:
    """An argument as `Call` has it. Raises UnusableError."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.dtype not in CODES:
            raise UnusableError
        return Tensor(tuple(int(size) for size in value.shape), CODES[value.dtype])
    if isinstance(value, (list, tuple)):
        return tuple(describe(item) for item in value)
    if isinstance(value, torch.dtype):
        if value not in CODES:
            raise UnusableError
        return CODES[value]
    if isinstance(value, (torch.layout, torch.memory_format)):
        return 0
    if isinstance(value, (torch.device, torch.Generator)):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise UnusableError


def in_order(overload: Any, args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call by position, as `describe` has them. Raises UnusableError."""
    found = []
    for i, argument in enumerate(overload._schema.arguments):
        if i < len(args):
            value = args[i]
        else:
            value = kwargs.get(
                argument.name, argument.default_value if argument.has_default_value() else None
            )
        found.append(_as_declared(describe(value), str(argument.type)))
    return tuple(found)


def _as_declared(value: Any, type_: str) -> Any:
    """PyTorch takes a number where a list of them is declared: ``dim=1`` for ``int[1] dim``."""
    if type_.startswith(("List[", "Optional[List[")) and isinstance(value, (bool, int, float)):
        return (value,)
    if type_ in ("float", "Optional[float]") and isinstance(value, int):
        return float(value)
    return value


@dataclass
class Calls:
    """The distinct calls of some operators; `seen` counts repeated ones too."""

    operators: Collection[str]
    limit: int | None = None
    seen: int = 0
    found: dict[str, dict[tuple[Any, ...], Call]] = field(default_factory=dict)

    def wants(self, overload: Any) -> bool:
        """Whether calls of the overload are recorded."""
        return str(overload) in self.operators

    def run(self, overload: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Calls the overload and records it; raises what it raises."""
        try:
            arguments = in_order(overload, args, kwargs)
        except UnusableError:
            return overload(*args, **kwargs)
        try:
            results = overload(*args, **kwargs)
        except Exception as error:
            self._add(Call(str(overload), arguments, error=f"{type(error).__name__}: {error}"))
            raise
        with suppress(UnusableError):
            self._add(Call(str(overload), arguments, _results(results)))
        return results

    def _add(self, call: Call) -> None:
        self.seen += 1
        kept = self.found.setdefault(call.operator, {})
        if self.limit is None or len(kept) < self.limit:
            # True == 1 == 1.0 in Python, but not to a function that tells them apart.
            kept.setdefault((repr(call.arguments), call.error is None), call)


def _results(results: Any) -> tuple[Tensor | None, ...]:
    leaves = tree_leaves(results, is_leaf=lambda value: value is None)
    return tuple(describe(leaf) if isinstance(leaf, torch.Tensor) else None for leaf in leaves)


class Recorder(TorchDispatchMode):
    """Records what reaches the dispatcher.

    decompositions: applied to all other operators, so that also what they are made of is recorded.
    """

    def __init__(self, calls: Calls, decompositions: Mapping[Any, Callable[..., Any]] | None = None) -> None:
        super().__init__()
        self._calls = calls
        self._decompositions = decompositions or {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._calls.wants(func):
            return self._calls.run(func, args, kwargs)
        decomposition = self._decompositions.get(func)
        if decomposition is not None:
            with self:
                result = decomposition(*args, **kwargs)
            if result is not NotImplemented:
                return result
        return func(*args, **kwargs)


@contextmanager
def seeded() -> Iterator[None]:
    """Whatever draws random numbers inside draws the same ones every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
