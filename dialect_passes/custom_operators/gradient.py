"""How autograd sees a custom operator: one kernel for torch's Autograd key per operator.

It runs the operator below autograd (so that a fused kernel is what runs, and what a trace of a training step shows)
and gives the results a backward:

- derived (the rule): the arguments are saved, nothing else; backward runs the meaning again and differentiates it.
  It consists of torch operations, so it can be differentiated again, traced and transformed.
- written by hand: `@op.backward`.
- ``gradient="save"``: forward runs the meaning, and torch's min-cut partitioner chooses what is kept.
- ``gradient="none"``: backward is an error.

The meaning itself runs instead of the operator, and autograd sees its operations, where it draws random numbers (a
second run would draw others), and under forward-mode differentiation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import _C, Tensor
from torch._functorch.autograd_function import custom_function_call_vmap_helper
from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from . import analysis, backward, call_kinds, composition, saving
from .composition import Call, filled, with_slots
from .results import packed, tensors_in

if TYPE_CHECKING:
    from .declaration import CustomOp

MODES = ("recompute", "save", "none")


def autograd_kernel(op: CustomOp) -> Callable[..., Any]:
    """The kernel of `op` for the Autograd key, called with the dispatcher's key set and the call's arguments."""
    namespace, name = op.name.split("::")
    function = type(f"{namespace}_{name}", (_Differentiated,), {})

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        values = op.schema.bind(args, kwargs)
        tensors = tensors_in(values)
        if _forward_mode() and any(_has_tangent(tensor) for tensor in tensors):
            return _composition(op, values)
        if not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)):
            return _below(op, keyset, values)
        return _differentiated(op, function, keyset, values)

    return kernel


def batching_kernel(op: CustomOp) -> Callable[..., Any]:
    """The kernel of `op` under torch.vmap: the meaning on batched tensors, the operator itself where none is."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        values = op.schema.bind(args, kwargs)
        if any(_C._functorch.is_batchedtensor(tensor) for tensor in tensors_in(values)):
            if op.given_vmap is not None:
                return _by_rule(op, op.given_vmap, args, kwargs)
            return packed(op.schema, composition.results(op, values))
        with _C._ExcludeDispatchKeyGuard(_C.DispatchKeySet(_C.DispatchKey.FuncTorchBatched)):
            return op.overload(*args, **kwargs)

    return kernel


def _by_rule(op: CustomOp, rule: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """torch.vmap of the operator by its author's rule."""
    interpreter = retrieve_current_functorch_interpreter()
    return custom_function_call_vmap_helper(interpreter, rule, op.overload, *args, **kwargs)  # type: ignore[arg-type]


def _forward_mode() -> bool:
    """Whether forward-mode differentiation is going on.

    Asked of the C++ side: a program that torch.compile captured enters it without torch.autograd.forward_ad's
    knowledge. There is one level only, so that another can be entered if and only if none is.
    """
    try:
        level = _C._enter_dual_level()
    except RuntimeError:
        return True
    _C._exit_dual_level(level=level)
    return False


def _has_tangent(tensor: Tensor) -> bool:
    return forward_ad.unpack_dual(tensor, level=0).tangent is not None


def _composition(op: CustomOp, values: Sequence[Any]) -> Any:
    """The meaning in place of the operator."""
    if op.gradient == "none":
        raise backward.no_gradient(op)
    return packed(op.schema, composition.results(op, values))


def _below(op: CustomOp, keyset: Any, values: Sequence[Any]) -> Any:
    """The operator itself, with autograd's work done."""
    args, kwargs = op.schema.split(values)
    with _C._AutoDispatchBelowAutograd():
        return op.overload.redispatch(keyset & _C._after_autograd_keyset, *args, **kwargs)


def _differentiated(op: CustomOp, function: Any, keyset: Any, values: list[Any]) -> Any:
    """The operator with a backward, or the meaning where the operator cannot have one."""
    # An argument that the call changes is copied first: backward needs what it held. The new value goes into it
    # by a copy that autograd sees.
    inputs = composition.with_copies(op, values)
    tensors = tensors_in(inputs)
    call = Call.of(inputs)
    differentiable = None
    if op.written_backward is None and op.gradient != "none":
        kind = call_kinds.kind(call, tensors)
        found = op.analyses.of(op, call, tensors, kind)
        if found is None or _needs_composition(op, found):
            return _composition(op, values)
        differentiable = found.differentiable
        if not any(differentiable):
            return _below(op, keyset, values)
        if op.gradient == "save":
            graphs = op.saved_graphs.of(op, call, kind, tensors, differentiable)
            return _finished(op, values, graphs.structure, saving.Saved.apply(graphs, *tensors))
    run = Run(op, call, keyset, differentiable)
    with enable_single_level_autograd_function():
        outputs = function.apply(run, *tensors)
    return _finished(op, values, run.structure, outputs)


def _needs_composition(op: CustomOp, found: analysis.Analysis) -> bool:
    """Whether autograd must see the meaning's own operations."""
    return saving.inside_a_trace() if op.gradient == "save" else not found.repeatable


def _finished(op: CustomOp, values: Sequence[Any], structure: list[Any], outputs: Sequence[Tensor]) -> Any:
    """The results, with the changed arguments' new values put into them."""
    rest = iter(outputs)
    results = filled(structure, rest)
    for changed, new in zip(composition.mutated_tensors(op, values), rest, strict=True):
        changed.copy_(new)
    return packed(op.schema, results)


@dataclass
class Run:
    """One differentiated call: what its forward and its backward share.

    differentiable: of each tensor among the results, then of each changed argument; None for all.
    structure: the results, with slots for the tensors.
    """

    op: CustomOp
    call: Call
    keyset: Any
    differentiable: tuple[bool, ...] | None
    structure: list[Any] = field(default_factory=list)


class _Differentiated(_SingleLevelFunction):
    """The operator as one node of the autograd graph.

    It works at a single level of torch.func's transforms, as the Autograd key does: the dispatcher brings it to
    every level in turn. Its outputs are the tensors of the results, then the new values of changed arguments.
    """

    @staticmethod
    def forward(ctx: Any, run: Run, *tensors: Tensor) -> tuple[Tensor, ...]:
        values = composition.with_copies(run.op, run.call.values(tensors))
        outcome = _below(run.op, run.keyset, values)
        results = list(outcome) if run.op.schema.several else [outcome] if run.op.schema.results else []
        run.structure = with_slots(results)
        outputs = [*tensors_in(results), *composition.mutated_tensors(run.op, values)]
        if run.differentiable is not None:
            pairs = zip(outputs, run.differentiable, strict=True)
            ctx.mark_non_differentiable(*(tensor for tensor, keep in pairs if not keep))
        backward.save(ctx, run, tensors, outputs)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        return None, *backward.run(ctx, grads)
