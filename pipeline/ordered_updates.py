"""Keeps IREE from moving a write in front of earlier reads of the same memory (runs in the worker).

IREE computes what is inserted into a tensor in its place there (``iree-stream-emplace-allocations``). Where the tensor
inserted into is computed *after* the part, it moves that computation, with everything it needs, in front of the
part's. By then it has decided which operations work in place: one that does is moved past those that read its memory
before, which see the new values. So a part gets a barrier, which costs a copy of it, where the tensor it is inserted
into depends on such a write and the part itself does not.

A part that is computed from the tensor that it is inserted into gets one too (`inserted_reads.py`).

Before:  %r = <reads %a>;  %b = tensor.insert_slice %x into %a;  %w = <reads %b>;  tensor.concat dim(0) %w, %r
After:   ...                     %held = util.optimization_barrier %r;             tensor.concat dim(0) %w, %held
"""

from __future__ import annotations

from collections.abc import Iterator

from iree.compiler import ir

from .inserted_reads import Insertion
from .tensor_views import VIEWS, viewed

# What a value is handed through in the same memory.
_VIEWS = (*VIEWS, "util.optimization_barrier")
# Memory that nobody can have read before.
_FRESH = ("tensor.empty", "linalg.fill", "arith.constant")


def order_updates(module: ir.Module) -> None:
    """Rewrites the functions of `module` in place."""
    with ir.Location.unknown(module.context):
        for function in module.body.operations:
            for region in function.operation.regions:
                for block in region.blocks:
                    _order(block)


def _order(block: ir.Block) -> None:
    operations = [op.operation for op in block.operations]
    updates = [op for op in operations if op.name in ("tensor.concat", "tensor.insert_slice")]
    positions = {operation: number for number, operation in enumerate(operations)}
    for update in updates:
        if update.name == "tensor.insert_slice" and Insertion(update, positions).reads_its_target():
            with ir.InsertionPoint(update):
                update.operands[0] = _held(update.operands[0])
    for after in [_dependents(op) for op in operations if updates and _writes_what_is_read(op)]:
        for update in updates:
            _hold_parts(update, after)


def _hold_parts(update: ir.Operation, after: set[ir.Operation]) -> None:
    """Puts barriers before the parts that are not in `after`, what comes after a write, but whose target is."""
    for number, targets in _parts(update):
        part = update.operands[number]
        if any(_is_made_in(target, after) for target in targets) and not _is_made_in(part, after):
            with ir.InsertionPoint(update):
                update.operands[number] = _held(part)


def _parts(update: ir.Operation) -> Iterator[tuple[int, list[ir.Value]]]:
    """The numbers of the operands that are written into others' memory, and what must be there before."""
    operands = list(update.operands)
    if update.name == "tensor.insert_slice":
        yield 0, [operands[1]]
        return
    # IREE inserts the tensors of a concatenation one after the other.
    for number in range(1, len(operands)):
        yield number, operands[:number]


def _held(value: ir.Value) -> ir.Value:
    return ir.Operation.create("util.optimization_barrier", results=[value.type], operands=[value]).result


def _is_made_in(value: ir.Value, operations: set[ir.Operation]) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.operation in operations


def _writes_what_is_read(op: ir.Operation) -> bool:
    """Whether the operation may work in the memory of an operand that others read too."""
    return any(_is_read_elsewhere(op.operands[number], op) for number in _written(op))


def _written(op: ir.Operation) -> range:
    """The numbers of the operands in whose memory the operation may leave its results."""
    count = len(op.operands)
    if op.name == "tensor.insert_slice":
        return range(1, 2)
    if op.name in ("func.call", "flow.dispatch") or op.name.startswith("scf."):
        return range(count)
    if op.name.startswith(("linalg.", "tm_tensor.", "iree_linalg_ext.")) and op.name not in _FRESH:
        return range(count - len(op.results), count)
    return range(0)


def _is_read_elsewhere(value: ir.Value, writer: ir.Operation) -> bool:
    if not isinstance(value.type, ir.RankedTensorType):
        return False
    root = viewed(value, _VIEWS)
    if not isinstance(root.owner, ir.Block) and root.owner.operation.name in _FRESH:
        return False
    return any(user != writer for user in _readers(root))


def _readers(value: ir.Value) -> Iterator[ir.Operation]:
    """The operations that use `value` or a view of it."""
    for use in value.uses:
        user = use.owner.operation
        if user.name in _VIEWS:
            yield from _readers(user.results[0])
        elif user.name != "tensor.dim":
            yield user


def _dependents(op: ir.Operation) -> set[ir.Operation]:
    """The operation and all of its block that needs its results."""
    found, waiting = {op}, [op]
    while waiting:
        for result in waiting.pop().results:
            for use in result.uses:
                user = _in_block(use.owner.operation, op)
                if user not in found:
                    found.add(user)
                    waiting.append(user)
    return found


def _in_block(inner: ir.Operation, sibling: ir.Operation) -> ir.Operation:
    """The operation around `inner`, or `inner`, that stands in the block of `sibling`."""
    while inner.block != sibling.block:
        inner = inner.parent.operation
    return inner
