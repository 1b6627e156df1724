"""The functions of one library: each is written once for every combination of argument types it is called with."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import calls
from .annotations import read_annotation
from .context import Context, named_leaves
from .control import branch, nothing
from .intrinsics import intrinsic
from .source import Function, Scope, Sources
from .statements import run_block
from .types import ANY, FLOAT, INT, NONE, NUMBER, OptionalType, TupleType, Type, has_value
from .values import (
    RESULT,
    RETURNED,
    Value,
    Variables,
    constant,
    holds_list,
    leaf,
    leaf_values,
    tuple_of,
    undefined,
)

_PRELUDE = Path(__file__).with_name("prelude.py")


@dataclass(frozen=True)
class Entry:
    """A function of the library proper: what torch-mlir looks up by its symbol."""

    symbol: str
    function: Function


@dataclass
class _Instance:
    """A helper for certain argument types, and what its callers must know of its lists.

    origins: for each list among the result's leaves, the parameters' leaves that it may be, and whether it is
    certainly the first of these. changed: the parameters' leaves that the function changes in place; their new
    values follow the result. contained: those that lie in another list afterwards.
    """

    symbol: str
    result: Type
    origins: list[tuple[tuple[int, ...], bool]] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    contained: list[int] = field(default_factory=list)


class Library:
    """Imports functions into one module."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._texts: dict[str, str] = {}
        self._instances: dict[object, _Instance] = {}
        self._active: list[object] = []
        self._parameters: dict[object, dict[str, Type | None]] = {}
        self._prelude_scope: Scope | None = None

    def text(self) -> str:
        return "module {\n" + "\n".join(self._texts.values()) + "\n}\n"

    # ---- entries

    def add(self, entry: Entry) -> None:
        """Import a function that an operator is given by.

        Raises:
            ShapeLibraryError: if it uses what is not supported.
        """
        function = entry.function
        context = Context(function.scope, self.sources, self, function.node)
        variables = Variables()
        for name, type_ in self._entry_parameters(context, function):
            argument = leaf(type_, context.builder.argument(context.builder.body, type_))
            variables.names[name] = context.unpacked(argument)
        if function.node.returns is not None:
            context.return_type = read_annotation(function.node.returns, function.scope, self.sources)
        result = _run_body(context, function, variables)
        context.builder.op("func.return", [context.ssa(result)])
        self._texts[entry.symbol] = context.builder.function(entry.symbol, [result.type])

    def add_value_semantics(self, symbol: str, node: Function) -> None:
        """The statement that an operator changes none of its arguments."""
        context = Context(node.scope, self.sources, self, node.node)
        context.builder.op("func.return", [context.ssa(constant(None))])
        self._texts.setdefault(symbol, context.builder.function(symbol, [NONE]))

    def _entry_parameters(self, context: Context, function: Function) -> Iterator[tuple[str, Type]]:
        names, _ = calls.signature(context, function)
        types = self.parameter_types(function)
        for name in names:
            type_ = types[name]
            if type_ is None:
                raise context.error(
                    function.node, f"the argument `{name}` of {function.node.name} needs a type"
                )
            yield name, type_

    # ---- helpers

    def prelude(self, name: str) -> Function:
        """One of our own functions."""
        if self._prelude_scope is None:
            self._prelude_scope = Scope(self.sources.load(_PRELUDE, "shape_lib/importer/prelude.py"))
        function = self.sources.resolve(name, self._prelude_scope)
        assert isinstance(function, Function)
        return function

    def parameter_types(self, function: Function) -> dict[str, Type | None]:
        """The annotated types of a function's parameters; None where there is no annotation."""
        if function.key not in self._parameters:
            arguments = function.node.args
            self._parameters[function.key] = {
                argument.arg: read_annotation(argument.annotation, function.scope, self.sources)
                if argument.annotation
                else None
                for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            }
        return self._parameters[function.key]

    def call(
        self,
        context: Context,
        function: Function,
        arguments: list[Value],
        variables: Variables,
        node: ast.AST,
    ) -> Value:
        """Call a function, importing it for these arguments first."""
        special = intrinsic(function)
        if special is not None:
            return special(context, arguments, node)
        annotated = self.parameter_types(function).values()
        pairs = zip(arguments, annotated, strict=True)
        arguments = [_argument(context, value, type_, node) for value, type_ in pairs]
        instance = self._instance(context, function, [argument.type for argument in arguments], node)
        context.at(node)
        return _emit_call(context, instance, arguments, variables, node)

    def _instance(self, context: Context, function: Function, types: list[Type], node: ast.AST) -> _Instance:
        key = (function.key, tuple(types))
        if key in self._active:
            raise context.error(node, f"{function.node.name} calls itself: write a loop")
        if key not in self._instances:
            self._active.append(key)
            try:
                self._instances[key] = self._import_helper(function, types)
            finally:
                self._active.pop()
        return self._instances[key]

    def _import_helper(self, function: Function, types: list[Type]) -> _Instance:
        context = Context(function.scope, self.sources, self, function.node)
        names, _ = calls.signature(context, function)
        variables = Variables()
        parameters = []
        for name, type_ in zip(names, types, strict=True):
            value = _parameter(context, type_)
            variables.names[name] = variables.names[f"%{name}"] = value
            parameters += list(leaf_values(value))
        if function.node.returns is not None:
            context.return_type = read_annotation(function.node.returns, function.scope, self.sources)
        result = _run_body(context, function, variables)
        after = [
            part for name in names for part in leaf_values(variables.names.get(f"%{name}", undefined("")))
        ]
        return self._finish_helper(context, function, parameters, after, result)

    def _finish_helper(
        self, context: Context, function: Function, parameters: list[Value], after: list[Value], result: Value
    ) -> _Instance:
        instance = _Instance("", result.type)
        if len(after) == len(parameters):
            pairs = zip(parameters, after, strict=True)
            instance.changed = [
                i for i, (old, new) in enumerate(pairs) if old is not new and holds_list(old.type)
            ]
        instance.contained = [i for i, value in enumerate(parameters) if value.roots & context.contained]
        instance.origins = [
            _origin(part, parameters) for part in leaf_values(result) if holds_list(part.type)
        ]
        outputs = [part for part in leaf_values(result) if has_value(part.type)]
        outputs += [after[i] for i in instance.changed]
        packed = tuple_of(tuple(outputs)) if len(outputs) > 1 else outputs[0] if outputs else constant(None)
        context.builder.op("func.return", [context.ssa(packed)])
        name = f"__shape_lib.{Path(function.scope.file.path).stem}.{function.node.name}"
        # The name says what is in it: libraries that share a helper agree on it, and others never clash.
        content = context.builder.function(name, [packed.type], locations=False)
        instance.symbol = f"{name}.{hashlib.sha256(content.encode()).hexdigest()[:12]}"
        self._texts[instance.symbol] = context.builder.function(instance.symbol, [packed.type])
        return instance


def _run_body(context: Context, function: Function, variables: Variables) -> Value:
    """Write the body; the value that the function returns."""
    node = function.node
    run_block(context, node.body, variables)
    wanted = context.return_type
    if variables.dead:
        type_ = wanted or NONE
        return (
            constant(None)
            if type_ == NONE
            else leaf(type_, context.builder.op("prim.Uninitialized", [], [type_])[0])
        )
    _return_none_at_end(context, node, variables)
    result = variables.names[RESULT]
    if result.problem:
        raise context.error(node, f"{node.name} returns different types: {result.problem}")
    return context.convert(result, wanted, node) if wanted is not None else result


def _return_none_at_end(context: Context, node: ast.FunctionDef, variables: Variables) -> None:
    returned = variables.names.get(RETURNED, constant(False))
    if returned.known and returned.constant:
        return
    if context.return_type not in (None, NONE) and not isinstance(context.return_type, OptionalType):
        raise context.error(
            node, f"{node.name} can end without `return`: return a value on every path, or raise"
        )

    def none(inner: Variables) -> None:
        value = constant(None)
        inner.names[RESULT] = (
            context.convert(value, context.return_type, node) if context.return_type else value
        )

    branch(context, node, returned, nothing, none, variables)


def _argument(context: Context, value: Value, annotated: Type | None, node: ast.AST) -> Value:
    """An argument as its parameter takes it; where the parameter takes several types it keeps its own."""
    if annotated is None or annotated == ANY:
        return value
    if annotated == NUMBER and value.type in (INT, FLOAT, NUMBER):
        return value
    return context.convert(value, annotated, node)


def _parameter(context: Context, type_: Type) -> Value:
    if isinstance(type_, TupleType):
        return tuple_of(tuple(_parameter(context, element) for element in type_.elements))
    if not has_value(type_):
        return constant(None) if type_ == NONE else leaf(type_)
    return leaf(type_, context.builder.argument(context.builder.body, type_))


def _origin(value: Value, parameters: list[Value]) -> tuple[tuple[int, ...], bool]:
    found = tuple(i for i, parameter in enumerate(parameters) if parameter.roots & value.roots)
    same = len(found) == 1 and parameters[found[0]].cell == value.cell
    return found, same


def _emit_call(
    context: Context, instance: _Instance, arguments: list[Value], variables: Variables, node: ast.AST
) -> Value:
    given = [part for argument in arguments for part in leaf_values(argument)]
    operands = [context.ssa(part) for part in given if has_value(part.type)]
    outputs = named_leaves(instance.result)
    outputs += [given[i].type for i in instance.changed]
    packed = TupleType(tuple(outputs)) if len(outputs) > 1 else outputs[0] if outputs else NONE
    attributes = f' {{callee = @"{instance.symbol}"}}'
    (name,) = context.builder.op("func.call", operands, [packed], attributes)
    names = context.builder.op("prim.TupleUnpack", [name], outputs) if len(outputs) > 1 else [name]
    remaining = iter(names)
    origins = iter(instance.origins)
    result = _result(instance.result, remaining, origins, given)
    for i in instance.contained:
        context.contained |= given[i].roots
    for i in instance.changed:
        if any(j != i and other.roots & given[i].roots for j, other in enumerate(given)):
            raise context.error(node, "a list that is changed by this call is given to it twice")
        context.change_list(variables, given[i], leaf(given[i].type, next(remaining)), node)
    return result


def _result(
    type_: Type, names: Iterator[str], origins: Iterator[tuple[tuple[int, ...], bool]], given: list[Value]
) -> Value:
    if isinstance(type_, TupleType):
        return tuple_of(tuple(_result(element, names, origins, given) for element in type_.elements))
    value = leaf(type_, next(names)) if has_value(type_) else constant(None) if type_ == NONE else leaf(type_)
    if not holds_list(type_):
        return value
    indices, same = next(origins)
    if same:
        return replace(value, cell=given[indices[0]].cell, roots=given[indices[0]].roots)
    return replace(value, roots=value.roots.union(*(given[i].roots for i in indices)))
