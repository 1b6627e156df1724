"""Complex tensors become pairs of real ones, so that no complex arithmetic reaches torch-mlir.

torch-mlir and IREE lower a few operators on complex elements, some of them wrongly, and know no ``complex<f64>``.
Here every operator with complex arguments or results is replaced by what it does to their parts
(`dialect_passes.complex_numbers`). Complex numbers remain at the border, where they are taken apart and put together.

Before:  %y = aten.mul.Tensor(%a: complex64, %b: complex64)
After:   %ar = select(view_as_real(%a), -1, 0); ...;  %y = aten.complex(%ar * %br - %ai * %bi, ...)

An operator without a rule stays as it is, and is refused (`refusals`).
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from pipeline.dialect_passes.complex_numbers import Pair, has_rule, rule_of

from .inlining import Table


def split_complex(module: GraphModule, table: Table) -> None:
    """Rewrites the graph. table: decompositions applied to what operators become."""
    if not any(
        _is_complex(value) for node in module.graph.nodes for value in tree_leaves(node.meta.get("val"))
    ):
        return
    splitter = _Splitter(module, table)
    for node in list(module.graph.nodes):
        splitter.visit(node)
    module.graph.eliminate_dead_code()
    module.recompile()


def _is_complex(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_complex()


class _Splitter:
    """Knows the parts of every complex value seen so far."""

    def __init__(self, module: GraphModule, table: Table) -> None:
        self._module = module
        self._graph = module.graph
        self._table = table
        self._parts: dict[Node, Any] = {}

    def visit(self, node: Node) -> None:
        """Replaces one node, or makes its complex arguments whole where it must stay."""
        if node.op != "call_function":
            self._make_whole(node)
        elif node.target is operator.getitem:
            self._pick(node)
        elif node.target is torch.ops.aten.sym_size.int:
            self._measure(node)
        elif self._concerns(node):
            if isinstance(node.target, torch._ops.OpOverload) and has_rule(node.target):
                self._replace(node)
            else:
                self._make_whole(node)

    def _concerns(self, node: Node) -> bool:
        values = [argument.meta.get("val") for argument in node.all_input_nodes]
        return any(map(_is_complex, tree_leaves([*values, node.meta.get("val")])))

    def _pick(self, node: Node) -> None:
        source, index = node.args
        found = self._parts.get(source)  # type: ignore[arg-type]  # the source of an item is a node
        if isinstance(found, (list, tuple)):
            self._settle(node, found[index])  # type: ignore[index]

    def _measure(self, node: Node) -> None:
        """A complex tensor has the sizes of its parts."""
        source = node.args[0]
        assert isinstance(source, Node)
        if _is_complex(source.meta.get("val")):
            node.args = (self._pair(source).re, *node.args[1:])

    def _settle(self, node: Node, result: Any) -> None:
        """Gives the users of a replaced node its result; pairs wait for theirs."""
        if isinstance(result, Node):
            node.replace_all_uses_with(result)
        else:
            self._parts[node] = result

    def _make_whole(self, node: Node) -> None:
        """Puts complex arguments together again before `node`."""

        def whole(argument: Node) -> Node:
            pair = self._parts.get(argument)
            return (
                argument
                if pair is None or argument.op in ("placeholder", "get_attr")
                else self._joined(argument)
            )

        node.args = torch.fx.node.map_arg(node.args, whole)
        node.kwargs = torch.fx.node.map_arg(node.kwargs, whole)

    def _joined(self, node: Node) -> Node:
        """The complex tensor of a pair, made once, where its parts are known."""
        pair = self._parts[node]
        assert isinstance(pair, Pair)
        last: Any = pair.im if _comes_after(self._graph, pair.im, pair.re) else pair.re
        for user in last.users:
            if user.target is torch.ops.aten.complex.default and user.args == (pair.re, pair.im):
                return user
        with self._graph.inserting_after(last):
            call = self._graph.call_function(torch.ops.aten.complex.default, (pair.re, pair.im))  # type: ignore[arg-type]
        call.meta = {**node.meta}
        return call

    def _pair(self, node: Node) -> Any:
        """The parts of a complex value; of one that comes as it is they are taken here, once."""
        if node not in self._parts:
            with self._graph.inserting_after(node):
                both = _call(self._graph, node, torch.ops.aten.view_as_real.default, node)
            with self._graph.inserting_after(both):
                re = _call(self._graph, node, torch.ops.aten.select.int, both, -1, 0)
            with self._graph.inserting_after(re):
                im = _call(self._graph, node, torch.ops.aten.select.int, both, -1, 1)
            self._parts[node] = Pair(re, im)  # type: ignore[arg-type]  # nodes stand for their values
        return self._parts[node]

    def _replace(self, node: Node) -> None:
        leaves, spec = tree_flatten((node.args, node.kwargs))
        nodes: list[Node] = []
        kinds: list[Any] = []
        for leaf in leaves:
            if isinstance(leaf, Node) and _is_complex(leaf.meta.get("val")):
                pair = self._pair(leaf)
                nodes += [pair.re, pair.im]
                kinds.append(2)
            elif isinstance(leaf, Node):
                nodes.append(leaf)
                kinds.append(1)
            else:
                kinds.append(0)
        traced, shape = self._trace(node, leaves, kinds, spec, nodes)
        results = self._copy(node, traced, nodes)
        self._settle(node, _unflatten(iter(results), shape))

    def _trace(
        self, node: Node, leaves: list[Any], kinds: list[int], spec: Any, nodes: list[Node]
    ) -> tuple[GraphModule, Any]:
        """The graph of the operator over parts, and how its results are put together."""
        value = node.meta["val"]
        dtypes = [item.dtype for item in tree_leaves(value) if _is_complex(item)]
        function = rule_of(node.target, dtypes[0] if dtypes else None)
        shapes: list[Any] = []

        def call(*values: Any) -> Any:
            given = iter(values)
            filled = [_take(given, kind, leaf) for kind, leaf in zip(kinds, leaves, strict=True)]
            args, kwargs = tree_unflatten(filled, spec)
            result = function(*args, **kwargs)
            flat, shape = _flatten_pairs(result)
            shapes.append(shape)
            return flat

        values = [item.meta["val"] for item in nodes]
        mode = detect_fake_mode([*values, *tree_leaves(value)])
        with torch.no_grad(), mode or contextlib.nullcontext():
            own = [item.detach() if isinstance(item, torch.Tensor) else item for item in values]
            return make_fx(call, decomposition_table=dict(self._table))(*own), shapes[0]

    def _copy(self, node: Node, traced: GraphModule, arguments: list[Node]) -> list[Node]:
        copies: dict[Node, Any] = dict(
            zip((n for n in traced.graph.nodes if n.op == "placeholder"), arguments, strict=True)
        )
        results: list[Node] = []
        for inner in traced.graph.nodes:
            if inner.op == "output":
                results = list(torch.fx.node.map_arg(inner.args[0], lambda n: copies[n]))
            elif inner.op == "get_attr":
                copies[inner] = self._constant(node, getattr(traced, str(inner.target)))
            elif inner.op != "placeholder":
                with self._graph.inserting_before(node):
                    copies[inner] = self._graph.node_copy(inner, lambda n: copies[n])
                copies[inner].meta = {**inner.meta, "stack_trace": node.meta.get("stack_trace")}
        return results

    def _constant(self, node: Node, value: torch.Tensor) -> Node:
        name = f"_part_{node.name}_{len(list(self._module.buffers()))}"
        self._module.register_buffer(name, value, persistent=False)
        with self._graph.inserting_before(node):
            constant = self._graph.get_attr(name)
        constant.meta = {"val": value}
        return constant


def _take(given: Any, kind: int, leaf: Any) -> Any:
    if kind == 2:
        return Pair(next(given), next(given))
    return next(given) if kind == 1 else leaf


def _flatten_pairs(result: Any) -> tuple[list[Any], Any]:
    """Tensors of a result, and a tree of the same form with pairs; None for one tensor."""
    if isinstance(result, Pair):
        return [result.re, result.im], "pair"
    if isinstance(result, (list, tuple)):
        flat: list[Any] = []
        shapes = []
        for item in result:
            tensors, shape = _flatten_pairs(item)
            flat += tensors
            shapes.append(shape)
        return flat, shapes
    return [result], None


def _unflatten(flat: Any, shape: Any) -> Any:
    if shape == "pair":
        return Pair(next(flat), next(flat))
    return [_unflatten(flat, item) for item in shape] if isinstance(shape, list) else next(flat)


def _call(graph: torch.fx.Graph, source: Node, target: Callable[..., Any], *args: Any) -> Node:
    call = graph.call_function(target, args)
    values = tree_map(lambda item: item.meta["val"].resolve_conj() if isinstance(item, Node) else item, args)
    call.meta = {"val": target(*values), "stack_trace": source.meta.get("stack_trace")}
    return call


def _comes_after(graph: torch.fx.Graph, a: Any, b: Any) -> bool:
    for node in graph.nodes:
        if node is a:
            return False
        if node is b:
            return True
    return False
