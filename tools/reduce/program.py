"""A captured program as a flat graph that can be cut: values become inputs, others become results."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.utils._pytree import tree_leaves

from pipeline.capture import exported
from pipeline.entry_points import EntrySpec
from pipeline.errors import UnsupportedError


@dataclass(frozen=True)
class Program:
    """The part of a graph that computes `results` from `inputs`. Both are names of nodes.

    eager: the value of every node, as eager PyTorch computes it.
    """

    graph: Graph
    eager: Mapping[str, torch.Tensor]
    results: tuple[str, ...]
    inputs: frozenset[str] = field(default=frozenset())

    def operators(self) -> list[Node]:
        """What is computed, in order."""
        return [
            node for node in self._needed() if node.op == "call_function" and node.name not in self.inputs
        ]

    def cut(self, *, results: Sequence[str] | None = None, inputs: frozenset[str] | None = None) -> Program:
        """The same with other results, or with more values given."""
        return replace(
            self,
            results=self.results if results is None else tuple(results),
            inputs=self.inputs if inputs is None else inputs,
        )

    def _needed(self) -> list[Node]:
        by_name = {node.name: node for node in self.graph.nodes}
        needed: set[Node] = set()
        waiting = [by_name[name] for name in self.results]
        while waiting:
            node = waiting.pop()
            if node not in needed:
                needed.add(node)
                waiting += [] if node.name in self.inputs else node.all_input_nodes
        return [node for node in self.graph.nodes if node in needed]

    def _given(self) -> list[Node]:
        return [node for node in self._needed() if node.op == "placeholder" or node.name in self.inputs]

    def values(self) -> tuple[torch.Tensor, ...]:
        """The arguments."""
        return tuple(self.eager[node.name] for node in self._given())

    def module(self) -> GraphModule:
        """What computes the results from `values`."""
        graph = Graph()
        copies = {node: graph.placeholder(node.name) for node in self._given()}
        for node in self.operators():
            copies[node] = graph.node_copy(node, lambda n: copies[n])
        by_name = {node.name: node for node in copies}
        graph.output(tuple(copies[by_name[name]] for name in self.results))
        return GraphModule(torch.nn.Module(), graph)

    def with_values(self, values: Sequence[torch.Tensor]) -> Program | None:
        """The same program on other arguments; None where eager cannot compute it."""
        module = self.module()
        recorder = _Recorder(module)
        try:
            recorder.run(*values)
        except Exception:
            return None
        graph = module.graph
        names = [node.name for node in graph.output_node().all_input_nodes]
        return Program(graph, recorder.values, tuple(names))


class _Recorder(Interpreter):
    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.values: dict[str, Any] = {}

    def run_node(self, n: Node) -> Any:
        with torch.no_grad():
            result = super().run_node(n)
        self.values[n.name] = result
        return result


def read(model: torch.nn.Module | ExportedProgram, spec: EntrySpec) -> Program:
    """A model with its operators whole, and its weights as inputs. Sizes are those of the example inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module: Any = (
            exported(model, "main", replace(spec, dynamic_shapes=None)).run_decompositions({}).module()
        )
    leaves = tree_leaves((spec.args, dict(spec.kwargs)))
    graph, values, roots = Graph(), [], []
    copies: dict[Node, Any] = {}
    for node in module.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            value = leaves.pop(0) if node.op == "placeholder" else _attribute(module, str(node.target))
            copies[node] = value
            if isinstance(value, torch.Tensor):
                copies[node] = graph.placeholder(node.name)
                values.append(value.detach())
        elif node.op == "output":
            roots += [copies[n] for n in node.all_input_nodes]
        elif node.target is torch.ops.aten.copy_.default:
            roots.append(copies[node.args[1]])
        elif node.op == "call_function":
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    roots = [root for root in dict.fromkeys(roots) if root.op != "placeholder"]
    graph.output(tuple(roots))
    flat = GraphModule(torch.nn.Module(), graph)
    recorder = _Recorder(flat)
    recorder.run(*values)
    return Program(flat.graph, recorder.values, tuple(root.name for root in roots))


def _attribute(module: Any, name: str) -> torch.Tensor:
    value = module
    for part in name.split("."):
        value = getattr(value, part)
    if not isinstance(value, torch.Tensor):
        raise UnsupportedError("programs with control flow cannot be reduced")
    return value
