"""`as_strided` and its relatives, which count places in memory, said with the elements of a tensor.

A program's tensors are values; where they lie is known here, from the strides of the graph's fake values, and no more
once operators are decomposed. A tensor that the graph makes begins where its memory does. An argument may begin at
another place in each call, and is passed without what lies around it: where that is so, only places counted from its
own first element are known.

Before:  as_strided(%x.t()[1:], [3], [2])
After:   as_strided_copy(view(permute(%x, [0, 1]), [-1]), [3], [2], 1)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._prims_common import is_contiguous_or_false
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import optimization_hint, statically_known_true

from .errors import Unsupported, UnsupportedError
from .source_lines import user_line

_aten = torch.ops.aten
_READS = (_aten.as_strided.default, _aten.as_strided_copy.default)
_WRITE = _aten.as_strided_scatter.default


Order = tuple[int, ...]
"""The dimensions from outermost to innermost in memory."""

Begins = Callable[[Node], Any]
"""Of an argument: the place in its memory where it begins, in every call; None where that is not known."""


def memory_order(fake: torch.Tensor) -> Order | None:
    """The order of a dense tensor's dimensions in memory; None for the usual one, and where it is not dense."""
    sizes = [optimization_hint(size) for size in fake.shape]
    strides = [optimization_hint(stride) for stride in fake.stride()]
    # Dimensions that hold one element each lie nowhere in particular: they keep their neighbours.
    real = [axis for axis in range(fake.dim()) if sizes[axis] != 1 and strides[axis] != 0]
    ordered = sorted(real, key=lambda axis: -strides[axis])
    if ordered == real or not _is_dense([sizes[a] for a in ordered], [strides[a] for a in ordered]):
        return None
    following = iter(ordered)
    return tuple(next(following) if axis in real else axis for axis in range(fake.dim()))


def _is_dense(sizes: list[int], strides: list[int]) -> bool:
    expected = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if stride != expected:
            return False
        expected *= size
    return True


def without_places(ep: ExportedProgram) -> ExportedProgram:
    """The program with its graph rewritten, functional then; `ep` itself where there is nothing to rewrite."""
    if not any(node.target in (*_READS, _WRITE) for node in ep.graph.nodes):
        return ep
    ep = ep.run_decompositions({})
    given = set(ep.graph_signature.user_inputs)

    def begins(node: Node) -> Any:
        offset = node.meta["val"].storage_offset()
        return None if node.name in given and offset != 0 else offset

    count_from_elements(ep.graph_module, begins)
    return ep


def count_from_elements(module: GraphModule, begins: Begins) -> None:
    """Rewrites the functional graph of `module`. Raises UnsupportedError listing what cannot be said so."""
    refused = []
    for node in list(module.graph.nodes):
        if node.target in _READS:
            known = _rewrite_read(node, begins)
        elif node.target is _WRITE:
            known = _is_plain_write(node, begins)
        else:
            continue
        if not known:
            refused.append(node)
    if refused:
        raise UnsupportedError(
            "the model uses operators that cannot be compiled:", list(map(_described, refused))
        )


def _described(node: Node) -> Unsupported:
    line = user_line(node)
    reason = "it takes places in memory that are not known to belong to its argument"
    return Unsupported(str(node.target), 1, reason, (line,) if line else ())


def _rewrite_read(node: Node, begins: Begins) -> bool:
    """Whether the memory that `node` reads is that of one dense tensor, from whose elements it is taken then."""
    source, size, stride, offset = _arguments(node)
    base = _owner(source)
    value = base.meta["val"]
    order = memory_order(value) or tuple(range(value.dim()))
    start = _start(source, base, offset, begins)
    if (
        start is None
        or not is_contiguous_or_false(value.permute(order))
        or not _is_inside(size, stride, start, value)
    ):
        return False
    graph = node.graph
    with graph.inserting_before(node):
        lying = graph.call_function(_aten.permute.default, (base, list(order)))
        flat = graph.call_function(_aten.view.default, (lying, [-1]))
        read = graph.call_function(_aten.as_strided_copy.default, (flat, size, stride, start))
    lying.meta["val"] = value.permute(order)
    flat.meta["val"] = lying.meta["val"].reshape(-1)
    for new in (lying, flat, read):
        new.meta = {**node.meta, **new.meta}
    node.replace_all_uses_with(read)
    name = node.name
    graph.erase_node(node)
    read.name = name  # by which a signature may know it
    return True


def _is_plain_write(node: Node, begins: Begins) -> bool:
    """Whether `node` writes into the copy of a tensor that lies there row by row, as its decomposition takes it to."""
    source, _, _, offset = _arguments(node, 2)
    base = _owner(source)
    value, whole = source.meta["val"], base.meta["val"]
    lies_so = is_contiguous_or_false(value) and statically_known_true(value.numel() == whole.numel())
    return lies_so and _start(source, base, offset, begins) == (0 if offset is None else offset)


def _arguments(node: Node, first: int = 1) -> tuple[Node, Any, Any, Any]:
    """source, size, stride and offset. first: the number of the size among the arguments."""
    offset = node.args[first + 2] if len(node.args) > first + 2 else node.kwargs.get("storage_offset")
    return node.args[0], node.args[first], node.args[first + 1], offset  # type: ignore[return-value]


def _owner(node: Node) -> Node:
    """The tensor of which `node` is a view of views."""
    storage = node.meta["val"].untyped_storage()
    for other in node.all_input_nodes:
        value = other.meta.get("val")
        if isinstance(value, torch.Tensor) and value.untyped_storage() is storage:
            return _owner(other)
    return node


def _start(source: Node, base: Node, offset: Any, begins: Begins) -> Any:
    """The place of the first element read, in `base`; None where it is not known."""
    if offset is not None:
        first = begins(base) if base.op == "placeholder" else 0
        return offset if first == 0 else _difference(offset, first)
    return _difference(source.meta["val"].storage_offset(), base.meta["val"].storage_offset())


def _difference(place: Any, first: Any) -> int | None:
    found = place - first if first is not None and not isinstance(place, Node) else None
    return found if isinstance(found, int) else None


def _is_inside(size: Any, stride: Any, start: Any, base: torch.Tensor) -> bool:
    counts, steps = map(_hint, size), map(_hint, stride)
    spans = [(count - 1) * step for count, step in zip(counts, steps, strict=True)]
    last = _hint(start) + sum(spans)
    return any(span < 0 for span in spans) or (_hint(start) >= 0 and last < optimization_hint(base.numel()))


def _hint(value: Any) -> int:
    return optimization_hint(value.meta["val"] if isinstance(value, Node) else value)
