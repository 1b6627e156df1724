"""The key of a compiled program in the cache: the digest of all that its `.vmfb` depends on."""

from __future__ import annotations

import hashlib
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
) -> str:
    """The key of `program`, imported as `module`; its source lines are no part of it.

    storage: where its weights go: those inside are part of it. entries: as the manifest will have them.
    """
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
        "files": list(_files_named(options.iree_args)),
        "versions": versions,
    }
    inside = tensors.values() if storage == "inline" else ()
    return digest(parts, (to_numpy(tensor).reshape(-1).view("uint8") for tensor in inside))


def _files_named(arguments: tuple[str, ...]) -> Iterator[str]:
    """Digests of the files that options of iree-compile name."""
    for argument in arguments:
        path = Path(argument.partition("=")[2] or argument)
        if path.is_file():
            yield hashlib.sha256(path.read_bytes()).hexdigest()
