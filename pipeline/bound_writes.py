"""Keeps scatters inside of memory, and from reading what they have written (runs in the worker).

Eager raises on an index that is out of range. A compiled program cannot without waiting for the index, and IREE
writes wherever it points. So indices are limited to the tensor: what is out of range goes to the nearest place.

IREE fuses the computation of the updates into the scatter that works in place: where they come from the tensor that
is written into, they would be read after the write. Such updates get a barrier. So does a slice that is written into:
IREE does not distribute its copy in the dispatch of the scatter ("restricted to workgroup distributed contexts").

Before:  tm_tensor.scatter ins(%updates, %indices) outs(%x : tensor<8xf32>)
After:   %bounded = linalg.generic ins(%indices) { max(min(%index, 7), 0) };  tm_tensor.scatter ins(%updates, %bounded)
"""

from __future__ import annotations

from iree.compiler import ir
from iree.compiler.dialects import arith, linalg, tensor

from .tensor_views import VIEWS, viewed

_VIEWS = (*VIEWS, "tensor.extract_slice")
_STEPS = 64


def bound_writes(module: ir.Module) -> None:
    """Rewrites the functions of `module` in place."""
    with ir.Location.unknown(module.context):
        for op in _scatters(module):
            with ir.InsertionPoint(op):
                bounded = _bounded(op.operands[1], _limits(op))
                op.operands[1] = _held(bounded) if _are_open_pairs(bounded) else bounded
                root = viewed(op.operands[2], _VIEWS)
                if _comes_from(op.operands[0], root):
                    op.operands[0] = _held(op.operands[0])
                if root != viewed(op.operands[2], VIEWS):
                    op.operands[2] = _held(op.operands[2])


def _scatters(module: ir.Module) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "tm_tensor.scatter":
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _comes_from(value: ir.Value, root: ir.Value) -> bool:
    """Whether `value` is computed from `root` in few enough steps to be fused."""
    waiting = [value]
    for _ in range(_STEPS):
        if not waiting:
            return False
        value = waiting.pop()
        if value == root:
            return True
        if not isinstance(value.owner, ir.Block):
            waiting.extend(value.owner.operation.operands)
    return True


def _held(value: ir.Value) -> ir.Value:
    return ir.Operation.create("util.optimization_barrier", results=[value.type], operands=[value]).result


def _limits(scatter: ir.Operation) -> list[ir.Value]:
    """The last index along each dimension that is scattered into."""
    target = scatter.operands[2]
    index = ir.IndexType.get()
    element = ir.RankedTensorType(scatter.operands[1].type).element_type
    one = arith.constant(element, 1)
    limits = []
    for dim in ir.DenseI64ArrayAttr(scatter.attributes["dimension_map"]):
        size = tensor.dim(target, arith.constant(index, dim))
        limits.append(arith.subi(arith.index_cast(element, size), one))
    return limits


def _are_open_pairs(indices: ir.Value) -> bool:
    """With places of more than one number, and an open number of places, IREE puts all of them on the stack."""
    type_ = ir.RankedTensorType(indices.type)
    return type_.is_dynamic_dim(0) and type_.shape[1] != 1


def _bounded(indices: ir.Value, limits: list[ir.Value]) -> ir.Value:
    type_ = ir.RankedTensorType(indices.type)
    index = ir.IndexType.get()
    sizes = [tensor.dim(indices, arith.constant(index, d)) for d in range(2) if type_.is_dynamic_dim(d)]
    empty = ir.Operation.create("tensor.empty", results=[type_], operands=sizes).result
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(2))
    generic = ir.Operation.create(
        "linalg.generic",
        results=[type_],
        operands=[indices, empty],
        attributes={
            "indexing_maps": ir.ArrayAttr.get([identity, identity]),
            "iterator_types": ir.Attribute.parse(
                "[#linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>]"
            ),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1]),
        },
        regions=1,
    )
    element = type_.element_type
    block = generic.regions[0].blocks.append(element, element)
    with ir.InsertionPoint(block):
        limit = limits[0]
        column = ir.Operation.create(
            "linalg.index",
            results=[index],
            attributes={"dim": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 1)},
        ).result
        for number, other in enumerate(limits[1:], 1):
            here = arith.cmpi(arith.CmpIPredicate.eq, column, arith.constant(index, number))
            limit = arith.select(here, other, limit)
        below = arith.minsi(block.arguments[0], limit)
        linalg.YieldOp([arith.maxsi(below, arith.constant(element, 0))])
    return generic.result
