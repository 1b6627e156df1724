"""Where shape and dtype functions come from: the user's files, and the entries of our operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from torch_mlir import ir

from pipeline.shape_lib import importer
from pipeline.shape_lib.errors import LibraryTextError
from pipeline.shape_lib.refinement.library import duplicates

_OPERATORS = Path(__file__).parent / "operators"


def read_libraries(files: Sequence[str], context: ir.Context) -> list[str]:
    """The Torch dialect texts of library files.

    Raises ShapeLibraryError for Python that cannot be imported, LibraryTextError for a file that is missing or
    no library, or for a function that two of them define.
    """
    found = [(file, read_library(Path(file))) for file in files]
    check_once(found, context)
    return [text for _, text in found]


def read_library(file: Path) -> str:
    """The text of one file, Python (``.py``) or Torch dialect (``.mlir``). Raises as `read_libraries`."""
    if not file.is_file():
        raise LibraryTextError(f"the shape library {file} does not exist")
    if file.suffix == ".py":
        return importer.import_file(file)
    if file.suffix == ".mlir":
        return file.read_text()
    raise LibraryTextError(f"the shape library {file} must be a .py or an .mlir file")


def check_once(libraries: Sequence[tuple[str, str]], context: ir.Context) -> None:
    """Raises LibraryTextError when two of the libraries (name, text) define the same function."""
    twice = duplicates(libraries, context)
    if twice:
        raise LibraryTextError("keep one of each:\n" + "\n".join(f"  {problem}" for problem in twice))


def default_libraries(operators: Iterable[str]) -> list[str]:
    """The libraries beside our operators that may have a function for one of `operators` (``aten.add.Tensor``).

    Reads source files, and runs none: the entries need torch, refinement does not.
    """
    wanted = tuple(operators)
    sources = ((file, file.read_text()) for file in sorted(_OPERATORS.glob("*.py")))
    return [importer.import_file(file) for file, source in sources if _may_have(source, wanted)]


def _may_have(source: str, operators: Sequence[str]) -> bool:
    registers = "@shape_function(" in source or "@dtype_function(" in source
    return registers and any(f'"{operator}' in source for operator in operators)
