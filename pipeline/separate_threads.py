"""Keeps threads of a Vulkan shader from reading what others write, where `shared_threads` found some (in the worker).

Loops of depthwise convolutions take the order of their result, so that they and what fills it share out their work in
the same way. Whatever else is read in another way than it is written is computed in a dispatch of its own.

Before:  %r = linalg.depthwise_conv_2d_nchw_chw outs(%zeros)
         %s = linalg.generic (d0, d1) -> (d0) ins(%p[d1])
After:   %r = linalg.generic (n, c, y, x, j, i) -> (n, c, y, x) outs(%zeros)
         %held = util.optimization_barrier %p;  %s = linalg.generic (d0, d1) -> (d0) ins(%held[d1])
"""

from __future__ import annotations

import re

from iree.compiler import ir

from .tensor_views import viewed

# Channels first, and one filter for each channel.
_DEPTHWISE = re.compile(r"linalg\.depthwise_conv_[123]d_nc(d?h?w)_c\1")


def separate_threads(module: ir.Module) -> None:
    """Rewrites the functions of `module` in place."""
    with ir.Location.unknown(module.context):
        for function in module.body.operations:
            for region in function.operation.regions:
                for block in region.blocks:
                    _separate(block)


def _separate(block: ir.Block) -> None:
    operations = [op.operation for op in block.operations]
    for op in [_in_order_of_result(op) if _DEPTHWISE.fullmatch(op.name) else op for op in operations]:
        if op.name == "linalg.generic":
            _hold_operands(op)


def _in_order_of_result(op: ir.Operation) -> ir.Operation:
    """The convolution with the loops (image, channel, place..., tap...)."""
    rank = ir.RankedTensorType(op.operands[0].type).rank - 2
    strides, dilations = (_numbers(op.attributes[name]) for name in ("strides", "dilations"))
    dims = [ir.AffineDimExpr.get(i) for i in range(2 + 2 * rank)]
    image, channel, places, taps = dims[0], dims[1], dims[2 : 2 + rank], dims[2 + rank :]
    at = [p * s + t * d for p, s, t, d in zip(places, strides, taps, dilations, strict=True)]
    accesses = [[image, channel, *at], [channel, *taps], [image, channel, *places]]
    maps = [ir.AffineMapAttr.get(ir.AffineMap.get(len(dims), 0, exprs)) for exprs in accesses]
    kinds = ["parallel"] * (2 + rank) + ["reduction"] * rank
    attributes = {
        "indexing_maps": ir.ArrayAttr.get(maps),
        "iterator_types": ir.Attribute.parse(f"[{', '.join(f'#linalg.iterator_type<{k}>' for k in kinds)}]"),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([2, 1]),
    }
    with ir.InsertionPoint(op):
        types, operands = [value.type for value in op.results], list(op.operands)
        generic = ir.Operation.create(
            "linalg.generic", results=types, operands=operands, attributes=attributes, regions=1
        )
    op.regions[0].blocks[0].append_to(generic.regions[0])
    op.result.replace_all_uses_with(generic.result)
    op.erase()
    return generic


def _numbers(attribute: ir.Attribute) -> list[int]:
    return [int(number) for number in ir.DenseIntElementsAttr(attribute)]


def _hold_operands(op: ir.Operation) -> None:
    """Barriers before the operands that other loops compute than those that read them."""
    kinds = ir.ArrayAttr(op.attributes["iterator_types"])
    parallel = [i for i, kind in enumerate(kinds) if "parallel" in str(kind)]
    for number, item in enumerate(ir.ArrayAttr(op.attributes["indexing_maps"])):
        value = op.operands[number]
        exprs = ir.AffineMapAttr(item).value.results
        same = [e.position if isinstance(e, ir.AffineDimExpr) else None for e in exprs] == parallel
        if _is_computed(value) and not (same and viewed(value) == value):
            with ir.InsertionPoint(op):
                op.operands[number] = ir.Operation.create(
                    "util.optimization_barrier", results=[value.type], operands=[value]
                ).result


def _is_computed(value: ir.Value) -> bool:
    """Whether it is a tensor of several numbers that a loop computes.

    Not of a fill: IREE keeps one behind a barrier from call to call, and lets sums grow in it.
    """
    owner = viewed(value).owner
    if isinstance(owner, ir.Block) or not isinstance(value.type, ir.RankedTensorType):
        return False
    name = owner.operation.name
    return value.type.rank > 0 and name.startswith("linalg.") and name != "linalg.fill"
