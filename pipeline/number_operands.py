"""Numbers where an operator of tensors wants a tensor, as 0-d tensors.

PyTorch lets ``aten.sub.Tensor`` take an open size in a tensor's place. torch-mlir imports that for the second operand
of some operators; of others the module does not parse.

Before:  aten.sub.Tensor(%size, %places)
After:   aten.sub.Tensor(aten.scalar_tensor(%size, dtype=int64), %places)
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch_mlir.extras.fx_importer import TENSOR_SCALAR_OP_CONVERTER

_NUMBERS = (int, float, bool, torch.SymInt, torch.SymFloat)


def make_numbers_tensors(module: GraphModule) -> None:
    """Rewrites every call of the graph with such an operand."""
    for node in list(module.graph.nodes):
        target = node.target
        if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
            continue
        for place, parameter in enumerate(target._schema.arguments[: len(node.args)]):
            if str(parameter.type) != "Tensor" or not isinstance(_value(node.args[place]), _NUMBERS):
                continue
            if place != 1 or _mlir_name(target) not in TENSOR_SCALAR_OP_CONVERTER:
                node.args = (*node.args[:place], _tensor(module, node, place), *node.args[place + 1 :])


def _mlir_name(target: torch._ops.OpOverload) -> str:
    return f"torch.{target}"


def _value(argument: Any) -> Any:
    return argument.meta.get("val") if isinstance(argument, Node) else argument


def _tensor(module: GraphModule, node: Node, place: int) -> Node:
    """Of the type in which the operator takes the number: with a number it does not ask for a wider one."""
    number = _value(node.args[place])
    example = (
        1.0 if isinstance(number, (float, torch.SymFloat)) else number if isinstance(number, bool) else 1
    )
    tensors = [value for arg in node.args if isinstance(value := _value(arg), torch.Tensor)]
    dtype = reduce(torch.promote_types, (torch.result_type(tensor, example) for tensor in tensors))
    target = torch.ops.aten.scalar_tensor.default
    with module.graph.inserting_before(node):
        tensor = module.graph.call_function(target, (node.args[place],), {"dtype": dtype})
    tensor.meta = {key: item for key, item in node.meta.items() if key != "tensor_meta"}
    tensor.meta["val"] = tensors[0].new_empty((), dtype=dtype)
    return tensor
