"""Right factors in the order in which kernels read them; of weights IREE computes that once, when it loads them."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir
from iree.compiler.dialects import arith, linalg, tensor

from .attention import Attention
from .panels import PanelProduct


def packed(matrix: ir.Value, product: PanelProduct) -> ir.Value:
    """[depth, columns] as [panels, depth, width], the last panel filled up with zeros."""
    count, depth, width = product.panels, product.depth, product.width
    element = matrix.type.element_type
    full = padded(matrix, [0, count * width - product.shape.columns])
    split = tensor.expand_shape(
        ir.RankedTensorType.get([depth, count, width], element),
        full,
        [[0], [1, 2]],
        [],
        [depth, count, width],
    )
    return linalg.transpose(
        split, outs=[tensor.empty([count, depth, width], element)], permutation=[1, 0, 2]
    ).result[0]


def packed_keys(keys: ir.Value, attention: Attention) -> ir.Value:
    """[heads, width, keys] as [heads, panels, width, keys of a panel]."""
    heads, width, count = keys.type.shape
    count_of_panels, panel, element = attention.panels, attention.panel, keys.type.element_type
    full = padded(keys, [0, 0, count_of_panels * panel - count])
    sizes = [heads, width, count_of_panels, panel]
    split = tensor.expand_shape(ir.RankedTensorType.get(sizes, element), full, [[0], [1], [2, 3]], [], sizes)
    empty = tensor.empty([heads, count_of_panels, width, panel], element)
    return linalg.transpose(split, outs=[empty], permutation=[0, 2, 1, 3]).result[0]


def padded(value: ir.Value, high: Sequence[int]) -> ir.Value:
    """`value` with so many zeros behind each dimension."""
    if not any(high):
        return value
    shape = [size + more for size, more in zip(value.type.shape, high, strict=True)]
    type_ = ir.RankedTensorType.get(shape, value.type.element_type)
    zero = arith.constant(value.type.element_type, 0.0)
    made = ir.Operation.create(
        "tensor.pad",
        results=[type_],
        operands=[value],
        attributes={
            "static_low": ir.DenseI64ArrayAttr.get([0] * len(shape)),
            "static_high": ir.DenseI64ArrayAttr.get(list(high)),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0]),
        },
        regions=1,
    )
    index = ir.IndexType.get()
    block = made.regions[0].blocks.append(*[index] * len(shape))
    with ir.InsertionPoint(block):
        ir.Operation.create("tensor.yield", operands=[zero])
    return made.results[0]
