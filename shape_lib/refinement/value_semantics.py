"""From tensors that may be changed in place (``!torch.tensor``) to values (``!torch.vtensor``)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from torch_mlir import ir
from torch_mlir.passmanager import PassManager


def needs_values(module: ir.Module) -> bool:
    """Whether some operation gives a tensor that may be changed in place."""
    found = False

    def look(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found |= any(str(result.type).startswith("!torch.tensor") for result in op.operation.results)
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return found


def make_values(module: ir.Module, operators: Iterable[str]) -> None:
    """Rewrites `module`, in place. operators: those outside torch-mlir that change nothing (``mylib.f``).

    What is changed in place all the same stays as it is.
    """
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "value_semantics.mlir"
        library.write_text(_library(operators))
        passes = (
            f"func.func(torch-reduce-op-variants{{extra-library={library}}},canonicalize,"
            "torch-maximize-value-semantics),torch-refine-public-return,func.func(canonicalize)"
        )
        PassManager.parse(f"builtin.module({passes})").run(module.operation)


def _library(operators: Iterable[str]) -> str:
    names = sorted({operator.removesuffix(".default") for operator in operators})
    return "\n".join(
        f'func.func private @"__torch_mlir_has_value_semantics_fn.torch.{name}"() {{ return }}'
        for name in names
    )
