"""Drops assertions inside of loops over tensors (runs in the worker).

They are torch-mlir's own (`1 / x` of a zero "unimplemented", where eager gives infinity) and never fail a call: code of
a device cannot. But as long as they stand there, loops are not fused over them, their conditions are computed apart,
and IREE's fusion of some chains of them (`polygamma` of int32) does not end.

Before:  linalg.generic { ... cf.assert %nonzero, "unimplemented: ..."; %y = arith.divf %one, %x ... }
After:   linalg.generic { ... %y = arith.divf %one, %x ... }
"""

from __future__ import annotations

from iree.compiler import ir

from .loop_operations import in_loops


def drop_loop_assertions(module: ir.Module) -> None:
    """Rewrites the loops of `module` in place."""
    for op in in_loops(module, "cf.assert"):
        op.erase()
