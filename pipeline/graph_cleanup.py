"""Last touches on a captured FX graph, so that the importer sees only what it translates faithfully."""

from __future__ import annotations

import math
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


_SYMBOLIC_FUNCTIONS: dict[Any, Any] = {
    torch.sym_min: torch.ops.prim.min.int,
    torch.sym_max: torch.ops.prim.max.int,
    math.trunc: torch.ops.aten.Int.float,
}


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
    _fold_constant_symbols(module)
    _multiply_powers(module)
    _spell_symbolic_functions(module)
    make_empty_tensors(module)
    rewrite_views(module)
    fold_constants(module)
    match_compared_numbers(module)
    widen_narrow_integers(module)
    module.graph.eliminate_dead_code()


def _packet_name(target: Any) -> str:
    packet = getattr(target, "_overloadpacket", None)
    return str(packet) if packet is not None else ""


def _spell_symbolic_functions(module: GraphModule) -> None:
    """The importer knows operators on symbolic numbers, and few functions."""
    for node in list(module.graph.nodes):
        if node.target in _SYMBOLIC_FUNCTIONS:
            node.target = _SYMBOLIC_FUNCTIONS[node.target]
        elif node.target is torch.sym_float:
            node.target, node.args = operator.truediv, (node.args[0], 1)


def _count_from_the_front(node: Node) -> None:
    target, dim, *rest = node.args
    assert isinstance(target, Node) and isinstance(dim, int)
    if dim < 0:
        node.args = (target, dim + target.meta["val"].dim(), *rest)


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


def _multiply_powers(module: GraphModule) -> None:
    """Whole powers of symbolic sizes, which torch-mlir does not import, become products."""
    for node in list(module.graph.nodes):
        if node.target not in (operator.pow, pow):
            continue
        base, exponent = node.args
        if not isinstance(base, Node) or not isinstance(exponent, int) or exponent < 1:
            continue
        product = base
        with module.graph.inserting_before(node):
            for _ in range(exponent - 1):
                previous = product
                product = module.graph.call_function(operator.mul, (previous, base))
                product.meta = {**node.meta, "val": previous.meta["val"] * base.meta["val"]}
        node.replace_all_uses_with(product)
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
