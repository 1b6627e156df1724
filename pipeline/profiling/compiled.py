"""Compiling such that what IREE's compiler says of a dispatch can be led back to the user's lines."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch.fx import Node

from pipeline import child
from pipeline.compiler import Options, compile_program
from pipeline.errors import InternalError
from pipeline.program import Program
from pipeline.runtime import Artifact
from pipeline.source_lines import numbered, user_line

# The same as `dispatches.FILE`, which only a process with IREE's compiler can import.
_FILE = "<node>"


@dataclass(frozen=True)
class Origin:
    """What the user wrote: an operator, and the line it stands in."""

    operator: str
    line: str | None


@dataclass(frozen=True)
class Work:
    """What a dispatch function computes. operations, bytes: None where unknown, as for dynamic sizes."""

    origins: tuple[Origin, ...]
    operations: int | None
    bytes: int | None


@dataclass(frozen=True)
class Sources:
    """functions: work by the name of a dispatch function. calls: the functions that the entry points call, in order,
    each with the operators that this call is of."""

    functions: dict[str, Work]
    calls: list[tuple[str, tuple[Origin, ...]]]


def compile_with_sources(program: Program, options: Options) -> tuple[Artifact, Sources]:
    """The artifact of `program`, and what its dispatches are of. Raises what compiling raises."""
    nodes = [node for entry in program.entries.values() for node in entry.module.graph.nodes]
    with tempfile.TemporaryDirectory(prefix="pipeline-") as name, numbered(nodes, _FILE):
        folder = Path(name)
        printing = (f"--dump-compilation-phases-to={folder}", "--mlir-print-debuginfo")
        # Weights inside of the module would be printed with it.
        storage = "external" if options.weights == "auto" else options.weights
        settings = replace(
            options, weights=storage, locations=True, cache=None, iree_args=(*options.iree_args, *printing)
        )
        artifact = compile_program(program, settings)
        found = _read(folder, options)
    origins = [_origin(node) if node.op == "call_function" else None for node in nodes]
    return artifact, _sources(found, origins, list(program.entries))


def _read(folder: Path, options: Options) -> dict[str, Any]:
    printed = next(folder.glob("*.stream.mlir"))
    job = {"task": "dispatches", "input": printed.name}
    result = child.run_job(folder, job, options.limits)
    if isinstance(result, child.Outcome):
        raise InternalError(f"reading the dispatches failed: {result.problem}\n{result.output[-500:]}")
    return result


def _origin(node: Node) -> Origin:
    operator = str(node.meta.get("original_aten") or node.target)
    return Origin(operator.removesuffix(".default"), user_line(node))


def _sources(found: dict[str, Any], origins: list[Origin | None], entries: list[str]) -> Sources:
    functions = {
        name: Work(_named(item["nodes"], origins), item["operations"], item["bytes"])
        for name, item in found["functions"].items()
    }
    calls = [
        (name, _named(nodes, origins))
        for owner, name, nodes in found["calls"]
        if owner.removesuffix("$async") in entries
    ]
    return Sources(functions, calls)


def _named(numbers: Iterable[int], origins: list[Origin | None]) -> tuple[Origin, ...]:
    """Each once, in the order of the program."""
    found = (origins[number] for number in numbers if number < len(origins))
    return tuple(dict.fromkeys(origin for origin in found if origin is not None))
