"""``gradient="save"``: forward runs the meaning, and torch's min-cut partitioner chooses what backward is given."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from . import composition
from .results import packed

if TYPE_CHECKING:
    from .composition import Call
    from .declaration import CustomOp

_KEPT = 64
"""How many kinds of calls keep their graphs, per operator."""


class SavedGraphs:
    """The partitioned graphs of an operator by kind of call."""

    def __init__(self) -> None:
        self._graphs: OrderedDict[Hashable, Callable[..., Any]] = OrderedDict()

    def run(self, op: CustomOp, call: Call, key: Hashable, tensors: Sequence[Tensor]) -> Any:
        """The meaning's results for a call, differentiable once.

        Inside a trace or a transform the meaning's operations go into that: whoever partitions the trace then
        chooses what to keep.
        """
        if _get_current_dispatch_mode_stack() or torch._C._functorch.peek_interpreter_stack() is not None:
            return packed(op.schema, composition.results(op, call.values(tensors)))
        if key not in self._graphs:
            while len(self._graphs) >= _KEPT:
                self._graphs.popitem(last=False)
            self._graphs[key] = _partitioned(op, call)
        return packed(op.schema, self._graphs[key](*tensors))


def _partitioned(op: CustomOp, call: Call) -> Callable[..., Any]:
    """A function of a call's tensors that is traced and partitioned when first called."""
    from functorch.compile import aot_function, min_cut_rematerialization_partition
    from torch._functorch._aot_autograd.utils import make_boxed_func

    def meaning(*tensors: Tensor) -> list[Any]:
        return composition.results(op, call.values(tensors))

    def as_it_is(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return make_boxed_func(gm.forward)

    return aot_function(
        meaning,
        fw_compiler=as_it_is,
        bw_compiler=as_it_is,
        partition_fn=min_cut_rematerialization_partition,
    )
