"""Which values backward computes again instead of keeping them from forward: PyTorch's partitioner decides.

It divides the joint graph into forward and backward, and puts what is cheaper to compute again into both. Here the two
become one graph again. Compilers merge equal operations, so what backward computes again begins with operands that are
behind a guard: a selection that always takes the value, and that no compiler can see through, since its condition
depends on the loss. So it also cannot be computed before forward has ended.

Before:  %y = tanh(%x);  ...  %g = tanh_backward(%d, %y)
After:   %y = tanh(%x);  ...  %x_1 = where(%always, %x, 0);  %y_1 = tanh(%x_1);  %g = tanh_backward(%d, %y_1)
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch._functorch import config, partitioners
from torch._functorch._aot_autograd.descriptors import (
    BufferAOTInput,
    GradAOTOutput,
    ParamAOTInput,
    PlainAOTOutput,
)
from torch.fx import Graph, GraphModule, Node, traceback
from torch.utils import checkpoint
from torch.utils.checkpoint import CheckpointPolicy

from pipeline.errors import InputError

MODES = ("none", "min-cut", "all")

MARKS = {"recompute", "ac_graph_id"}
"""What PyTorch writes at nodes of checkpointed regions: whether to compute again, and the region's number."""

_FIXED = (ParamAOTInput, BufferAOTInput)

STEPS = "steps"
"""The placeholder of the count of steps: a number that is not negative, which only we know."""


def check_recompute(recompute: str, memory_budget: float | None) -> None:
    """Raises InputError for options that do not exist or do not fit each other."""
    if recompute not in MODES:
        raise InputError(f"recompute '{recompute}' is unknown; choose from {', '.join(MODES)}")
    if memory_budget is None:
        return
    if recompute != "min-cut":
        raise InputError(f"memory_budget goes with recompute='min-cut', not with '{recompute}'")
    if not 0 < memory_budget <= 1:
        raise InputError(
            f"memory_budget must be above 0 and at most 1, got {memory_budget}; recompute='all' keeps nothing"
        )


@contextlib.contextmanager
def checkpoints_marked() -> Iterator[None]:
    """While it is open, what is traced in ``torch.utils.checkpoint`` is marked as the partitioner expects it."""
    original, numbers = checkpoint._checkpoint_without_reentrant_generator, itertools.count()

    def marked(
        function: Any,
        preserve: bool = True,
        context_fn: Any = checkpoint.noop_context_fn,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        contexts = _recompute_all if context_fn is checkpoint.noop_context_fn else context_fn
        before = {key: traceback.current_meta[key] for key in MARKS & traceback.current_meta.keys()}
        numbered = functools.partial(_numbered, contexts, numbers)
        yield from original(function, preserve, numbered, *args, **kwargs)
        for key in MARKS:
            traceback.current_meta.pop(key, None)
        traceback.current_meta.update(before)

    with mock.patch.object(checkpoint, "_checkpoint_without_reentrant_generator", marked):
        yield


def _recompute_all() -> Any:
    return checkpoint.create_selective_checkpoint_contexts(lambda *_, **__: CheckpointPolicy.PREFER_RECOMPUTE)


def _numbered(contexts: Callable[[], Any], numbers: Iterator[int]) -> Any:
    """The contexts of one region, with the number by which the partitioner tells regions apart."""
    forward, again = contexts()
    if isinstance(forward, checkpoint._CachingTorchDispatchMode):
        forward.ac_graph_id = next(numbers)
    return forward, again


def with_recomputation(joint: GraphModule, recompute: str, memory_budget: float | None) -> GraphModule:
    """The joint graph with what backward is to compute again; if there is some, with one more argument: `STEPS`."""
    results = next(iter(joint.graph.find_nodes(op="output"))).meta["desc"]
    count = next((i for i, result in enumerate(results) if isinstance(result, GradAOTOutput)), None)
    nothing = recompute == "none" and not any(_is_checkpointed(node) for node in joint.graph.nodes)
    if count is None or nothing:
        return joint
    for node in joint.graph.nodes:
        if node.op == "call_function":
            _mark(node, recompute)
    partition = (
        partitioners.default_partition
        if recompute == "none"
        else partitioners.min_cut_rematerialization_partition
    )
    budget = 1.0 if memory_budget is None else float(memory_budget)
    # What counts as random there is attention without dropout; draws are marked.
    no_draws = mock.patch.object(partitioners, "has_recomputable_rng_ops", lambda _: False)
    with config.patch(activation_memory_budget=budget), no_draws:
        forward, backward = partition(joint, None, num_fwd_outputs=count)
    return _Joined(joint, forward, backward).module


def _is_checkpointed(node: Node) -> bool:
    return node.meta.get("recompute") in (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


def _mark(node: Node, recompute: str) -> None:
    """What must not be computed again: draws, which would give other numbers. What must be, if that is asked for."""
    source = node.all_input_nodes[0] if node.target is operator.getitem else node
    if not _draws(source):
        if recompute == "all":
            node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
    elif isinstance(node.meta["val"], torch.Tensor):
        node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    else:  # its results are kept
        node.meta.pop("recompute", None)


def _draws(node: Node) -> bool:
    """Attention is marked as random for the dropout that it may have."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    names = [argument.name for argument in node.target._schema.arguments]
    given: dict[str, Any] = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    return "dropout_p" not in names or bool(given.get("dropout_p", 0.0) != 0.0)


class _Joined:
    """Forward and backward as one graph over the arguments of the joint graph."""

    def __init__(self, joint: GraphModule, forward: GraphModule, backward: GraphModule) -> None:
        self._graph = Graph()
        arguments = joint.graph.find_nodes(op="placeholder")
        self._forward = {node.name: self._graph.node_copy(node) for node in arguments}
        self._fixed = {node.name for node in arguments if isinstance(node.meta["desc"], _FIXED)}
        self._steps = self._graph.placeholder(STEPS)
        self._guarded: dict[str, Node] = {}
        self._backward: dict[Node, Node] = {}
        results = self._add_forward(forward)
        output = next(iter(joint.graph.find_nodes(op="output")))
        count = len(output.args[0]) - len(next(iter(backward.graph.find_nodes(op="output"))).args[0])
        self._always = self._condition(_loss(results[:count], output.meta["desc"]))
        made = self._graph.output((*results[:count], *self._add_backward(backward)))
        made.meta = dict(output.meta)
        self._graph.eliminate_dead_code()
        self.module = GraphModule(joint, self._graph)

    def _add_forward(self, forward: GraphModule) -> list[Any]:
        for node in forward.graph.nodes:
            if node.op == "output":
                return torch.fx.map_arg(list(node.args[0]), lambda n: self._forward[n.name])
            if node.op != "placeholder":
                self._forward[node.name] = self._graph.node_copy(node, lambda n: self._forward[n.name])
        raise AssertionError("a graph ends with its output")

    def _condition(self, loss: Node) -> Node:
        """True, as the number of steps is not negative."""
        negative = self._graph.call_function(torch.ops.aten.lt.Scalar, (loss, 0))
        number = self._graph.call_function(torch.ops.aten.add.Tensor, (self._steps, negative))
        return self._graph.call_function(torch.ops.aten.ge.Scalar, (number, 0))

    def _add_backward(self, backward: GraphModule) -> list[Any]:
        for node in backward.graph.nodes:
            if node.op == "output":
                return torch.fx.map_arg(list(node.args[0]), self._value)
            if node.op != "placeholder" and not self._is_there_already(node):
                again = node.name in self._forward
                take = self._value_again if again else self._value
                operands = {operand: take(operand) for operand in node.all_input_nodes}
                self._backward[node] = self._graph.node_copy(node, operands.__getitem__)
        raise AssertionError("a graph ends with its output")

    def _is_there_already(self, node: Node) -> bool:
        """Whether it computes from parameters alone what forward has computed: they are there all the time."""
        return node.name in self._forward and not any(map(self._changes, node.all_input_nodes))

    def _changes(self, operand: Node) -> bool:
        return operand in self._backward or (operand.op == "placeholder" and operand.name not in self._fixed)

    def _value(self, node: Node) -> Node:
        return self._backward[node] if node in self._backward else self._forward[node.name]

    def _value_again(self, node: Node) -> Node:
        """The operand of what is computed again."""
        if (
            node in self._backward
            or not self._changes(node)
            or not isinstance(node.meta["val"], torch.Tensor)
        ):
            return self._value(node)  # sizes are there all the time too
        if node.name not in self._guarded:
            value = self._forward[node.name]
            guard = self._graph.call_function(torch.ops.aten.where.ScalarOther, (self._always, value, 0))
            guard.meta = {"val": value.meta["val"]}
            self._guarded[node.name] = guard
        return self._guarded[node.name]


def _loss(results: list[Any], descriptors: Any) -> Node:
    pairs = zip(results, descriptors, strict=False)
    return next(value for value, descriptor in pairs if isinstance(descriptor, PlainAOTOutput))
