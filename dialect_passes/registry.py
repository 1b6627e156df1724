"""Our passes by name. A pass is a module of the same name (``-`` for ``_``) with ``run(module)``, loaded when used.

Options in the pipeline text, ``refine-shapes{library=my.mlir}``, are strings that `run` takes by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

PASSES: dict[str, str] = {
    "fold-f64-constants": "Python numbers lose the f64 that torch-mlir gives them where a tensor is narrower",
    "keep-nan-comparisons": "comparisons of a float tensor with itself keep their meaning for NaN",
    "refine-shapes": "every tensor gets the rank, sizes and dtype that shape and dtype functions tell; "
    "library=FILE,... (.py or .mlir) come before ours",
    "verify-refined": "reports every tensor whose rank or dtype is unknown",
}
"""Pass name -> one line for ``pipeline-opt --help``."""


def load_pass(name: str) -> Callable[..., None]:
    """The function that runs the pass `name` over a module in place."""
    module = importlib.import_module(f"{__package__}.{name.replace('-', '_')}")
    return module.run
