"""Which operator a function belongs to, and the symbol under which torch-mlir looks it up."""

# ruff: noqa: RUF001, RUF002 - torch-mlir writes names with these characters

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass

from ..registry import operator_of
from .source import Constant, Scope, Sources

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


def decorated_targets(decorator: ast.expr, scope: Scope, sources: Sources) -> list[Target]:
    """The targets of ``@shape_function("aten.relu.default", ...)``; none for decorators of others.

    Raises:
        ValueError: if the operators are not given as strings, or tuples of them with a ``*``.
    """
    if not isinstance(decorator, ast.Call):
        return []
    name = (
        decorator.func.attr
        if isinstance(decorator.func, ast.Attribute)
        else getattr(decorator.func, "id", "")
    )
    if name not in _DECORATORS:
        return []
    operators = [operator for argument in decorator.args for operator in _strings(argument, scope, sources)]
    if not operators or decorator.keywords:
        raise ValueError(f'@{name} needs operators as strings, as in @{name}("aten.relu.default")')
    return [Target(operator_of(operator), _DECORATORS[name]) for operator in operators]


def _strings(node: ast.expr, scope: Scope, sources: Sources) -> list[str]:
    """The strings that an argument stands for: written there, or constants of a module."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, (ast.Tuple, ast.List)):
        return [text for element in node.elts for text in _strings(element, scope, sources)]
    if isinstance(node, ast.Starred):
        return _strings(node.value, scope, sources)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _strings(node.left, scope, sources) + _strings(node.right, scope, sources)
    meaning = sources.resolve(node.id, scope) if isinstance(node, ast.Name) else None
    if isinstance(meaning, str):
        return [meaning]
    if isinstance(meaning, Constant):
        return _strings(meaning.expression, meaning.scope, sources)
    raise ValueError(f"{ast.unparse(node)} is no operator: write strings, or a tuple of strings above")


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
def _context():
    from torch_mlir import ir
    from torch_mlir.dialects import torch as torch_dialect

    context = ir.Context()
    torch_dialect.register_dialect(context)
    return context
