"""`Target`: device kind, architecture, and the ladder of IREE option sets that suit it.

Aggressive option sets fail on some models where milder ones compile. So each target states several, best
first; the first rung that compiles is used, and the artifact says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.errors import InputError

DEVICES = ("cpu", "vulkan", "cuda")


@dataclass(frozen=True)
class Rung:
    """One option set of a ladder.

    options: IREE command line options beside the target's own.
    form: what it asks of the device beyond the target, None for nothing; hal_device and features are then
        in place of the target's.
    kernels: whether `pipeline.cpu_kernels` takes the place of products and convolutions.
    """

    name: str
    options: tuple[str, ...]
    form: str | None = None
    hal_device: str | None = None
    features: tuple[str, ...] = ()
    kernels: bool = False


@dataclass(frozen=True)
class Target:
    """One device to compile for.

    device: "cpu", "vulkan" or "cuda". architecture: in IREE's spelling for that device.
    hal_device: value for ``--iree-hal-target-device``. options: needed at every rung.
    note: what the user should know about how the request was read, or None.
    features: what a device must offer beyond the least, once the program is known (Vulkan's names).
    """

    device: str
    architecture: str
    hal_device: str
    options: tuple[str, ...]
    ladder: tuple[Rung, ...]
    note: str | None = None
    features: tuple[str, ...] = ()


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


@dataclass(frozen=True)
class Step:
    """One try to compile: the option set for all targets, and the targets in the form they have there."""

    name: str
    options: tuple[str, ...]
    targets: tuple[Target, ...]
    kernels: bool = False


def combined_ladder(targets: Sequence[Target]) -> tuple[Step, ...]:
    """The tries for an artifact with these targets, best first; what fails for one target fails for all.

    Targets with fewer rungs stay on their last one.
    """
    height = max(len(target.ladder) for target in targets)
    steps = [
        _step(targets, [target.ladder[min(i, len(target.ladder) - 1)] for target in targets])
        for i in range(height)
    ]
    return tuple(dict.fromkeys(steps))


def _step(targets: Sequence[Target], rungs: Sequence[Rung]) -> Step:
    options = _united([rung.options for rung in rungs])
    name = rungs[0].name
    if len(rungs) > 1:
        level = next(option for option in options if option.startswith(_LEVEL)).removeprefix(_LEVEL)
        forms = [f", {t.device}: {r.form}" for t, r in zip(targets, rungs, strict=True) if r.form]
        name = f"{level} for all targets{''.join(forms)}"
    # Kernels are made for one device: an artifact for several has the program in one form for all.
    kernels = len(rungs) == 1 and rungs[0].kernels
    return Step(name, options, tuple(_in_form(t, r) for t, r in zip(targets, rungs, strict=True)), kernels)


def _in_form(target: Target, rung: Rung) -> Target:
    if rung.form is None:
        return target
    return replace(target, hal_device=rung.hal_device or target.hal_device, features=rung.features)


# Options that reach one kind of device only. All others shape the program that the devices share.
_OF_ONE_DEVICE = ("--iree-llvmcpu-", "--iree-hal-", "--iree-cuda-", "--iree-vulkan-")
_LEVEL = "--iree-opt-level="
# Linking keeps the code of one device only.
_UNLINKED = "--iree-hal-link-executables=false"


def _united(options: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The options of several rungs in one: an option for the shared program holds where all ask for it.

    What is right for one device (data tiling, img2col) can be wrong or slow for another, so the level is
    the lowest asked for.
    """
    if len(options) == 1:
        return tuple(options[0])
    levels = [option for part in options for option in part if option.startswith(_LEVEL)]
    kept = dict.fromkeys([min(levels), _UNLINKED])
    for option in (option for part in options for option in part if not option.startswith(_LEVEL)):
        if option.startswith(_OF_ONE_DEVICE) or all(option in part for part in options):
            kept[option] = None
    return tuple(kept)
