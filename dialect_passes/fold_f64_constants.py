"""fold-f64-constants: Python numbers lose the f64 that torch-mlir gives them where a tensor is narrower.

A number like the epsilon of a norm arrives as an f64 constant that each element narrows anew, and a
comparison with one widens each element. GPUs without f64 refuse both, and the others are slow at it.

Before:  %c = arith.constant 1.000000e-05 : f64        %w = arith.extf %x : f32 to f64
         %e = arith.truncf %c : f64 to f32             %b = arith.cmpf oeq, %w, %inf : f64
After:   %e = arith.constant 9.99999974E-6 : f32       %b = arith.cmpf oeq, %x, %inf32 : f32

The first rounds once, at compile time, as each element would have; the second happens only where the
constant is exact in the narrow type, so that the comparison says the same.
"""

from __future__ import annotations

from torch_mlir import ir


def run(module: ir.Module) -> None:
    """Rewrites every operation of `module` in place."""
    found: list[ir.Operation] = []

    def collect(op: ir.Operation) -> ir.WalkResult:
        if op.operation.name in ("arith.truncf", "arith.cmpf"):
            found.append(op.operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect)
    for op in found:
        if op.name == "arith.truncf":
            _fold_truncation(op)
        else:
            _narrow_comparison(op)


def _fold_truncation(op: ir.Operation) -> None:
    value, narrow = _f64_constant(op.operands[0]), op.results[0].type
    if value is None or not isinstance(narrow, (ir.F32Type, ir.F16Type, ir.BF16Type)):
        return
    with ir.InsertionPoint(op), op.location:
        constant = _constant(narrow, value)
    op.results[0].replace_all_uses_with(constant)
    op.erase()


def _narrow_comparison(op: ir.Operation) -> None:
    sources = [_widened(operand) for operand in op.operands]
    narrow = next((source.type for source in sources if source is not None), None)
    if narrow is None:
        return
    with ir.InsertionPoint(op), op.location:
        operands = [
            source if source is not None else _exact(operand, narrow)
            for source, operand in zip(sources, op.operands, strict=True)
        ]
        if any(operand is None or operand.type != narrow for operand in operands):
            return
        attributes = {name: op.attributes[name] for name in op.attributes}
        new = ir.Operation.create("arith.cmpf", [op.results[0].type], operands, attributes)
    op.results[0].replace_all_uses_with(new.result)
    op.erase()


def _widened(value: ir.Value) -> ir.Value | None:
    """What `value` was before it was widened to f64, None where it was not."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "arith.extf":
        return None
    return owner.operation.operands[0] if isinstance(value.type, ir.F64Type) else None


def _exact(value: ir.Value, narrow: ir.Type) -> ir.Value | None:
    """A constant of the type `narrow` equal to the constant `value`, None where there is none."""
    wide = _f64_constant(value)
    if wide is None:
        return None
    attribute = ir.FloatAttr.get(narrow, wide)
    # NaN differs from itself: its comparison stays as it is.
    return _constant(narrow, wide) if attribute.value == wide else None


def _f64_constant(value: ir.Value) -> float | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "arith.constant":
        return None
    attribute = owner.operation.attributes["value"]
    if not isinstance(value.type, ir.F64Type):
        return None
    return ir.FloatAttr(attribute).value


def _constant(type_: ir.Type, value: float) -> ir.Value:
    attribute = ir.FloatAttr.get(type_, value)
    return ir.Operation.create("arith.constant", [type_], attributes={"value": attribute}).result
