"""Operators with effects that export orders by tokens, as plain operators again.

Export threads a token through each operator that may raise or print (``torch.linalg.cholesky`` checks its
result so), which nothing below knows. The FX graph keeps its order, so the tokens say nothing new here.

Before:  with_effects(token, aten._linalg_check_errors, info, "linalg.cholesky") -> (token,)
After:   nothing: the check computes no value
Before:  with_effects(token, ns.op, x) -> (token, y)
After:   ns.op(x) -> y
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

# Checks that compute nothing.
_CHECKS = ("aten._linalg_check_errors.default", "aten._assert_async.msg", "aten._assert_async.default")


def unwrap_effects(module: GraphModule, tokens: list[Node]) -> None:
    """Unwraps every ``with_effects`` and erases the token arguments; token results become None."""
    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target is torch.ops.higher_order.with_effects:
            _unwrap(module, node)
    for token in tokens:
        token.replace_all_uses_with(None)  # type: ignore[arg-type]
        module.graph.erase_node(token)


def _unwrap(module: GraphModule, node: Node) -> None:
    token, target, *arguments = node.args
    results = node.meta["val"][1:]
    inner: Node | None = None
    if str(target) not in _CHECKS:
        with module.graph.inserting_before(node):
            inner = module.graph.call_function(target, tuple(arguments), node.kwargs)  # type: ignore[arg-type]
        inner.meta = {**node.meta, "val": results[0] if len(results) == 1 else results}
    for user in list(node.users):
        assert user.target is operator.getitem
        index: Any = user.args[1]
        if index == 0:
            user.replace_all_uses_with(token)  # type: ignore[arg-type]
            module.graph.erase_node(user)
        elif len(results) == 1 and inner is not None:
            user.replace_all_uses_with(inner)
            module.graph.erase_node(user)
        elif inner is not None:
            user.args = (inner, index - 1)
    module.graph.erase_node(node)
