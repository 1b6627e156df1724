"""Torch dialect operations on lists and tuples, with Python's meaning, also where elements are unknown."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import reduce

from .. import dtypes as scalar_types
from . import scalars
from .values import Contents, Heap, Partial, Ref, Unknown, Value, join, kind_of

Operation = Callable[[Heap, list[Value], Value], Value]
"""(heap, operands, the result where nothing is known) -> result"""


def find(name: str) -> Operation | None:
    """The operation `name` (``aten.append.t``), None when it is none of lists or tuples."""
    return _OPERATIONS.get(name)


def unpack(heap: Heap, operands: list[Value], unknowns: Sequence[Value]) -> Sequence[Value]:
    """The parts of a tuple or of a list."""
    parts = operands[0] if isinstance(operands[0], tuple) else heap.read(operands[0])
    if parts is None:
        return unknowns
    if len(parts) != len(unknowns):
        raise ValueError(f"{len(parts)} values to unpack into {len(unknowns)}")
    return parts


def _len(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    contents = heap.read(operands[0])
    return Unknown.NATURAL if contents is None else len(contents)


def _cast(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    return unknown if operands[0] is Unknown.ANYTHING else operands[0]


def _tuple_index(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    parts, index = operands
    known = isinstance(parts, tuple) and type(index) is int
    return parts[index] if known else unknown


def _get_item(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    contents, index = heap.read(operands[0]), operands[1]
    if contents is None:
        return unknown
    if type(index) is int:
        return contents[index]
    if not contents:
        raise IndexError("list index out of range")
    return reduce(join, contents)


def _append(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    contents = heap.read(operands[0])
    heap.write(operands[0], None if contents is None else (*contents, operands[1]))
    return operands[0]


def _insert(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    target, index, value = operands
    contents = heap.read(target)
    if contents is None:
        heap.write(target, None)
    elif type(index) is int:
        changed = list(contents)
        changed.insert(index, value)
        heap.write(target, tuple(changed))
    else:
        heap.write(target, (reduce(join, contents, value),) * (len(contents) + 1))
    return None


def _sort(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    target, backwards = operands
    contents = heap.read(target)
    if contents is None:
        heap.write(target, None)
    elif type(backwards) is bool and all(scalars.is_known(element) for element in contents):
        heap.write(target, tuple(sorted(contents, reverse=backwards)))
    elif contents:
        heap.write(target, (reduce(join, contents),) * len(contents))
    return None


def _set_item(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    target, index, value = operands
    contents = heap.read(target)
    if contents is None:
        heap.write(target, None)
    elif type(index) is int:
        changed = list(contents)
        changed[index] = value
        heap.write(target, tuple(changed))
    elif not contents:
        raise IndexError("list assignment index out of range")
    else:
        heap.write(target, tuple(join(element, value) for element in contents))
    return target


def _add(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    return heap.new(_concatenated(heap, operands))


def _concatenated(heap: Heap, operands: list[Value]) -> Contents:
    first, second = heap.read(operands[0]), heap.read(operands[1])
    return None if first is None or second is None else first + second


def _multiply(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    times = next((operand for operand in operands if type(operand) is int), None)
    contents = next((heap.read(operand) for operand in operands if isinstance(operand, Ref)), None)
    return heap.new(None if contents is None or times is None else contents * times)


def _copy(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    return heap.new(heap.read(operands[0]))


def _slice(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    contents, bounds = heap.read(operands[0]), operands[1:]
    if contents is None or not all(scalars.is_known(bound) for bound in bounds):
        return heap.new(None)
    # IR of TorchScript says "to the end" with the greatest int, which Python's slices take as well.
    return heap.new(contents[slice(*bounds)])


def _contains(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    contents = heap.read(operands[0])
    if contents is None:
        return unknown
    return _any(
        [scalars.compute("aten.eq", [element, operands[1]], unknown) for element in contents], unknown
    )


def _equal(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    first, second = heap.read(operands[0]), heap.read(operands[1])
    if first is None or second is None:
        return unknown
    if len(first) != len(second):
        return False
    return _all(
        [scalars.compute("aten.eq", [a, b], unknown) for a, b in zip(first, second, strict=True)], unknown
    )


def _different(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    equal = _equal(heap, operands, unknown)
    return unknown if isinstance(equal, Unknown) else not equal


def _any(values: Sequence[Value], unknown: Value) -> Value:
    if any(value is True for value in values):
        return True
    return False if all(value is False for value in values) else unknown


def _all(values: Sequence[Value], unknown: Value) -> Value:
    if any(value is False for value in values):
        return False
    return True if all(value is True for value in values) else unknown


def _over_elements(function: Callable[[Sequence[Value], Value], Value]) -> Operation:
    """An operation that only reads its list."""

    def run(heap: Heap, operands: list[Value], unknown: Value) -> Value:
        contents = heap.read(operands[0])
        return unknown if contents is None else function(contents, unknown)

    return run


def _extreme(name: str, function: Callable[[Sequence[Value]], Value]) -> Operation:
    def run(elements: Sequence[Value], unknown: Value) -> Value:
        if all(scalars.is_known(element) for element in elements):
            return function(elements)
        return scalars.compute(name, list(elements), unknown)

    return _over_elements(run)


def _format(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    template, *values = operands
    if not isinstance(template, str):
        return unknown
    known = all(scalars.is_known(value) and not isinstance(value, Ref) for value in values)
    text = template.format(*(_shown(heap, value) for value in values))
    return text if known else Partial(text)


def _shown(heap: Heap, value: Value) -> str:
    if isinstance(value, Ref):
        contents = heap.read(value)
        return "[...]" if contents is None else f"[{', '.join(_shown(heap, part) for part in contents)}]"
    return str(value) if scalars.is_known(value) else "?"


def _promote(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    """An unknown rank is tried as none and as some; an unknown dtype is unknown."""
    ranks, dtypes = heap.read(operands[0]), heap.read(operands[1])
    if ranks is None or dtypes is None or not all(type(dtype) is int for dtype in dtypes):
        return unknown
    # Equal pairs count once, so that there are few.
    pairs = list(dict.fromkeys(zip(ranks, dtypes, strict=True)))
    choices = [(rank,) if scalars.is_known(rank) else _possible_ranks(rank) for rank, _ in pairs]
    kinds = [dtype for _, dtype in pairs]
    found = {scalar_types.promote_dtypes(list(choice), kinds) for choice in itertools.product(*choices)}
    return found.pop() if len(found) == 1 else unknown


def _possible_ranks(rank: Value) -> tuple[int | None, ...]:
    return (0, 1, None) if rank is Unknown.ANYTHING else (0, 1)


def _number_dtype(heap: Heap, operands: list[Value], unknown: Value) -> Value:
    """torch-mlir's library asks for the dtype of a Python number through a tensor of it; it has no other tensors."""
    return _NUMBER_DTYPES.get(kind_of(operands[0]), unknown)


_NUMBER_DTYPES: dict[Unknown | None, Value] = {
    Unknown.BOOL: scalar_types.bool_,
    Unknown.INT: scalar_types.int64,
    Unknown.FLOAT: scalar_types.float64,
}

_OPERATIONS: dict[str, Operation] = {
    "prim.ListConstruct": lambda heap, operands, unknown: heap.new(tuple(operands)),
    "prim.TupleConstruct": lambda heap, operands, unknown: tuple(operands),
    "prim.TupleIndex": _tuple_index,
    "prim.Uninitialized": lambda heap, operands, unknown: Unknown.UNSET,
    "prim.NumToTensor.Scalar": lambda heap, operands, unknown: operands[0],
    "prim.dtype": _number_dtype,
    "prim.unchecked_cast": _cast,
    "derefine": lambda heap, operands, unknown: operands[0],
    "aten.len.t": _len,
    "aten.__getitem__.t": _get_item,
    "aten.append.t": _append,
    "aten._set_item.t": _set_item,
    "aten.insert.t": _insert,
    "aten.sort.int": _sort,
    "aten.add.t": _add,
    "aten.mul.left_t": _multiply,
    "aten.list.t": _copy,
    "aten.slice.t": _slice,
    "aten.any.bool": _over_elements(_any),
    "aten.all.bool": _over_elements(_all),
    "prim.max.self_int": _extreme("prim.max", max),
    "prim.min.self_int": _extreme("prim.min", min),
    "aten.format": _format,
    "aten.warn": lambda heap, operands, unknown: None,
    "promote_dtypes": _promote,
    "aten.__contains__.int_list": _contains,
    "aten.__contains__.str_list": _contains,
    "aten.eq.int_list": _equal,
    "aten.ne.int_list": _different,
}
