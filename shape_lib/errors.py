"""What refinement finds wrong. The places in a program are frames (file, line), from the innermost outwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Frames = tuple[tuple[str, int], ...]


class RefinementError(Exception):
    """Base of what refinement and its verifier raise."""


class LibraryTextError(RefinementError):
    """A library is missing, is no valid IR, or defines what another one defines."""


@dataclass(frozen=True)
class Finding:
    """One operation of the program with what is wrong about it, and where the program calls it."""

    operator: str
    problem: str
    frames: Frames = ()

    def __str__(self) -> str:
        # Rooms above know which of the frames is the user's.
        at = f" (at {self.frames[0][0]}:{self.frames[0][1]})" if self.frames else ""
        return f"{self.operator}: {self.problem}{at}"


class FindingsError(RefinementError):
    """An error that lists all of its kind at once."""

    heading = ""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join([self.heading, *(f"  {finding}" for finding in findings)]))
        self.findings = tuple(findings)


class UnrefinedError(FindingsError):
    """Tensors whose rank or dtype nothing tells."""

    heading = "the rank or dtype of these results is unknown:"


class ShapeCheckError(FindingsError):
    """Calls for which a shape or dtype function must raise: the program is wrong, or the function is."""

    heading = "these operators cannot take their arguments:"


class LibraryFunctionError(FindingsError):
    """Library functions that do not fit their operator: other arguments, other results, no sizes."""

    heading = "these shape or dtype functions do not fit their operators:"
