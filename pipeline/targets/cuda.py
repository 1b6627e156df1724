"""The CUDA target. PTX for an older architecture runs on a newer GPU: its driver translates it at load."""

from __future__ import annotations

import re

from pipeline.errors import InputError

from .target import Rung, Target

KNOWN = (75, 80, 86, 89)
"""Compute capabilities that IREE 3.13 has a target description for; it refuses all others."""

# A reduction fused with what makes its input, such as an embedding's gather before a LayerNorm, can be
# beyond the code generator ("failed to distribute", "failed to bufferize"): then less fusion, or another
# way to tile reductions, keeps the rest of O3.
_LESS_FUSION = "--iree-dispatch-creation-enable-aggressive-fusion=false"
_PLAIN_REDUCTIONS = "--iree-codegen-llvmgpu-use-reduction-vector-distribution=false"

_LADDER = (
    Rung("O3", ("--iree-opt-level=O3",)),
    Rung("O3, less fusion", ("--iree-opt-level=O3", _LESS_FUSION)),
    Rung("O3, less fusion, plain reductions", ("--iree-opt-level=O3", _LESS_FUSION, _PLAIN_REDUCTIONS)),
    Rung("O1", ("--iree-opt-level=O1",)),
    Rung("O0", ("--iree-opt-level=O0",)),
)


def make(cuda_arch: str) -> Target:
    """cuda_arch: such as "sm_80"; one IREE does not know becomes the nearest lower one, with a note.

    Raises InputError for another spelling, and for GPUs older than the oldest known.
    """
    match = re.fullmatch(r"sm_(\d+)([af]?)", cuda_arch)
    if match is None:
        raise InputError(f"cuda_arch '{cuda_arch}' must look like sm_80")
    lower = [known for known in KNOWN if known <= int(match[1])]
    if not lower:
        raise InputError(f"cuda_arch '{cuda_arch}' is older than sm_{KNOWN[0]}, the oldest IREE compiles for")
    architecture = f"sm_{lower[-1]}"
    note = None
    if architecture != cuda_arch:
        note = (
            f"IREE has no target {cuda_arch}; compiled for {architecture}, which the GPU's driver translates"
        )
    return Target("cuda", architecture, "cuda", (f"--iree-cuda-target={architecture}",), _LADDER, note)
