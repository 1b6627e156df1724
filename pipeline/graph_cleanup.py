"""Last touches on a captured FX graph, so that the importer sees only what it translates faithfully."""

from __future__ import annotations

import operator
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node

from .comparisons import match_compared_numbers
from .constant_values import fold_constants
from .control_flow import graphs
from .empty_tensors import make_empty_tensors
from .narrow_integers import widen_narrow_integers
from .number_operands import make_numbers_tensors
from .symbolic_numbers import spell_symbolic_numbers
from .symbolic_views import rewrite_views

_ROLE_ORDER = {"input": 0, "draw": 1, "state": 2, "weight": 3}

# Checks and hints of export that compute nothing. A size check that can fail is the runtime's business.
_NO_VALUE = (
    "aten._assert_tensor_metadata",
    "aten._assert_scalar",
    "aten.sym_constrain_range",
    "aten.sym_constrain_range_for_size",
    "aten._assert_async",
)


# torch-mlir's lowering of these crashes on a dimension counted from the end.
_SCATTERS = ("aten.scatter", "aten.scatter_add", "aten.scatter_reduce")


def clean_graph(module: GraphModule) -> None:
    """Removes checks, rewrites what the importer or the lowering gets wrong, orders the arguments.

    Likewise the bodies of control flow, whose arguments have their order already.
    """
    for graph in graphs(module):
        _clean(graph)
    _order_placeholders(module)
    module.graph.lint()


def _clean(module: GraphModule) -> None:
    for node in list(module.graph.nodes):
        if node.op == "call_function" and _packet_name(node.target) in _NO_VALUE:
            module.graph.erase_node(node)
        elif node.op == "call_function" and _packet_name(node.target) in _SCATTERS:
            _count_from_the_front(node)
        elif node.target is torch.ops.aten.select_scatter.default:
            _select_from_the_front(module, node)
    _fold_constant_symbols(module)
    spell_symbolic_numbers(module)
    make_numbers_tensors(module)
    make_empty_tensors(module)
    rewrite_views(module)
    fold_constants(module)
    match_compared_numbers(module)
    widen_narrow_integers(module)
    module.graph.eliminate_dead_code()


def _packet_name(target: Any) -> str:
    packet = getattr(target, "_overloadpacket", None)
    return str(packet) if packet is not None else ""


def _count_from_the_front(node: Node) -> None:
    target, dim, *rest = node.args
    assert isinstance(target, Node) and isinstance(dim, int)
    if dim < 0:
        node.args = (target, dim + target.meta["val"].dim(), *rest)


def _select_from_the_front(module: GraphModule, node: Node) -> None:
    """torch-mlir writes a slice up to the next place: behind the last place of an open size, counted as -1, is 0."""
    target, source, dim, index = node.args
    assert isinstance(target, Node) and isinstance(dim, int)
    size = target.meta["val"].shape[dim]
    if not isinstance(index, int) or index >= 0:
        return
    if isinstance(size, int):
        node.args = (target, source, dim, index + size)
        return
    with module.graph.inserting_before(node):
        length = module.graph.call_function(
            torch.ops.aten.sym_size.int, (target, dim % target.meta["val"].dim())
        )
        place = module.graph.call_function(operator.add, (length, index))
    kept = {key: value for key, value in node.meta.items() if key != "tensor_meta"}
    length.meta, place.meta = {**kept, "val": size}, {**kept, "val": size + index}
    node.args = (target, source, dim, place)


def _fold_constant_symbols(module: GraphModule) -> None:
    """A dimension that export specialised can survive as a symbol with a constant value.

    Imported as ``?`` it would have no bounds and its uses no value, so it becomes an int here.
    """
    for node in list(module.graph.nodes):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and node.op == "call_function":
            constant = _constant(value)
            if constant is not None:
                node.replace_all_uses_with(constant)
                module.graph.erase_node(node)


def _constant(size: torch.SymInt) -> int | None:
    expr = sympy.sympify(size.node.expr)
    return int(expr) if expr.is_Integer else None


def _order_placeholders(module: GraphModule) -> None:
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    ordered = sorted(placeholders, key=lambda node: _ROLE_ORDER[node.meta["pipeline.argument"].role])
    anchor: Node = next(iter(module.graph.nodes))
    with module.graph.inserting_before(anchor):
        marker = module.graph.call_function(torch.ops.aten.sym_size.int, (ordered[0], 0)) if ordered else None
    for node in ordered:
        marker.prepend(node)  # type: ignore[union-attr]
    if marker is not None:
        module.graph.erase_node(marker)
