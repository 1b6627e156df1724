"""What an operator gives back: of the declared types, contiguous, and in memory of its own.

torch demands that a custom operator's results share no memory with its arguments or each other. A meaning may well
return a view (`x.transpose(0, 1)`) or an argument as it is: such a result is copied. All results are made
contiguous, so that the meaning, a fake kernel and a native kernel, which knows no strides, agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .errors import MeaningError

if TYPE_CHECKING:
    from .schema import Schema


def tensors_in(values: Any) -> list[Tensor]:
    """The tensors among values, also those inside lists and tuples, in order."""
    if isinstance(values, Tensor):
        return [values]
    if not isinstance(values, (list, tuple)):
        return []
    found = []
    for value in values:  # every eager call comes here: a recursion per number would be felt
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors_in(value)
    return found


def map_tensors(change: Callable[[Tensor], Any], values: Any) -> Any:
    """`values` with every tensor in it changed; lists and tuples become lists and tuples."""
    if isinstance(values, Tensor):
        return change(values)
    if isinstance(values, (list, tuple)):
        return type(values)(map_tensors(change, value) for value in values)
    return values


def checked(name: str, schema: Schema, result: Any) -> list[Any]:
    """The results as a list, one per declared result. Raises MeaningError where they are not as declared."""
    if not schema.results:
        if result is not None:
            raise MeaningError(
                f"{name}: its return hint is None, but its function returned {_described(result)}"
            )
        return []
    results = result if schema.several else [result]
    if not isinstance(results, (tuple, list)) or len(results) != len(schema.results):
        raise MeaningError(
            f"{name}: its return hint says {len(schema.results)} results, but its function returned "
            f"{_described(result)}"
        )
    return [_checked_result(name, type_, value) for type_, value in zip(schema.results, results, strict=True)]


def _checked_result(name: str, type_: str, value: Any) -> Any:
    if type_ == "Tensor" and isinstance(value, Tensor):
        return value
    if type_ == "Tensor[]" and isinstance(value, (list, tuple)) and all(isinstance(t, Tensor) for t in value):
        return list(value)
    wanted = "a Tensor" if type_ == "Tensor" else "a list of Tensors"
    raise MeaningError(
        f"{name}: its return hint says {wanted}, but its function returned {_described(value)}"
    )


def _described(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else f"a {type(value).__name__}"


def packed(schema: Schema, results: Sequence[Any]) -> Any:
    """As a call returns them: one result, a tuple, or None."""
    if schema.several:
        return tuple(results)
    return results[0] if results else None


def owned(results: Sequence[Any], arguments: Any) -> list[Any]:
    """The results, those copied that are not contiguous or share memory with an argument or an earlier result."""
    taken = {_memory(tensor) for tensor in tensors_in(arguments)}

    def own(tensor: Tensor) -> Tensor:
        if _memory(tensor) in taken:
            tensor = tensor.clone(memory_format=torch.contiguous_format)
        tensor = tensor.contiguous()
        taken.add(_memory(tensor))
        return tensor

    return map_tensors(own, list(results))


def blank(results: Sequence[Any]) -> list[Any]:
    """New contiguous tensors of the same shapes and dtypes: what a fake kernel returns."""
    return map_tensors(lambda t: torch.empty(t.shape, dtype=t.dtype, device=t.device), list(results))


def _memory(tensor: Tensor) -> int:
    """What tells a tensor's storage from others, also beneath the wrappers of torch.func."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor.untyped_storage()._cdata
