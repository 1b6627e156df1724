"""torch-mlir's own way from an exported program to what it lowers: decompositions, no refinement of types."""

from __future__ import annotations

# Operators that the lowering to linalg takes whole although torch-mlir would decompose them: with symbolic sizes their
# decomposition loses which dimension is which, and attention is there only where a pass has recognised it.
BACKEND_LEGAL_OPS = ("aten.flatten.using_ints", "aten.unflatten.int", "aten.scaled_dot_product_attention")

EXPORT_PIPELINE = (
    "func.func(torch-match-quantized-custom-ops),"
    "torchdynamo-export-to-torch-backend-pipeline"
    f"{{backend-legal-ops={','.join(BACKEND_LEGAL_OPS)} extra-library=}}"
)
