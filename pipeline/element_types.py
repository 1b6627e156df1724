"""Which element types a lowered program computes with: a device may lack some (runs in the worker)."""

from __future__ import annotations

from torch_mlir import ir

# Of scalars alone, those that a device may be unable to compute with. A lone i1 is a condition.
_SCALARS = ("f64", "i64", "f16", "bf16", "i16", "i8")


def element_types(module: ir.Module) -> list[str]:
    """The element types of a linalg module's tensors and of the arithmetic on them: ``["f32", "i1"]``."""
    found: set[str] = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        arguments = [value for region in op.regions for block in region for value in block.arguments]
        for type_ in (value.type for value in [*op.results, *arguments]):
            if isinstance(type_, ir.RankedTensorType):
                found.add(str(type_.element_type))
            elif str(type_) in _SCALARS:
                found.add(str(type_))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return sorted(found)
