"""Keeps reads at computed places inside of memory (runs in the worker).

Eager raises on an index that is out of range. A compiled program cannot without waiting for the index (the assertions
that torch-mlir leaves are dropped by IREE), and reads wherever it points, which may end the process. So what is out of
range is read at the nearest place, as `bound_writes` does with writes.

Before:  %place = arith.index_cast %i : i64 to index;  tensor.extract %x[%place] : tensor<8xf32>
After:   %bounded = max(min(%place, 7), 0);  tensor.extract %x[%bounded] : tensor<8xf32>
"""

from __future__ import annotations

from iree.compiler import ir
from iree.compiler.dialects import arith, tensor

from .loop_operations import in_loops


def bound_reads(module: ir.Module) -> None:
    """Rewrites the loops of `module` in place."""
    with ir.Location.unknown(module.context):
        for op in in_loops(module, "tensor.extract"):
            for dim, place in enumerate(list(op.operands)[1:]):
                if _is_computed(place):
                    op.operands[dim + 1] = _bounded(op, dim, place)


def _is_computed(place: ir.Value) -> bool:
    return not isinstance(place.owner, ir.Block) and place.owner.operation.name == "arith.index_cast"


def _bounded(read: ir.Operation, dim: int, place: ir.Value) -> ir.Value:
    index = ir.IndexType.get()
    with ir.InsertionPoint(read.parent):
        size = tensor.dim(read.operands[0], arith.constant(index, dim))
        last = arith.subi(size, arith.constant(index, 1))
        first = arith.constant(index, 0)
    with ir.InsertionPoint(read):
        return arith.maxsi(arith.minsi(place, last), first)
