"""Bounds for dynamic sizes in programs with control flow (runs in the worker).

IREE packs the values that a loop or branch carries into one allocation, at offsets that it computes from their
sizes. Its analysis of integer ranges takes the aligned sum of sizes without bounds for 0, since the largest number
wraps round when it is aligned, and folds the offset: every value but the first is then read from the wrong place,
in silence. Sizes whose product cannot overflow are analysed rightly.

Before:  func.func @main(%x: tensor<?x?xf32>) { ... scf.for ... }
After:   %n = util.assume.int %dim<umin = 0, umax = 268435455> : index   (and likewise for the other)
         %bounded = flow.tensor.tie_shape %x : tensor<?x?xf32>{%n, %m}
"""

from __future__ import annotations

from iree.compiler import ir

# The bytes of a tensor, and sums of a few, are then far from overflowing 63 bits.
_BITS = 56
_CONTROL_FLOW = ("scf.if", "scf.while", "scf.for")


def bound_sizes(module: ir.Module, functions: list[ir.Operation]) -> None:
    """Gives the dynamic sizes of the arguments of `functions` upper bounds, if `module` has control flow."""
    if not _has_control_flow(module):
        return
    dynamic = [
        (argument, dims)
        for function in functions
        for argument in function.regions[0].blocks[0].arguments
        if (dims := _dynamic_dims(argument.type))
    ]
    # A dimension of one argument may meet those of another in a result.
    factors = max([2, *(len(dims) for _, dims in dynamic)])
    for argument, dims in dynamic:
        _bound(argument, dims, 2 ** (_BITS // factors) - 1)


def _dynamic_dims(type_: ir.Type) -> list[int]:
    if not isinstance(type_, ir.RankedTensorType):
        return []
    return [dim for dim in range(type_.rank) if type_.is_dynamic_dim(dim)]


def _has_control_flow(module: ir.Module) -> bool:
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found = found or op.name in _CONTROL_FLOW
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _bound(argument: ir.BlockArgument, dims: list[int], largest: int) -> None:
    """Ties the argument to bounded sizes."""
    uses = list(argument.uses)
    with ir.InsertionPoint.at_block_begin(argument.owner):
        sizes = [_size(argument, dim, largest) for dim in dims]
        tied = ir.Operation.create("flow.tensor.tie_shape", [argument.type], [argument, *sizes]).result
    for use in uses:
        use.owner.operands[use.operand_number] = tied


def _size(tensor: ir.Value, dim: int, largest: int) -> ir.Value:
    index = ir.IndexType.get()
    number = ir.Operation.create(
        "arith.constant", [index], attributes={"value": ir.IntegerAttr.get(index, dim)}
    ).result
    size = ir.Operation.create("tensor.dim", [index], [tensor, number]).result
    bounds = ir.Attribute.parse(f"[[#util.int.assumption<umin = 0, umax = {largest}>]]")
    return ir.Operation.create("util.assume.int", [index], [size], {"assumptions": bounds}).result
