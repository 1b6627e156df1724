"""Tensors without elements are made anew instead of computed: torch-mlir divides by their sizes and dies of it.

Before:  y: [0, 6] = aten.view(aten.permute(x: [3, 0, 2], ...), [0, 6])
After:   y: [0, 6] = aten.empty([0, 6])
"""

from __future__ import annotations

import math

import torch
from torch.fx import GraphModule, Node


def make_empty_tensors(module: GraphModule) -> None:
    """Replaces every call that gives a tensor with a size of 0; what only served it is dead code then."""
    for node in list(module.graph.nodes):
        if node.op == "call_function" and _is_empty(node.meta.get("val")) and node.users:
            _replace(module, node)


def _is_empty(value: object) -> bool:
    if not isinstance(value, torch.Tensor) or value.is_complex() or value.layout is not torch.strided:
        return False
    return all(isinstance(size, int) for size in value.shape) and math.prod(value.shape) == 0


def _replace(module: GraphModule, node: Node) -> None:
    value = node.meta["val"]
    target = torch.ops.aten.empty.memory_format
    if node.target is target:
        return
    with module.graph.inserting_before(node):
        options = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
        made = module.graph.call_function(target, (list(value.shape),), options)
    made.meta = {key: item for key, item in node.meta.items() if key != "pipeline.argument"}
    node.replace_all_uses_with(made)
    module.graph.erase_node(node)
