"""From what refinement found wrong, in the child process, to the error that the user meets."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from .errors import InputError, PipelineError, Unsupported, UnsupportedError
from .source_lines import innermost_user_frame


def from_refinement(found: dict[str, Any]) -> PipelineError:
    """UnsupportedError for tensors without a type, else InputError: the program or a shape function is wrong.

    found: "heading", "unsupported" and "findings" (operator, problem, frames) from `pipeline.worker`.
    """
    grouped: dict[tuple[str, str], list[str | None]] = defaultdict(list)
    for finding in found["findings"]:
        grouped[finding["operator"], finding["problem"]].append(_line(finding["frames"]))
    listed = [
        Unsupported(operator, len(lines), problem, tuple(dict.fromkeys(filter(None, lines))))
        for (operator, problem), lines in grouped.items()
    ]
    if found["unsupported"]:
        advice = "give shape and dtype functions for the operators (shape_lib), or types to their results"
        return UnsupportedError(f"{found['heading']} {advice}", listed)
    return InputError("\n".join([found["heading"], *(f"  {item}" for item in listed)]))


def _line(frames: list[list[Any]]) -> str | None:
    return innermost_user_frame([(file, int(number)) for file, number in reversed(frames)])
