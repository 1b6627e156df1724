"""Operators on float16 and bfloat16 that stay whole become a float32 operator between two conversions.

The lowering would take some apart and round in each part (GELU), sum in float16, or never round between two: with
conversions in the graph each operator rounds once, as eager's does (`dialect_passes.operators.once_rounded`, which
the decompositions use as well). `keep-narrow-rounding` sees to it that the conversions are not folded.

Before:  y: bf16 = aten.gelu(x: bf16)
After:   y: bf16 = convert(aten.gelu(convert(x, f32)), bf16)
"""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from pipeline.dialect_passes.operators.once_rounded import once_rounded, rounds_once, takes_narrow

from .inlining import Inliner


def round_each_operator(module: GraphModule) -> None:
    """Rewrites every operator of the graph that rounds its results."""
    inliner = Inliner(module, {})
    for node in list(module.graph.nodes):
        if node.op == "call_function" and rounds_once(node.target) and takes_narrow(_values(node)):
            inliner.inline(node, once_rounded(node.target, node.target))
    inliner.finish()


def _values(node: Node) -> list[Any]:
    return [*(argument.meta.get("val") for argument in node.all_input_nodes), node.meta.get("val")]
