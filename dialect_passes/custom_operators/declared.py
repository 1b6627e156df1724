"""Where a function was declared, for messages and for relative paths."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Declared:
    """function: its name; file and line: where it stands."""

    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.function}, {Path(self.file).name}:{self.line}"

    @property
    def folder(self) -> Path:
        """The folder of the file; the current one for code without a file, as in a notebook."""
        path = Path(self.file)
        return path.resolve().parent if path.is_file() else Path.cwd()


def declared(function: Callable[..., Any]) -> Declared:
    """Where `function` was declared."""
    code = inspect.unwrap(function).__code__
    return Declared(function.__name__, code.co_filename, code.co_firstlineno)


def place(function: Callable[..., Any]) -> str:
    """Where a function stands, in full: ``/home/me/model.py:12``; of what has no code, its text."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def failing_line(error: Exception, where: Declared) -> str:
    """The last line of the declaring file on the way to `error`, for the end of a message."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == where.file]
    return f"\n  at {Path(where.file).name}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""
