"""Our passes by name. A pass is a module of the same name (``_`` for ``-``) with ``run(module)``, loaded when used.

`run` changes the module in place and returns how much it changed, or None where that is no number. The module is
verified after it.

Options in the pipeline text, ``refine-shapes{library=my.mlir}``, are strings that `run` takes by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

PASSES: dict[str, str] = {
    "define-control-flow": "branches and loops around calls of their bodies",
    "expand-scalar-functions": "some elementwise operators become loops with bodies of our own",
    "fold-batch-norm": "factors and summands per channel go into the weights of the layer before",
    "fold-f64-constants": "Python numbers lose the f64 that torch-mlir gives them where a tensor is narrower",
    "keep-nan-comparisons": "comparisons of a float tensor with itself keep their meaning for NaN",
    "keep-narrow-rounding": "what was rounded to float16 or bfloat16 stays rounded where it is read again",
    "merge-shared-input-matmuls": "products of the same few rows with several weights become one",
    "recognize-attention": "a product, a softmax of it and a product with that become one fused attention",
    "refine-shapes": "every tensor gets the rank, sizes and dtype that shape and dtype functions tell; "
    "library=FILE,... (.py or .mlir) come before ours",
    "separate-convolution-bias": "the bias of a convolution is added behind it",
    "split-product-reductions": "a sum of products over several dimensions is summed over one of them first",
    "verify-refined": "reports every tensor whose rank or dtype is unknown",
}
"""Pass name -> one line for ``pipeline-opt --help``."""

REQUIRED = frozenset(
    {
        "define-control-flow",
        "expand-scalar-functions",
        "keep-nan-comparisons",
        "refine-shapes",
        "split-product-reductions",
        "verify-refined",
    }
)
"""Passes without which programs come out wrong or not at all; all others can be switched off."""


def load_pass(name: str) -> Callable[..., int | None]:
    """The function that runs the pass `name` over a module in place."""
    module = importlib.import_module(f"{__package__}.{name.replace('-', '_')}")
    return module.run
