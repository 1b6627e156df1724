"""Operators that call functions: torch.cond, while_loop, scan and map, whose bodies are graphs of their own.

Each body becomes a private function, which passes through torch-mlir like any other, and the operator a call of
a function that is only declared. `define-control-flow` writes its definition, a loop or a branch around calls of
the bodies, once all is linalg.

Before:  %y = higher_order.cond(%p, %true_graph, %false_graph, (%x, %w))
After:   %y = func.call @control.cond_0(%p, %x, %w), and the declaration with the bodies' names
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

# Operator -> numbers of its arguments that are functions, and of those that are passed on, in order.
_FORMS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "cond": ((1, 2), (0, 3)),
    "while_loop": ((0, 1), (2, 3)),
    "scan": ((0,), (1, 2, 3)),
    "map_impl": ((0,), (1, 2)),
}


@dataclass(frozen=True)
class ControlCall:
    """A call of a control flow operator. counts: how many operands each group has, such as carried and other."""

    kind: str
    bodies: tuple[GraphModule, ...]
    operands: tuple[Any, ...]
    counts: tuple[int, ...]


def control_call(node: Node) -> ControlCall | None:
    """What `node` calls, None where it is no control flow that can be compiled."""
    target = node.target
    if not isinstance(target, torch._ops.HigherOrderOperator) or target.name() not in _FORMS:
        return None
    bodies, operands = _FORMS[target.name()]
    functions = tuple(_function(node.args[i]) for i in bodies)
    groups = [_group(node.args[i]) for i in operands if i < len(node.args)]
    flat = tuple(value for group in groups for value in group)
    return ControlCall(target.name(), functions, flat, tuple(len(group) for group in groups))


def _function(argument: Any) -> GraphModule:
    module = argument.graph.owning_module
    return module.get_submodule(str(argument.target))


def _group(argument: Any) -> tuple[Any, ...]:
    return tuple(argument) if isinstance(argument, (list, tuple)) else (argument,)


def graphs(module: GraphModule) -> Iterator[GraphModule]:
    """`module` and the bodies of the control flow in it, the innermost last."""
    yield module
    for body in bodies(module):
        yield from graphs(body)


def bodies(module: GraphModule) -> Iterator[GraphModule]:
    """The bodies of the control flow that `module` itself calls."""
    for node in module.graph.nodes:
        call = control_call(node) if node.op == "call_function" else None
        if call is not None:
            yield from call.bodies
