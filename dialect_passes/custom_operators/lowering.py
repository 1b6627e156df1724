"""`Lowering`: one way to compile the calls of a custom operator for some targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from .declared import Declared
from .errors import CustomOperatorError

if TYPE_CHECKING:
    from .call_types import CallTypes
    from .declaration import CustomOp

TARGETS = ("cpu", "vulkan", "cuda")

MEANING = "meaning"
"""Names, among an operator's lowerings, its meaning inlined."""

Form = Literal["native", "linalg", "torch"]


class LoweringError(CustomOperatorError, ValueError):
    """A kernel or lowering function is wrong: the message names it and says what to do."""


class Refused(Exception):
    """Raised by launch and lowering functions for a call they do not take: another lowering then does.

    The message says why; ``pipeline explain`` shows it.
    """


class TargetLike(Protocol):
    """What a lowering needs of a target. device: "cpu", "vulkan", "cuda"; architecture: in IREE's spelling."""

    @property
    def device(self) -> str: ...
    @property
    def architecture(self) -> str: ...


class Lowering(ABC):
    """One way to compile calls.

    targets: devices it serves. title: for ``pipeline explain``. declared: its function.
    identity: what tells it from the operator's other lowerings.
    """

    targets: tuple[str, ...]
    form: Form
    title: str
    declared: Declared
    identity: tuple[str, ...]

    @abstractmethod
    def refuses(self, call: CallTypes) -> str | None:
        """Why it does not take this call, or None. Raises LoweringError for a broken launch function."""

    @abstractmethod
    def define(self, symbol: str, call: CallTypes, target: TargetLike | None, folder: Path | None) -> str:
        """MLIR text that defines ``func.func private @symbol`` with the call's tensors, and what it needs.

        symbol: unique in the module; further symbols are derived from it. folder: takes object files, which the
        text refers to by name. target and folder are None for the form torch, whose text serves all targets.
        Raises LoweringError for source or IR that is wrong.
        """

    def features(self, call: CallTypes) -> tuple[str, ...]:
        """What this call needs of a device beyond what the types of its tensors need (Vulkan's names)."""
        return ()


def check_targets(names: tuple[str, ...], what: str) -> None:
    """Raises LoweringError for a target that does not exist, and for none."""
    wrong = [name for name in names if name not in TARGETS]
    if wrong or not names:
        found = f"'{wrong[0]}' is no target" if wrong else "no target is named"
        raise LoweringError(f"{what}: {found}; choose from {', '.join(TARGETS)}")


def register(op: CustomOp, lowering: Lowering) -> None:
    """Appends a lowering to the operator's; the same one again, from a notebook cell run twice, is replaced.

    Raises LoweringError for two lowerings in one file that cannot be told apart.
    """
    former = [other for other in op.lowerings if other.identity == lowering.identity]
    for other in former:
        place, old = lowering.declared, other.declared
        if place.file == old.file and place.line != old.line:
            raise LoweringError(
                f"{op.name} has two lowerings for {', '.join(lowering.targets)} called '{place.function}' ({old} and "
                f"{place}); give the functions different names"
            )
    op.lowerings[:] = [other for other in op.lowerings if other not in former]
    op.lowerings.append(lowering)
