"""Operators on constants, computed by PyTorch itself: torch-mlir's folding of them errs.

Its decomposition of `sign` compares with the integer 0, and its folder reads a constant of floats as one of integers
then: the result differs from run to run. Quotients and remainders of integers it rounds as C does, and dies of a
division by zero.

Before:  x: [3, 4] = full([3, 4], 0.3);  y = sub(x, 0.5);  z = sign(y)
After:   z: [3, 4] = full([3, 4], -1.0)

Likewise of the few elements that are printed into the IR:

Before:  x = literal([-1.0, 0.0, 2.0]);  y = sign(x)
After:   y = literal([-1.0, 0.0, 1.0])
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves, tree_map

from .errors import InputError
from .source_lines import user_line

_ATEN = torch.ops.aten
_LITERAL_ELEMENTS = 16
"""Constants up to this many elements are printed into the IR, where torch-mlir can fold them."""
_FILLS = {
    _ATEN.full.default: 1,
    _ATEN.full_like.default: 1,
    _ATEN.scalar_tensor.default: 0,
    _ATEN.zeros.default: 0,
    _ATEN.zeros_like.default: 0,
    _ATEN.ones.default: 1,
    _ATEN.ones_like.default: 1,
}
"""Makers of tensors of one number: its place among the arguments, or the number where they take none."""
_TAKES_NUMBER = (_ATEN.full.default, _ATEN.full_like.default, _ATEN.scalar_tensor.default)
_CONVERSIONS = (_ATEN._to_copy.default, torch.ops.prims.convert_element_type.default)
_TYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip


def fold_constants(module: GraphModule) -> None:
    """Replaces elementwise operators, conversions and views of constants by constants."""
    values: dict[Node, torch.Tensor] = {}
    for node in list(module.graph.nodes):
        if not _is_plain(node.meta.get("val")):
            continue
        if (value := _held(module, node)) is not None:
            values[node] = value
        elif (value := _computed(node, values)) is not None:
            values[_constant(module, node, value)] = value


def _is_plain(value: object) -> bool:
    """A tensor of known sizes with elements, of a type that the importer prints."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.dtype not in _TYPES:
        return False
    return all(isinstance(size, int) for size in value.shape) and math.prod(value.shape) > 0


def may_be_literal(value: torch.Tensor) -> bool:
    """Small, and of a type that the importer can print: it has no constants of bytes."""
    return value.numel() <= _LITERAL_ELEMENTS and value.dtype != torch.uint8


def make_literal(module: GraphModule, node: Node, value: torch.Tensor) -> Node:
    """Puts a constant of few elements in the place of `node`."""
    name = f"_literal_{node.name}"
    module.register_buffer(name, value, persistent=False)
    with module.graph.inserting_before(node):
        literal = module.graph.get_attr(name)
    return _replaced(module, node, literal)


def _held(module: GraphModule, node: Node) -> torch.Tensor | None:
    """What a constant holds, as a tensor that broadcasts to its shape."""
    if node.op == "get_attr":
        value = getattr(module, str(node.target), None)
        return value if isinstance(value, torch.Tensor) else None
    target: Any = node.target
    if target not in _FILLS:
        return None
    place = _FILLS[target]
    number: Any = node.args[place] if target in _TAKES_NUMBER else place
    like = node.meta["val"]
    return None if isinstance(number, Node) else torch.full((1,) * like.dim(), number, dtype=like.dtype)


def _computed(node: Node, values: dict[Node, torch.Tensor]) -> torch.Tensor | None:
    """What the result holds, as a tensor that broadcasts to its shape; None if it is not known."""
    operands = [leaf for leaf in tree_leaves((node.args, node.kwargs)) if isinstance(leaf, Node)]
    target = node.target
    if not operands or not isinstance(target, OpOverload) or any(item not in values for item in operands):
        return None
    like = node.meta["val"]
    if target.is_view and len(operands) == 1 and values[operands[0]].numel() == 1:
        value = values[operands[0]].reshape((1,) * like.dim())
    elif target.is_view or target in _CONVERSIONS or torch.Tag.pointwise in target.tags:
        value = _run(node, values)
    else:
        value = None
    if value is None or value.dtype != like.dtype:
        return None
    return value if value.numel() == 1 or may_be_literal(like) else None


def _run(node: Node, values: dict[Node, torch.Tensor]) -> torch.Tensor | None:
    """Raises InputError for a division of integers by zero, which eager refuses, and of which the compiler dies."""

    def value_of(leaf: Any) -> Any:
        if not isinstance(leaf, Node):
            return leaf
        return values[leaf].expand(leaf.meta["val"].shape) if values[leaf].numel() > 1 else values[leaf]

    args, kwargs = tree_map(value_of, (node.args, node.kwargs))
    try:
        result = node.target(*args, **kwargs)  # type: ignore[operator]
    except Exception as error:
        if "ZeroDivisionError" in str(error):
            raise InputError(f"PyTorch cannot run the model: {error} (at {user_line(node)})") from error
        return None  # such as what a decomposition computes and eager has no kernel for
    return result if isinstance(result, torch.Tensor) else None


def _constant(module: GraphModule, node: Node, value: torch.Tensor) -> Node:
    like = node.meta["val"]
    if value.numel() > 1:
        return make_literal(module, node, value.expand(like.shape).contiguous())
    with module.graph.inserting_before(node):
        options = {"dtype": like.dtype, "device": like.device, "pin_memory": False}
        full = module.graph.call_function(_ATEN.full.default, (list(like.shape), value.item()), options)
    return _replaced(module, node, full)


def _replaced(module: GraphModule, node: Node, made: Node) -> Node:
    made.meta = {key: item for key, item in node.meta.items() if key != "pipeline.argument"}
    node.replace_all_uses_with(made)
    module.graph.erase_node(node)
    return made
