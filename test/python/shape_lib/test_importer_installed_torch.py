"""The shape functions that come with torch, imported from its source and compared with running them.

TorchScript's own functions are written by others, without return types and with numbers of either kind: all of
them must import, and say what Python says, exceptions included.
"""

import ast
import copy
import functools
import importlib.util
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional

import pytest

from pipeline.shape_lib.importer.library import Entry, Library
from pipeline.shape_lib.importer.source import Function, Scope, Sources

TRIES = 200
# They register TorchScript graphs, and are no shape functions.
OTHERS = {"process_func", "add_shape_compute_mapping", "add_bounded_compute_mapping"}


def source() -> Path:
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "jit" / "_shape_functions.py"


def functions() -> dict[str, ast.FunctionDef]:
    tree = ast.parse(source().read_text())
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {node.name: node for node in defined if node.name not in OTHERS}


FUNCTIONS = functions()


@pytest.fixture(scope="module")
def library(imported: Callable[..., Any]) -> Any:
    sources = Sources()
    scope = Scope(sources.load(source()))
    library = Library(sources)
    for name, node in FUNCTIONS.items():
        library.add(Entry(name, Function(node, scope)))
    return imported([], text=library.text())


@pytest.fixture(scope="module")
def running() -> dict[str, Any]:
    """The functions as Python; importing the module would compile all of them to TorchScript."""
    found: dict[str, Any] = {"math": math, "number": int | float, "Optional": Optional, "Any": Any}
    module = ast.Module(list(FUNCTIONS.values()), [])
    exec(compile(module, str(source()), "exec"), found)
    return found


class Draw:
    """Arguments by annotation: in most tries sizes that fit each other, so that functions also return."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.rank = 0
        self.sizes = [1]

    def arguments(self, annotations: list[str]) -> list[Any]:
        self.rank = self.random.randrange(6)
        self.sizes = self.random.choice([[1], [2], [1, 2], [-1, 0, 1, 2, 3, 4]])
        return [self.value(annotation) for annotation in annotations]

    def value(self, annotation: str) -> Any:
        if annotation.startswith("Optional["):
            return None if self.random.random() < 0.3 else self.value(annotation[9:-1])
        if annotation.startswith("list["):
            rank = self.rank if self.random.random() < 0.7 else self.random.randrange(5)
            return [self.value(annotation[5:-1]) for _ in range(rank)]
        choices: dict[str, Sequence[Any]] = {
            "int": self.sizes if self.random.random() < 0.7 else [0, 1, 2, 3, -1, -2],
            "bool": [True, False],
            "float": [0.5, 1.0, 2.0, 1.75, -0.5],
            "number": [0.5, 1.0, 2.0, 7.25, -1.5],
            "Any": [None],
        }
        return self.random.choice(choices[annotation])


def outcome(function: Callable[[], Any]) -> Any:
    """The result, or the name of the exception."""
    try:
        return function()
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("name", FUNCTIONS)
def test_says_what_python_says(name: str, library: Any, running: dict[str, Any]) -> None:
    parameters = FUNCTIONS[name].args
    positional, keywords = [p.arg for p in parameters.args], [p.arg for p in parameters.kwonlyargs]
    annotations = [
        ast.unparse(p.annotation) for p in [*parameters.args, *parameters.kwonlyargs] if p.annotation
    ]
    draw = Draw(name)
    returned = 0
    for _ in range(TRIES):
        arguments = draw.arguments(annotations)
        given = copy.deepcopy(arguments)
        named = dict(zip(keywords, given[len(positional) :], strict=True))
        call = functools.partial(running[name], *given[: len(positional)], **named)
        wanted = outcome(call)
        found = library.run_symbol(name, arguments)
        assert (found.split(":")[0] if isinstance(found, str) else found) == wanted, (
            arguments,
            found,
            wanted,
        )
        returned += not isinstance(wanted, str)
    # What raises every time has not been tested.
    assert returned or name in RARELY_RETURN, f"{name} raised for all {TRIES} tries"


RARELY_RETURN = {"max_pool2d", "max_pool2d_with_indices", "conv_output_size", "conv1d", "conv2d", "conv3d"}
"""Random sizes seldom fit all of their arguments."""
