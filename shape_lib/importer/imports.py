"""The importer's two entrances: a file, and function objects."""

# ruff: noqa: RUF002 - torch-mlir writes names with these characters

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType

from ..registry import LibraryFunction, operator_of, registered_for
from . import cache
from .errors import Problem, ShapeLibraryError
from .library import Entry, Library
from .names import HAS_VALUE_SEMANTICS, Target, decorated_targets, symbol, target_of_name
from .source import Function, Scope, Sources


def import_file(path: str | Path) -> str:
    """The Torch dialect module with all shape and dtype functions of a Python file.

    These are the functions at its top level that carry `@shape_function` or `@dtype_function`, or a name in
    torch-mlir's way (`aten〇relu〡shape`).

    Raises:
        ShapeLibraryError: if the file cannot be read or uses what is not supported; lists every problem found.
    """
    path = Path(path)
    return cache.cached(("file", str(path)), [path], lambda sources: _import_file(path, sources))


def import_functions(functions: Sequence[Callable[..., object] | LibraryFunction]) -> str:
    """The Torch dialect module with these functions.

    functions: each is registered by a decorator, named in torch-mlir's way, or a `LibraryFunction`.

    Raises:
        ShapeLibraryError: if one is neither, its source is not available, or it uses what is not supported.
    """
    wanted = [pair for function in functions for pair in _targets(function)]
    key = ("functions", *(f"{target} {_place(function)}" for target, function in wanted))
    files = [Path(function.__code__.co_filename) for _, function in wanted]
    return cache.cached(key, files, lambda sources: _import_objects(wanted, sources))


def _import_file(path: Path, sources: Sources) -> str:
    file = sources.load(path, str(path))
    problems: list[Problem] = []
    found: list[tuple[Target, Function]] = []
    for node in file.tree.body:
        if isinstance(node, ast.FunctionDef):
            function = Function(node, Scope(file))
            found += [(target, function) for target in _file_targets(function, sources, problems)]
    if not found and not problems:
        message = "there is no shape or dtype function: mark some with @shape_function or @dtype_function"
        problems.append(Problem(file.display, 1, 0, message))
    return _import(found, sources, problems)


def _file_targets(function: Function, sources: Sources, problems: list[Problem]) -> list[Target]:
    node, scope = function.node, function.scope
    try:
        named = target_of_name(node.name)
        decorated = [
            target
            for decorator in node.decorator_list
            for target in decorated_targets(decorator, scope, sources)
        ]
    except ValueError as error:
        problems.append(scope.file.problem(node, str(error)))
        return []
    return [*([named] if named else []), *decorated]


def _import_objects(wanted: list[tuple[Target, FunctionType]], sources: Sources) -> str:
    problems: list[Problem] = []
    found = []
    for target, function in wanted:
        try:
            found.append((target, sources.function(function)))
        except ShapeLibraryError as error:
            problems += error.problems
    return _import(found, sources, problems)


def _import(found: list[tuple[Target, Function]], sources: Sources, problems: list[Problem]) -> str:
    """Import all, so that the problems of all are known."""
    library = Library(sources)
    for target, function in found:
        try:
            if target.kind != HAS_VALUE_SEMANTICS:
                library.add(Entry(symbol(target), function))
            library.add_value_semantics(symbol(Target(target.operator, HAS_VALUE_SEMANTICS)), function)
        except ShapeLibraryError as error:
            problems += error.problems
    if problems:
        raise ShapeLibraryError(problems)
    return library.text()


def _targets(function: Callable[..., object] | LibraryFunction) -> list[tuple[Target, FunctionType]]:
    if isinstance(function, LibraryFunction):
        return [(Target(operator_of(function.operator), function.kind), _plain(function.function))]
    plain = _plain(function)
    registered = [Target(operator_of(r.operator), r.kind) for r in registered_for(plain)]
    named = target_of_name(plain.__name__)
    found = registered or ([named] if named else [])
    if not found:
        message = (
            f"{plain.__name__} belongs to no operator: decorate it with @shape_function or @dtype_function"
        )
        raise ShapeLibraryError(
            [Problem(plain.__code__.co_filename, plain.__code__.co_firstlineno, 0, message)]
        )
    return [(target, plain) for target in found]


def _plain(function: Callable[..., object]) -> FunctionType:
    """The function under decorators that wrap it."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    if not isinstance(function, FunctionType):
        raise TypeError(f"{function!r} is not a Python function")
    return function


def _place(function: FunctionType) -> str:
    return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}:{function.__qualname__}"
