"""The user's ``decompositions={operator: function}`` and ``keep=[operator, ...]``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

from .errors import InputError, UnsupportedError

Operator = OpOverload | str
"""``torch.ops.aten.gelu.default``, or its name, ``"aten.gelu.default"``."""


@dataclass(frozen=True)
class UserDecompositions:
    """What the user wants other than the default table. functions: added or replaced. keep: left whole."""

    functions: Mapping[OpOverload, Callable[..., Any]] = field(default_factory=dict)
    keep: frozenset[OpOverload] = frozenset()

    def applied_to(self, table: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
        """`table` with them."""
        kept = {op: function for op, function in table.items() if op not in self.keep}
        return {**kept, **self.functions}


def read(
    decompositions: Mapping[Operator, Callable[..., Any]] | None, keep: Iterable[Operator] | None
) -> UserDecompositions:
    """Raises one InputError that lists everything wrong with them."""
    wrong: list[str] = []
    if isinstance(keep, (str, OpOverload)):
        raise InputError(f"keep must be a list of operators: [{keep!r}]")
    functions = {}
    for given, function in (decompositions or {}).items():
        op = _operator(given, "decompositions", wrong)
        if not callable(function):
            wrong.append(f"decompositions: {given} has {function!r}, which is no function")
        elif op is not None:
            functions[op] = _blamed(op, function)
    kept = {_operator(given, "keep", wrong) for given in keep or ()} - {None}
    wrong += [f"keep: {op} has a decomposition too; give one of the two" for op in kept if op in functions]
    wrong += [f"keep: {op} {problem}" for op in kept if op is not None and (problem := _why_not_kept(op))]
    if wrong:
        raise InputError("\n".join(wrong))
    return UserDecompositions(functions, frozenset(op for op in kept if op is not None))


def _operator(given: Any, where: str, wrong: list[str]) -> OpOverload | None:
    """The operator meant by `given`; None, with a sentence in `wrong`, where it is none."""
    found = _by_name(given.replace("::", ".")) if isinstance(given, str) else given
    if isinstance(found, OpOverloadPacket):
        names = ", ".join(str(getattr(found, overload)) for overload in found.overloads())
        wrong.append(f"{where}: {given} has several overloads or none named; write one of {names}")
    elif not isinstance(found, OpOverload):
        wrong.append(
            f"{where}: {given!r} is no operator; write it as torch.ops.aten.gelu.default or by that name"
        )
    elif found._schema.is_mutable:
        wrong.append(
            f"{where}: {given} changes its arguments; capture knows its functional form only, name that"
        )
    else:
        return found
    return None


def _by_name(name: str) -> Any:
    found: Any = torch.ops
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except (AttributeError, RuntimeError):
            return None
    return found


def _why_not_kept(op: OpOverload) -> str | None:
    """Composite operators that may return views of their arguments are decomposed by torch.export itself."""
    from torch._export.utils import _collect_all_valid_cia_ops

    composite = torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")
    if not composite or op in _collect_all_valid_cia_ops():
        return None
    return "cannot be kept: torch.export always decomposes it"


def _blamed(op: OpOverload, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose errors name it."""

    @functools.wraps(function)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (InputError, UnsupportedError):
            raise
        except RecursionError as error:
            raise InputError(f"the decomposition given for {op} calls {op} itself, without end") from error
        except Exception as error:
            raise InputError(
                f"the decomposition given for {op} failed: {type(error).__name__}: {error}"
            ) from error

    return decomposition
