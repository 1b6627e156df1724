"""From an operator's operands to the arguments of its library functions, and from their results to tensors.

The functions take an operator's arguments with each tensor replaced: by its list of sizes in shape functions,
by its rank and dtype in dtype functions.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..abstract.values import Heap, Ref, Unknown, Value, is_natural
from ..tensor_types import Sizes, TensorInfo, dtype_name


class MisfitError(Exception):
    """The function does not fit the operator's arguments or results."""


class Adapter:
    """Translates operands, whose lists live on the program's heap, into arguments on a function's own heap.

    Every list is copied: whatever a function does to its arguments, the program's lists stay as they are.
    """

    def __init__(self, program: Heap, own: Heap) -> None:
        self._program = program
        self._own = own

    def arguments(self, operands: Sequence[Value], parameters: Sequence[str]) -> list[Value]:
        """Raises MisfitError."""
        if len(operands) != len(parameters):
            raise MisfitError(f"takes {len(parameters)} arguments and the operator has {len(operands)}")
        found = []
        for i, (operand, parameter) in enumerate(zip(operands, parameters, strict=True)):
            try:
                found.append(self._argument(operand, parameter))
            except MisfitError as error:
                raise MisfitError(f"takes '{parameter}' as argument {i + 1}, which {error}") from None
        return found

    def _argument(self, operand: Value, parameter: str) -> Value:
        if parameter.startswith("optional<"):
            nothing = operand is None or operand is Unknown.ANYTHING
            return operand if nothing else self._argument(operand, _inside(parameter))
        if isinstance(operand, TensorInfo):
            return self._tensor(operand, parameter)
        if parameter.startswith("list<") and (isinstance(operand, (Ref, Unknown))):
            return self._list(operand, _inside(parameter))
        _check_scalar(operand, parameter)
        return _as_float(operand) if parameter == "float" else operand

    def _tensor(self, tensor: TensorInfo, parameter: str) -> Value:
        if parameter == "list<int>":
            return self._own.new(known_sizes(tensor.sizes))
        if parameter == "tuple<int, int>":
            rank = Unknown.NATURAL if tensor.sizes is None else len(tensor.sizes)
            return (rank, Unknown.NATURAL if tensor.code is None else tensor.code)
        if parameter == "any":
            return Unknown.PRESENT
        raise MisfitError("is a tensor here")

    def _list(self, operand: Value, element: str) -> Value:
        contents = self._program.read(operand)
        if contents is None:
            return self._own.new(None)
        return self._own.new(tuple(self._argument(value, element) for value in contents))


def _as_float(number: Value) -> Value:
    """A function that takes a float gets one, also where the operator was called with an int."""
    return float(number) if type(number) is int else Unknown.FLOAT if isinstance(number, Unknown) else number


def known_sizes(sizes: Sizes) -> tuple[Value, ...] | None:
    """A tensor's sizes as the interpreter has them."""
    return None if sizes is None else tuple(Unknown.NATURAL if size is None else size for size in sizes)


def _inside(parameter: str) -> str:
    return parameter.partition("<")[2].removesuffix(">")


_SCALARS = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,), "number": (int, float)}


def _check_scalar(operand: Value, parameter: str) -> None:
    if isinstance(operand, Unknown):
        return
    accepted = _SCALARS.get(parameter)
    if operand is None and accepted is not None:
        raise MisfitError("is None here")
    wrong = isinstance(operand, Ref) and not parameter.startswith("any")
    if accepted is not None and not isinstance(operand, accepted):
        wrong = True
    if wrong or parameter.startswith(("list<", "tuple<")):
        raise MisfitError(f"is {_shown(operand)} here")


def _shown(operand: Value) -> str:
    return "a list" if isinstance(operand, Ref) else repr(operand)


def per_result(result: Value, count: int) -> Sequence[Value]:
    """One value per result of the operator: Python packs several into a tuple. Raises MisfitError."""
    if count == 1:
        return (result,)
    if isinstance(result, Unknown):
        return (result,) * count
    if not isinstance(result, tuple) or len(result) != count:
        given = len(result) if isinstance(result, tuple) else 1
        raise MisfitError(f"gives {given} results and the operator has {count}")
    return result


def sizes_of(result: Value, heap: Heap) -> Sizes:
    """The sizes that a shape function's result says. Raises MisfitError for what are no sizes."""
    if isinstance(result, Unknown):
        return None
    if not isinstance(result, Ref):
        raise MisfitError(f"gives {result!r}, which is no list of sizes")
    contents = heap.read(result)
    return None if contents is None else tuple(_size(value) for value in contents)


def _size(value: Value) -> int | None:
    if isinstance(value, Unknown):
        return None
    if not is_natural(value) or value >= 1 << 63:
        raise MisfitError(f"gives {value!r} as a size")
    return value


def dtype_of(result: Value) -> str | None:
    """The dtype that a dtype function's result says. Raises MisfitError for what is none."""
    if isinstance(result, Unknown):
        return None
    name = dtype_name(result) if type(result) is int else None
    if name is None:
        raise MisfitError(f"gives {result!r}, which is no dtype")
    return name
