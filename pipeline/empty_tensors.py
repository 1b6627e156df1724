"""Tensors without elements are made anew instead of computed: torch-mlir divides by their sizes and dies of it.

Before:  y: [0, 6] = aten.view(aten.permute(x: [3, 0, 2], ...), [0, 6])
After:   y: [0, 6] = aten.empty([0, 6])

Products over a dimension of size 0 are zeros: IREE divides by that size where another is open.

Before:  y: [s, 6] = aten.mm(a: [s, 0], b: [0, 6])
After:   y: [s, 6] = aten.full([aten.sym_size(a, 0), 6], 0)
"""

from __future__ import annotations

import math

import torch
from torch.fx import GraphModule, Node

_PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.bmm.default)


def make_empty_tensors(module: GraphModule) -> None:
    """Replaces every call that gives a tensor with a size of 0; what only served it is dead code then."""
    for node in list(module.graph.nodes):
        if node.op == "call_function" and _is_empty(node.meta.get("val")) and node.users:
            _replace(module, node)
        elif node.target in _PRODUCTS and _operand(node, 0).meta["val"].shape[-1] == 0 and node.users:
            _replace_product(module, node)


def _operand(node: Node, place: int) -> Node:
    operand = node.args[place]
    assert isinstance(operand, Node)
    return operand


def _replace_product(module: GraphModule, node: Node) -> None:
    value = node.meta["val"]
    kept = {key: item for key, item in node.meta.items() if key != "tensor_meta"}
    sizes: list[int | Node] = []
    with module.graph.inserting_before(node):
        for axis, size in enumerate(value.shape):
            if isinstance(size, int):
                sizes.append(size)
                continue
            source = _operand(node, 1 if axis == value.dim() - 1 else 0)
            sizes.append(module.graph.call_function(torch.ops.aten.sym_size.int, (source, axis)))
            sizes[-1].meta = {**kept, "val": size}  # type: ignore[union-attr]
        options = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
        zeros = module.graph.call_function(torch.ops.aten.full.default, (sizes, 0), options)
    zeros.meta = kept
    node.replace_all_uses_with(zeros)
    module.graph.erase_node(node)


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
