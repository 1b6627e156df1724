"""Imported libraries, run by the abstract interpreter and by torch-mlir's own passes."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.passmanager import PassManager

from pipeline.shape_lib.abstract.machine import Machine, Raised
from pipeline.shape_lib.abstract.program import read_function
from pipeline.shape_lib.abstract.values import Ref
from pipeline.shape_lib.importer import import_functions
from pipeline.shape_lib.registry import LibraryFunction


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    patch = pytest.MonkeyPatch()
    patch.setenv("PIPELINE_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(scope="session")
def imported(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Sequence[Callable[..., Any]]], "Imported"]:
    """Imports plain functions as the shape functions of operators `test::<name>`."""

    def make(functions: Sequence[Callable[..., Any]], *, text: str | None = None) -> Imported:
        entries = [LibraryFunction(f"test.{function.__name__}", "shape", function) for function in functions]
        folder = tmp_path_factory.mktemp("library")
        return Imported(import_functions(entries) if text is None else text, folder)

    return make


class Imported:
    """The text of a library with functions of operators `test::<name>`."""

    def __init__(self, text: str, folder: Path) -> None:
        self.text = text
        self.path = folder / "library.mlir"
        self.path.write_text(text)
        self.context = ir.Context()
        torch_dialect.register_dialect(self.context)
        self.module = ir.Module.parse(text, self.context)
        assert self.module.operation.verify()
        functions = {ir.StringAttr(op.attributes["sym_name"]).value: op for op in self.module.body.operations}
        self.functions = {name: read_function(op) for name, op in functions.items()}

    def run(self, function: Callable[..., Any], arguments: Sequence[Any], kind: str = "shape") -> Any:
        """What the imported function returns, or ``Kind: message`` of what it raises."""
        return self.run_symbol(f"__torch_mlir_{kind}_fn.torch.test.{function.__name__}", arguments)

    def run_symbol(self, symbol: str, arguments: Sequence[Any]) -> Any:
        machine = Machine(self.functions.__getitem__)
        try:
            result = machine.call(self.functions[symbol], [_to_heap(machine, value) for value in arguments])
        except Raised as raised:
            return raised.message
        return _from_heap(machine, result)

    def simplify(
        self, calls: Sequence[tuple[Callable[..., Any], Sequence[tuple[Any, ...]]]]
    ) -> dict[Any, Any]:
        """The result sizes of operators called with constants, by torch-mlir's passes alone."""
        numbered = [(f.__name__, i, arguments) for f, inputs in calls for i, arguments in enumerate(inputs)]
        module = ir.Module.parse(_program(numbered, self.functions), self.context)
        with self.context, ir.Location.unknown(self.context):
            _run(module, f"torch-reify-shape-calculations{{extra-library={self.path}}},inline")
            _own_lists(module.operation)
            _run(module, f"func.func({','.join([_SIMPLIFY, 'canonicalize'] * 4)},{_DROP})")
        return _refined(module)

    def simplify_dtypes(self, program: str) -> dict[str, list[str]]:
        """The dtypes of the operators' results in each function of a program, by torch-mlir's passes alone."""
        module = ir.Module.parse(program, self.context)
        with self.context, ir.Location.unknown(self.context):
            for kind in ("shape", "dtype"):
                simplify = f"torch-simplify-{kind}-calculations"
                _run(module, f"torch-reify-{kind}-calculations{{extra-library={self.path}}},inline")
                _own_lists(module.operation)
                _run(module, f"func.func({','.join([simplify, 'canonicalize'] * 4)},{_DROP})")
        found = {}
        for function in module.body.operations:
            operations = [op.operation for op in function.regions[0].blocks[0].operations]
            results = [r for op in operations if op.name in _CALLED for r in op.results]
            dtypes = [str(result.type).rpartition(",")[2].rstrip(">") for result in results]
            found[ir.StringAttr(function.attributes["sym_name"]).value] = dtypes
        return found


_CALLED = ("torch.operator", "torch.aten.add.Tensor", "torch.aten.add.Scalar")


def _to_heap(machine: Machine, value: Any) -> Any:
    if isinstance(value, list):
        return machine.heap.new(tuple(_to_heap(machine, part) for part in value))
    return tuple(_to_heap(machine, part) for part in value) if isinstance(value, tuple) else value


def _from_heap(machine: Machine, value: Any) -> Any:
    if isinstance(value, Ref):
        contents = machine.heap.read(value)
        assert contents is not None, "a list of unknown length"
        return [_from_heap(machine, part) for part in contents]
    return tuple(_from_heap(machine, part) for part in value) if isinstance(value, tuple) else value


# ---- programs that call operators with constants


def _program(calls: Sequence[tuple[str, int, tuple[Any, ...]]], functions: Any) -> str:
    lines = []
    for name, index, arguments in calls:
        function = functions[f"__torch_mlir_shape_fn.torch.test.{name}"]
        writer = _Writer()
        operands = [writer.value(v, type_) for v, type_ in zip(arguments, function.parameters, strict=True)]
        names, types = ", ".join(n for n, _ in operands), ", ".join(t for _, t in operands)
        count = function.result.count("list<int>")
        results = ", ".join(["!torch.vtensor"] * count)
        numbers = ", ".join(f"%r#{i}" if count > 1 else "%r" for i in range(count))
        lines += [
            f'func.func @"{name}|{index}"() -> ({results}) {{',
            *writer.lines,
            f'  %r{f":{count}" if count > 1 else ""} = torch.operator "torch.test.{name}"({names}) : ({types})'
            f" -> ({results})",
            f"  return {numbers} : {results}",
            "}",
        ]
    return "\n".join(lines)


class _Writer:
    """Constants as operations."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def _line(self, text: str, type_: str) -> tuple[str, str]:
        name = f"%c{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name, type_

    def value(self, value: Any, wanted: str) -> tuple[str, str]:
        if value is None:
            return self._line("torch.constant.none", "!torch.none")
        if isinstance(value, list):
            return self._list(value, wanted)
        kind = type(value).__name__
        text = {bool: lambda v: str(v).lower(), str: json.dumps, float: lambda v: f"{v:.17e}"}.get(
            type(value), str
        )
        return self._line(f"torch.constant.{kind} {text(value)}", f"!torch.{kind}")

    def _list(self, values: list[Any], wanted: str) -> tuple[str, str]:
        match = re.match(r"(?:optional<)?list<(list<int>|[a-z]+)>+$", wanted)
        element = match.group(1) if match else "int"
        parts = [self.value(value, element) for value in values]
        type_ = f"!torch.list<{element}>"
        names, types = ", ".join(n for n, _ in parts), ", ".join(t for _, t in parts)
        return self._line(f"torch.prim.ListConstruct {names} : ({types}) -> {type_}", type_)


_SIMPLIFY = "torch-simplify-shape-calculations"
_DROP = "torch-drop-abstract-interp-calculations"


def _run(module: ir.Module, passes: str) -> None:
    PassManager.parse(f"builtin.module({passes})").run(module.operation)


def _own_lists(op: ir.Operation) -> None:
    """Operators might change their lists: give the shape functions lists that no operator sees."""

    def walk(inner: Any) -> ir.WalkResult:
        if inner.name == "torch.operator":
            for index, value in enumerate(inner.operands):
                owner = value.owner
                if str(value.type).startswith("!torch.list<") and owner.name == "torch.prim.ListConstruct":
                    inner.operands[index] = owner.clone(ip=ir.InsertionPoint(inner)).results[0]
        return ir.WalkResult.ADVANCE

    op.walk(walk)


def _refined(module: ir.Module) -> dict[Any, Any]:
    """The sizes of every function's results; None where the rank is unknown, -1 for unknown sizes."""
    found = {}
    for function in module.body.operations:
        name, index = ir.StringAttr(function.attributes["sym_name"]).value.split("|")
        (operator,) = [
            op for op in function.regions[0].blocks[0].operations if op.operation.name == "torch.operator"
        ]
        sizes = [_sizes(str(result.type)) for result in operator.operation.results]
        found[name, int(index)] = sizes[0] if len(sizes) == 1 else tuple(sizes)
    return found


def _sizes(type_: str) -> list[int] | None:
    match = re.match(r"!torch.vtensor<\[(.*?)\]", type_)
    if match is None:
        return None
    return [-1 if size == "?" else int(size) for size in match.group(1).split(",") if size]
