"""The key of a compiled program in the cache: the digest of all that its `.vmfb` depends on."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

from .cache import digest
from .custom_calls import lowering_notes
from .program import Program
from .runtime.manifest import EntryPoint
from .runtime.tensors import to_numpy

if TYPE_CHECKING:
    from torch_mlir import ir

    from .compiler import Options


# Program's fields that the key holds otherwise, or whose programs are not cached.
_ELSEWHERE = ("entries", "weights", "state", "dimensions", "examples", "definitions", "choices")


def program_key(
    module: ir.Module,
    program: Program,
    options: Options,
    storage: str,
    entries: Mapping[str, EntryPoint],
    versions: Mapping[str, str],
) -> str | None:
    """The key of `program`, imported as `module`; its source lines are no part of it.

    None where options name what no key can hold, so that the program is not to be cached.
    storage: where its weights go: those inside are part of it. entries: as the manifest will have them.
    """
    files = files_named(options.iree_args)
    if files is None:
        return None
    tensors = {**program.weights, **program.state}
    parts = {
        "program": module.operation.get_asm(enable_debug_info=False),
        "entries": {name: asdict(entry) for name, entry in entries.items()},
        "dimensions": {name: asdict(bounds) for name, bounds in program.dimensions.items()},
        "tensors": [[name, str(tensor.dtype), list(tensor.shape)] for name, tensor in tensors.items()],
        "state": list(program.state),
        "notes": lowering_notes(program.choices),
        "rest": [
            repr(getattr(program, item.name)) for item in fields(program) if item.name not in _ELSEWHERE
        ],
        "targets": [asdict(target) for target in options.targets],
        "options": [storage, options.iree_args, options.shape_libraries, options.disable_passes],
        "files": files,
        "versions": versions,
    }
    inside = tensors.values() if storage == "inline" else ()
    return digest(parts, (to_numpy(tensor).reshape(-1).view("uint8") for tensor in inside))


def files_named(arguments: tuple[str, ...]) -> list[str] | None:
    """Digests of the files that options of iree-compile name; None where one names a folder, or a file of options.

    A name may stand anywhere: ``--pass-pipeline=builtin.module(apply{file=/a/b.mlir})``, ``--library=/a/c.mlir@entry``.
    """
    paths = [path for argument in arguments for path in _paths_in(argument)]
    if any(path.is_dir() for path in paths) or any(argument.startswith("@") for argument in arguments):
        return None
    return [_digest(path) for path in paths]


def _paths_in(argument: str) -> Iterator[Path]:
    """What is there under a name between any two separators, of which names may have some themselves.

    Absolute ones, since iree-compile runs in a folder of its own.
    """
    ends = [-1, *(found.start() for found in re.finditer(r"[=@,;:(){}\s\"']", argument)), len(argument)]
    for start, end in itertools.combinations(ends, 2):
        path = Path(argument[start + 1 : end])
        with contextlib.suppress(OSError):
            if path.is_absolute() and path.exists():
                yield path


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
