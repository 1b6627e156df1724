"""The meaning of a custom operator as a function that changes nothing, to be traced into a functional graph.

Before:  def meaning(x): out = x.clone(); out[0] += 1; return out
After:   out = clone(x); row = add(select(out, 0, 0), 1); return select_scatter(out, row, 0, 0)

An operator that changes its arguments comes in export's wrapper (`auto_functionalized_v2`): a call of the
operator on copies, whose results are followed by the new values of the tensors (bases) that changed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch._functorch._aot_autograd.functional_utils import has_data_mutation
from torch._higher_order_ops.auto_functionalize import (
    AsStridedViewInfo,
    ViewInfo,
    get_mutable_args,
    read_view_information_from_args,
)
from torch._subclasses.functional_tensor import FunctionalTensorMode, dispatch_functionalize
from torch.fx import Node
from torch.utils._pytree import tree_leaves, tree_map

from .dialect_passes.custom_operators.declaration import CustomOp
from .errors import InputError, UnsupportedError
from .strided_views import strided_view


def functional_meaning(op: CustomOp) -> Callable[..., Any]:
    """The meaning. When it runs it raises InputError for one that changes what mutates_args does not name."""
    return _functional(op, op.meaning)


def functional_call(op: CustomOp) -> Callable[..., Any]:
    """What export's wrapper around a call does, as a function of the wrapper's arguments.

    Raises InputError as `functional_meaning`.
    """
    return _functional(op, lambda _, **kwargs: _on_copies(op, kwargs))


def _functional(op: CustomOp, function: Callable[..., Any]) -> Callable[..., Any]:
    def watched(*args: Any, **kwargs: Any) -> Any:
        results = function(*args, **kwargs)
        # Such a change would be lost without a word: eager sees it.
        if any(
            isinstance(leaf, torch.Tensor) and has_data_mutation(leaf) for leaf in tree_leaves((args, kwargs))
        ):
            raise InputError(
                f"{op.name}: its function changes an argument in place that mutates_args does not name; "
                "name it there, or change a copy (x.clone())"
            )
        return results

    return dispatch_functionalize(watched, FunctionalTensorMode())


def _on_copies(op: CustomOp, kwargs: dict[str, Any]) -> Any:
    """kwargs: of the wrapper, which says of each argument that changes which base it is a view of."""
    bases = [base.clone() for base in kwargs.pop("_all_bases")]
    changed = _views(op, kwargs, bases)
    results = op.meaning(**(kwargs | changed))
    return (*results, *bases) if isinstance(results, (tuple, list)) else (results, *bases)


def _views(op: CustomOp, kwargs: dict[str, Any], bases: Sequence[torch.Tensor]) -> dict[str, Any]:
    """The arguments that change, as views of `bases`; what describes them is taken out of kwargs."""
    names, types = get_mutable_args(op.overload)
    found = read_view_information_from_args(names, types, kwargs, list(bases))
    return {name: tree_map(partial(_view, op, name, bases), found[name]) for name in names}


def _view(op: CustomOp, name: str, bases: Sequence[torch.Tensor], view: ViewInfo | None) -> Any:
    if not isinstance(view, AsStridedViewInfo):
        return view and view.regenerate_view(list(bases))
    found = strided_view(bases[view.base_index], view.size, view.stride, view.storage_offset)
    if found is None:
        raise UnsupportedError(
            f"{op.name}: its argument '{name}', which it changes, is a view that is no selection, slice or "
            "transposition; pass a copy, and write its new value into the tensor"
        )
    return found


def aliased_argument(op: CustomOp, node: Node) -> str | None:
    """The argument of the wrapped call `node` that may share memory with one that changes, or None.

    Eager lets the operator see there what it has just written. The wrapper passes the old values.
    """
    kwargs = dict(node.kwargs)
    bases = {_owner(base) for base in kwargs["_all_bases"]}  # type: ignore[union-attr,arg-type]
    values = dict(torch.fx.node.map_arg(kwargs, lambda n: n.meta["val"]))  # type: ignore[arg-type]
    changed = _views(op, values, values.pop("_all_bases"))
    spans = [_span(view) for view in tree_leaves(changed) if view is not None]
    for name in values:
        for leaf in tree_leaves(kwargs[name]):
            if isinstance(leaf, Node) and _owner(leaf) in bases and _overlaps(_span(leaf.meta["val"]), spans):
                return name
    return None


def _owner(node: Node) -> Node:
    """The node that made the memory that the result of `node` is a view of."""
    while (source := _viewed(node)) is not None:
        node = source
    return node


def _viewed(node: Node) -> Node | None:
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], Node):
        return None
    if node.target is operator.getitem:
        # Of several results: chunk and split give views. Those of any other operator are its own.
        return node.args[0] if _viewed(node.args[0]) is not None else None
    returns = node.target._schema.returns if isinstance(node.target, torch._ops.OpOverload) else []
    return node.args[0] if returns and returns[0].alias_info is not None else None


def _span(tensor: torch.Tensor) -> tuple[int, int] | None:
    """First and last element in memory; None where that is known only when the program runs."""
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    ends = (tensor.storage_offset(), tensor.storage_offset() + reach)
    return ends if all(isinstance(end, int) for end in ends) else None  # type: ignore[return-value]


def _overlaps(span: tuple[int, int] | None, others: Sequence[tuple[int, int] | None]) -> bool:
    return any(
        span is None or other is None or (span[0] <= other[1] and other[0] <= span[1]) for other in others
    )
