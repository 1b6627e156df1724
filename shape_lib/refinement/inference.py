"""The results of one operator, as its library functions tell them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch_mlir import ir

from ..abstract.machine import EndlessError, Machine
from ..abstract.values import Heap, Ref, Unknown, Value
from ..tensor_types import TensorInfo, parse
from .arguments import Adapter, MisfitError, dtype_of, per_result, sizes_of
from .library import Found, described
from .operations import lists_tensors

Told = TensorInfo | list[TensorInfo] | None
"""A tensor, a list of tensors, or nothing: the result is neither, or nothing is known of it."""


def infer(
    results: Sequence[ir.Type],
    operands: Sequence[Value],
    heap: Heap,
    shape: Found | None,
    dtype: Found | None,
) -> list[Told]:
    """What the functions tell of each result. heap: where the operands' lists are.

    Raises Raised (from `shape_lib.abstract.machine`) when a function must raise, and MisfitError.
    """
    kinds = [_kind(type_) for type_ in results]
    nothing: list[Any] = [None] * len(kinds)
    sizes = _run(shape, kinds, operands, heap, _sizes) if shape else nothing
    dtypes = _run(dtype, kinds, operands, heap, _dtypes) if dtype else nothing
    return [_told(*found) for found in zip(kinds, sizes, dtypes, strict=True)]


def _kind(type_: ir.Type) -> str:
    if parse(str(type_)) is not None:
        return "tensor"
    return "list" if lists_tensors(type_) else "other"


def _run(
    found: Found,
    kinds: Sequence[str],
    operands: Sequence[Value],
    heap: Heap,
    read: Callable[[str, Value, Heap], Any],
) -> list[Any]:
    machine = Machine(found.home.function)
    function = found.function
    try:
        arguments = Adapter(heap, machine.heap).arguments(operands, function.parameters)
        result = machine.call(function, arguments)
        values = per_result(result, len(kinds))
        return [read(kind, value, machine.heap) for kind, value in zip(kinds, values, strict=True)]
    except MisfitError as error:
        raise MisfitError(f"{described(function.name)} {error}") from None
    except (EndlessError, RecursionError):
        raise MisfitError(f"{described(function.name)} does not end") from None
    except KeyError as error:
        raise MisfitError(f"{described(function.name)} calls {error}, which its library lacks") from None


def _sizes(kind: str, value: Value, heap: Heap) -> Any:
    if kind == "tensor":
        return sizes_of(value, heap)
    elements = _elements(value, heap) if kind == "list" else None
    return None if elements is None else [sizes_of(element, heap) for element in elements]


def _dtypes(kind: str, value: Value, heap: Heap) -> Any:
    if kind == "tensor":
        return dtype_of(value)
    if kind == "other":
        return None
    if not isinstance(value, (Ref, Unknown)):
        # One dtype for all tensors of the list.
        return dtype_of(value)
    elements = _elements(value, heap)
    return None if elements is None else [dtype_of(element) for element in elements]


def _elements(value: Value, heap: Heap) -> Sequence[Value] | None:
    if isinstance(value, Unknown):
        return None
    if not isinstance(value, Ref):
        raise MisfitError(f"gives {value!r} where the operator gives a list")
    return heap.read(value)


def _told(kind: str, sizes: Any, dtype: Any) -> Told:
    if kind == "tensor":
        return TensorInfo(sizes, dtype)
    if kind == "other" or not isinstance(sizes, list):
        return None
    dtypes = dtype if isinstance(dtype, list) else [dtype] * len(sizes)
    if len(dtypes) != len(sizes):
        raise MisfitError(f"gives {len(sizes)} shapes and {len(dtypes)} dtypes")
    return [TensorInfo(*found) for found in zip(sizes, dtypes, strict=True)]
