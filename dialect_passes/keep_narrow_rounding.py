"""keep-narrow-rounding: a value that was rounded to float16 or bfloat16 stays rounded when it is read again.

IREE computes bf16 in f32 and drops the conversions between operations of one loop (`iree-convert-bf16-arith-to-f32`);
LLVM turns f32 products and sums between f16 conversions into f16 ones and joins these. Both would keep digits that
eager rounds away. A bf16 is therefore read by its bits, which is what widening is on a machine, and an f16 rounded
by an instruction that says how it rounds, which LLVM leaves where it is.

Before:  %w = arith.extf %x : bf16 to f32          %h = arith.truncf %y : f32 to f16
After:   %i = arith.bitcast %x : bf16 to i16       %h = arith.truncf %y to_nearest_even : f32 to f16
         %u = arith.extui %i : i16 to i32
         %s = arith.shli %u, %c16 : i32
         %w = arith.bitcast %s : i32 to f32

The operands of matrix products and convolutions keep their `arith.extf`, by which IREE sees that they are narrow.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch_mlir import ir

# What looks at a bf16 value; everything else passes one on, or computes and is rounded when that is read.
_READERS = ("arith.extf", "arith.cmpf", "arith.fptosi", "arith.fptoui")

_PASS_ON = (
    "tensor.cast",
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "tensor.extract_slice",
    "tensor.insert_slice",
    "tensor.pad",
    "linalg.transpose",
    "linalg.broadcast",
)


def run(module: ir.Module) -> int:
    """Changes `module` in place. Returns the number of operations that it changed."""
    with module.context, ir.Location.unknown():
        for op in _found(module, ("linalg.generic",)):
            _separate_product(op)
        return sum(
            _name_rounding(op) if op.name == "arith.truncf" else _read_bits(op)
            for op in _found(module, (*_READERS, "arith.truncf"))
        )


def _found(module: ir.Module, names: tuple[str, ...]) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def collect(op: ir.Operation) -> ir.WalkResult:
        if op.operation.name in names:
            found.append(op.operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect)
    return found


def _separate_product(op: ir.Operation) -> None:
    """Gives what else reads a tensor that was widened for a product a widening of its own."""
    if not _only_widens(op):
        return
    others = [(use.owner.operation, use.operand_number) for use in op.results[0].uses]
    others = [(user, k) for user, k in others if not _reaches_product(user)]
    if others and _feeds_product(op):
        own = op.clone(ir.InsertionPoint(op))
        for user, k in others:
            user.operands[k] = own.results[0]


def _only_widens(op: ir.Operation) -> bool:
    return op.name == "linalg.generic" and [inner.name for inner in _body(op)] == [
        "arith.extf",
        "linalg.yield",
    ]


def _body(op: ir.Operation) -> Iterator[ir.Operation]:
    return (inner.operation for inner in op.regions[0].blocks[0].operations)


def _feeds_product(op: ir.Operation) -> bool:
    return any(_reaches_product(use.owner.operation) for result in op.results for use in result.uses)


def _reaches_product(op: ir.Operation) -> bool:
    """Whether `op` is a product or a convolution, or only hands its operand on to one."""
    if op.name in _PASS_ON or (
        op.name == "linalg.generic" and [i.name for i in _body(op)] == ["linalg.yield"]
    ):
        return _feeds_product(op)
    return _is_product(op)


def _is_product(op: ir.Operation) -> bool:
    if not op.name.startswith("linalg.") or op.name == "linalg.yield":
        return False
    if op.name != "linalg.generic":
        return len(op.operands) > 2
    inputs = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[0]
    return inputs > 1 and "reduction" in str(op.attributes["iterator_types"])


def _name_rounding(op: ir.Operation) -> bool:
    if not isinstance(op.operands[0].type, ir.F32Type) or not isinstance(op.results[0].type, ir.F16Type):
        return False
    op.attributes["roundingmode"] = ir.Attribute.parse("0 : i32")
    return True


def _read_bits(op: ir.Operation) -> bool:
    loop = op.parent
    if not isinstance(op.operands[0].type, ir.BF16Type):
        return False
    if loop is not None and (_is_product(loop) or (_only_widens(loop) and _feeds_product(loop))):
        return False
    with ir.InsertionPoint(op), op.location:
        wide = [_widened(operand) for operand in op.operands]
        if op.name == "arith.extf" and isinstance(op.results[0].type, ir.F32Type):
            op.results[0].replace_all_uses_with(wide[0])
            op.erase()
        else:
            for k, value in enumerate(wide):
                op.operands[k] = value
    return True


def _widened(value: ir.Value) -> ir.Value:
    i16, i32 = (ir.IntegerType.get_signless(width) for width in (16, 32))
    sixteen = ir.Operation.create("arith.constant", [i32], attributes={"value": ir.IntegerAttr.get(i32, 16)})
    bits = _create("arith.bitcast", i16, value)
    high = _create("arith.shli", i32, _create("arith.extui", i32, bits), sixteen.result)
    return _create("arith.bitcast", ir.F32Type.get(), high)


def _create(name: str, type_: ir.Type, *operands: ir.Value) -> ir.Value:
    return ir.Operation.create(name, [type_], list(operands)).result
