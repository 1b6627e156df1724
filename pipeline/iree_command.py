"""The command line of iree-compile for a program, and what it says of its options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pipeline.runtime.manifest import WEIGHTS_SCOPE

from .targets.target import Step
from .tools_path import iree_compile

DISPATCHES = "dispatches"
"""Where IREE leaves its dispatches for Vulkan, to be checked."""

# Never a silent change of precision: IREE demotes f64 to f32 unless told.
_ALWAYS = (
    "--iree-input-demote-f64-to-f32=false",
    "--iree-vm-bytecode-module-strip-source-map=true",
    "--iree-vm-bytecode-module-strip-debug-ops=true",
    "--iree-opt-strip-assertions=false",
    # Object files of kernels lie beside the module.
    "--iree-hal-executable-object-search-path=.",
)

# What stands behind a barrier and depends on nothing is kept from call to call else, while others work in its memory.
_NOTHING_KEPT = "--iree-opt-const-expr-hoisting=false"
_NO_DATA_TILING = "--iree-opt-data-tiling=false"
_LITTLE_FUSION = "--iree-dispatch-creation-enable-aggressive-fusion=false"


@dataclass(frozen=True)
class Repairs:
    """What IREE gets wrong in a program unless told otherwise.

    threads_apart: its threads were kept apart (`separate_threads`). fuses_wrongly: what `joined_reductions` or
    `turned_reductions` find. multiplies_broadcasts: what `batched_broadcasts` finds.
    """

    threads_apart: bool = False
    fuses_wrongly: bool = False
    multiplies_broadcasts: bool = False

    @property
    def options(self) -> list[str]:
        """What iree-compile is told."""
        wanted = {
            _NOTHING_KEPT: self.threads_apart,
            _LITTLE_FUSION: self.fuses_wrongly,
            _NO_DATA_TILING: self.multiplies_broadcasts,
        }
        return [option for option, is_wanted in wanted.items() if is_wanted]


def command(step: Step, repairs: Repairs, inline: Path | None) -> list[str]:
    """Compiles ``iree.mlirbc`` to ``module.vmfb`` in the folder where it runs. inline: the weights to put into that."""
    # Alternatives are one device; the flag given twice would mean two devices at once.
    devices = ",".join(target.hal_device for target in step.targets)
    words = [iree_compile(), "iree.mlirbc", "-o", "module.vmfb", f"--iree-hal-target-device={devices}"]
    words += [option for target in step.targets for option in target.options]
    words += [*_ALWAYS, *step.options]
    if is_for_vulkan(step):
        words.append(f"--iree-hal-dump-executable-configurations-to={DISPATCHES}")
    words += repairs.options
    if inline is not None:
        words.append(f"--iree-parameter-import={WEIGHTS_SCOPE}={inline.name}")
        words.append(f"--iree-parameter-import-maximum-size={inline.stat().st_size}")
    return words


def is_for_vulkan(step: Step) -> bool:
    """Whether one of the devices is."""
    return any(target.device == "vulkan" for target in step.targets)


def refuses_options(output: str) -> bool:
    """Whether iree-compile knows an option not, or not the value of one."""
    return (
        "Unknown command line argument" in output
        or re.search(r"iree-compile: for the --\S+ option", output) is not None
    )


def complains(output: str) -> bool:
    """A preprocessing pipeline that iree-compile cannot parse is an error on screen, and status 0."""
    return re.search(r"(?m)^ERROR: |: error: ", output) is not None
