"""The errors a user meets, and the one place that maps every room's exceptions to messages and exit codes.

Exit codes: 0 right, 1 `verify` found a mismatch, 2 usage or bad input, 3 unsupported, 4 internal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.dialect_passes.custom_operators.errors import CheckError, CustomOperatorError
from pipeline.runtime.errors import RuntimeRoomError

from .shape_lib.errors import RefinementError, UnrefinedError
from .shape_lib.importer.errors import ShapeLibraryError

EXIT_MISMATCH = 1
EXIT_USAGE = 2
EXIT_UNSUPPORTED = 3
EXIT_INTERNAL = 4


class PipelineError(Exception):
    """Base of the errors `pipeline` raises on purpose."""

    exit_code = EXIT_INTERNAL


class InputError(PipelineError, ValueError):
    """An argument, a model file or an option is wrong; the message names it and says what to do."""

    exit_code = EXIT_USAGE


@dataclass(frozen=True)
class Unsupported:
    """An operator that cannot be compiled: its name, how often it occurs, why, and the user's lines."""

    operator: str
    count: int
    reason: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        where = ", ".join(self.lines[:4]) + (
            f" and {len(self.lines) - 4} more" if len(self.lines) > 4 else ""
        )
        return f"{self.operator} x{self.count}: {self.reason}" + (f" (at {where})" if where else "")


class UnsupportedError(PipelineError):
    """The model uses what cannot be compiled; `operators` lists all of it at once."""

    exit_code = EXIT_UNSUPPORTED

    def __init__(self, message: str, operators: Sequence[Unsupported] = ()) -> None:
        super().__init__("\n".join([message, *(f"  {operator}" for operator in operators)]))
        self.operators = tuple(operators)


class InternalError(PipelineError):
    """A compiler failed, crashed, hung or ran out of memory; `reproducer` is the folder that shows it again."""

    def __init__(self, message: str, reproducer: str | None = None) -> None:
        super().__init__(message + (f"\nreproducer: {reproducer}" if reproducer else ""))
        self.reproducer = reproducer


ON_PURPOSE = (PipelineError, RuntimeRoomError, CustomOperatorError, RefinementError, ShapeLibraryError)
"""What the rooms raise with a message for the user; anything else is a failure of ours."""


def exit_code(error: BaseException) -> int:
    """The command's exit code for an exception of any room."""
    if isinstance(error, PipelineError):
        return error.exit_code
    if isinstance(error, CheckError):
        return EXIT_MISMATCH
    if isinstance(error, UnrefinedError):
        return EXIT_UNSUPPORTED
    return EXIT_USAGE if isinstance(error, ON_PURPOSE) else EXIT_INTERNAL
