"""Python complex numbers in a graph, as tensors: torch-mlir imports no complex scalar.

Before:  aten.mul.Tensor(x, (0.5-2j))
After:   z = literal; aten.mul.Tensor(x, z)
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node


def lift_complex_scalars(module: GraphModule) -> None:
    """Rewrites operators of the graph that take a complex number where they also take a tensor."""
    for node in list(module.graph.nodes):
        if node.op == "call_function" and any(isinstance(arg, complex) for arg in node.args):
            _lift(module, node)


def _lift(module: GraphModule, node: Node) -> None:
    packet = getattr(node.target, "_overloadpacket", None)
    if packet is torch.ops.aten.full:
        _lift_full(module, node)
        return
    if packet is None or "Tensor" not in packet.overloads():
        return
    dtype = node.meta["val"].dtype if node.meta["val"].is_complex() else torch.complex64
    node.target = packet.Tensor
    node.args = tuple(
        _literal(module, node, arg, dtype) if isinstance(arg, complex) else arg for arg in node.args
    )


def _lift_full(module: GraphModule, node: Node) -> None:
    number: Any = node.args[1]
    literal = _literal(module, node, number, node.meta["val"].dtype)
    node.target, node.args, node.kwargs = torch.ops.aten.expand.default, (literal, node.args[0]), {}


def _literal(module: GraphModule, node: Node, number: complex, dtype: torch.dtype) -> Node:
    name = f"_complex_{sum(1 for key in module._buffers if key.startswith('_complex_'))}"
    value = torch.tensor(number, dtype=dtype)
    module.register_buffer(name, value, persistent=False)
    with module.graph.inserting_before(node):
        literal = module.graph.get_attr(name)
    literal.meta = {**node.meta, "val": node.meta["val"].new_empty((), dtype=dtype)}
    return literal
