"""What is said of a pass that failed: the exception, the operation it was at, and both Python lines."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from torch_mlir import ir

from pipeline.shape_lib.locations import frames
from pipeline.shape_lib.refinement.operations import operator_name

_OWN = Path(__file__).resolve().parent


def describe(error: BaseException) -> str:
    """``KeyError: 'x' at aten.mul.Tensor (model.py:12), raised by dialect_passes/my_pass.py:40``."""
    if isinstance(error, ir.MLIRError):
        lines = [f"{d.location}: {d.message}" for d in error.error_diagnostics]
        return "\n".join(lines) or str(error)
    raised = traceback.extract_tb(error.__traceback__)
    by = f", raised by {_short(raised[-1].filename)}:{raised[-1].lineno}" if raised else ""
    return f"{type(error).__name__}: {error}{_operation_text(error.__traceback__)}{by}"


def _operation_text(trace: TracebackType | None) -> str:
    """The operation that the innermost frame having one works on: passes name it as a local variable."""
    found: ir.Operation | None = None
    while trace is not None:
        local = list(trace.tb_frame.f_locals.values())
        at = next((value for value in local if isinstance(value, (ir.Operation, ir.OpView))), None)
        if at is not None:
            found = at.operation
        trace = trace.tb_next
    return "" if found is None else _named(found)


def _named(op: ir.Operation) -> str:
    try:
        name, lines = operator_name(op), frames(op.location)
    except (RuntimeError, ValueError):
        # Erased meanwhile.
        return ""
    if not lines:
        return f" at {name}"
    file, line = next((frame for frame in lines if "site-packages" not in frame[0]), lines[0])
    return f" at {name} ({file}:{line})"


def _short(file: str) -> str:
    path = Path(file).resolve()
    return str(path.relative_to(_OWN.parent)) if path.is_relative_to(_OWN) else file
