"""Which nodes of a graph cannot be compiled, and why.

What the compiler calls unsupported is an operator after decomposition, at a line of Python. To learn which node it came
from, the nodes get lines of their own for a while: number n of the graph is line n of a file that does not exist.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from torch.fx import Graph, GraphModule, Node

from pipeline.errors import UnsupportedError
from pipeline.refusals import refused_name
from pipeline.source_lines import numbered

from .compiled_graph import lower_graph
from .settings import Settings
from .splitting import does_work

_FILE = "<graph>"


class Blame(NamedTuple):
    """operator: as the graph has it. why: the compiler's words."""

    operator: str
    why: str


def blame(module: GraphModule, settings: Settings) -> dict[Node, Blame]:
    """The nodes that cannot be compiled; none where the fault lies in no single operator."""
    nodes = list(module.graph.nodes)
    try:
        with numbered(nodes, _FILE):
            lower_graph(module, settings)
    except UnsupportedError as error:
        found = _by_line(nodes, error)
        if found:
            return found
    except Exception:
        pass  # The nodes one by one may say more.
    return _one_by_one(module, settings)


def _by_line(nodes: list[Node], error: UnsupportedError) -> dict[Node, Blame]:
    found = {}
    for item in error.operators:
        for line in item.lines:
            place = re.fullmatch(re.escape(_FILE) + r":(\d+)", line)
            if place is not None:
                node = nodes[int(place[1])]
                found[node] = Blame(refused_name(node), f"{item.operator}: {item.reason}")
    return found


def _one_by_one(module: GraphModule, settings: Settings) -> dict[Node, Blame]:
    """Tries each node as a graph of its own."""
    found = {}
    for node in module.graph.nodes:
        if node.op != "call_function" or not does_work(node):
            continue
        try:
            lower_graph(_alone(module, node), settings, only_import=True)
        except Exception as error:
            found[node] = Blame(refused_name(node), str(error))
    return found


def _alone(module: GraphModule, node: Node) -> GraphModule:
    graph = Graph()
    copies: dict[Node, Node] = {}
    for other in node.all_input_nodes:
        is_held = other.op == "get_attr"
        copies[other] = graph.get_attr(str(other.target)) if is_held else graph.placeholder(other.name)
        copies[other].meta = dict(other.meta)
    call = graph.node_copy(node, lambda other: copies[other])
    results = [call]
    if isinstance(node.meta.get("val"), (tuple, list)):
        users = [user for user in node.users if user.args[0] is node]
        copies[node] = call
        results = [graph.node_copy(user, lambda other: copies[other]) for user in users]
    graph.output(tuple(results))
    return GraphModule(module, graph)
