"""What stands directly inside of loops over tensors (`linalg.generic`); other loops are ours and look where they go."""

from __future__ import annotations

from iree.compiler import ir


def in_loops(module: ir.Module, name: str) -> list[ir.Operation]:
    """The operations `name` in the loops of `module`, in order; a list, so that they may be replaced."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == name and op.parent.name == "linalg.generic":
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found
