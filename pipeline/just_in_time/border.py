"""What goes into and comes out of one graph of AOTAutograd's, and what of that the compiled program sees.

AOTAutograd promises autograd, and through it the user, the strides that its fake tensors have, and results that share
memory where eager's do. A program knows contiguous tensors of their own memory only. So

- a dense tensor of another order in memory (channels last, a transposed weight) enters and leaves as the contiguous
  tensor that it is in its own order, without a copy;
- what comes last and computes nothing (views, arithmetic on sizes, an argument handed through, checks that raise) is
  the graph's *tail*, which PyTorch runs on the program's results. A view of an argument is no copy of it then, in
  inference as in what forward saves for backward.

Before:  f(%x: [n, c, h, w] channels last) -> (%y: [n, k, h, w] channels last, %y[0], %x, s0 * 4, None)
After:   f(%x': [n, h, w, c]) -> %y': [n, h, w, k];  the rest is done here
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from pipeline.memory_places import Order, memory_order

from .graph_nodes import is_number, is_view


class Border:
    """Both sides of a graph.

    module: what is to be compiled. arguments: which of the graph's arguments it takes, by number.
    """

    def __init__(self, module: GraphModule) -> None:
        self.module = GraphModule(module, copy.deepcopy(module.graph))
        graph = self.module.graph
        placeholders = list(graph.find_nodes(op="placeholder"))
        self._names = [node.name for node in placeholders]
        computed, tail = _cut_tail(graph)
        self._tail = tail.forward  # without the hooks of a module's call, which take longer
        orders = [_order_of(node) for node in computed]
        self._inverse_orders = [None if order is None else _inverse(order) for order in orders]
        output = graph.output_node()
        with graph.inserting_before(output):
            output.args = (tuple(map(_leave, computed, orders)),)
        graph.eliminate_dead_code(lambda node: node.is_impure() and not _is_check(node))
        self.arguments = tuple(i for i, node in enumerate(placeholders) if _is_needed(node))
        self._orders = [_enter(placeholders[i]) for i in self.arguments]
        for node in placeholders:
            if not _is_needed(node):
                graph.erase_node(node)
        self.module.recompile()

    @property
    def computes(self) -> bool:
        """Whether there is anything to compile."""
        return bool(self._inverse_orders)

    def placeholder(self, number: int) -> str:
        """The name in `module` of the graph's argument `number`."""
        return self._names[number]

    def enter(self, args: Sequence[Any]) -> list[Any]:
        """The program's arguments among those of the graph."""
        return [
            args[i] if order is None else args[i].permute(order)
            for i, order in zip(self.arguments, self._orders, strict=True)
        ]

    def leave(self, values: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        """The graph's results from the program's."""
        # Not views: whoever changes them in place would be told that their base was made without gradients.
        computed = [
            value if inverse is None else value.permute(inverse).data
            for value, inverse in zip(values, self._inverse_orders, strict=True)
        ]
        return list(self._tail(*args, *computed))


def _is_needed(node: Node) -> bool:
    """Whether the program takes an argument: it is used, or the place where a dynamic size is read."""
    value = node.meta.get("val")
    symbolic = isinstance(value, torch.Tensor) and any(isinstance(s, torch.SymInt) for s in value.shape)
    return bool(node.users) or symbolic


def _cut_tail(graph: Graph) -> tuple[list[Node], GraphModule]:
    """The nodes whose values the tail starts from, and the tail: from (arguments, those values) to the results."""
    results = graph.output_node().args[0]
    wanted = _in_tail(graph)
    tail = Graph()
    copies = {node: tail.node_copy(node) for node in graph.find_nodes(op="placeholder")}
    starts: dict[Node, None] = {}
    for node in [*wanted, *results]:  # type: ignore[misc]
        needed = node.all_input_nodes if node in wanted else [node]
        starts.update(
            dict.fromkeys(x for x in needed if isinstance(x, Node) and x not in wanted and x not in copies)
        )
    for node in starts:
        copies[node] = tail.placeholder(node.name)
    for node in wanted:
        copies[node] = tail.node_copy(node, lambda other: copies[other])
    tail.output(tuple(copies[x] if isinstance(x, Node) else x for x in results))  # type: ignore[union-attr]
    return list(starts), GraphModule({}, tail)


def _in_tail(graph: Graph) -> list[Node]:
    """The nodes of the tail in order: views and arithmetic of which nothing but results is made.

    Sizes that data decide, and views by them, are the program's.
    """
    used: set[Node] = set(graph.output_node().all_input_nodes)
    arithmetic = _arithmetic(graph)
    found: list[Node] = []
    for node in reversed(graph.nodes):
        if node not in used or node.op != "call_function":
            continue
        numbers = [other for other in node.all_input_nodes if is_number(other)]
        known = all(other in arithmetic for other in numbers)
        if node in arithmetic or (known and _is_view(node)) or _is_check(node):
            found.append(node)
            used.update(node.all_input_nodes)
    return found[::-1]


def _arithmetic(graph: Graph) -> set[Node]:
    """The numbers that follow from the sizes of arguments alone."""
    found: set[Node] = set()
    for node in graph.nodes:
        if is_number(node):
            others = node.all_input_nodes
            if all(other in found or other.op == "placeholder" for other in others):
                found.add(node)
    return found


def _is_view(node: Node) -> bool:
    """Also of one of several, such as the parts of a split."""
    return is_view(node.args[0] if node.target is operator.getitem else node)  # type: ignore[arg-type]


def _is_check(node: Node) -> bool:
    """What has an effect and no result, such as the check of a matrix in `linalg.inv`: it raises as in eager.

    AOTAutograd orders such operators by tokens; at a call there are none.
    """
    if node.target is operator.getitem:
        return _is_check(node.args[0])  # type: ignore[arg-type]
    if node.target is not torch.ops.higher_order.with_effects:
        return False
    schema = node.args[1]._schema  # type: ignore[union-attr]
    return not schema.returns and not schema.is_mutable


def _inverse(order: Order) -> Order:
    return tuple(order.index(axis) for axis in range(len(order)))


def _order_of(node: Node) -> Order | None:
    value = node.meta.get("val")
    return memory_order(value) if isinstance(value, torch.Tensor) else None


def _enter(node: Node) -> Order | None:
    """Makes the argument `node` the contiguous tensor of its memory; its order."""
    order = _order_of(node)
    if order is None:
        return None
    value = node.meta["val"]
    with node.graph.inserting_after(node):
        view = node.graph.call_function(torch.ops.aten.permute.default, (node, list(_inverse(order))))
    view.meta = {**node.meta, "val": value}
    node.replace_all_uses_with(view, delete_user_cb=lambda user: user is not view)
    node.meta = {"val": value.permute(order), "stack_trace": node.meta.get("stack_trace")}
    return order


def _leave(node: Node, order: Order | None) -> Node:
    """The contiguous tensor of a result's memory."""
    if order is None:
        return node
    call = node.graph.call_function(torch.ops.aten.permute.default, (node, list(order)))
    call.meta = {**node.meta, "val": node.meta["val"].permute(order)}
    call.meta.pop("tensor_meta", None)
    return call
