"""Decompositions applied once per distinct call after capture, instead of inside torch.export.

`run_decompositions` traces every call of every operator three times, and with dynamic dimensions each trace
costs milliseconds of symbolic arithmetic: attention and linear layers were two thirds of the time that
BERT's capture took. A decomposition that mutates nothing can wait: here each distinct call (operator, types,
constants) is traced alone, once, and its graph copied to every place it stands for.

Before:  %y = aten.linear(%x: [b, s, 768], %w, %bias)
After:   %v = aten.view(%x, [b*s, 768]);  %a = aten.addmm(%bias, %v, %t);  %y = aten.view(%a, [b, s, 768])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import GraphModule

from .inlining import Inliner, Table

# Frequent in transformers, and functional: nothing of theirs is lost by waiting.
LATE = (
    "aten.scaled_dot_product_attention.default",
    "aten.linear.default",
    "aten.layer_norm.default",
    "aten.matmul.default",
    "aten.softmax.int",
    "aten.conv2d.default",
    # torch.export overlooks decompositions of operators that are both composite and have kernels.
    "aten.silu_backward.default",
    "aten.mish_backward.default",
    "aten.upsample_nearest1d.default",
    "aten.upsample_nearest2d.default",
    "aten.upsample_nearest3d.default",
    "aten._upsample_nearest_exact1d.default",
    "aten._upsample_nearest_exact2d.default",
    "aten._upsample_nearest_exact3d.default",
)


def split_table(table: Table) -> tuple[dict[Any, Callable[..., Any]], dict[Any, Callable[..., Any]]]:
    """(decompositions for torch.export, decompositions for `decompose_late`)."""
    late = {op: function for op, function in table.items() if str(op) in LATE}
    return {op: function for op, function in table.items() if op not in late}, late


def decompose_late(module: GraphModule, late: Table, table: Table) -> None:
    """Replaces every call of an operator of `late`, decomposing what it becomes by `table`."""
    inliner = Inliner(module, table)
    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target in late:
            inliner.inline(node, late[node.target])
    inliner.finish()
