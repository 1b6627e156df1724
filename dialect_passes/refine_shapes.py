"""refine-shapes: every tensor gets the rank, sizes and dtype that shape and dtype functions tell.

Before:  %r = torch.operator "torch.mylib.pad"(%x) : (!torch.vtensor<[?,4],f32>) -> !torch.vtensor
After:   %r = torch.operator "torch.mylib.pad"(%x) : (!torch.vtensor<[?,4],f32>) -> !torch.vtensor<[?,8],f32>

The functions are those of the libraries given, then those beside our operators (`dialect_passes.operators`), then
torch-mlir's. Where all types are known, which is how capture leaves a program, this does nothing.
"""

from __future__ import annotations

from torch_mlir import ir

from pipeline.shape_lib.refine import open_operators, refine_shapes

from .shape_libraries import default_libraries, read_libraries


def run(module: ir.Module, library: str = "") -> None:
    """Changes `module` in place.

    library: files, separated by commas: Python (``.py``) or Torch dialect (``.mlir``). Raises the errors of
    `shape_lib.refine.refine_shapes`, and ShapeLibraryError for a file that is none or a function defined twice.
    """
    texts = read_libraries(library.split(","), module.context) if library else []
    operators = open_operators(module)
    if operators:
        refine_shapes(module, [*texts, *default_libraries(operators)])
