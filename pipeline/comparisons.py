"""Comparisons with numbers, of the tensor's kind and type: torch-mlir folds others wrongly, and compares in f64.

Its folder reads a constant tensor of floats as integers where the number is an int, and the other way round: the
result is wrong, or the compiler crashes.

Before:  aten.gt.Scalar(%full_of_2_5: f32, 0)
After:   aten.gt.Scalar(%full_of_2_5: f32, 0.0)
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

_COMPARISONS = tuple(getattr(torch.ops.aten, name).Scalar for name in ("eq", "ne", "lt", "le", "gt", "ge"))


def match_compared_numbers(module: GraphModule) -> None:
    """Rewrites comparisons of tensors with numbers of another kind."""
    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target in _COMPARISONS:
            _match(module, node)


def _match(module: GraphModule, node: Node) -> None:
    tensor, number = node.args
    assert isinstance(tensor, Node)
    dtype = tensor.meta["val"].dtype
    if dtype.is_floating_point and isinstance(number, (int, float)):
        # Eager rounds the number to the tensor's type, where it may become equal to an element.
        node.args = (tensor, torch.tensor(float(number), dtype=dtype).item())
    elif not dtype.is_floating_point and not dtype.is_complex and type(number) is float:
        # Eager, too, compares whole numbers with floats as floats.
        target = torch.ops.prims.convert_element_type.default
        with module.graph.inserting_before(node):
            converted = module.graph.call_function(target, (tensor, torch.get_default_dtype()))
        converted.meta = {"val": target(tensor.meta["val"], torch.get_default_dtype())}
        node.args = (converted, number)
