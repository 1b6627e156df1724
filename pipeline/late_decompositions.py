"""Decompositions applied once per distinct call after capture, instead of inside torch.export.

`run_decompositions` traces every call of every operator three times, and with dynamic dimensions each trace
costs milliseconds of symbolic arithmetic: attention and linear layers were two thirds of the time that
BERT's capture took. A decomposition that mutates nothing can wait: here each distinct call (operator, types,
constants) is traced alone, once, and its graph copied to every place it stands for.

Before:  %y = aten.linear(%x: [b, s, 768], %w, %bias)
After:   %v = aten.view(%x, [b*s, 768]);  %a = aten.addmm(%bias, %v, %t);  %y = aten.view(%a, [b, s, 768])
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

Table = Mapping[Any, Callable[..., Any]]


# Frequent in transformers, and functional: nothing of theirs is lost by waiting.
LATE = (
    "aten.scaled_dot_product_attention.default",
    "aten.linear.default",
    "aten.layer_norm.default",
    "aten.matmul.default",
    "aten.softmax.int",
    "aten.conv2d.default",
)


def split_table(table: Table) -> tuple[dict[Any, Callable[..., Any]], dict[Any, Callable[..., Any]]]:
    """(decompositions for torch.export, decompositions for `decompose_late`)."""
    late = {op: function for op, function in table.items() if str(op) in LATE}
    return {op: function for op, function in table.items() if op not in late}, late


def decompose_late(module: GraphModule, late: Table, table: Table) -> None:
    """Replaces every call of an operator of `late`, decomposing what it becomes by `table`."""
    traced: dict[Any, GraphModule] = {}
    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target in late:
            leaves, spec = tree_flatten((node.args, node.kwargs))
            key = (node.target, str(spec), tuple(_describe(leaf) for leaf in leaves))
            if key not in traced:
                traced[key] = _trace(late[node.target], leaves, spec, table)
            _inline(module.graph, node, traced[key], [leaf for leaf in leaves if isinstance(leaf, Node)])
    if traced:
        module.graph.eliminate_dead_code()
        module.recompile()


def _describe(leaf: Any) -> Any:
    if not isinstance(leaf, Node):
        return repr(leaf)
    value = leaf.meta["val"]
    if isinstance(value, torch.Tensor):
        return (value.dtype, str(tuple(value.shape)), str(value.stride()))
    return str(value)


def _trace(function: Callable[..., Any], leaves: list[Any], spec: Any, table: Table) -> GraphModule:
    """The graph of one call over the fake tensors of its arguments, whose symbols it shares."""

    def call(*values: Any) -> Any:
        given = iter(values)
        args, kwargs = tree_unflatten([next(given) if isinstance(x, Node) else x for x in leaves], spec)
        return function(*args, **kwargs)

    values = [leaf.meta["val"] for leaf in leaves if isinstance(leaf, Node)]
    # Inside the fake mode also what the decomposition makes anew, such as arange(length), stays symbolic.
    with torch.no_grad(), detect_fake_mode(values) or contextlib.nullcontext():
        return make_fx(call, decomposition_table=dict(table))(*values)


def _inline(graph: Graph, node: Node, traced: GraphModule, arguments: list[Node]) -> None:
    """Copies the traced calls before `node`, which they replace; they keep the user's line of `node`."""
    copies: dict[Node, Any] = {}
    given = iter(arguments)
    for inner in traced.graph.nodes:
        if inner.op == "placeholder":
            copies[inner] = next(given)
        elif inner.op == "output":
            node.replace_all_uses_with(torch.fx.node.map_arg(inner.args[0], lambda n: copies[n]))
        elif inner.op == "get_attr":
            copies[inner] = _copy_constant(graph, node, getattr(traced, str(inner.target)))
        else:
            with graph.inserting_before(node):
                copies[inner] = graph.node_copy(inner, lambda n: copies[n])
            copies[inner].meta = {**inner.meta, "stack_trace": node.meta.get("stack_trace")}
    graph.erase_node(node)


def _copy_constant(graph: Graph, node: Node, value: torch.Tensor) -> Node:
    module = graph.owning_module
    assert module is not None
    name = f"_literal_{node.name}_{len(list(module.buffers()))}"
    module.register_buffer(name, value, persistent=False)
    with graph.inserting_before(node):
        return graph.get_attr(name)
