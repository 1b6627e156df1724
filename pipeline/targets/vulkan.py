"""The Vulkan target. The default profile uses no subgroup operations and is right on any device."""

from __future__ import annotations

from .target import Rung, Target

PORTABLE = "vp_android_baseline_2022"

_LADDER = (
    Rung("O2", ("--iree-opt-level=O2",)),
    Rung("O1", ("--iree-opt-level=O1",)),
    Rung("O0", ("--iree-opt-level=O0",)),
)


def make(vulkan_target: str) -> Target:
    """vulkan_target: as ``--iree-vulkan-target`` takes it, such as "rdna3" or "ampere"."""
    return Target("vulkan", vulkan_target, "vulkan", (f"--iree-vulkan-target={vulkan_target}",), _LADDER)
