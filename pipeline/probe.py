"""Which operators of a captured program can be lowered: each distinct operation is tried alone.

torch-mlir stops at the first operation it cannot lower. To name all of them at once, every distinct
operation (name, types, constant operands) becomes a function of its own and goes through the lowering by
itself, in a child: one that crashes the compiler is marked and the rest goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import child
from .errors import Unsupported
from .stages import REASON

if TYPE_CHECKING:
    from torch_mlir import ir

# Crashes are rare; beyond this many something else is wrong.
_MOST_CRASHES = 20


@dataclass
class Probed:
    """One operator with its distinct uses: how it lowers, or why not, and the user's lines."""

    operator: str
    count: int
    lowers_to: list[str]
    problem: str | None
    lines: list[str] = field(default_factory=list)


def probe(folder: Path, limits: child.Limits) -> list[Probed]:
    """Tries every operation of `folder`'s torch module. Raises nothing: a crash is a finding."""
    crashed: dict[str, str] = {}
    progress = folder / "probing"
    result: Any = None
    for _ in range(_MOST_CRASHES):
        progress.unlink(missing_ok=True)
        result = child.run_job(folder, {"task": "probe", "crashed": crashed}, limits)
        if not isinstance(result, child.Outcome):
            break
        if not progress.exists() or result.out_of_memory:
            return []  # which says nothing of operators
        crashed[progress.read_text()] = result.problem or "no result"
    if isinstance(result, child.Outcome):
        return []
    return _by_operator(result["operations"])


def find_unsupported(folder: Path, limits: child.Limits) -> list[Unsupported]:
    """Every operator of `folder`'s torch module that does not lower."""
    return [
        Unsupported(item.operator, item.count, item.problem, tuple(item.lines))
        for item in probe(folder, limits)
        if item.problem is not None
    ]


def has_unknown(module: ir.Module) -> bool:
    """Whether some operator of `module` is none of torch-mlir's, so that lowering is bound to fail."""
    from .dialect_passes.scalars import BODIES

    # Quantised operators arrive unregistered too, and torch-mlir matches them by name; so does a pass of ours.
    return any(
        op.operation.name == "torch.operator"
        and "torch.quantized_decomposed." not in str(op.attributes["name"])
        and (op.attributes["name"].value not in BODIES or REASON in op.attributes)
        for function in module.body.operations
        for block in function.regions[0].blocks
        for op in block.operations
    )


def _by_operator(operations: list[dict[str, Any]]) -> list[Probed]:
    from .source_lines import innermost_user_frame

    merged: dict[tuple[str, str | None], Probed] = {}
    for operation in operations:
        key = (operation["operator"], operation["problem"])
        item = merged.setdefault(key, Probed(operation["operator"], 0, [], operation["problem"]))
        item.count += operation["count"]
        item.lowers_to = sorted({*item.lowers_to, *operation["lowers_to"]})
        for frames in operation["frames"]:
            line = innermost_user_frame([(file, int(number)) for file, number in reversed(frames)])
            if line and line not in item.lines:
                item.lines.append(line)
    return sorted(merged.values(), key=lambda item: (item.problem is None, item.operator))
