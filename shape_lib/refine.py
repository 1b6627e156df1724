"""From the importer's Torch dialect to one in which every tensor has a known rank and dtype."""

from __future__ import annotations

# Operators that the lowering to linalg takes whole although torch-mlir would decompose them: with symbolic
# sizes their decomposition loses which dimension is which.
BACKEND_LEGAL_OPS = ("aten.flatten.using_ints", "aten.unflatten.int")

REFINE_PIPELINE = (
    "func.func(torch-match-quantized-custom-ops),"
    "torchdynamo-export-to-torch-backend-pipeline"
    f"{{backend-legal-ops={','.join(BACKEND_LEGAL_OPS)} extra-library=}}"
)
"""Shape and dtype refinement as torch-mlir does it for exported programs, decomposition included."""
