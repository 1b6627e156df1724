"""Calls between the functions of a program: a call's results have the types that its callee returns."""

from __future__ import annotations

from torch_mlir import ir

from ..tensor_types import parse
from .operations import every_operation, functions, operations_in
from .retyping import retype


class Callees:
    """The functions of `module` by symbol, with the types that their results have at the moment."""

    def __init__(self, module: ir.Module) -> None:
        self._module = module
        self._functions = functions(module)

    def in_order(self) -> list[ir.Operation]:
        """All functions, each behind those that it calls; of those that call each other in a circle any is first."""
        found: dict[str, ir.Operation] = {}
        waiting = [(name, False) for name in reversed(self._functions)]
        entered: set[str] = set()
        while waiting:
            name, left = waiting.pop()
            if left:
                found[name] = self._functions[name]
            elif name not in entered:
                entered.add(name)
                waiting.append((name, True))
                waiting += [(callee, False) for callee in _called(self._functions[name])]
        return list(found.values())

    def settle(self, call: ir.Operation) -> bool:
        """Gives the results of one call the types of its callee; whether that changed something."""
        function = self._functions[_callee(call)]
        types = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results
        changed = False
        for result, type_ in zip(call.results, types, strict=True):
            info = parse(str(type_))
            if result.type != type_ and info is not None:
                retype(result, info)
                changed = True
        return changed

    def settle_all(self) -> None:
        """The same for every call: functions that call each other cannot all come behind those they call."""
        calls = [op for op in every_operation(self._module) if op.name == "func.call"]
        while any([self.settle(call) for call in calls]):
            pass


def _called(function: ir.Operation) -> list[str]:
    return [_callee(op) for op in operations_in(function) if op.name == "func.call"]


def _callee(call: ir.Operation) -> str:
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value
