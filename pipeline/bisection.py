"""`pipeline verify --bisect`: the first operator whose value leaves eager's, and the user's line.

The model is captured with its operators whole. Some of their values become results of a program of their own, which is
compiled and compared with eager like any other; between the last right and the first wrong ones the next round looks.
The first wrong operator is one whose operands are all right. It is found whether its decomposition is wrong or
what comes later.
"""

from __future__ import annotations

import copy
import operator
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_structure

from pipeline.runtime import Executable

from .capture import capture, exported
from .compiler import Options, compile_program
from .entry_points import EntrySpec
from .source_lines import user_line
from .verify import Comparison, verify

_PROBES = 16
"""Values compared in one round: a compilation costs seconds, and each value that is returned changes it a little."""

_MARK = "value of "
"""Before the name of a node, in the results' names."""


@dataclass(frozen=True)
class Culprit:
    """operator: such as ``aten.gelu.default``. line: the user's. comparison: of its value. compilations: how many."""

    operator: str
    line: str | None
    comparison: Comparison
    compilations: int

    def __str__(self) -> str:
        at = f" at {self.line}" if self.line else ""
        return (
            f"the first wrong value is that of {self.operator}{at}: max error {self.comparison.error:.3g}, "
            f"while its operands are right (found by compiling {self.compilations}x)"
        )


def bisect(
    model: torch.nn.Module | ExportedProgram,
    entries: Mapping[str, EntrySpec],
    options: Options,
    *,
    device: str | None = None,
) -> Culprit | None:
    """The first operator, over all entry points, whose compiled value is wrong.

    None where all are right once the values between are returned too: then the fault lies in how operators are
    joined. Raises what compiling raises.
    """
    for name, spec in entries.items():
        culprit = _Search(model, name, spec, options, device).run()
        if culprit is not None:
            return culprit
    return None


class _Search:
    """The search in one entry point."""

    def __init__(self, model: Any, name: str, spec: EntrySpec, options: Options, device: str | None) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = exported(model, name, spec).run_decompositions({})
            self._module: Any = whole.module()
        self._roots = _take_effects(self._module)
        self._order = {node: i for i, node in enumerate(self._module.graph.nodes)}
        self._spec = replace(spec, method="forward")
        self._options = options
        self._device = device
        self._right: set[Node] = set()
        self._compilations = 0

    def run(self) -> Culprit | None:
        found = self._first_wrong([*_spread(self._open(self._roots), _PROBES), *self._roots])
        while found is not None:
            node, _ = found
            before = [other for other in self._open([node]) if other is not node]
            if not before:
                return Culprit(_operator(node), user_line(node), found[1], self._compilations)
            found = self._first_wrong(_spread(before, _PROBES)) or found
        return None

    def _open(self, nodes: Sequence[Node]) -> list[Node]:
        """What `nodes` are computed from, themselves included, up to values that are known to be right; in order."""
        seen: set[Node] = set()
        waiting = [node for node in nodes if node not in self._right]
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += [other for other in node.all_input_nodes if other not in self._right]
        return sorted((node for node in seen if _can_be_returned(node)), key=self._order.__getitem__)

    def _first_wrong(self, probes: Sequence[Node]) -> tuple[Node, Comparison] | None:
        """Compiles a program that returns `probes`; the first whose value is wrong. Notes which are right."""
        probes = sorted(set(probes), key=self._order.__getitem__)
        module = _returning(self._module, probes)
        program = capture(
            module,
            {"main": self._spec},
            decompositions=self._options.decompositions,
            custom=self._options.custom_lowerings,
        )
        self._compilations += 1
        executable = Executable(compile_program(program, self._options), device=self._device)
        wrong: dict[str, Comparison] = {}
        with warnings.catch_warnings():
            # torch's own, from copies of exported modules.
            warnings.simplefilter("ignore", FutureWarning)
            for comparison in verify(module, {"main": self._spec}, executable):
                if not comparison.right:
                    wrong.setdefault(comparison.name.rpartition(_MARK)[2].strip("']"), comparison)
        self._right.update(node for node in probes if node.name not in wrong)
        return next(((node, wrong[node.name]) for node in probes if node.name in wrong), None)


def _take_effects(module: GraphModule) -> list[Node]:
    """Removes checks and updates of state; what was returned or written."""
    graph = module.graph
    roots = list(graph.output_node().all_input_nodes)
    for node in list(graph.nodes):
        if node.op == "call_module":
            graph.erase_node(node)
        elif node.target is torch.ops.aten.copy_.default and not node.users:
            roots.append(node.args[1])
            graph.erase_node(node)
    return [node for node in dict.fromkeys(roots) if _can_be_returned(node)]


def _can_be_returned(node: Node) -> bool:
    return node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor)


def _spread(nodes: Sequence[Node], count: int) -> list[Node]:
    """Up to `count` of `nodes`, evenly, with the first and the last."""
    if len(nodes) <= count:
        return list(nodes)
    return [nodes[round(i * (len(nodes) - 1) / (count - 1))] for i in range(count)]


def _returning(module: Any, nodes: Sequence[Node]) -> GraphModule:
    """A copy of `module` that returns the values of `nodes` by name."""
    changed = copy.copy(module)
    graph = torch.fx.Graph()
    copies: dict[Node, Node] = {}
    graph.graph_copy(module.graph, copies)
    graph.set_codegen(copy.copy(module.graph._codegen))
    graph.output(tuple(copies[node] for node in nodes))
    names = {f"{_MARK}{node.name}": 0 for node in nodes}
    graph._codegen.pytree_info = graph._codegen.pytree_info._replace(out_spec=tree_structure(names))
    changed.graph = graph
    graph.eliminate_dead_code()
    changed.recompile()
    return changed


def _operator(node: Node) -> str:
    """The operator that `node` is a result of."""
    if node.target is operator.getitem and isinstance(node.args[0], Node):
        return _operator(node.args[0])
    return str(node.target)
