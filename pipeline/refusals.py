"""What must not reach the lowering although it would go through: it would come out wrong.

A refused node is marked with the reason. The importer turns it into a stand-in operator that nothing
lowers, and the probe lists it with every other unsupported operator and the user's lines.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from .control_flow import control_call, graphs
from .custom_calls import SYMBOL
from .stages import REASON

_AUTO_FUNCTIONALIZED = ("auto_functionalized", "auto_functionalized_v2")


def mark_refused(module: GraphModule) -> None:
    """Marks every node that some rule refuses, in the graph and in the bodies of its control flow."""
    for graph in graphs(module):
        for node in graph.graph.nodes:
            if node.op == "call_function":
                reason = next((found for rule in _RULES if (found := rule(node))), None)
                if reason:
                    node.meta[REASON] = reason


def refused_name(node: Node) -> str:
    """The operator's name for the list: of a wrapped custom operator its own, not the wrapper's."""
    target = node.target
    if isinstance(target, torch._ops.HigherOrderOperator):
        if target.name() in _AUTO_FUNCTIONALIZED:
            return str(node.args[0])
        return f"higher_order.{target.name()}"
    return str(target)


def _higher_order(node: Node) -> str | None:
    """What calls functions in other ways than control flow does, or changes its arguments."""
    if not isinstance(node.target, torch._ops.HigherOrderOperator) or control_call(node) is not None:
        return None
    if node.target.name() in _AUTO_FUNCTIONALIZED:
        return "a custom operator that changes its arguments, without a decomposition"
    return (
        "of the operators that call functions, cond, while_loop, scan, map and associative_scan "
        "(combine_mode='generic') are compiled; write it with these, or do it in Python between calls"
    )


def _random(node: Node) -> str | None:
    """IREE's own generator ignores torch.manual_seed, so what the runtime cannot draw is refused."""
    tags = getattr(node.target, "tags", ())
    if torch.Tag.nondeterministic_seeded not in tags:
        return None
    return (
        "it draws random numbers in a way that cannot be repeated outside of torch; "
        "draw them before the call and pass them in"
    )


def _complex(node: Node) -> str | None:
    """Of complex tensors the lowering knows the parts (`complex_pairs`); some operators it gets wrong."""
    if SYMBOL in node.meta or str(node.target) in _COMPLEX_BORDER or control_call(node) is not None:
        return None
    if node.target is operator.getitem or not isinstance(node.target, torch._ops.OpOverload):
        return None
    values = [argument.meta.get("val") for argument in node.all_input_nodes]
    if not any(
        isinstance(x, torch.Tensor) and x.is_complex() for x in tree_leaves([*values, node.meta.get("val")])
    ):
        return None
    return "it has no rule for complex numbers; compute with torch.view_as_real and real tensors"


_COMPLEX_BORDER = ("aten.view_as_real.default", "aten.view_as_complex.default", "aten.complex.default")

_RULES: tuple[Callable[[Node], str | None], ...] = (
    _higher_order,
    _random,
    _complex,
)
