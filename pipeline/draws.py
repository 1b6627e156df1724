"""Random draws of a captured graph, as extra arguments of the entry point.

IREE's generator inside a graph ignores torch.manual_seed. As arguments, the numbers come from torch's own
generator (see `runtime.draws`), in the order in which eager draws them, so that a seed gives eager's results.

Before:  noise = bernoulli(empty_like(x), 0.75)
After:   noise = placeholder; Draw("bernoulli_", (0.75,), <type of noise>)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import optimization_hint

from pipeline.runtime.manifest import Draw, TensorSpec

from .dimensions import DimensionNames, tensor_spec
from .program import Argument

_METHODS: dict[str, tuple[str, Callable[..., Sequence[Any]]]] = {
    "aten.bernoulli.p": ("bernoulli_", lambda x, p=0.5: [p]),
    "aten.uniform.default": ("uniform_", lambda x, low=0.0, high=1.0: [low, high]),
    "aten.rand.default": ("uniform_", lambda size: [0.0, 1.0]),
    "aten.rand_like.default": ("uniform_", lambda x: [0.0, 1.0]),
    "aten.normal_functional.default": ("normal_", lambda x, mean=0.0, std=1.0: [mean, std]),
    "aten.normal.float_float": ("normal_", lambda mean, std, size: [mean, std]),
    "aten.randn.default": ("normal_", lambda size: [0.0, 1.0]),
    "aten.randn_like.default": ("normal_", lambda x: [0.0, 1.0]),
    "aten.randint.default": ("random_", lambda high, size: [0, high]),
    "aten.randint.low": ("random_", lambda low, high, size: [low, high]),
    "aten.randint_like.default": ("random_", lambda x, high: [0, high]),
    "aten.randint_like.low_dtype": ("random_", lambda x, low, high: [low, high]),
    "aten.exponential.default": ("exponential_", lambda x, lambd=1.0: [lambd]),
    "aten.log_normal.default": ("log_normal_", lambda x, mean=1.0, std=2.0: [mean, std]),
    "aten.cauchy.default": ("cauchy_", lambda x, median=0.0, sigma=1.0: [median, sigma]),
    "aten.geometric.default": ("geometric_", lambda x, p: [p]),
    "aten.randperm.default": ("randperm", lambda n: [n]),
}
"""Operator -> the tensor method that draws the same numbers, and its arguments from the operator's."""

DRAWN_OPERATORS = tuple(_METHODS)


def lift_draws(module: GraphModule, dims: DimensionNames) -> tuple[Draw, ...]:
    """Replaces every draw whose size is known when the call begins by a placeholder, in program order."""
    found: list[Draw] = []
    for node in list(module.graph.nodes):
        draw = _as_draw(node, dims) if node.op == "call_function" else None
        if draw is not None:
            _replace(module, node, f"draw {len(found)}")
            found.append(draw)
    return tuple(found)


def drawn_by(node: Node) -> tuple[str, Sequence[Any]] | None:
    """The tensor method that draws the numbers of `node`, and its arguments; None for any other operator."""
    entry = _METHODS.get(str(node.target))
    if entry is None or node.kwargs.get("generator") is not None:
        return None
    method, read = entry
    return method, read(*node.args)


def _as_draw(node: Node, dims: DimensionNames) -> Draw | None:
    found = drawn_by(node)
    if found is None:
        return None
    method, given = found
    value = node.meta["val"]
    arguments = [_number(argument, dims) for argument in given]
    spec = tensor_spec(value, dims)
    sizes = [*spec.shape, *arguments]
    if None in arguments or any(isinstance(size, str) and size.startswith("unknown_") for size in sizes):
        return None
    return Draw(method, tuple(arguments), TensorSpec(spec.dtype, spec.shape), _memory_order(_filled(node)))


def _filled(node: Node) -> torch.Tensor:
    """The tensor whose memory eager fills: for ``x.uniform_()``, made functional by export, that of x."""
    first = node.args[0]
    in_place = isinstance(first, Node) and not str(node.target).split(".")[1].endswith("_like")
    value = first.meta["val"] if in_place else None  # type: ignore[union-attr]
    return value if isinstance(value, torch.Tensor) else node.meta["val"]


def _number(argument: Any, dims: DimensionNames) -> Any:
    """A number, or the expression of a symbolic int; None for what is only known inside the graph."""
    value = argument.meta["val"] if isinstance(argument, Node) else argument
    if isinstance(value, torch.SymInt):
        return dims.dim(value)
    return value if isinstance(value, (int, float)) else None


def _memory_order(value: torch.Tensor) -> tuple[int, ...]:
    """The dimensions from outermost to innermost in memory: eager fills them in this order."""
    strides = [optimization_hint(stride) for stride in value.stride()]
    return tuple(sorted(range(value.dim()), key=lambda axis: -strides[axis]))


def _replace(module: GraphModule, node: Node, name: str) -> None:
    last = [other for other in module.graph.nodes if other.op == "placeholder"]
    anchor = last[-1] if last else next(iter(module.graph.nodes))
    insert = module.graph.inserting_after if last else module.graph.inserting_before
    with insert(anchor):
        argument = module.graph.placeholder(name.replace(" ", "_"))
    argument.meta = {**node.meta, "pipeline.argument": Argument("draw", name)}
    node.replace_all_uses_with(argument)
    module.graph.erase_node(node)
