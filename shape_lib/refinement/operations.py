"""The operations of a program: all of them, their operators' names, and what is said about them."""

from __future__ import annotations

from collections.abc import Iterator

from torch_mlir import ir

from ..errors import Finding
from ..locations import frames


def every_operation(module: ir.Module) -> Iterator[ir.Operation]:
    """All operations inside the functions of `module`, in the program's order."""
    for function in module.body.operations:
        yield from operations_in(function.operation)


def operations_in(outer: ir.Operation) -> Iterator[ir.Operation]:
    """All operations inside the regions of `outer`, in order."""
    for region in outer.regions:
        for block in region.blocks:
            for op in block.operations:
                yield op.operation
                yield from operations_in(op.operation)


def functions(module: ir.Module) -> dict[str, ir.Operation]:
    """The functions of `module` by symbol, in order."""
    return {
        ir.StringAttr(op.attributes["sym_name"]).value: op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
    }


def operator_name(op: ir.Operation) -> str:
    """The operator as PyTorch writes it: ``aten.add.Tensor``, ``mylib.f``."""
    name = ir.StringAttr(op.attributes["name"]).value if op.name == "torch.operator" else op.name
    return name.removeprefix("torch.").removeprefix("valsem.")


def lists_tensors(type_: ir.Type) -> bool:
    """Whether it is the type of a list of tensors."""
    return str(type_).startswith(("!torch.list<tensor", "!torch.list<vtensor"))


def finding(op: ir.Operation, problem: str) -> Finding:
    """`problem` of the operation, with its place in the program."""
    return Finding(operator_name(op), problem, tuple(frames(op.location) or _frames_of_call(op)))


def _frames_of_call(op: ir.Operation) -> list[tuple[str, int]]:
    """Where the function that `op` is in is called, for functions that were written, not captured."""
    function = op.parent
    while function is not None and function.operation.name != "func.func":
        function = function.operation.parent
    if function is None or function.operation.parent is None:
        return []
    symbol = ir.StringAttr(function.operation.attributes["sym_name"]).value
    for call in every_operation(function.operation.parent.opview):
        if call.name == "func.call" and ir.FlatSymbolRefAttr(call.attributes["callee"]).value == symbol:
            return frames(call.location)
    return []
