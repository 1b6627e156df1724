"""Turns a loop kernel, a Python function over the elements of arrays, into loops of scf over memory.

What a kernel may use: numbers, arrays indexed by numbers (``a[i, j]``, ``x[()]``) and their ``shape``, arithmetic,
comparisons, ``and``, ``or``, ``not``, ``if``, ``while``, ``for i in range(...)``, functions of the same kind with one
``return`` at their end, and those of `functions`. A variable that is used after a loop or branch must have a value
before it. Conditions that Python can decide (an argument ``upper``) are decided here.

Before:  for i in range(n):
             total = total + a[i]
After:   %t = scf.for %i = %c0 to %n step %c1 iter_args(%s = %total) -> (f64) { ... scf.yield %u : f64 }
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import operator
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import functions
from .emitter import Emitter
from .values import Array, Kind, LoopError, Number, Value, kind_of, wider

_OPERATORS: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
}
_COMPARISONS: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
}
_LIMITS = {"f32": (2.0**-23, 2.0**-126), "f64": (2.0**-52, 2.0**-1022)}


def translate(kernel: Callable[..., None], arguments: Mapping[str, Any], emitter: Emitter) -> None:
    """Appends the kernel's operations. arguments: an `Array`, a `Value` or a Python constant per parameter.

    Raises LoopError, with file and line, for what has no form in the IR.
    """
    _Body(kernel, dict(arguments), emitter).run()


@functools.cache
def _definition(function: Callable[..., Any]) -> ast.FunctionDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree


class _Body:
    """One function that is being translated, with its variables."""

    def __init__(self, function: Callable[..., Any], variables: dict[str, Any], emitter: Emitter) -> None:
        self._function = function
        self._globals = function.__globals__
        self._variables = variables
        self._emitter = emitter
        self._result: Any = None

    def run(self) -> Any:
        """Translates the body; the value it returns."""
        self._statements(_definition(self._function).body)
        return self._result

    def _statements(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            handler = getattr(self, f"_do_{type(statement).__name__.lower()}", None)
            try:
                if handler is None:
                    raise LoopError(f"{type(statement).__name__} has no form in the IR")
                handler(statement)
            except LoopError as error:
                if "\n" in str(error):
                    raise
                line = self._function.__code__.co_firstlineno + statement.lineno - 1
                where = f"{self._function.__code__.co_filename}:{line}"
                raise LoopError(f"{error}\n  at {where}: {ast.unparse(statement).splitlines()[0]}") from error

    def _do_expr(self, statement: ast.Expr) -> None:
        if not isinstance(statement.value, ast.Constant):
            self._evaluate(statement.value)

    def _do_return(self, statement: ast.Return) -> None:
        self._result = None if statement.value is None else self._evaluate(statement.value)

    def _do_assign(self, statement: ast.Assign) -> None:
        value = self._evaluate(statement.value)
        for target in statement.targets:
            self._assign(target, value)

    def _do_augassign(self, statement: ast.AugAssign) -> None:
        load = ast.parse(ast.unparse(statement.target), mode="eval").body
        self._assign(statement.target, self._evaluate(ast.BinOp(load, statement.op, statement.value)))

    def _assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self._variables[target.id] = value
        elif isinstance(target, ast.Tuple):
            for part, item in zip(target.elts, value, strict=True):
                self._assign(part, item)
        elif isinstance(target, ast.Subscript):
            self._emitter.store(self._array(target.value), self._indices(target.slice), value)
        else:
            raise LoopError(f"nothing can be assigned to {ast.unparse(target)}")

    def _do_if(self, statement: ast.If) -> None:
        condition = self._evaluate(statement.test)
        if not isinstance(condition, Value):
            self._statements(statement.body if condition else statement.orelse)
            return
        names = self._carried([*statement.body, *statement.orelse])
        branches = [self._branch(body, names) for body in (statement.body, statement.orelse)]
        (_, then), (_, otherwise) = branches
        kinds: list[Kind] = [wider(kind_of(then[name]), kind_of(otherwise[name])) for name in names]
        texts = [self._yielding(lines, [after[n] for n in names], kinds) for lines, after in branches]
        results = self._region_results(kinds)
        head = f"scf.if {condition.parts[0]}{self._arrow(kinds)} {{"
        self._append(results, head, [*texts[0], "} else {", *texts[1], "}"])
        self._take(names, kinds, results)

    def _branch(self, body: Iterable[ast.stmt], names: list[str]) -> tuple[list[str], dict[str, Number]]:
        """The lines of `body` and what the variables `names` are after it; nothing is appended."""
        before, lines = dict(self._variables), self._emitter.lines
        self._emitter.lines = []
        self._statements(body)
        after = {name: self._variables[name] for name in names}
        self._variables, inside = before, self._emitter.lines
        self._emitter.lines = lines
        return inside, after

    def _yielding(self, lines: list[str], values: Iterable[Number], kinds: list[Kind]) -> list[str]:
        """`lines`, and the end of a region that yields `values`."""
        outer, self._emitter.lines = self._emitter.lines, list(lines)
        parts = self._parts(values, kinds)
        text = f"scf.yield {', '.join(parts)} : {', '.join(self._types(kinds))}" if parts else "scf.yield"
        inside, self._emitter.lines = [*self._emitter.lines, text], outer
        return inside

    def _do_for(self, statement: ast.For) -> None:
        if not isinstance(statement.target, ast.Name) or statement.orelse:
            raise LoopError("a loop has one variable and no else")
        lower, upper, step = self._range(statement.iter)
        counter = self._emitter.name()
        index: Callable[[], Number] = lambda: Value("int", (counter,))  # noqa: E731
        if step < 0:
            first, last = lower, upper
            lower, upper = 0, self._emitter.arithmetic("-", first, last)
            index = lambda: self._emitter.arithmetic("-", first, Value("int", (counter,)))  # noqa: E731
        target = statement.target.id
        names = [name for name in self._carried(statement.body) if name != target]

        def body() -> None:
            self._variables[target] = index()
            self._statements(statement.body)

        bounds = [self._emitter.value(item, "int").parts[0] for item in (lower, upper, abs(step))]
        head = f"scf.for {counter} = {bounds[0]} to {bounds[1]} step {bounds[2]}"
        kinds, initial, arguments, lines = self._loop(names, body)
        carried = ", ".join(f"{a} = {i}" for a, i in zip(arguments, initial, strict=True))
        results = self._region_results(kinds)
        head += f" iter_args({carried}){self._arrow(kinds)} {{" if names else " {"
        self._append(results, head, [*lines, "}"])
        self._take(names, kinds, results)

    def _range(self, iterable: ast.expr) -> tuple[Number, Number, int]:
        if not (isinstance(iterable, ast.Call) and self._global(iterable.func) is range):
            raise LoopError("loops are over range(...)")
        bounds = [self._evaluate(argument) for argument in iterable.args]
        if len(bounds) == 1:
            return 0, bounds[0], 1
        step = bounds[2] if len(bounds) == 3 else 1
        if not isinstance(step, int) or step == 0 or step < -1:
            raise LoopError("the step of a loop is a positive constant or -1")
        return bounds[0], bounds[1], step

    def _loop(
        self, names: list[str], body: Callable[[], None]
    ) -> tuple[list[Kind], list[str], list[str], list[str]]:
        """The kinds of the carried variables, their initial values, their names in the body, and its lines.

        A variable may get wider in the body (``s = 0.0``, ``s = s + a[i]`` of complex numbers): then it starts wider.
        """
        kinds: list[Kind] = [kind_of(self._variables[name]) for name in names]
        while True:
            before, outer = dict(self._variables), self._emitter.lines
            arguments = self._bind(names, kinds)
            self._emitter.lines = []
            body()
            after = [self._variables[name] for name in names]
            found: list[Kind] = [wider(kind, kind_of(item)) for kind, item in zip(kinds, after, strict=True)]
            if found == kinds:
                lines, self._emitter.lines = self._yielding(self._emitter.lines, after, kinds), outer
                self._variables = before
                initial = self._parts([before[name] for name in names], kinds)
                return kinds, initial, arguments, lines
            self._variables, self._emitter.lines, kinds = before, outer, found

    def _bind(self, names: list[str], kinds: list[Kind]) -> list[str]:
        """Gives the variables new names, those of the arguments of a region; all of their parts."""
        parts: list[str] = []
        for name, kind in zip(names, kinds, strict=True):
            value = Value(kind, tuple(self._emitter.name() for _ in self._emitter.types(kind)))
            self._variables[name] = value
            parts += value.parts
        return parts

    def _do_while(self, statement: ast.While) -> None:
        names = self._carried(statement.body)
        if not names:
            raise LoopError("the body of while changes no variable")

        def body() -> None:
            self._statements(statement.body)

        kinds, initial, arguments, lines = self._loop(names, body)
        types = self._types(kinds)
        before, outer = dict(self._variables), self._emitter.lines
        tested, self._emitter.lines = self._bind(names, kinds), []
        condition = self._emitter.value(self._evaluate(statement.test), "bool").parts[0]
        test = [*self._emitter.lines, f"scf.condition({condition}) {', '.join(tested)} : {', '.join(types)}"]
        self._variables, self._emitter.lines = before, outer
        results = self._region_results(kinds)
        carried = ", ".join(f"{a} = {i}" for a, i in zip(tested, initial, strict=True))
        block = ", ".join(f"{a}: {t}" for a, t in zip(arguments, types, strict=True))
        listed = ", ".join(types)
        head = f"scf.while ({carried}) : ({listed}) -> ({listed}) {{"
        self._append(results, head, [*test, "} do {", f"^bb0({block}):", *lines, "}"])
        self._take(names, kinds, results)

    def _do_pass(self, statement: ast.Pass) -> None:
        pass

    def _carried(self, body: Iterable[ast.stmt]) -> list[str]:
        """The variables that `body` assigns and that have a value before it."""
        nodes = [node for statement in body for node in ast.walk(statement)]
        names = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        return [name for name in dict.fromkeys(names) if name in self._variables]

    def _types(self, kinds: Iterable[Kind]) -> list[str]:
        return [type_ for kind in kinds for type_ in self._emitter.types(kind)]

    def _arrow(self, kinds: list[Kind]) -> str:
        return f" -> ({', '.join(self._types(kinds))})" if kinds else ""

    def _parts(self, values: Iterable[Number], kinds: list[Kind]) -> list[str]:
        pairs = zip(values, kinds, strict=True)
        return [part for item, kind in pairs for part in self._emitter.value(item, kind).parts]

    def _region_results(self, kinds: list[Kind]) -> list[str]:
        return [self._emitter.name() for _ in self._types(kinds)]

    def _append(self, results: list[str], head: str, lines: list[str]) -> None:
        self._emitter.lines += [f"{', '.join(results)} = {head}" if results else head, *lines]

    def _take(self, names: list[str], kinds: list[Kind], results: list[str]) -> None:
        """Gives the variables the results of a region."""
        remaining = iter(results)
        for name, kind in zip(names, kinds, strict=True):
            parts = tuple(next(remaining) for _ in self._emitter.types(kind))
            self._variables[name] = Value(kind, parts)

    def _evaluate(self, node: ast.expr) -> Any:
        handler = getattr(self, f"_of_{type(node).__name__.lower()}", None)
        if handler is None:
            raise LoopError(f"{ast.unparse(node)} has no form in the IR")
        return handler(node)

    def _of_constant(self, node: ast.Constant) -> Any:
        return node.value

    def _of_name(self, node: ast.Name) -> Any:
        return self._variables[node.id] if node.id in self._variables else self._global(node)

    def _global(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            found = self._globals.get(node.id, _BUILTINS.get(node.id))
            if found is not None:
                return found
        raise LoopError(f"{ast.unparse(node)} is not known here")

    def _of_tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self._evaluate(part) for part in node.elts)

    def _of_attribute(self, node: ast.Attribute) -> Any:
        if node.attr != "shape":
            raise LoopError(f"arrays have no {node.attr} here")
        return self._array(node.value).sizes

    def _of_subscript(self, node: ast.Subscript) -> Any:
        base = self._evaluate(node.value)
        if isinstance(base, tuple):
            return base[self._evaluate(node.slice)]
        return self._emitter.load(self._array(node.value), self._indices(node.slice))

    def _array(self, node: ast.expr) -> Array:
        found = self._evaluate(node)
        if not isinstance(found, Array):
            raise LoopError(f"{ast.unparse(node)} is no array")
        return found

    def _indices(self, node: ast.expr) -> tuple[Number, ...]:
        indices = self._evaluate(node)
        return indices if isinstance(indices, tuple) else (indices,)

    def _of_binop(self, node: ast.BinOp) -> Number:
        left, right = self._evaluate(node.left), self._evaluate(node.right)
        if type(node.op) not in _OPERATORS:
            raise LoopError(f"{ast.unparse(node)} has no form in the IR")
        sign, fold = _OPERATORS[type(node.op)]
        if isinstance(left, Value) or isinstance(right, Value):
            return self._emitter.arithmetic(sign, left, right)
        return fold(left, right)

    def _of_unaryop(self, node: ast.UnaryOp) -> Number:
        item = self._evaluate(node.operand)
        if isinstance(node.op, ast.Not):
            return self._emitter.negation(item) if isinstance(item, Value) else not item
        if not isinstance(node.op, ast.USub):
            raise LoopError(f"{ast.unparse(node)} has no form in the IR")
        return self._emitter.negative(item) if isinstance(item, Value) else -item

    def _of_compare(self, node: ast.Compare) -> Value | bool:
        if len(node.ops) != 1 or type(node.ops[0]) not in _COMPARISONS:
            raise LoopError(f"{ast.unparse(node)} has no form in the IR: compare two numbers")
        sign, fold = _COMPARISONS[type(node.ops[0])]
        left, right = self._evaluate(node.left), self._evaluate(node.comparators[0])
        if isinstance(left, Value) or isinstance(right, Value):
            return self._emitter.compare(sign, left, right)
        return fold(left, right)

    def _of_boolop(self, node: ast.BoolOp) -> Value | bool:
        """As in Python, what follows is evaluated only where it decides."""
        found = self._evaluate(node.values[0])
        for operand in node.values[1:]:
            stop = isinstance(node.op, ast.Or)
            if not isinstance(found, Value):
                found = found if bool(found) == stop else self._evaluate(operand)
                continue
            decided = functools.partial(lambda value: value, stop)
            remaining = functools.partial(self._evaluate, operand)
            found = self._select(found, *((decided, remaining) if stop else (remaining, decided)))
        return found

    def _of_ifexp(self, node: ast.IfExp) -> Number:
        condition = self._evaluate(node.test)
        if not isinstance(condition, Value):
            return self._evaluate(node.body if condition else node.orelse)
        return self._select(condition, lambda: self._evaluate(node.body), lambda: self._evaluate(node.orelse))

    def _select(self, condition: Value, yes: Callable[[], Number], no: Callable[[], Number]) -> Value:
        """What one of two expressions gives; only that one is evaluated."""
        outer = self._emitter.lines
        texts, values = [], []
        for expression in (yes, no):
            self._emitter.lines = []
            values.append(expression())
            texts.append(self._emitter.lines)
        self._emitter.lines = outer
        kinds: list[Kind] = [wider(*map(kind_of, values))]
        pairs = zip(texts, values, strict=True)
        first, second = [self._yielding(text, [value], kinds) for text, value in pairs]
        results = self._region_results(kinds)
        self._append(
            results, f"scf.if {condition.parts[0]}{self._arrow(kinds)} {{", [*first, "} else {", *second, "}"]
        )
        return Value(kinds[0], tuple(results))

    def _of_call(self, node: ast.Call) -> Any:
        function = self._global(node.func)
        arguments = [self._evaluate(argument) for argument in node.args]
        if function in _CALLS:
            return _CALLS[function](self._emitter, *arguments)
        if not inspect.isfunction(function):
            raise LoopError(f"{ast.unparse(node.func)} has no form in the IR")
        names = list(inspect.signature(function).parameters)
        return _Body(function, dict(zip(names, arguments, strict=True)), self._emitter).run()


def _extreme(sign: str) -> Callable[..., Number]:
    def choose(emitter: Emitter, left: Number, right: Number) -> Number:
        if not isinstance(left, Value) and not isinstance(right, Value):
            return min(left, right) if sign == "<" else max(left, right)
        kind = wider(kind_of(left), kind_of(right))
        a, b = emitter.value(left, kind), emitter.value(right, kind)
        condition = emitter.compare(sign, a, b).parts[0]
        return Value(
            kind,
            (
                emitter.add(
                    f"arith.select {condition}, {a.parts[0]}, {b.parts[0]} : {emitter.types(kind)[0]}"
                ),
            ),
        )

    return choose


# By name: while torch.export traces, `builtins` has a min and a max of its own.
_BUILTINS = {name: getattr(builtins, name) for name in ("abs", "min", "max", "range")}

_CALLS: dict[Any, Callable[..., Any]] = {
    _BUILTINS["abs"]: Emitter.absolute,
    _BUILTINS["min"]: _extreme("<"),
    _BUILTINS["max"]: _extreme(">"),
    functions.sqrt: lambda emitter, x: emitter.call("math.sqrt", x),
    functions.copysign: lambda emitter, x, sign: emitter.call("math.copysign", x, sign),
    functions.conj: Emitter.conjugate,
    functions.real: lambda emitter, x: emitter.part(x, 0),
    functions.imag: lambda emitter, x: emitter.part(x, 1),
    functions.pair: lambda emitter, re, im: Value(
        "complex", (*emitter.value(re, "real").parts, *emitter.value(im, "real").parts)
    ),
    functions.isnan: lambda emitter, x: emitter.compare("!=", x, x),
    functions.epsilon: lambda emitter: _LIMITS[emitter.real][0],
    functions.tiny: lambda emitter: _LIMITS[emitter.real][1],
}
