"""What a target turns out to be: CPU features, subgroup sizes, as IREE itself resolves them.

The runtime compares these with the device before it loads an artifact, so they must be what the compiler
used and not what we think it used: they are read from the module IREE makes of a trivial program.
"""

from __future__ import annotations

import platform
import re
import tempfile
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from pipeline import child
from pipeline.errors import InputError, InternalError

from . import vulkan
from .target import Target

_TRIVIAL = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }\n"


def fit(target: Target, element_types: Collection[str], iree_compile: str, limits: child.Limits) -> Target:
    """`target` as a program with tensors of `element_types` needs it.

    Raises UnsupportedError for types that the target lacks.
    """
    if target.device != "vulkan":
        return target
    return vulkan.fit(target, element_types, _abilities(_resolved_text(target, iree_compile, limits)))


def describe(target: Target, iree_compile: str, limits: child.Limits) -> dict[str, Any]:
    """The target as the manifest records it. Raises InputError when IREE does not know the architecture."""
    return dict(_describe(target, iree_compile, limits))


@cache
def _describe(target: Target, iree_compile: str, limits: child.Limits) -> dict[str, Any]:
    text = _resolved_text(target, iree_compile, limits)
    found: dict[str, Any] = {"device": target.device, "architecture": target.architecture}
    if target.device == "cpu":
        found |= _cpu(text, target)
    elif target.device == "vulkan":
        found |= {**_vulkan(text), "features": list(target.features)}
    return found


@cache
def _resolved_text(target: Target, iree_compile: str, limits: child.Limits) -> str:
    with tempfile.TemporaryDirectory(prefix="pipeline-") as name:
        folder = Path(name)
        (folder / "module.mlir").write_text(_TRIVIAL)
        command = [iree_compile, "module.mlir", "--compile-to=preprocessing", "-o", "resolved.mlir"]
        command += [f"--iree-hal-target-device={target.hal_device}", *target.options]
        outcome = child.run(command, folder, limits)
        if "not a recognized processor" in outcome.output or "Unknown CPU" in outcome.output:
            raise InputError(f"cpu '{target.architecture}' is unknown. {_accepted(outcome.output)}")
        if outcome.problem is not None:
            if target.device == "vulkan":
                raise InputError(
                    f"vulkan_target '{target.architecture}' is unknown to IREE: {_last(outcome.output)}"
                )
            raise InternalError(
                f"iree-compile cannot make a {target.device} target: {outcome.problem}\n{outcome.output}"
            )
        return (folder / "resolved.mlir").read_text()


def _accepted(output: str) -> str:
    match = re.search(r"List of accepted CPUs:.*", output)
    return match[0] if match else "Use host, generic or an LLVM CPU name."


def _last(output: str) -> str:
    return (output.strip().splitlines() or ["no message"])[0]


def _cpu(text: str, target: Target) -> dict[str, Any]:
    features = re.search(r'cpu_features = "([^"]*)"', text)
    triple = re.search(r'target_triple = "([^-"]+)', text)
    cpu = re.search(r'\bcpu = "([^"]*)"', text)
    enabled: dict[str, bool] = {}
    for feature in features[1].split(",") if features and features[1] else []:
        # The list first says what the CPU's model has, then what this one really has: the last word counts.
        enabled[feature[1:]] = feature[0] == "+"
    return {
        "architecture": triple[1] if triple else platform.machine(),
        "cpu": target.architecture if target.architecture != "host" or not cpu else f"host ({cpu[1]})",
        "features": sorted(name for name, on in enabled.items() if on),
    }


def _abilities(text: str) -> tuple[str, ...]:
    """What the target computes and stores: ``fp32``, ``int8``, ``b16``, ..."""
    found = re.search(r"compute = ([\w|]+), storage = ([\w|]+)", text)
    return tuple(name for names in found.groups() for name in names.split("|")) if found else ()


def _vulkan(text: str) -> dict[str, Any]:
    operations = re.search(r"subgroup = ([\w|]+)", text)
    sizes = re.search(r"subgroup_size_choices = \[([\d, ]+)\]", text)
    names = operations[1].split("|") if operations and operations[1] != "none" else []
    return {
        "subgroup_operations": names,
        "subgroup_sizes": [int(size) for size in sizes[1].split(",")] if sizes else [],
    }
