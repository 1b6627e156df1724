"""Replaces calls in a graph by what a function does, traced over the fake tensors of their arguments.

Each distinct call (operator, types, constants) is traced alone, once, and its graph copied to every place it
stands for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

Table = Mapping[Any, Callable[..., Any]]


class Inliner:
    """Inlines calls into one graph. table: decompositions applied to what a call becomes."""

    def __init__(self, module: GraphModule, table: Table) -> None:
        self._module = module
        self._table = table
        self._traced: dict[Any, GraphModule] = {}

    def inline(self, node: Node, function: Callable[..., Any]) -> list[Node]:
        """Replaces the call `node` by what `function` does with its arguments; the new nodes.

        A call must always be given the same function.
        """
        leaves, spec = tree_flatten((node.args, node.kwargs))
        key = (node.target, str(spec), tuple(_describe(leaf) for leaf in leaves))
        if key not in self._traced:
            self._traced[key] = self._trace(function, leaves, spec, node.meta.get("val"))
        return _copy(
            self._module, node, self._traced[key], [leaf for leaf in leaves if isinstance(leaf, Node)]
        )

    def finish(self) -> None:
        """Removes what nothing uses any more, once all calls are inlined."""
        if self._traced:
            self._module.graph.eliminate_dead_code()
            self._module.recompile()

    def _trace(
        self, function: Callable[..., Any], leaves: list[Any], spec: TreeSpec, result: Any
    ) -> GraphModule:
        """The graph of one call over the fake tensors of its arguments, whose symbols it shares.

        result: the call's fake result, which knows the mode of a call without tensors.
        """

        def call(*values: Any) -> Any:
            given = iter(values)
            args, kwargs = tree_unflatten([next(given) if isinstance(x, Node) else x for x in leaves], spec)
            return function(*args, **kwargs)

        values = [leaf.meta["val"] for leaf in leaves if isinstance(leaf, Node)]
        # Inside the fake mode also what the function makes anew, such as arange(length), stays symbolic.
        with torch.no_grad(), detect_fake_mode([*values, *tree_leaves(result)]) or contextlib.nullcontext():
            return make_fx(call, decomposition_table=dict(self._table))(*map(_own, values))


def _own(value: Any) -> Any:
    """A fake tensor of its own for every argument: tracing knows tensors by identity.

    The same tensor stands for several nodes where a graph was copied, or where a call has an argument twice.
    """
    return value.detach() if isinstance(value, torch.Tensor) else value


def _describe(leaf: Any) -> Any:
    if not isinstance(leaf, Node):
        return repr(leaf)
    value = leaf.meta["val"]
    if isinstance(value, torch.Tensor):
        return (value.dtype, str(tuple(value.shape)), str(value.stride()))
    return str(value)


def _copy(module: GraphModule, node: Node, traced: GraphModule, arguments: list[Node]) -> list[Node]:
    """Copies the traced calls before `node`, which they replace; they keep its line and its operator's name."""
    graph = module.graph
    made: list[Node] = []
    copies: dict[Node, Any] = {}
    given = iter(arguments)
    for inner in traced.graph.nodes:
        if inner.op == "placeholder":
            copies[inner] = next(given)
        elif inner.op == "output":
            _replace(node, torch.fx.node.map_arg(inner.args[0], lambda n: copies[n]))
        elif inner.op == "get_attr":
            copies[inner] = _copy_constant(graph, node, getattr(traced, str(inner.target)))
        else:
            with graph.inserting_before(node):
                copies[inner] = graph.node_copy(inner, lambda n: copies[n])
            origin = node.meta.get("original_aten") or node.target
            own = {"stack_trace": node.meta.get("stack_trace"), "original_aten": origin}
            copies[inner].meta = {**inner.meta, **own}
            made.append(copies[inner])
    graph.erase_node(node)
    return made


def _replace(node: Node, results: Any) -> None:
    """Gives the users of `node` its results; of several, each ``getitem`` user gets its own."""
    if isinstance(results, (tuple, list)):
        for user in list(node.users):
            _replace(user, results[user.args[1]])  # type: ignore[index]  # a result may be a list itself
            user.graph.erase_node(user)
    else:
        node.replace_all_uses_with(results)


def _copy_constant(graph: Graph, node: Node, value: torch.Tensor) -> Node:
    module = graph.owning_module
    assert module is not None
    name = f"_literal_{node.name}_{len(list(module.buffers()))}"
    module.register_buffer(name, value, persistent=False)
    with graph.inserting_before(node):
        return graph.get_attr(name)
