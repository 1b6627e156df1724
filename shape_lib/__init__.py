"""Shapes and dtypes of the Torch dialect: how types are refined after import. Imports no torch.

- writing functions: `registry` (decorators), `dtypes`, `sizes`, `helpers`
- `importer` turns them into the Torch dialect; `user_cache` keeps what it made
- `refine` applies them to a program, by `abstract` interpretation, with the parts in `refinement`; `verifier` has the
  last word; `tensor_types`, `locations`, `errors`
- `export_pipeline`: torch-mlir's own passes on an exported program
"""
