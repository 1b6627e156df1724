"""Functions of single elements, as the bodies of loops: torch-mlir lowers these operators wrongly or not at all."""

from __future__ import annotations

from collections.abc import Mapping

from . import trigonometry
from .values import Body

BODIES: Mapping[str, Body] = {
    "torch.aten.sin": trigonometry.sine,
    "torch.aten.cos": trigonometry.cosine,
}
"""Operation of the Torch dialect -> what it does to the elements of its tensors."""
