"""`pipeline explain`: every operator of a model before compiling, how it is lowered, what is missing and where."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from . import child, shape_libraries
from .custom_calls import Choice
from .importer import import_program
from .probe import Probed, probe
from .program import Program
from .stages import OFFERED, passes_between
from .targets.target import Target, combined_ladder


@dataclass(frozen=True)
class Explanation:
    """What compiling would meet.

    operators: after capture and decomposition, the unsupported ones first.
    passes: what our passes changed, by name: how many places; empty where something is unsupported.
    custom_calls: what calls of custom operators get, with the number of calls.
    weights_bytes, state: what the artifact will hold. ladder: option sets that will be tried, in order.
    """

    operators: list[Probed]
    passes: dict[str, int]
    custom_calls: Counter[Choice]
    weights_bytes: int
    state: list[str]
    ladder: list[str]
    notes: list[str]

    @property
    def unsupported(self) -> list[Probed]:
        """The operators that cannot be compiled."""
        return [item for item in self.operators if item.problem is not None]


def explain_program(
    program: Program,
    targets: tuple[Target, ...],
    limits: child.Limits,
    libraries: Sequence[str] = (),
    disabled: Sequence[str] = OFFERED,
) -> Explanation:
    """Tries each distinct operation of the program alone, in a child process, and then our passes on all of it."""
    module = import_program(program)
    with tempfile.TemporaryDirectory(prefix="pipeline-") as name:
        folder = Path(name)
        shape_libraries.write(folder, libraries)
        with (folder / "torch.mlirbc").open("wb") as file:
            module.operation.write_bytecode(file)
        operators = probe(folder, limits)
        supported = all(item.problem is None for item in operators)
        passes = _count_changes(folder, limits, disabled) if supported else {}
    tensors = [*program.weights.values(), *program.state.values()]
    return Explanation(
        operators=operators,
        passes=passes,
        custom_calls=Counter(program.choices),
        weights_bytes=sum(tensor.numel() * tensor.element_size() for tensor in tensors),
        state=list(program.state),
        ladder=[rung.name for rung in combined_ladder(targets)],
        notes=[*program.notes, *(target.note for target in targets if target.note)],
    )


def _count_changes(folder: Path, limits: child.Limits, disabled: Sequence[str]) -> dict[str, int]:
    """How many places each pass of ours changes, of those that count them."""
    stages = passes_between("torch", "linalg", shape_libraries.written(folder), disabled)
    result = child.run_job(folder, {"task": "lower", "input": "torch.mlirbc", "stages": stages}, limits)
    return {} if isinstance(result, child.Outcome) else result.get("changes", {})


def count_captured(program: Program) -> Counter[str]:
    """Operator -> number of calls over all entry points, as captured."""
    return Counter(
        str(node.target)
        for entry in program.entries.values()
        for node in entry.module.graph.nodes
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
    )
