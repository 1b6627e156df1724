"""``gradient="save"``: forward runs the meaning, and torch's min-cut partitioner chooses what backward is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from . import composition
from .call_kinds import Kind, PerKind
from .composition import with_slots
from .results import tensors_in

if TYPE_CHECKING:
    from .composition import Call
    from .declaration import CustomOp

_KEPT = 64
"""How many kinds of calls keep their graphs, per operator."""


def inside_a_trace() -> bool:
    """Whether the meaning's operations should go into a surrounding trace or transform.

    Whoever partitions the trace then chooses what to keep.
    """
    return (
        bool(_get_current_dispatch_mode_stack()) or torch._C._functorch.peek_interpreter_stack() is not None
    )


@dataclass
class Graphs:
    """The two parts of one kind of call.

    forward: the arguments' tensors -> the outcome's, and then what is saved. backward: what was saved and the
    gradients of the differentiable outcomes -> those of the arguments.
    structure: the results, with slots for the tensors.
    """

    operator: str
    forward: torch.fx.GraphModule
    backward: torch.fx.GraphModule
    differentiable: tuple[bool, ...]
    structure: list[Any] = field(default_factory=list)


class SavedGraphs:
    """The partitioned graphs of an operator by kind of call."""

    def __init__(self) -> None:
        self._graphs: PerKind[Graphs] = PerKind(_KEPT)

    def of(
        self,
        op: CustomOp,
        call: Call,
        kind: Kind,
        tensors: Sequence[Tensor],
        differentiable: tuple[bool, ...],
    ) -> Graphs:
        """The graphs of a call of this kind."""
        return self._graphs.of(kind, lambda: _partitioned(op, call, tensors, differentiable))


def _partitioned(
    op: CustomOp, call: Call, tensors: Sequence[Tensor], differentiable: tuple[bool, ...]
) -> Graphs:
    """Traces the meaning with its gradient, and divides that. Changed arguments come as results."""
    # Late: it takes two seconds.
    from torch._functorch.aot_autograd import aot_export_joint_simple
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    structure: list[Any] = []

    def outcome(*inputs: Tensor) -> tuple[Tensor, ...]:
        copies = composition.with_copies(op, call.values(inputs))
        results = composition.results(op, copies)
        structure[:] = with_slots(results)
        return (*tensors_in(results), *composition.mutated_tensors(op, copies))

    inputs = tuple(tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors)
    joint: Any = aot_export_joint_simple(outcome, inputs, trace_joint=True)
    forward, backward = min_cut_rematerialization_partition(joint, (), num_fwd_outputs=len(differentiable))
    return Graphs(op.name, forward, backward, differentiable, structure)


class Saved(torch.autograd.Function):
    """The two graphs as one node of the autograd graph."""

    @staticmethod
    def forward(ctx: Any, graphs: Graphs, *tensors: Tensor) -> tuple[Tensor, ...]:
        values = graphs.forward(*tensors)
        count = len(graphs.differentiable)
        pairs = zip(values[:count], graphs.differentiable, strict=True)
        ctx.mark_non_differentiable(*(tensor for tensor, keep in pairs if not keep))
        ctx.save_for_backward(*values[count:])
        ctx.graphs = graphs
        return tuple(values[:count])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        graphs: Graphs = ctx.graphs
        wanted = [grad for grad, keep in zip(grads, graphs.differentiable, strict=True) if keep]
        with torch.no_grad():
            found = graphs.backward(*ctx.saved_tensors, *wanted)
        return (None, *(_only_once(graphs.operator, found) if torch.is_grad_enabled() else found))


def _only_once(operator: str, grads: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """The gradients, so that differentiating them is an error: what was saved knows nothing of the arguments."""
    message = (
        f'{operator} is differentiated twice, which gradient="save" does not allow in eager: '
        "leave that out, or differentiate with torch.func"
    )
    fail = torch._C._functions.DelayedError(message.encode(), len(grads))
    leaves = [None if grad is None else grad.detach().requires_grad_() for grad in grads]
    failing = fail(*leaves)
    return failing if isinstance(failing, tuple) else (failing,)
