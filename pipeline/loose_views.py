"""Views become reshapes, before decompositions make tensors of other strides than eager's.

Eager's kernels choose strides: attention's result lies heads last, an inverse column by column. A program written for
these, or traced with them, takes views that only they allow; a decomposition's result is contiguous. A reshape is that
view where strides allow one and a copy elsewhere, which is nothing once the graph is functional.

Before:  %r = aten.view.default(%x, [2, 5, 16])
After:   %r = aten.reshape.default(%x, [2, 5, 16])
"""

from __future__ import annotations

import copy

import torch
from torch._export.verifier import TrainingIRVerifier
from torch.export import ExportedProgram

from .grad_modes import holds_grad_modes, inline_grad_modes


def loosen_views(ep: ExportedProgram) -> ExportedProgram:
    """The program with reshapes, also under ``torch.no_grad()``; `ep` itself is unchanged, and returned if it has no
    views."""
    view = torch.ops.aten.view.default
    if not holds_grad_modes(ep.graph) and not any(node.target is view for node in ep.graph.nodes):
        return ep
    graph = copy.deepcopy(ep.graph)
    for node, old in zip(graph.nodes, ep.graph.nodes, strict=True):
        node.name = old.name  # a copy renames what is called as a builtin is, such as `input`
    inline_grad_modes(graph, ep.graph_module)
    for node in graph.nodes:
        if node.target is view:
            node.target = torch.ops.aten.reshape.default
    return ExportedProgram(
        root=ep.graph_module,
        graph=graph,
        graph_signature=copy.deepcopy(ep.graph_signature),
        state_dict=ep.state_dict,
        range_constraints=ep.range_constraints,
        module_call_graph=ep.module_call_graph,
        example_inputs=ep.example_inputs,
        constants=ep.constants,
        verifiers=[TrainingIRVerifier],
    )
