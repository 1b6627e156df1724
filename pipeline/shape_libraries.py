"""The user's shape and dtype functions: from the option ``shape_lib`` to files in the folder of a build."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .errors import InputError
from .shape_lib.importer.errors import ShapeLibraryError

ShapeLibrary = str | os.PathLike[str] | Callable[..., Any]
"""A file of functions, Python or Torch dialect, or one function."""

_NAME = "shape_library_{}.mlir"


def read(given: ShapeLibrary | Sequence[ShapeLibrary] | None) -> tuple[str, ...]:
    """The Torch dialect texts of what the user gave. Raises InputError for what is no library.

    Nothing is executed that the user has not executed: functions and files are read as source.
    """
    items = [given] if isinstance(given, (str, os.PathLike)) or callable(given) else list(given or ())
    if not items:
        return ()
    functions = [item for item in items if callable(item)]
    files = [os.fspath(item) for item in items if not callable(item)]
    try:
        return _read(files, functions)
    except (ShapeLibraryError, OSError) as error:
        raise InputError(f"shape_lib: {error}") from error


def _read(files: list[str], functions: list[Callable[..., Any]]) -> tuple[str, ...]:
    from torch_mlir import ir
    from torch_mlir.dialects import torch as torch_dialect

    from .dialect_passes.shape_libraries import check_once, read_library
    from .shape_lib import importer
    from .shape_lib.errors import LibraryTextError

    try:
        found = [(file, read_library(Path(file))) for file in files]
        if functions:
            found.append(("the functions given", importer.import_functions(functions)))
        with ir.Context() as context:
            torch_dialect.register_dialect(context)
            check_once(found, context)
    except LibraryTextError as error:
        raise InputError(f"shape_lib: {error}") from error
    return tuple(text for _, text in found)


def write(folder: Path, libraries: Sequence[str]) -> None:
    """Puts the libraries into the folder of a build, where its child processes and a reproducer find them."""
    for i, text in enumerate(libraries):
        (folder / _NAME.format(i)).write_text(text)


def written(folder: Path) -> list[str]:
    """The names of the files that `write` put into `folder`, the first to be asked first."""
    return [
        path.name
        for path in sorted(folder.glob(_NAME.format("*")), key=lambda path: (len(path.name), path.name))
    ]
