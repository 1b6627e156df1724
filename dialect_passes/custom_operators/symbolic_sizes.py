"""From the fake tensors of a captured call to `CallTypes`: result sizes in terms of the operands' sizes.

Capture knows how each size of a result follows from the sizes of the inputs, as a sympy expression over the
program's symbols. A kernel's results are allocated by it, so nothing here guesses: what cannot be said with the
sizes of the call's own operands is left unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from .call_types import Argument, CallTypes, TensorType
from .launch import operand_sizes
from .sizes import Size, combine, maximum, minimum


def describe_call(arguments: Mapping[str, Any], results: Sequence[Any]) -> CallTypes:
    """The types of a call with these arguments (by parameter name, in schema order) and results.

    Tensors are (fake) torch tensors, whose sizes may be symbolic; lists of tensors may hold None; the rest is
    kept as it is.
    """
    types = {name: _argument(value) for name, value in arguments.items()}
    call = CallTypes(types, tuple(tensor_type(result) for result in results))
    known = _known_expressions(arguments, call)
    sizes = [[_size(size, known) for size in result.shape] for result in results]
    if any(size is None for row in sizes for size in row):
        return call
    return CallTypes(call.arguments, call.results, tuple(tuple(row) for row in sizes))  # type: ignore[arg-type]


def tensor_type(tensor: Any) -> TensorType:
    """The type of a torch tensor; symbolic sizes become None."""
    shape = tuple(size if isinstance(size, int) else None for size in map(_plain, tensor.shape))
    return TensorType(shape, str(tensor.dtype).removeprefix("torch."))


def _argument(value: Any) -> Argument:
    if _is_tensor(value):
        return tensor_type(value)
    if isinstance(value, (list, tuple)) and any(map(_is_tensor, value)):
        return tuple(None if item is None else tensor_type(item) for item in value)
    return value


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _plain(size: Any) -> Any:
    """An int for a size that is one, also where it is written as a symbolic one."""
    if isinstance(size, int):
        return size
    constant = size.node.maybe_as_int()
    return size if constant is None else constant


def _known_expressions(arguments: Mapping[str, Any], call: CallTypes) -> dict[Any, int | Size]:
    """Expression -> the first operand dimension that has this size; and the symbols that follow from those."""
    tensors = [
        item
        for value in arguments.values()
        for item in (value if isinstance(value, (list, tuple)) else [value])
        if _is_tensor(item)
    ]
    known: dict[Any, int | Size] = {}
    for number, ((_, type_), tensor) in enumerate(zip(call.tensors(), tensors, strict=True)):
        for size, dim in zip(operand_sizes(type_, number), tensor.shape, strict=True):
            if isinstance(size, Size):
                known.setdefault(dim.node.expr, size)
    for expression, size in list(known.items()):
        symbol, factor, rest = _linear(expression)
        if symbol is not None:
            known.setdefault(symbol, combine("//", combine("-", size, rest), factor))
    return known


def _linear(expression: Any) -> tuple[Any, int, int]:
    """Symbol, factor and rest of an expression ``2*s + 1`` of one symbol; None for any other."""
    symbols = list(expression.free_symbols)
    if len(symbols) == 1:
        factor = expression.coeff(symbols[0], 1)
        rest = expression - factor * symbols[0]
        if factor.is_Integer and factor != 0 and rest.is_Integer:
            return symbols[0], int(factor), int(rest)
    return None, 1, 0


def _size(size: Any, known: Mapping[Any, int | Size]) -> int | Size | None:
    size = _plain(size)
    return size if isinstance(size, int) else _expression(size.node.expr, known)


def _expression(expression: Any, known: Mapping[Any, int | Size]) -> int | Size | None:
    """`expression` over the sizes that are known; None where one is not, or for arithmetic that Size lacks."""
    if expression.is_Integer:
        return int(expression)
    if expression in known:
        return known[expression]
    if expression.is_Symbol:
        return None
    if expression.is_Pow and expression.args[1].is_Integer and expression.args[1] > 0:
        parts = [_expression(expression.args[0], known)] * int(expression.args[1])
        return _reduced(lambda a, b: combine("*", a, b), parts)
    operation = _operations().get(expression.func)
    return _reduced(operation, [_expression(part, known) for part in expression.args]) if operation else None


def _reduced(
    operation: Callable[[int | Size, int | Size], int | Size], parts: list[int | Size | None]
) -> int | Size | None:
    found = [part for part in parts if part is not None]
    return reduce(operation, found) if len(found) == len(parts) else None


def _operations() -> dict[Any, Callable[[int | Size, int | Size], int | Size]]:
    import sympy
    from torch.utils._sympy import functions

    def divide(left: int | Size, right: int | Size) -> int | Size:
        return combine("//", left, right)

    def modulo(left: int | Size, right: int | Size) -> int | Size:
        return combine("%", left, right)

    return {
        sympy.Add: lambda a, b: combine("+", a, b),
        sympy.Mul: lambda a, b: combine("*", a, b),
        functions.FloorDiv: divide,
        functions.CleanDiv: divide,
        functions.Mod: modulo,
        functions.PythonMod: modulo,
        functions.Max: maximum,
        functions.Min: minimum,
    }
