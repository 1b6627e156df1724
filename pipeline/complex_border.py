"""Complex arguments and results of a program, as real tensors with both parts along a last dimension.

The memory is the same, so that callers notice nothing (`runtime.tensors`). IREE packs, tiles and vectorizes tensors
of real numbers; complex ones, even if they are only taken apart, make it fail.

Before:  main(%z: complex64[n]) { view_as_real(%z) ...; return aten.complex(%re, %im) }
After:   main(%z: f32[n, 2]) { ...; return cat([unsqueeze(%re, -1), unsqueeze(%im, -1)], -1) }
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

_aten = torch.ops.aten


def make_border_real(module: GraphModule) -> None:
    """Changes the types of complex arguments, constants and results of the graph."""
    for node in list(module.graph.nodes):
        if node.op in ("placeholder", "get_attr") and _is_complex(node):
            _open(module, node)
    output = next(node for node in module.graph.nodes if node.op == "output")
    results = [_parts(module, output, result) for result in output.args[0]]
    output.args = (tuple(results),)
    module.graph.eliminate_dead_code()
    module.recompile()


def _is_complex(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and value.is_complex()


def _open(module: GraphModule, node: Node) -> None:
    """Users that take the argument apart get it as it comes; for others it is put together."""
    whole = node.meta["val"]
    apart = [user for user in node.users if user.target is _aten.view_as_real.default]
    others = [user for user in node.users if user not in apart]
    node.meta = {key: value for key, value in node.meta.items() if key != "tensor_meta"}
    node.meta["val"] = torch.view_as_real(whole.resolve_conj())
    if node.op == "get_attr":
        name = str(node.target)
        module.register_buffer(
            name, torch.view_as_real(getattr(module, name).resolve_conj()), persistent=False
        )
    for user in apart:
        user.replace_all_uses_with(node)
        module.graph.erase_node(user)
    if others:
        with module.graph.inserting_after(node):
            joined = module.graph.call_function(_aten.view_as_complex.default, (node,))
        joined.meta = {"val": whole, "stack_trace": node.meta.get("stack_trace")}
        for user in others:
            user.replace_input_with(node, joined)


def _parts(module: GraphModule, output: Node, result: Any) -> Any:
    """A complex result by its parts."""
    if not _is_complex(result):
        return result
    whole = result.meta["val"]
    if result.target is _aten.view_as_complex.default:
        return result.args[0]
    with module.graph.inserting_before(output):
        if result.target is not _aten.complex.default:
            return _call(module, _aten.view_as_real.default, result)
        columns = []
        for part in result.args:
            same = tuple(part.meta["val"].shape) == tuple(whole.shape)
            column = part if same else _call(module, _aten.expand.default, part, list(whole.shape))
            columns.append(_call(module, _aten.unsqueeze.default, column, -1))
        return _call(module, _aten.cat.default, columns, -1)


def _call(module: GraphModule, target: Any, *args: Any) -> Node:
    call = module.graph.call_function(target, args)
    call.meta["val"] = target(*torch.fx.node.map_arg(args, lambda node: node.meta["val"]))
    return call
