"""verify-refined: every tensor must have a rank and a dtype; all that lack one are reported in one error."""

from __future__ import annotations

from torch_mlir import ir

from pipeline.shape_lib.verifier import verify_refined


def run(module: ir.Module) -> None:
    """Changes nothing. Raises UnrefinedError (of `shape_lib.errors`)."""
    verify_refined(module)
