"""What is known of a tensor in linalg: its sizes, whether it is zero, whether it is made of weights alone."""

from __future__ import annotations

from iree.compiler import ir
from iree.compiler.dialects import arith, linalg, tensor

from .views import Counts


def static_shape(type_: ir.Type) -> tuple[int, ...] | None:
    """The sizes of a tensor type; None where one is open or there are no elements."""
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape or 0 in type_.shape:
        return None
    return tuple(type_.shape)


def row_shape(type_: ir.Type, counts: Counts) -> Counts | None:
    """As `static_shape`, or (None, columns) where `counts` say that the number of rows is open."""
    is_matrix = isinstance(type_, ir.RankedTensorType) and type_.rank == 2
    if None in counts and is_matrix and type_.is_dynamic_dim(0) and not type_.is_dynamic_dim(1):
        return (None, type_.get_dim_size(1)) if type_.get_dim_size(1) else None
    return static_shape(type_)


def is_made_by(value: ir.Value, *names: str) -> bool:
    """Whether `value` is the result of an operation of one of these names."""
    return not isinstance(value.owner, ir.Block) and value.owner.name in names


def is_zeros(value: ir.Value) -> bool:
    """Whether `value` is a tensor filled with 0.0."""
    if not is_made_by(value, "linalg.fill"):
        return False
    filled = value.owner.operands[0]
    return is_made_by(filled, "arith.constant") and _is_zero(filled.owner)


def _is_zero(constant: ir.Operation) -> bool:
    attribute = constant.attributes["value"]
    return isinstance(attribute, ir.FloatAttr) and attribute.value == 0.0


def zeros(type_: ir.RankedTensorType) -> ir.Value:
    """A tensor of float zeros, made at the insertion point."""
    zero = arith.constant(type_.element_type, 0.0)
    return linalg.fill(zero, outs=[tensor.empty(list(type_.shape), type_.element_type)])


class Constants:
    """Which values depend on weights and constants only: IREE computes such once, when the program is loaded."""

    def __init__(self, function: ir.Operation) -> None:
        block = function.regions[0].blocks[0]
        attributes = [ir.DictAttr(item) for item in ir.ArrayAttr(function.attributes["arg_attrs"])]
        pairs = zip(block.arguments, attributes, strict=True)
        self._known = {argument for argument, own in pairs if "pipeline.weight" in own}
        for op in block.operations:
            if op.operation.name.startswith(_PURE) and all(value in self._known for value in op.operands):
                self._known.update(op.results)

    def __contains__(self, value: ir.Value) -> bool:
        return value in self._known


def erase_unused(op: ir.Operation) -> None:
    """Erases `op`, whose results nobody reads, and what is computed for it alone."""
    block, left = op.block, [op]
    while left:
        last = left.pop()
        owners = [value.owner.operation for value in last.operands if not isinstance(value.owner, ir.Block)]
        last.erase()
        for owner in dict.fromkeys(owners):
            used = any(True for result in owner.results for _ in result.uses)
            if owner not in left and owner.block == block and owner.name.startswith(_PURE) and not used:
                left.append(owner)


_PURE = ("linalg.", "tensor.", "arith.")
