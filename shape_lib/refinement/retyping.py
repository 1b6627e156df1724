"""Giving a value a more precise type, with a cast for the users that insist on the old one."""

from __future__ import annotations

from torch_mlir import ir

from ..tensor_types import TensorInfo, build

# Operations whose operands may be of any tensor type. The others (terminators, calls, copies) tie the types of
# operands and results together.
_TAKES_ANY = (
    "torch.aten.",
    "torch.prims.",
    "torch.valsem.",
    "torch.quantized_decomposed.",
    "torch.operator",
    "torch.prim.ListConstruct",
    "torch.prim.dtype",
    "torch.tensor_static_info_cast",
    "torch.derefine",
)


def retype(value: ir.Value, info: TensorInfo) -> None:
    """Makes `info` the type of `value`, an operation's result. Needs an active MLIR context.

    A function that returns it returns the new type: its calls follow (`refinement.calls`).
    """
    old = value.type
    value.set_type(build(info))
    cast: ir.Value | None = None
    for use in list(value.uses):
        user = use.owner.operation
        if user.name.startswith(_TAKES_ANY):
            continue
        if user.name == "func.return":
            _retype_result(user.parent.operation, use.operand_number, value.type)
            continue
        cast = cast or _cast_behind(value, old)
        user.operands[use.operand_number] = cast


def _cast_behind(value: ir.Value, type_: ir.Type) -> ir.Value:
    owner = value.owner
    with ir.InsertionPoint.after(owner), owner.location:
        return ir.Operation.create("torch.tensor_static_info_cast", [type_], [value]).result


def _retype_result(function: ir.Operation, number: int, type_: ir.Type) -> None:
    old = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    results = list(old.results)
    results[number] = type_
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(old.inputs, results))
