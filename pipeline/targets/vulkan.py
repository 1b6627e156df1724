"""The Vulkan target. The default fits any device: no subgroup operations, and no more types than needed.

A device stores and computes 32-bit values; everything narrower or wider is a feature it may lack. Targets
without these features emulate them, and IREE 3.13 does that wrongly in silence: f16 is wrong in every
second element, and bool, 8-bit and 16-bit tensors in the last, incomplete word. So the default target is
given the features that the program's types need, and the artifact says which; for a named target that lacks
one, the program is refused. i64 is emulated rightly where IREE does it at all; for the rest (division,
absolute value, scatter) the last rungs ask for a device with 64-bit integers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from pipeline.errors import UnsupportedError

from .target import Rung, Target

PORTABLE = "portable"

_ATTRIBUTE = "#iree_gpu.target<"

# A command buffer that is recorded once and given other buffers at each call copies from and to those of the
# first call (IREE 3.13): a state that takes the value of another stood still, without an error.
_OPTIONS = ("--iree-hal-indirect-command-buffers=false",)

_LADDER = (
    Rung("O2", ("--iree-opt-level=O2",)),
    Rung("O1", ("--iree-opt-level=O1",)),
    Rung("O0", ("--iree-opt-level=O0",)),
)

# Vulkan's own minimum limits, which every device meets.
_LIMITS = (
    "subgroup = none, subgroup_size_choices = [64], max_workgroup_sizes = [128, 128, 64], "
    "max_thread_count_per_workgroup = 128, max_workgroup_memory_bytes = 16384, "
    "max_workgroup_counts = [65535, 65535, 65535]"
)


@dataclass(frozen=True)
class _Need:
    """What tensors of a type need: IREE's names for computing and storing, and Vulkan's device features."""

    compute: str
    storage: str
    features: tuple[str, ...]


_BYTE = _Need("int8", "b8", ("shaderInt8", "storageBuffer8BitAccess"))
_NEEDS = {
    "i1": _BYTE,
    "i8": _BYTE,
    "i16": _Need("int16", "b16", ("shaderInt16", "storageBuffer16BitAccess")),
    "f16": _Need("fp16", "b16", ("shaderFloat16", "storageBuffer16BitAccess")),
    # Computed as f32, rounded by integer arithmetic.
    "bf16": _Need("int16", "b16", ("shaderInt16", "storageBuffer16BitAccess")),
    "f64": _Need("fp64", "b64", ("shaderFloat64",)),
    "i64": _Need("int64", "b64", ("shaderInt64",)),
}
_NAMES = {"i1": "bool", "i8": "8-bit integer", "i16": "int16", "f16": "float16", "bf16": "bfloat16"}
_NAMES["f64"] = "float64"


def make(vulkan_target: str) -> Target:
    """vulkan_target: "portable", a name that ``--iree-vulkan-target`` takes, such as "rdna3" or "ampere", or
    a whole ``#iree_gpu.target<...>`` attribute, to fit one device.
    """
    if vulkan_target == PORTABLE:
        return Target("vulkan", PORTABLE, _device(_portable(())), _OPTIONS, _LADDER)
    if vulkan_target.startswith(_ATTRIBUTE):
        name = re.search(r'arch = "([^"]*)"', vulkan_target)
        return Target("vulkan", name[1] if name else "custom", _device(vulkan_target), _OPTIONS, _LADDER)
    options = (f"--iree-vulkan-target={vulkan_target}", *_OPTIONS)
    return Target("vulkan", vulkan_target, "vulkan", options, _LADDER)


def fit(target: Target, element_types: Collection[str], abilities: tuple[str, ...]) -> Target:
    """`target` for a program with tensors of `element_types` (MLIR's spelling).

    abilities: what `target` computes and stores, as IREE resolved it.
    Raises UnsupportedError naming every type that it lacks.
    """
    found = [name for name in _NEEDS if name in element_types and name != "i64"]
    features = tuple(sorted({feature for name in found for feature in _NEEDS[name].features}))
    if target.architecture == PORTABLE:
        fitted = replace(target, hal_device=_device(_portable(found)), features=features)
        return (
            fitted if "i64" not in element_types else replace(fitted, ladder=_with_native_i64(fitted, found))
        )
    lacking = [n for n in found if not {_NEEDS[n].compute, _NEEDS[n].storage} <= set(abilities)]
    if lacking:
        names = ", ".join(_NAMES[name] for name in lacking)
        raise UnsupportedError(
            f"the program has {names} tensors, which the Vulkan target '{target.architecture}' cannot "
            f"compute or store; change their dtype, or use the target '{PORTABLE}', which then needs a "
            "device with these types"
        )
    native = _NEEDS["i64"].features if "int64" in abilities and "i64" in element_types else ()
    return replace(target, features=(*features, *native))


def _with_native_i64(target: Target, found: list[str]) -> tuple[Rung, ...]:
    device = _device(_portable([*found, "i64"]))
    features = tuple(sorted({*target.features, *_NEEDS["i64"].features}))
    form = "native int64"
    native = [Rung(f"{rung.name}, {form}", rung.options, form, device, features) for rung in target.ladder]
    return (*target.ladder, *native)


def _portable(element_types: Iterable[str]) -> str:
    needs = [_NEEDS[name] for name in element_types]
    compute = "|".join(dict.fromkeys(["fp32", "int32", *(need.compute for need in needs)]))
    storage = "|".join(dict.fromkeys(["b32", *(need.storage for need in needs)]))
    return (
        f'{_ATTRIBUTE}arch = "{PORTABLE}", features = "spirv:v1.3,cap:Shader", '
        f"wgp = <compute = {compute}, storage = {storage}, {_LIMITS}>>"
    )


def _device(gpu_target: str) -> str:
    return (
        '#hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", '
        f"{{iree_codegen.target_info = {gpu_target}}}>]>"
    )
