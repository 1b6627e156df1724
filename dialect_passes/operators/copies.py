"""Copies of views (``torch.view_copy``): the view of the same name, and a contiguous clone of each result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .registry import decomposes

# torch.export turns no view into these, so torch-mlir knows few of them; a table of torch's own has the others.
_COPIES = (
    "narrow_copy.default",
    "permute_copy.default",
    "select_copy.int",
    "slice_copy.Tensor",
    "split_copy.Tensor",
    "unbind_copy.int",
    "view_as_complex_copy.default",
    "view_as_real_copy.default",
    "view_copy.default",
    "view_copy.dtype",
)


def _copy_of(view: str) -> Callable[..., Any]:
    def copy(*args: Any, **kwargs: Any) -> Any:
        import torch

        name, _, overload = view.partition(".")
        result = getattr(getattr(torch.ops.aten, name), overload)(*args, **kwargs)
        if isinstance(result, torch.Tensor):
            return result.clone(memory_format=torch.contiguous_format)
        return [part.clone(memory_format=torch.contiguous_format) for part in result]

    return copy


for _name in _COPIES:
    decomposes(f"aten.{_name}")(_copy_of(_name.replace("_copy", "")))


@decomposes("prims.copy_strided.default")
def copy_strided(x: Any, stride: Any) -> Any:
    """torch's decompositions give eager's strides back with it; results leave a program contiguous."""
    return x.clone()
