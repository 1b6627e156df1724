"""Says the sizes of tensors where IREE forgets where they come from (runs in the worker).

What it cannot tell any more once its dispatches are formed is an error ("'tensor.dim' op unexpected during shape
cleanup"). It asks results for sizes of what they are written into, and does not see through a barrier at all.

Before:  %r = tm_tensor.scan ins(%x) outs(%e, %z);  %n = tensor.dim %r, %c0
         %held = util.optimization_barrier %t : tensor<?xf32>
After:   %n is the size that %e was made with
         %b = util.optimization_barrier %t : tensor<?xf32>;  %held = flow.tensor.tie_shape %b : tensor<?xf32>{%m}
"""

from __future__ import annotations

from iree.compiler import ir
from iree.compiler.dialects import arith, tensor

_HANDED_ON = ("util.optimization_barrier", "flow.tensor.tie_shape")


def tell_sizes(module: ir.Module) -> None:
    """Rewrites the functions of `module` in place."""
    with ir.Location.unknown(module.context):
        for barrier in _found(module, "util.optimization_barrier"):
            if _is_open(barrier.operands[0]) and list(barrier.result.uses):
                _tie(barrier)
        for size in _found(module, "tensor.dim"):
            _tell(size)


def _found(module: ir.Module, name: str) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == name:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _is_open(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType) and not value.type.has_static_shape


def _tie(barrier: ir.Operation) -> None:
    held, type_ = barrier.result, ir.RankedTensorType(barrier.result.type)
    uses = [(use.owner, use.operand_number) for use in held.uses]
    with ir.InsertionPoint(barrier):
        dims = [dim for dim in range(type_.rank) if type_.is_dynamic_dim(dim)]
        sizes = [tensor.dim(barrier.operands[0], arith.constant(ir.IndexType.get(), dim)) for dim in dims]
        tied = ir.Operation.create("flow.tensor.tie_shape", results=[type_], operands=[held, *sizes])
    tied.move_after(barrier)
    for owner, number in uses:
        owner.operands[number] = tied.result


def _tell(op: ir.Operation) -> None:
    source, dim = op.operands[0], _constant(op.operands[1])
    while (written := _written(source)) is not None:
        source = written
    made, type_ = source.owner, ir.RankedTensorType(source.type)
    if (
        dim is not None
        and not isinstance(made, ir.Block)
        and made.name == "tensor.empty"
        and type_.is_dynamic_dim(dim)
    ):
        before = sum(type_.is_dynamic_dim(axis) for axis in range(dim))
        op.results[0].replace_all_uses_with(made.operands[before])
        op.erase()
    else:
        op.operands[0] = source


def _constant(value: ir.Value) -> int | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    return ir.IntegerAttr(owner.attributes["value"]).value


def _written(value: ir.Value) -> ir.Value | None:
    """What the operation that returns `value` writes into, which has its sizes."""
    op = value.owner
    if isinstance(op, ir.Block):
        return None
    if op.name in _HANDED_ON:
        return op.operands[0]
    if op.name == "tensor.insert_slice":
        return op.operands[1]
    if op.name.startswith(("linalg.", "tm_tensor.")):
        outputs = list(op.operands)[-len(op.results) :]
        return outputs[ir.OpResult(value).result_number]
    return None
