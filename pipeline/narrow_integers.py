"""Arithmetic of bytes in int32: the lowering forgets that uint8 is unsigned, and crashes on some of int8.

torch-mlir keeps the sign of an integer in the type and drops it on the way to linalg, so that sums,
quotients, comparisons and orderings of uint8 come out as those of int8. Conversions are right both ways,
and narrowing wraps as eager's arithmetic does.

Before:  y: u8 = aten.div.Tensor_mode(a: u8, b: u8, "floor")
After:   y: u8 = convert(aten.div.Tensor_mode(convert(a, i32), convert(b, i32), "floor"), u8)

Floats become bytes by way of int32 as well: eager keeps the low bits of numbers that are too large, while LLVM takes
every number for one that fits, and saturates or not as the vectors' width would have it.

Before:  y: u8 = convert(x: f64, u8)
After:   y: u8 = convert(convert(x: f64, i32), u8)

Constants become uint8 as int8 whose bits are looked at: torch-mlir folds their conversions, and fails on uint8.

Before:  y: u8 = convert(full([2], 200, i32), u8)
After:   y: u8 = aten.view.dtype(convert(full([2], 200, i32), i8), u8)
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves, tree_map

_NARROW, _WIDE = (torch.uint8, torch.int8), torch.int32

_CONVERT = torch.ops.prims.convert_element_type.default
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_WIDENED = "pipeline.widened"
"""Meta key of a byte constant: the wide constant it was converted from."""

# These move elements of one tensor and look at none (or, _int_mm, are defined for bytes only).
_MOVES = frozenset(
    "view _unsafe_view reshape permute transpose t expand slice select unsqueeze squeeze clone alias detach "
    "index gather index_select flip roll slice_scatter select_scatter unbind split split_with_sizes as_strided "
    "repeat flatten unflatten embedding copy _to_copy convert_element_type lift_fresh_copy empty empty_like "
    "_local_scalar_dense empty_strided new_empty sym_size _int_mm diagonal unfold pixel_shuffle pixel_unshuffle".split()
)


def widen_narrow_integers(module: GraphModule) -> None:
    """Rewrites every computing operator of the graph that takes or gives tensors of bytes."""
    for node in list(module.graph.nodes):
        if _computes_on_bytes(node):
            _widen(module, node)
        elif _rounds_to_bytes(node):
            with module.graph.inserting_before(node):
                node.args = (_convert(module, node.args[0], _WIDE), node.args[1])  # type: ignore[arg-type]
    for node in list(module.graph.nodes):
        if node.target is _CONVERT and node.args[1] == torch.uint8 and _is_constant(node):
            _view_as_unsigned(module, node)


def _is_constant(node: Any) -> bool:
    """Whether a number, converted as often as may be, fills what comes of it."""
    while node.target is _CONVERT:
        node = node.args[0]
    return node.op == "call_function" and _fills(node)


def _view_as_unsigned(module: GraphModule, node: Node) -> None:
    node.args = (node.args[0], torch.int8)
    view = torch.ops.aten.view.dtype
    with module.graph.inserting_after(node):
        call = module.graph.call_function(view, (node, torch.uint8))
    call.meta = {**node.meta}
    node.meta = {key: value for key, value in node.meta.items() if key not in ("tensor_meta", _WIDENED)}
    node.meta["val"] = _evaluate(node)
    node.replace_all_uses_with(call, delete_user_cb=lambda user: user is not call)


def _rounds_to_bytes(node: Node) -> bool:
    if node.target is not _CONVERT:
        return False
    source, dtype = node.args
    return dtype in (*_NARROW, torch.int16) and source.meta["val"].is_floating_point()  # type: ignore[union-attr]


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
    return isinstance(value, torch.Tensor) and value.dtype in _NARROW


def _widen(module: GraphModule, node: Node) -> None:
    before = node.meta["val"]
    converted: dict[Node, Node] = {}

    def wide(argument: Any) -> Any:
        if argument in _NARROW:
            return _WIDE
        if not isinstance(argument, Node) or not _is_byte(argument.meta.get("val")):
            return argument
        if argument not in converted and _WIDENED in argument.meta:
            return argument.meta[_WIDENED]
        if argument not in converted:
            with module.graph.inserting_before(node):
                converted[argument] = _convert(module, argument, _WIDE)
        return converted[argument]

    node.args = tree_map(wide, _wrapped_scalar(node))
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


def _wrapped_scalar(node: Node) -> tuple[Any, ...]:
    """Eager compares a byte with a whole number as a byte: to uint8, -1 is 255."""
    value = node.args[0].meta.get("val") if node.args and isinstance(node.args[0], Node) else None
    if str(node.target).split(".")[1] not in _COMPARISONS or not _is_byte(value):
        return node.args
    assert value is not None
    low = torch.iinfo(value.dtype).min
    return tuple((arg - low) % 256 + low if type(arg) is int else arg for arg in node.args)


def _evaluate(node: Node) -> Any:
    """The node's value for the fake values of its arguments; factories take none, so the mode is entered."""
    args, kwargs = tree_map(
        lambda argument: argument.meta["val"] if isinstance(argument, Node) else argument,
        (node.args, node.kwargs),
    )
    found = node.meta["val"]
    fake = next(value for value in tree_leaves(found) if isinstance(value, torch.Tensor))
    with fake.fake_mode:
        return node.target(*args, **kwargs)  # type: ignore[operator]


def _restore(module: GraphModule, node: Node, dtype: torch.dtype) -> None:
    """Gives the users of `node` the dtype they had."""
    if node.meta["val"].dtype == dtype:
        return
    with module.graph.inserting_after(node):
        back = _convert(module, node, dtype)
    node.replace_all_uses_with(back, delete_user_cb=lambda user: user is not back)
    if (
        dtype == torch.uint8
        and any(isinstance(arg, int) and 0 <= arg < 256 for arg in node.args[:2])
        and _fills(node)
    ):
        # The importer cannot write a constant of bytes; most are only used in arithmetic.
        back.meta[_WIDENED] = node


def _fills(node: Node) -> bool:
    return str(node.target).split(".")[1] in ("full", "full_like", "scalar_tensor")


def _convert(module: GraphModule, source: Node, dtype: torch.dtype) -> Node:
    call = module.graph.call_function(_CONVERT, (source, dtype))
    # tensor_meta would be believed before val.
    dropped = ("pipeline.argument", "tensor_meta", _WIDENED)
    call.meta = {key: value for key, value in source.meta.items() if key not in dropped}
    call.meta["val"] = _CONVERT(source.meta["val"], dtype)
    return call
