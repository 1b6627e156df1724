"""Functions and models that use `torch.func`: exported below its transforms, where only their operators are left.

torch.export's own trace lies above them. There a level of `vmap` or `grad` is a call in the graph, whose inner tensors
later passes do not know, and a custom `autograd.Function` cannot be traced at all. Below, gradients are written out
and batched operators are plain ones, with the rules of every `autograd.Function` (`backward`, `jvp`, `vmap`) applied.
The price is that PyTorch has decomposed its composite operators (linear, attention) there, so other models keep the
usual way.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import torch
from torch._functorch import eager_transforms, vmap
from torch.export import ExportedProgram
from torch.func import jvp
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves, tree_unflatten

# Whichever of torch.func's transforms runs, it enters one of these.
_LEVELS = (
    (vmap, "_vmap_increment_nesting"),
    (eager_transforms, "_grad_increment_nesting"),
    (eager_transforms, "_jvp_increment_nesting"),
    (eager_transforms, "_func_increment_nesting"),
    (eager_transforms, "lazy_dynamo_disallow"),  # of `linearize` alone, which has no level
)


class FunctionModel(torch.nn.Module):
    """A function as a model without weights: tensors that it closes over are constants."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function if _has_signature(function) else _positional(function)


def export(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> ExportedProgram:
    """As `torch.export.export`, which it is for models without transforms."""
    options = {"dynamic_shapes": dynamic_shapes, "strict": False}
    with _stopping_at_transforms() as transforms:
        try:
            return torch.export.export(model, args, dict(kwargs or {}), **options)
        except Exception:
            if not transforms:
                raise
    from torch.export._remove_effect_tokens_pass import _remove_effect_tokens
    from torch.export._trace import _export

    with mock.patch.object(eager_transforms, "lazy_dynamo_disallow", _linearized):
        found = _export(model, args, dict(kwargs or {}), pre_dispatch=False, **options)
    # Below the transforms checks have tokens already, which run_decompositions takes for arguments of the user's.
    return _remove_effect_tokens(found)


@contextlib.contextmanager
def _stopping_at_transforms() -> Iterator[list[str]]:
    """Any transform raises, and is noted: what leaves a level that was never entered raises something else."""
    noted: list[str] = []

    def stop(*arguments: Any) -> Any:
        noted.append(repr(arguments))
        raise NotImplementedError("a transform of torch.func")

    with contextlib.ExitStack() as patches:
        for module, name in _LEVELS:
            patches.enter_context(mock.patch.object(module, name, stop))
        yield noted


def _linearized(traced_or_folded: Callable[..., Any]) -> Callable[..., Any]:
    """`linearize` without a trace of its own, whose graph would hold tensors of the outer trace as constants."""
    return _untraced if traced_or_folded is make_fx else _unfolded


def _untraced(function: Callable[..., Any]) -> Callable[..., Callable[..., list[Any]]]:
    """In place of `make_fx`: what its graph would compute, from the tangents of each call.

    function: a closure of `linearize` that makes dual numbers, which `vmap` knows nothing of; `jvp` has the same
    results, and `vmap` knows it.
    """
    closed = inspect.getclosurevars(function).nonlocals
    structure = closed["primals_argspec"]
    primals = tree_unflatten(closed["flat_primals"], structure)

    def derivative(*tangents: Any) -> list[Any]:
        return tree_leaves(jvp(closed["func"], primals, tree_unflatten(tangents, structure))[1])

    return lambda _example: derivative


def _unfolded(graph: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """In place of the folding of constants, which the outer graph has its own passes for."""
    return graph


def _has_signature(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function)
    except ValueError:
        return False
    return True


def _positional(function: Callable[..., Any]) -> Callable[..., Any]:
    """For functions written in C, which have no signature that torch.export could read."""

    def call(*args: Any) -> Any:
        return function(*args)

    return call
