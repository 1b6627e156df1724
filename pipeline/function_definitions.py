"""Puts the definitions of custom operators' functions into the module that IREE compiles (runs in the worker).

Before:  func.func private @mylib.swiglu_0(tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
After:   the same function with the body that its kernel or lowering wrote, and what that refers to
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iree.compiler import ir


class DefinitionError(Exception):
    """A lowering wrote something that is no definition of its function; the message names it."""


def define_functions(module: ir.Module, definitions: Sequence[Mapping[str, str]]) -> None:
    """Replaces declarations by `definitions`: "symbol", "of" (for messages) and "text" of each.

    Raises DefinitionError for text that does not parse or defines another function.
    """
    for definition in definitions:
        parsed = _parse(definition)
        declaration = _function(module, definition["symbol"])
        if declaration is None:
            # Nothing calls it: its result was not used.
            continue
        _check(definition, parsed, declaration)
        declaration.erase()
        for op in list(parsed.body.operations):
            module.body.append(op)


def is_entry_point(op: ir.OpView) -> bool:
    """Whether `op` is a function of the captured program, not one of ours."""
    return op.operation.name == "func.func" and "sym_visibility" not in op.operation.attributes


def _parse(definition: Mapping[str, str]) -> ir.Module:
    try:
        return ir.Module.parse(definition["text"])
    except ir.MLIRError as error:
        raise DefinitionError(f"{definition['of']} wrote IR that is wrong:\n{error}") from error


def _function(module: ir.Module, symbol: str) -> ir.Operation | None:
    for op in module.body.operations:
        names = op.operation.attributes
        if op.operation.name == "func.func" and ir.StringAttr(names["sym_name"]).value == symbol:
            return op.operation
    return None


def _check(definition: Mapping[str, str], parsed: ir.Module, declaration: ir.Operation) -> None:
    found = _function(parsed, definition["symbol"])
    if found is None:
        raise DefinitionError(f"{definition['of']} does not define the function @{definition['symbol']}")
    types = [str(function.attributes["function_type"]) for function in (found, declaration)]
    if types[0] != types[1]:
        raise DefinitionError(
            f"{definition['of']} defines a function of type {types[0]}, the call has {types[1]}"
        )
    if "sym_visibility" not in found.attributes:
        raise DefinitionError(f"{definition['of']}: the function @{definition['symbol']} must be private")
