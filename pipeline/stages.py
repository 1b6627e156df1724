"""The stages of a compilation, as data: a user can stop after any, print any, and a test can start at any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .dialect_passes.registry import PASSES, REQUIRED
from .shape_lib.export_pipeline import EXPORT_PIPELINE


@dataclass(frozen=True)
class Stage:
    """One step. name: as ``--emit`` and ``--print-after`` take it. passes: its pipeline, for dialect stages."""

    name: str
    says: str
    passes: str | None = None


# Capture types everything, and nearly every decomposition does: then it costs a look at the types.
REFINE = "refine-shapes"

# They know the forms that torch-mlir's own decompositions leave.
FUSIONS = "fold-batch-norm,separate-convolution-bias,merge-shared-input-matmuls"

OFFERED = ("merge-shared-input-matmuls", "recognize-attention")
"""Passes that run only when asked for: what they were worth is in docs/benchmarks.md."""

CPU_KERNELS = "cpu-kernels"
"""What puts kernels of ours in the place of products and convolutions, in the "iree" stage (`pipeline.cpu_kernels`)."""

STAGES = (
    Stage("torch", "the captured program in the Torch dialect"),
    Stage(
        "refined",
        "the same, decomposed, with every rank and dtype known",
        f"{REFINE},keep-nan-comparisons,expand-scalar-functions,recognize-attention,{EXPORT_PIPELINE},{FUSIONS},"
        f"{REFINE},verify-refined",
    ),
    Stage(
        "linalg",
        "linalg on tensors",
        "torch-backend-to-linalg-on-tensors-backend-pipeline{allow-non-finites=true},"
        "define-control-flow,fold-f64-constants,canonicalize,split-product-reductions,keep-narrow-rounding",
    ),
    Stage("iree", "what IREE compiles: weights are parameters, state is updated in place"),
    Stage("vmfb", "the executable"),
)
REASON = "pipeline.reason"
"""Attribute (and key in an FX node's meta) that says why an operator is refused."""

STAGE_NAMES = tuple(stage.name for stage in STAGES)


def passes_between(
    after: str, last: str, libraries: Sequence[str] = (), disabled: Sequence[str] = OFFERED
) -> list[tuple[str, str]]:
    """(stage, pass pipeline) of the dialect stages behind `after`, up to `last`.

    libraries: files of shape and dtype functions that come before ours. disabled: passes of ours to leave out.
    """
    names = STAGE_NAMES[STAGE_NAMES.index(after) + 1 : STAGE_NAMES.index(last) + 1]
    refine = f"{REFINE}{{library={','.join(libraries)}}}" if libraries else REFINE
    return [
        (
            stage.name,
            ",".join(refine if item == REFINE else item for item in _items(stage) if item not in disabled),
        )
        for stage in STAGES
        if stage.passes and stage.name in names
    ]


def optional_passes() -> list[str]:
    """The passes of ours in the stages that can be switched off."""
    items = {item for stage in STAGES for item in _items(stage)}
    return sorted({*(items.intersection(PASSES) - REQUIRED), CPU_KERNELS})


def _items(stage: Stage) -> list[str]:
    """A stage's passes; those of others may fall apart at commas of their options, and are joined again."""
    return (stage.passes or "").split(",")
