"""Operators by family, and the table of decompositions applied at capture.

A decomposition is a Python function over torch operations, registered under the operator's name:

    @decomposes("aten.maximum.default")
    def maximum(a, b): ...

Shape and dtype functions stand in the same file, under `@shape_function` and `@dtype_function`
(`pipeline.shape_lib.registry`), where torch-mlir has none or a wrong one; ``python -m
pipeline.tools.check_shape_library`` checks them against PyTorch.

torch is imported inside the functions only, so that this package also loads where torch is absent.
"""

from .registry import decomposes, decomposition_table, load_families

__all__ = ["decomposes", "decomposition_table", "load_families"]
