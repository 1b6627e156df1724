"""What a model does under ``torch.no_grad()``, as a part of its graph again.

Export makes a graph of its own of it. PyTorch inlines that later, by tracing it once more, and forgets the lines;
and what goes over the graph before misses it.

Before:  %pair = wrap_with_set_grad_enabled(False, %body, %x);  %y = pair[0]
After:   %y = body's operators of %x
"""

from __future__ import annotations

import operator
from typing import Any

from torch._higher_order_ops.wrap import wrap_with_set_grad_enabled
from torch.fx import Graph, GraphModule, Node


def holds_grad_modes(graph: Graph) -> bool:
    """Whether there is something to inline."""
    return any(node.target is wrap_with_set_grad_enabled for node in graph.nodes)


def inline_grad_modes(graph: Graph, root: GraphModule) -> None:
    """Inlines in place. root: holds the bodies. A body that returns an argument of its own stays one."""
    for node in list(graph.nodes):
        if node.target is wrap_with_set_grad_enabled:
            _inline(graph, root, node)


def _inline(graph: Graph, root: GraphModule, call: Node) -> None:
    holder: Any = call.args[1]
    name = str(holder.target)
    body: Any = root.get_submodule(name)
    results = next(iter(body.graph.find_nodes(op="output"))).args[0]
    if any(not isinstance(result, Node) or result.op == "placeholder" for result in results):
        return
    copies: dict[Node, Any] = dict(zip(body.graph.find_nodes(op="placeholder"), call.args[2:], strict=True))
    for inner in body.graph.nodes:
        if inner.op in ("placeholder", "output"):
            continue
        with graph.inserting_before(call):
            copies[inner] = graph.node_copy(inner, copies.__getitem__)
        if inner.op == "get_attr":
            copies[inner].target = f"{name}.{inner.target}"
    _replace(graph, call, [copies[result] for result in results])
    graph.erase_node(call)
    if not holder.users:
        graph.erase_node(holder)
    for made in copies.values():
        if isinstance(made, Node) and made.target is wrap_with_set_grad_enabled:
            _inline(graph, root, made)


def _replace(graph: Graph, call: Node, results: list[Node]) -> None:
    for user in list(call.users):
        assert user.target is operator.getitem
        result = results[user.args[1]]  # type: ignore[index]
        named = any(reader.op == "output" for reader in user.users)
        user.replace_all_uses_with(result)
        name = user.name
        graph.erase_node(user)
        if named:  # the program's signature knows its results by name
            result.name = name
