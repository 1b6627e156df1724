"""Textual pass pipelines: torch-mlir's and MLIR's passes by name, and ours, run one by one.

Running them singly costs nothing measurable and tells which pass failed, on which IR.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterator

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from pipeline.shape_lib.errors import RefinementError
from pipeline.shape_lib.importer.errors import ShapeLibraryError

from .failures import describe
from .registry import PASSES, load_pass

# It allows no calls of other functions, which custom operators become. What it guards against ends earlier, in
# torch-finalizing-backend-type-conversion, which takes no torch type that is left.
_LEFT_OUT = ("torch-verify-linalg-on-tensors-backend-contract",)

Observer = Callable[[str, ir.Module], None]


class PassError(Exception):
    """A pass failed. name: the pass; diagnostics: what it or MLIR said. Its cause is the pass's own exception."""

    def __init__(self, name: str, diagnostics: str) -> None:
        super().__init__(f"{name}: {diagnostics}")
        self.name = name
        self.diagnostics = diagnostics


def split_top_level(text: str) -> list[str]:
    """Splits at the commas outside brackets: ``a,func.func(b,c)`` -> ``a``, ``func.func(b,c)``.

    Raises ValueError for brackets that do not match.
    """
    depth, start, parts = 0, 0, []
    for i, char in enumerate(text):
        depth += (char in "({<") - (char in ")}>")
        if depth < 0:
            raise ValueError(f"unbalanced '{char}' in the pass pipeline: {text}")
        if char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    if depth:
        raise ValueError(f"unclosed bracket in the pass pipeline: {text}")
    return [part for part in [*parts, text[start:].strip()] if part]


def expand(pipeline: str) -> list[str]:
    """The single passes of a pipeline, named pipelines of torch-mlir expanded, in order.

    pipeline: ``builtin.module(...)`` or just the list inside. Needs an active MLIR context.
    Raises ValueError for a pass that nobody knows.
    """
    text = pipeline.strip()
    if text.startswith("builtin.module(") and text.endswith(")"):
        text = text.removeprefix("builtin.module(").removesuffix(")")
    return [single for item in split_top_level(text) for single in _expand_one(item)]


def _expand_one(item: str) -> list[str]:
    if pass_name(item) in PASSES:
        _check_options(item)
        return [item]
    _refuse_nested(item)
    try:
        parsed = str(PassManager.parse(f"builtin.module({item})"))
    except (ir.MLIRError, ValueError) as error:
        raise ValueError(f"unknown pass or option in '{item}': {error}") from error
    singles = split_top_level(parsed.removeprefix("builtin.module(").removesuffix(")"))
    return singles if len(singles) == 1 else [single for single in singles if single not in _LEFT_OUT]


def _refuse_nested(item: str) -> None:
    ours = [name for name in names(item) if name in PASSES]
    if ours:
        raise ValueError(
            f"{ours[0]} works on whole modules and cannot run inside '{item.partition('(')[0]}(...)': "
            "name it directly in builtin.module(...)"
        )


def _check_options(item: str) -> None:
    known = [*inspect.signature(load_pass(pass_name(item))).parameters][1:]
    for name in pass_options(item):
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ValueError(f"the pass {pass_name(item)} has no option '{name}': {has}")


def pass_name(item: str) -> str:
    """The bare name of one pipeline item: ``cse{x=1}`` -> ``cse``, ``func.func(cse)`` stays itself."""
    return item if "(" in item else item.partition("{")[0]


def pass_options(item: str) -> dict[str, str]:
    """The options of one of our passes: ``refine-shapes{library=a.mlir}`` -> ``{"library": "a.mlir"}``.

    Raises ValueError for what is not ``name=value``.
    """
    text = item.partition("{")[2].removesuffix("}")
    options = {}
    for option in shlex.split(text):
        name, equals, value = option.partition("=")
        if not equals:
            raise ValueError(f"'{option}' is no option of the form name=value, in '{item}'")
        options[name.replace("-", "_")] = value
    return options


def names(item: str) -> Iterator[str]:
    """Every name by which a user may mean this item: itself, and the passes nested in it."""
    yield pass_name(item)
    if "(" in item:
        for inner in split_top_level(item.partition("(")[2].removesuffix(")")):
            yield from names(inner)


def run(
    module: ir.Module, passes: list[str], *, before: Observer | None = None, after: Observer | None = None
) -> dict[str, int]:
    """Runs single passes (from `expand`) over `module` in place; how much each of ours that counts has changed.

    Raises PassError naming the pass that failed, with the diagnostics.
    """
    changes: dict[str, int] = {}
    for item in passes:
        if before:
            before(item, module)
        changed = _run_one(module, item)
        if changed is not None:
            changes[pass_name(item)] = changes.get(pass_name(item), 0) + changed
        if after:
            after(item, module)
    return changes


def _run_one(module: ir.Module, item: str) -> int | None:
    with module.context:
        try:
            if pass_name(item) not in PASSES:
                PassManager.parse(f"builtin.module({item})").run(module.operation)
                return None
            changed = load_pass(pass_name(item))(module, **pass_options(item))
            module.operation.verify()
            return changed
        except (RefinementError, ShapeLibraryError) as error:
            raise PassError(item, str(error)) from error
        except Exception as error:
            raise PassError(item, describe(error)) from error
