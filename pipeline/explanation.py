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
from .targets.target import Target, combined_ladder


@dataclass(frozen=True)
class Explanation:
    """What compiling would meet.

    operators: after capture and decomposition, the unsupported ones first.
    custom_calls: what calls of custom operators get, with the number of calls.
    weights_bytes, state: what the artifact will hold. ladder: option sets that will be tried, in order.
    """

    operators: list[Probed]
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
    program: Program, targets: tuple[Target, ...], limits: child.Limits, libraries: Sequence[str] = ()
) -> Explanation:
    """Tries each distinct operation of the program alone, in a child process."""
    module = import_program(program)
    with tempfile.TemporaryDirectory(prefix="pipeline-") as name:
        folder = Path(name)
        shape_libraries.write(folder, libraries)
        with (folder / "torch.mlirbc").open("wb") as file:
            module.operation.write_bytecode(file)
        operators = probe(folder, limits)
    tensors = [*program.weights.values(), *program.state.values()]
    return Explanation(
        operators=operators,
        custom_calls=Counter(program.choices),
        weights_bytes=sum(tensor.numel() * tensor.element_size() for tensor in tensors),
        state=list(program.state),
        ladder=[rung.name for rung in combined_ladder(targets)],
        notes=[*program.notes, *(target.note for target in targets if target.note)],
    )


def count_captured(program: Program) -> Counter[str]:
    """Operator -> number of calls over all entry points, as captured."""
    return Counter(
        str(node.target)
        for entry in program.entries.values()
        for node in entry.module.graph.nodes
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
    )
