"""torch-mlir's own shape and dtype functions, which its Python bindings do not hand out."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.passmanager import PassManager


def stock_functions(operators: Sequence[str], context: ir.Context) -> ir.Module:
    """A module with torch-mlir's functions of the operators (``aten.mul.Tensor``) and all that they call.

    Its reify passes copy the functions that a module needs into it; so this asks for them with a module that
    calls the operators. The calls have no operands and the result is not valid IR: only its functions count.
    """
    with context, ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            asking = ir.Operation.create(
                "func.func",
                attributes={
                    "sym_name": ir.StringAttr.get("ask"),
                    "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [])),
                },
                regions=1,
            )
        with ir.InsertionPoint(asking.regions[0].blocks.append()):
            for operator in operators:
                ir.Operation.create(
                    "torch.operator",
                    [ir.Type.parse("!torch.vtensor")],
                    attributes={"name": ir.StringAttr.get(operator)},
                    regions=0,
                )
            ir.Operation.create("func.return")
        for kind in ("shape", "dtype"):
            passes = PassManager.parse(f"builtin.module(torch-reify-{kind}-calculations)")
            passes.enable_verifier(False)
            passes.run(module.operation)
        asking.erase()
        return module
