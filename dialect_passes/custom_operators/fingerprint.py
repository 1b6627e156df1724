"""What an operator consists of, as one short text that changes when it does.

torch's compiler caches on disk know an operator by its name alone: after a change of its function they would bring
back the former one's backward. torch lets an operator say what it depends on.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .declaration import CustomOp


def fingerprint(op: CustomOp) -> str:
    """A hash of the operator's functions, all functions of the user's that they call, and the constants they use."""
    functions = [op.meaning, op.given_fake, op.written_backward and op.written_backward.function]
    digest = hashlib.sha256(f"{op.schema.text} {op.gradient}".encode())
    for text in _texts([function for function in functions if function]):
        digest.update(text.encode())
    return digest.hexdigest()


def tell_caches(op: CustomOp) -> None:
    """Makes the operator's fingerprint part of the keys of torch's compiler caches."""
    from torch._inductor import config

    config.unsafe_marked_cacheable_functions[f"torch.ops.{op.name.replace('::', '.')}"] = fingerprint(op)


def _texts(functions: list[Callable[..., Any]]) -> Iterator[str]:
    """The code of the functions, and of what they reach through names."""
    seen: set[int] = set()
    waiting: list[Any] = list(functions)
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, types.FunctionType):
            if _of_torch(value.__module__):
                continue
            yield _code_text(value.__code__)
            yield repr(value.__defaults__)
            waiting += _reached(value)
        elif isinstance(value, (int, float, complex, str, bytes, tuple, torch.dtype, torch.device)):
            yield repr(value)
        elif isinstance(wrapped := getattr(value, "__wrapped__", None), types.FunctionType):
            waiting.append(wrapped)


def _reached(function: types.FunctionType) -> Iterator[Any]:
    """The values of the names that a function uses: globals, functions of modules, and what it closes over."""
    for cell in function.__closure__ or ():
        if cell != types.CellType():
            yield cell.cell_contents
    names = set(_names(function.__code__))
    for name in sorted(names):
        value = function.__globals__.get(name)
        yield value
        if isinstance(value, types.ModuleType) and not _of_torch(value.__name__):
            yield from (vars(value)[inner] for inner in sorted(names) if inner in vars(value))


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _code_text(code: types.CodeType) -> str:
    constants = [_code_text(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def _of_torch(module: str | None) -> bool:
    return (module or "").partition(".")[0] in ("torch", "math", "builtins")
