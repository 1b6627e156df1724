"""Which operator a function belongs to, and the symbol under which torch-mlir looks it up."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass

from ..registry import operator_of

HAS_VALUE_SEMANTICS = "has_value_semantics"
_KINDS = ("shape", "dtype", HAS_VALUE_SEMANTICS)
_DECORATORS = {"shape_function": "shape", "dtype_function": "dtype"}


@dataclass(frozen=True)
class Target:
    """An operator as the IR names it, without ``torch.`` (``aten.add.Tensor``), and what is said of it."""

    operator: str
    kind: str


def target_of_name(name: str) -> Target | None:
    """The target of a function named in torch-mlir's way: ``aten〇add〇Tensor〡shape``; None for other names.

    Raises:
        ValueError: for another kind than shape, dtype and has_value_semantics.
    """
    operator, mark, kind = name.partition("〡")
    if not mark:
        return None
    if kind not in _KINDS:
        raise ValueError(f"{name}: {kind} functions are not supported, only {', '.join(_KINDS)}")
    return Target(operator_of(operator.replace("〇", ".")), kind)


def decorated_target(decorator: ast.expr) -> Target | None:
    """The target of ``@shape_function("aten.relu.default")``; None for decorators of others.

    Raises:
        ValueError: if the operator is not given as a string.
    """
    if not isinstance(decorator, ast.Call):
        return None
    name = decorator.func.attr if isinstance(decorator.func, ast.Attribute) else getattr(decorator.func, "id", "")
    if name not in _DECORATORS:
        return None
    arguments = [*decorator.args, *(keyword.value for keyword in decorator.keywords)]
    if len(arguments) == 1 and isinstance(arguments[0], ast.Constant) and isinstance(arguments[0].value, str):
        return Target(operator_of(arguments[0].value), _DECORATORS[name])
    raise ValueError(f'@{name} needs the operator as a string, as in @{name}("aten.relu.default")')


def symbol(target: Target) -> str:
    """The name that torch-mlir's reification looks up.

    Operators that the dialect knows are looked up by their name in it; all others arrive as ``torch.operator`` and
    are looked up with ``torch.`` before the name.
    """
    name = target.operator
    known = _is_registered(f"torch.{name}") or _is_registered(f"torch.valsem.{name}")
    return f"__torch_mlir_{target.kind}_fn.{name if known else f'torch.{name}'}"


@functools.cache
def _is_registered(name: str) -> bool:
    return _context().is_registered_operation(name)


@functools.cache
def _context():  # noqa: ANN202 - torch_mlir.ir.Context, imported late
    from torch_mlir import ir
    from torch_mlir.dialects import torch as torch_dialect

    context = ir.Context()
    torch_dialect.register_dialect(context)
    return context
