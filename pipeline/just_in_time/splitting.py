"""A graph as parts that run one after the other, in turn compiled and in eager.

Every node gets the number of its part: even ones are compiled, odd ones run in eager, and a node's part is the first of
its kind that comes after those of its arguments. So what does not depend on an operator in eager stays in one part.
Random operators keep their order, for they share a generator.

Before:  %a = f(%x); %b = cannot(%a); %c = g(%x); %d = h(%b, %c)
After:   part 0: %a, %c;  part 1 (eager): %b;  part 2: %d
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from .graph_nodes import is_number, is_view

_SMALLEST = 4
"""Operators, views apart. A call of a program costs about as much as three small operators in eager."""


@dataclass(frozen=True)
class Part:
    """Nodes that run together. members, inputs, outputs: nodes of the whole graph."""

    module: GraphModule
    members: frozenset[Node]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    eager: bool


def split(module: GraphModule, eager: Collection[Node]) -> list[Part]:
    """The parts in order. eager: nodes that must not be compiled; parts too small to pay join them."""
    chosen = set(eager)
    while True:
        numbers = _numbers(module.graph, chosen)
        small = _in_small_parts(numbers)
        if not small:
            break
        chosen |= small
    return [_part(module, numbers, number) for number in sorted(set(numbers.values()))]


def _numbers(graph: Graph, eager: Collection[Node]) -> dict[Node, int]:
    """Each computing node's part."""
    numbers: dict[Node, int] = {}
    last_random = 0
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        least = max((numbers[other] for other in node.all_input_nodes if other in numbers), default=0)
        if node.target is operator.getitem or is_number(node):
            numbers[node] = least
            continue
        if _is_random(node):
            least = max(least, last_random)
        numbers[node] = least if least % 2 == (node in eager) else least + 1
        if _is_random(node):
            last_random = numbers[node]
    for node in reversed(graph.nodes):
        # A view is taken where it is used first: what a part is given is whole, and may be a weight to bind.
        users = [numbers[user] for user in node.users if user in numbers]
        if node in numbers and is_view(node) and users:
            numbers[node] = min(users)
    return numbers


def _is_random(node: Node) -> bool:
    # Operators that call functions have no tags; what they call may draw.
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) or isinstance(
        node.target, torch._ops.HigherOrderOperator
    )


def _in_small_parts(numbers: dict[Node, int]) -> set[Node]:
    members: dict[int, set[Node]] = {}
    for node, number in numbers.items():
        if number % 2 == 0 and does_work(node):
            members.setdefault(number, set()).add(node)
    views = {node for node, number in numbers.items() if number % 2 == 0 and is_view(node)}
    alone = {node for node in views if numbers[node] not in members}
    small = [nodes for nodes in members.values() if len(nodes) < _SMALLEST]
    return alone.union(*small)


def does_work(node: Node) -> bool:
    """Whether a node computes tensors."""
    return (
        node.op == "call_function"
        and node.target is not operator.getitem
        and not is_number(node)
        and not is_view(node)
    )


def _part(module: GraphModule, numbers: dict[Node, int], number: int) -> Part:
    members = [node for node in module.graph.nodes if numbers.get(node) == number]
    own = set(members)
    inputs: dict[Node, None] = {}
    for node in members:
        inputs.update(dict.fromkeys(other for other in node.all_input_nodes if other not in own))
    outputs = [node for node in members if any(user not in own for user in node.users)]
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in inputs:
        # Tensors and functions that the module holds are held by the part.
        copies[node] = (
            graph.get_attr(str(node.target)) if node.op == "get_attr" else graph.placeholder(node.name)
        )
        copies[node].meta = dict(node.meta)
    for node in members:
        copies[node] = graph.node_copy(node, lambda other: copies[other])
    graph.output(tuple(copies[node] for node in outputs))
    passed = tuple(node for node in inputs if node.op != "get_attr")
    return Part(GraphModule(module, graph), frozenset(own), passed, tuple(outputs), bool(number % 2))


class Parts:
    """Runs the parts of a graph; a value is forgotten after its last use."""

    def __init__(self, module: GraphModule, steps: Sequence[tuple[Part, Callable[..., Any]]]) -> None:
        placeholders = module.graph.find_nodes(op="placeholder")
        self._places = {node: i for i, node in enumerate(placeholders)}
        for part, _ in steps:
            for node in part.outputs:
                self._places.setdefault(node, len(self._places))
        self._results = [
            self._places[value] if isinstance(value, Node) else _Constant(value)
            for value in module.graph.output_node().args[0]  # type: ignore[union-attr]
        ]
        self._steps = [
            (function, [self._places[node] for node in part.inputs], [self._places[n] for n in part.outputs])
            for part, function in steps
        ]
        self._dropped = self._last_uses()

    def _last_uses(self) -> list[list[int]]:
        """Per step: the values that nothing needs after it."""
        needed = {place for place in self._results if isinstance(place, int)}
        found = []
        for _, inputs, outputs in reversed(self._steps):
            found.append([place for place in {*inputs, *outputs} if place not in needed])
            needed.update(inputs)
        return found[::-1]

    def __call__(self, *args: Any) -> list[Any]:
        values = [*args, *[None] * (len(self._places) - len(args))]
        for (function, inputs, outputs), dropped in zip(self._steps, self._dropped, strict=True):
            results = function(*[values[place] for place in inputs])
            for place, result in zip(outputs, results, strict=True):
                values[place] = result
            for place in dropped:
                values[place] = None
        return [values[place] if isinstance(place, int) else place.value for place in self._results]


@dataclass(frozen=True)
class _Constant:
    """A result that is no node."""

    value: Any
