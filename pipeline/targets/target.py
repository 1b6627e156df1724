"""`Target`: device kind, architecture, and the ladder of IREE option sets that suit it.

Aggressive option sets fail on some models where milder ones compile. So each target states several, best
first; the first rung that compiles is used, and the artifact says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.errors import InputError

DEVICES = ("cpu", "vulkan", "cuda")


@dataclass(frozen=True)
class Rung:
    """One option set of a ladder. options: IREE command line options beside the target's own."""

    name: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class Target:
    """One device to compile for.

    device: "cpu", "vulkan" or "cuda". architecture: in IREE's spelling for that device.
    hal_device: value for ``--iree-hal-target-device``. options: needed at every rung.
    note: what the user should know about how the request was read, or None.
    """

    device: str
    architecture: str
    hal_device: str
    options: tuple[str, ...]
    ladder: tuple[Rung, ...]
    note: str | None = None


def parse_targets(
    text: str | Sequence[str],
    *,
    cpu: str = "host",
    cuda_arch: str = "sm_80",
    vulkan_target: str | None = None,
) -> tuple[Target, ...]:
    """The targets named by ``"cpu"``, ``"cpu,vulkan"`` or a list.

    Raises InputError for an unknown or repeated device.
    """
    from . import cpu as cpu_target
    from . import cuda, vulkan

    names = text.split(",") if isinstance(text, str) else list(text)
    names = [name.strip() for name in names]
    for name in names:
        if name not in DEVICES:
            raise InputError(f"target '{name}' is unknown; choose from {', '.join(DEVICES)}")
    if len(set(names)) != len(names):
        raise InputError(f"target '{text}' names a device twice")
    makers = {
        "cpu": lambda: cpu_target.make(cpu),
        "vulkan": lambda: vulkan.make(vulkan_target or vulkan.PORTABLE),
        "cuda": lambda: cuda.make(cuda_arch),
    }
    return tuple(makers[name]() for name in names)


def combined_ladder(targets: Sequence[Target]) -> tuple[Rung, ...]:
    """One ladder for an artifact with several targets: the options of all, a rung failing in any fails in all.

    Targets with fewer rungs stay on their last one.
    """
    height = max(len(target.ladder) for target in targets)
    rungs = []
    for i in range(height):
        parts = [target.ladder[min(i, len(target.ladder) - 1)] for target in targets]
        name = parts[0].name if len(parts) == 1 else "; ".join(p.name for p in parts)
        options = dict.fromkeys(option for part in parts for option in part.options)
        rungs.append(Rung(name, tuple(options)))
    return tuple(rungs)
