"""uint8 arithmetic in int32: the lowering forgets that a byte is unsigned.

torch-mlir keeps the sign of an integer in the type and drops it on the way to linalg, so that sums,
quotients, comparisons and orderings of uint8 come out as those of int8, and some crash it. Conversions
are right both ways, and narrowing wraps as eager's arithmetic does.

Before:  y: u8 = aten.div.Tensor_mode(a: u8, b: u8, "floor")
After:   y: u8 = convert(aten.div.Tensor_mode(convert(a, i32), convert(b, i32), "floor"), u8)
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves, tree_map

_NARROW, _WIDE = torch.uint8, torch.int32

# These move elements of one tensor and look at none.
_MOVES = frozenset(
    "view _unsafe_view reshape permute transpose t expand slice select unsqueeze squeeze clone alias detach "
    "index gather index_select flip roll slice_scatter select_scatter unbind split split_with_sizes as_strided "
    "repeat flatten unflatten embedding copy _to_copy convert_element_type lift_fresh_copy empty empty_like "
    "empty_strided new_empty sym_size diagonal unfold pixel_shuffle pixel_unshuffle".split()
)


def widen_narrow_integers(module: GraphModule) -> None:
    """Rewrites every computing operator of the graph that takes or gives uint8 tensors."""
    for node in list(module.graph.nodes):
        if _computes_on_bytes(node):
            _widen(module, node)


def _computes_on_bytes(node: Node) -> bool:
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return False
    namespace, name = str(target).split(".")[:2]
    if namespace not in ("aten", "prims") or name in _MOVES:
        return False
    values = [argument.meta.get("val") for argument in node.all_input_nodes]
    return any(_is_byte(value) for value in [*values, *tree_leaves(node.meta.get("val"))])


def _is_byte(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == _NARROW


def _widen(module: GraphModule, node: Node) -> None:
    before = node.meta["val"]
    converted: dict[Node, Node] = {}

    def wide(argument: Any) -> Any:
        if argument is _NARROW:
            return _WIDE
        if not isinstance(argument, Node) or not _is_byte(argument.meta.get("val")):
            return argument
        if argument not in converted:
            with module.graph.inserting_before(node):
                converted[argument] = _convert(module, argument, _WIDE)
        return converted[argument]

    node.args = tree_map(wide, node.args)
    node.kwargs = tree_map(wide, node.kwargs)
    node.meta = {key: value for key, value in node.meta.items() if key != "tensor_meta"}
    node.meta["val"] = _evaluate(node)
    if isinstance(before, torch.Tensor):
        _restore(module, node, before.dtype)
        return
    for item in list(node.users):
        index: Any = item.args[1]
        item.meta["val"] = node.meta["val"][index]
        _restore(module, item, before[index].dtype)


def _evaluate(node: Node) -> Any:
    """The node's value for the fake values of its arguments."""
    args, kwargs = tree_map(
        lambda argument: argument.meta["val"] if isinstance(argument, Node) else argument,
        (node.args, node.kwargs),
    )
    return node.target(*args, **kwargs)  # type: ignore[operator]


def _restore(module: GraphModule, node: Node, dtype: torch.dtype) -> None:
    """Gives the users of `node` the dtype they had."""
    if node.meta["val"].dtype == dtype:
        return
    with module.graph.inserting_after(node):
        back = _convert(module, node, dtype)
    node.replace_all_uses_with(back, delete_user_cb=lambda user: user is not back)


def _convert(module: GraphModule, source: Node, dtype: torch.dtype) -> Node:
    target = torch.ops.prims.convert_element_type.default
    call = module.graph.call_function(target, (source, dtype))
    call.meta = {key: value for key, value in source.meta.items() if key != "pipeline.argument"}
    call.meta["val"] = target(source.meta["val"], dtype)
    return call
