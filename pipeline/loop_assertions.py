"""Drops assertions inside of loops over tensors (runs in the worker).

They are torch-mlir's own (`1 / x` of a zero "unimplemented", where eager gives infinity) and never fail a call: code of
a device cannot. But as long as they stand there, loops are not fused over them, their conditions are computed apart,
and IREE's fusion of some chains of them (`polygamma` of int32) does not end.

Before:  linalg.generic { ... cf.assert %nonzero, "unimplemented: ..."; %y = arith.divf %one, %x ... }
After:   linalg.generic { ... %y = arith.divf %one, %x ... }
"""

from __future__ import annotations

from iree.compiler import ir


def drop_loop_assertions(module: ir.Module) -> None:
    """Rewrites the loops of `module` in place."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "cf.assert" and op.parent.name == "linalg.generic":
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in found:
        op.erase()
