"""Views with symbolic dimensions, as sequences of merges and splits that say where each size comes from.

torch-mlir guesses how the dimensions of an ``aten.view`` correspond, and with two symbolic ones guesses
wrong: ``(b,s,6).view(-1,6)`` demands s == 1. ``aten.flatten`` and ``aten.unflatten`` leave nothing to guess.

Before:  view(x: [b, s, 6], [b*s, 6])
After:   flatten(x, 0, 1)
Before:  view(x: [b, s, 64], [b, s, 4, 16])
After:   unflatten(x, 2, [4, 16])
Before:  view(x: [1, b, 64], [b, 64])
After:   squeeze(x, 0)

PyTorch's decompositions say some of these views by their strides; where they take all of a contiguous tensor in its
order, they are no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

Size = int | torch.SymInt


def rewrite_views(module: GraphModule) -> None:
    """Rewrites every view of the graph that has a symbolic dimension on either side."""
    aten = torch.ops.aten
    targets = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)
    for node in list(module.graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is aten.as_strided.default and _is_view(node):
            node.target, node.args, node.kwargs = aten.view.default, node.args[:2], {}
        if node.target in targets and _is_symbolic(node):
            _rewrite(module, node)


def _is_view(node: Node) -> bool:
    """Whether strides and offset say no more than the sizes do."""
    source, _, strides, offset = (*node.args, None)[:4]
    assert isinstance(source, Node) and isinstance(strides, Sequence)
    before, after = source.meta["val"], node.meta["val"]
    step: Size = 1
    for size, stride in zip(reversed(after.shape), reversed(after.stride()), strict=True):
        if not statically_known_true(stride == step):
            return False
        step = step * size
    same = statically_known_true(step == before.numel()) and not offset
    return same and before.is_contiguous() and statically_known_true(before.storage_offset() == 0)


def _is_symbolic(node: Node) -> bool:
    shapes = [*node.args[0].meta["val"].shape, *node.meta["val"].shape]  # type: ignore[union-attr]
    return any(isinstance(size, torch.SymInt) for size in shapes)


def _rewrite(module: GraphModule, node: Node) -> None:
    source, sizes = node.args[0], node.args[1]
    assert isinstance(source, Node) and isinstance(sizes, Sequence)
    before, after = list(source.meta["val"].shape), list(node.meta["val"].shape)
    # Dimensions of one go and come singly: merged with a symbolic one, they would hide it from the compiler.
    kept = [axis for axis, size in enumerate(after) if not _is_one(size)]
    groups = group_dimensions([n for n in before if not _is_one(n)], [after[axis] for axis in kept])
    if groups is None:
        return
    aten = torch.ops.aten
    current = source
    with module.graph.inserting_before(node):
        for axis in reversed([axis for axis, size in enumerate(before) if _is_one(size)]):
            current = _call(module, node, aten.squeeze.dim, current, axis)
        current = _regroup(module, node, current, groups, [_size(sizes[axis], after[axis]) for axis in kept])
        for axis in [axis for axis, size in enumerate(after) if _is_one(size)]:
            current = _call(module, node, aten.unsqueeze.default, current, axis)
    node.replace_all_uses_with(current)
    module.graph.erase_node(node)


def _regroup(
    module: GraphModule, node: Node, current: Node, groups: list[tuple[int, int]], sizes: list[Any]
) -> Node:
    """Merges and splits `current` run by run; `sizes` are all the sizes it ends with."""
    aten = torch.ops.aten
    axis = 0
    for merged, split in groups:
        if merged > 1:
            current = _call(module, node, aten.flatten.using_ints, current, axis, axis + merged - 1)
        if split > 1:
            current = _call(module, node, aten.unflatten.int, current, axis, sizes[axis : axis + split])
        axis += split
    return current


def _is_one(size: Size) -> bool:
    return isinstance(size, int) and size == 1


def group_dimensions(before: Sequence[Size], after: Sequence[Size]) -> list[tuple[int, int]] | None:
    """Splits both shapes into runs of equal product: [(dimensions before, dimensions after), ...].

    The runs are as short as what is statically known allows; at worst there is one. None where a side
    is 0-d, which has nothing to merge or split.
    """
    if not before or not after:
        return None
    groups: list[tuple[int, int]] = []
    i = j = 0
    while i < len(before) and j < len(after):
        merged, split = _shortest_run(before[i:], after[j:])
        groups.append((merged, split))
        i, j = i + merged, j + split
    merged, split = groups[-1]
    groups[-1] = (merged + len(before) - i, split + len(after) - j)
    return groups


def _shortest_run(before: Sequence[Size], after: Sequence[Size]) -> tuple[int, int]:
    for total in range(2, len(before) + len(after)):
        for merged in range(max(1, total - len(after)), min(len(before), total - 1) + 1):
            if statically_known_true(_product(before[:merged]) == _product(after[: total - merged])):
                return merged, total - merged
    return len(before), len(after)


def _product(sizes: Sequence[Size]) -> Size:
    result: Size = 1
    for size in sizes:
        result = result * size
    return result


def _size(argument: Any, value: Size) -> Any:
    """The static value where there is one: it also resolves a -1."""
    return value if isinstance(value, int) else argument


def _call(module: GraphModule, like: Node, target: Any, source: Node, *rest: Any) -> Node:
    call = module.graph.call_function(target, (source, *rest))
    call.meta = {key: value for key, value in like.meta.items() if key != "tensor_meta"}
    values = [[_value(item) for item in arg] if isinstance(arg, list) else arg for arg in rest]
    call.meta["val"] = target(source.meta["val"], *values)
    return call


def _value(argument: Any) -> Any:
    return argument.meta["val"] if isinstance(argument, Node) else argument
