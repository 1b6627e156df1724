"""From an FX node to the line of the user's own Python that made it."""

from __future__ import annotations

import contextlib
import os
import re
import site
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import torch

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def user_line(node: torch.fx.Node) -> str | None:
    """``file.py:12`` of the innermost frame that is the user's; else of the innermost outside torch itself."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    return innermost_user_frame([(file, int(line)) for file, line in frames])


def innermost_user_frame(frames: list[tuple[str, int]]) -> str | None:
    """The same choice for frames (file, line) from outermost to innermost."""
    own = [frame for frame in frames if not _is_library(frame[0])]
    outside_torch = [
        frame for frame in frames if not frame[0].startswith((_torch_folder(), _own_folder(), "<"))
    ]
    for candidates in (own, outside_torch, frames):
        if candidates:
            file, line = candidates[-1]
            return f"{_short(file)}:{line}"
    return None


@contextlib.contextmanager
def numbered(nodes: Sequence[torch.fx.Node], file: str) -> Iterator[None]:
    """Gives nodes lines of their own for a while: node number n is line n of `file`, which does not exist.

    What a compiler then says of a line, it says of a node.
    """
    traces = [node.meta.get("stack_trace") for node in nodes]
    for number, node in enumerate(nodes):
        node.meta["stack_trace"] = f'File "{file}", line {number}, in forward\n    {node.name}'
    try:
        yield
    finally:
        for node, trace in zip(nodes, traces, strict=True):
            node.meta["stack_trace"] = trace


def _torch_folder() -> str:
    return str(Path(torch.__file__).parent) + os.sep


def _own_folder() -> str:
    """Where pipeline lies, also when it is installed in place: no line of its own is the user's."""
    return str(Path(__file__).parent) + os.sep


@cache
def _library_folders() -> tuple[str, ...]:
    folders = [*site.getsitepackages(), site.getusersitepackages(), str(Path(os.__file__).parent)]
    folders += [str(Path(torch.__file__).parent.parent), os.path.join(sys.prefix, "lib")]
    return (*(str(Path(folder)) + os.sep for folder in folders), _own_folder())


def _is_library(file: str) -> bool:
    return file.startswith(_library_folders()) or file.startswith("<")


def _short(file: str) -> str:
    """Relative to the working directory when below it, and libraries by their import path."""
    for folder in _library_folders():
        if file.startswith(folder):
            return file.removeprefix(folder)
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative
