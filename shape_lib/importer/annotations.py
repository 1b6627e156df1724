"""Type annotations of shape functions."""

from __future__ import annotations

import ast

from .source import Constant, Scope, Sources
from .types import ANY, BOOL, DEVICE, FLOAT, INT, NONE, NUMBER, STR, ListType, TupleType, Type, optional

_PLAIN: dict[str, Type] = {
    "int": INT,
    "float": FLOAT,
    "bool": BOOL,
    "str": STR,
    "None": NONE,
    "Any": ANY,
    "object": ANY,
    "Number": NUMBER,
    "Scalar": NUMBER,
    "complex": NUMBER,
    "device": DEVICE,
    "Device": DEVICE,
    "Generator": ANY,
}
_LISTS = ("List", "list", "Sequence")
_TUPLES = ("Tuple", "tuple")


def read_annotation(node: ast.expr, scope: Scope, sources: Sources) -> Type:
    """The type that an annotation means.

    Raises:
        ShapeLibraryError: if shape functions have no values of such a type.
    """
    return _Reader(scope, sources).read(node)


class _Reader:
    def __init__(self, scope: Scope, sources: Sources) -> None:
        self.scope = scope
        self.sources = sources

    def read(self, node: ast.expr) -> Type:
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._union(node, [node.left, node.right])
        if isinstance(node, ast.Subscript):
            return self._generic(node)
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._name(node)
        raise self._error(node)

    def _constant(self, node: ast.Constant) -> Type:
        if node.value is None:
            return NONE
        if isinstance(node.value, str):
            parsed = ast.parse(node.value, mode="eval").body
            return self.read(ast.copy_location(parsed, node))
        raise self._error(node)

    def _name(self, node: ast.Name | ast.Attribute) -> Type:
        name = _last(node)
        if isinstance(node, ast.Name) and name not in ("int", "float", "bool", "str"):
            meaning = self.sources.resolve(name, self.scope)
            if isinstance(meaning, Constant):
                return _Reader(meaning.scope, self.sources).read(meaning.expression)
        if name in _PLAIN:
            return _PLAIN[name]
        raise self._error(node)

    def _generic(self, node: ast.Subscript) -> Type:
        name = _last(node.value)
        arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name in _LISTS and len(arguments) == 1:
            return ListType(self.read(arguments[0]))
        if name in _TUPLES and not any(_is_ellipsis(argument) for argument in arguments):
            return TupleType(tuple(self.read(argument) for argument in arguments))
        if name == "Optional":
            return optional(self.read(node.slice))
        if name == "Union":
            return self._union(node, arguments)
        raise self._error(node)

    def _union(self, node: ast.expr, members: list[ast.expr]) -> Type:
        types = [self.read(member) for member in members]
        present = {inner for type_ in types if type_ != NONE for inner in [getattr(type_, "inner", type_)]}
        nullable = NONE in types or any(hasattr(type_, "inner") for type_ in types)
        if present <= {INT, FLOAT, NUMBER} and len(present) > 1:
            present = {NUMBER}
        if len(present) != 1:
            raise self._error(node)
        only = present.pop()
        return optional(only) if nullable else only

    def _error(self, node: ast.AST) -> Exception:
        text = ast.unparse(node)
        if "Tensor" in text:
            hint = "a shape function gets a tensor as list[int], a dtype function as tuple[int, int] (rank, dtype)"
        else:
            hint = "write int, float, bool, str, int | float, list[T], tuple[T, U], T | None or Any"
        return self.scope.error(node, f"the type {text} is not one a shape function can have: {hint}")


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis
