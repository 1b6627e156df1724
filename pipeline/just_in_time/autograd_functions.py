"""Refuses graphs in which the backward of an `autograd.Function` was ignored.

Below `torch.func.grad` and its relatives, Dynamo (of PyTorch 2.13) traces a Function's forward like any function, and
the gradient is that of its operations, in silence. Nothing of it can be seen in the graph. But Dynamo notes which code
it traced: a forward more often than its backward, in a graph that differentiates, is one whose backward is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import CodeType

import torch
from torch._guards import TracingContext
from torch.fx import GraphModule

from pipeline.errors import UnsupportedError

_LEVELS = ("_grad_increment_nesting", "_jvp_increment_nesting")
"""What a graph calls where it begins to differentiate."""


def refuse_ignored_backward(module: GraphModule) -> None:
    """Raises UnsupportedError naming the Functions. module: Dynamo's graph, while Dynamo compiles it."""
    context = TracingContext.try_get()
    if context is None or not _differentiates(module):
        return
    traced = Counter(context.traced_code)
    ignored = [
        function.__qualname__
        for function in _functions(torch.autograd.Function)
        if _times(traced, function.forward) > _times(traced, function.backward)
    ]
    if ignored:
        raise UnsupportedError(
            f"torch.func differentiates {', '.join(ignored)} under torch.compile, where PyTorch ignores what an "
            "autograd.Function says of its gradient; compile it ahead of time (pipeline.compile), or leave this "
            "function out with torch.compiler.disable"
        )


def _differentiates(module: GraphModule) -> bool:
    return any(
        getattr(node.target, "__name__", None) in _LEVELS
        for graph in module.modules()
        if isinstance(graph, GraphModule)
        for node in graph.graph.nodes
    )


def _functions(base: type) -> Iterator[type[torch.autograd.Function]]:
    for function in base.__subclasses__():
        yield function
        yield from _functions(function)


def _times(traced: Counter[CodeType], method: object) -> int:
    code = getattr(method, "__code__", None)
    return 0 if code is None else traced[code]
