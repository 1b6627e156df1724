"""Python source of shape and dtype functions to Torch dialect, without TorchScript and without torch.

`import_file` and `import_functions` give the text of a module with `__torch_mlir_shape_fn.<op>` and its like, ready
for torch-mlir's `extra-library` and for `shape_lib.refine`. Nothing is executed: files are parsed, names followed
through imports. Results are cached by the content of every file involved. Where what is:

- from files to functions: `imports` (the entry), `source` (files and scopes), `names` (whose function it is), `cache`,
  `library` (all functions of one text), `errors`
- a function's body: `context` (its state), `statements`, `control` (branches, loops), `narrowing`, `iteration`
- expressions: `expressions`, `arithmetic`, `comparisons`, `messages` (strings), `calls` and `call_site`, `builtins`,
  `list_methods`, `intrinsics`, `torch_names`; `prelude` is Python that is imported along with the user's
- types and output: `annotations`, `types`, `values`, `ir_text`
"""

from .errors import Problem, ShapeLibraryError
from .imports import import_file, import_functions

__all__ = ["Problem", "ShapeLibraryError", "import_file", "import_functions"]
