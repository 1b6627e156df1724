"""The functions that calls of custom operators become, in the Torch dialect.

A native kernel or a linalg lowering is only declared there, and defined when the IREE module is made; a
lowering in the Torch dialect is defined at once, and inlined by the next stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from torch_mlir import ir

from .custom_calls import Definition
from .errors import InputError


class Definitions:
    """Declares or defines each function in `module` when it is first called."""

    def __init__(self, module: ir.Module, known: Mapping[str, Definition]) -> None:
        self._module = module
        self._known = known
        self._types: dict[str, ir.FunctionType] = {}

    def call(
        self, symbol: str, operands: Sequence[ir.Value], results: Sequence[ir.Type], loc: ir.Location
    ) -> list[ir.Value]:
        """A call at the insertion point, its results cast to the captured types `results`."""
        wanted = ir.FunctionType.get([operand.type for operand in operands], list(results))
        if symbol not in self._types:
            self._types[symbol] = self._add(self._known[symbol], wanted)
        found = self._types[symbol].results
        attributes = {"callee": ir.FlatSymbolRefAttr.get(symbol)}
        call = ir.Operation.create("func.call", found, list(operands), attributes, loc=loc)
        return [_cast(value, type_, loc) for value, type_ in zip(call.results, results, strict=True)]

    def declared_call(
        self,
        symbol: str,
        operands: Sequence[ir.Value],
        results: Sequence[ir.Type],
        attributes: Mapping[str, ir.Attribute],
        loc: ir.Location,
    ) -> list[ir.Value]:
        """A call of a function that is only declared, with what defines it later in `attributes`."""
        with ir.InsertionPoint(self._module.body), ir.Location.unknown():
            _declare(
                symbol, ir.FunctionType.get([value.type for value in operands], list(results)), attributes
            )
        callee = {"callee": ir.FlatSymbolRefAttr.get(symbol)}
        return list(ir.Operation.create("func.call", list(results), list(operands), callee, loc=loc).results)

    def _add(self, definition: Definition, wanted: ir.FunctionType) -> ir.FunctionType:
        with ir.InsertionPoint(self._module.body), ir.Location.unknown():
            if definition.lowering.form != "torch":
                _declare(definition.symbol, wanted)
                return wanted
            return self._define(definition, wanted)

    def _define(self, definition: Definition, wanted: ir.FunctionType) -> ir.FunctionType:
        name = definition.title
        try:
            parsed = ir.Module.parse(definition.in_torch_dialect(), self._module.context)
        except ir.MLIRError as error:
            raise InputError(f"{name} wrote IR that is wrong:\n{error}") from error
        for op in list(parsed.body.operations):
            self._module.body.append(op)
        function = next((f for f in _functions(self._module) if _name(f) == definition.symbol), None)
        if function is None:
            raise InputError(f"{name} does not define the function @{definition.symbol}")
        type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        if list(type_.inputs) != list(wanted.inputs) or len(type_.results) != len(wanted.results):
            raise InputError(f"{name} defines a function of type {type_}, the call has {wanted}")
        return type_


def _functions(module: ir.Module) -> list[ir.Operation]:
    return [op.operation for op in module.body.operations if op.operation.name == "func.func"]


def _name(function: ir.Operation) -> str:
    return ir.StringAttr(function.attributes["sym_name"]).value


def _declare(
    symbol: str, type_: ir.FunctionType, more: Mapping[str, ir.Attribute] = MappingProxyType({})
) -> None:
    attributes = {
        **more,
        "sym_name": ir.StringAttr.get(symbol),
        "function_type": ir.TypeAttr.get(type_),
        "sym_visibility": ir.StringAttr.get("private"),
    }
    ir.Operation.create("func.func", attributes=attributes, regions=1)


def _cast(value: ir.Value, type_: ir.Type, loc: ir.Location) -> ir.Value:
    if value.type == type_:
        return value
    return ir.Operation.create("torch.tensor_static_info_cast", [type_], [value], loc=loc).result
