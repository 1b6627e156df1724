"""Forward and backward of a loss as one graph of ATen operators, from AOTAutograd.

AOTAutograd makes it functional: what a module updates in its forward pass, such as the running statistics of
batch norm, leaves as results.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch._export.utils import _compiling_state_context
from torch._functorch._aot_autograd import graph_capture
from torch._functorch._aot_autograd.descriptors import (
    BufferAOTInput,
    GradAOTOutput,
    InputMutationAOTOutput,
    ParamAOTInput,
    PlainAOTInput,
    PlainAOTOutput,
    TangentAOTInput,
)
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta
from torch.utils._pytree import tree_leaves

from pipeline.dialect_passes.operators import decomposition_table
from pipeline.dialect_passes.operators.registry import make_traceable
from pipeline.errors import InputError, PipelineError, UnsupportedError
from pipeline.value_checks import without_value_checks

from .batch_sizes import BatchTrace, Shapes
from .generator import KeyInput, draw_inside, draw_key
from .loss import BatchLoss
from .recomputation import checkpoints_marked, with_recomputation


@dataclass
class LossGradients:
    """The joint graph of a loss.

    module: over `inputs` (descriptors: parameters, buffers, arguments, cotangents) in order; its results are
        `outputs` in order.
    recomputes: `module` takes the count of steps behind `inputs` (see `recomputation`).
    names: each name of a parameter or buffer -> the first name of the same tensor. AOTAutograd lists a tied
        parameter under every name, each with the gradient of what was done under that name.
    """

    module: torch.fx.GraphModule
    inputs: list[Any]
    outputs: list[Any]
    names: dict[str, str]

    @property
    def recomputes(self) -> bool:
        """Whether backward computes again some of what forward computed."""
        return len(self.module.graph.find_nodes(op="placeholder")) > len(self.inputs)

    @property
    def parameters(self) -> list[str]:
        """The first names of the parameters that get a gradient."""
        return list(dict.fromkeys(self.names[o.grad_of.target] for o in self._kept(GradAOTOutput)))

    @property
    def updated(self) -> list[str]:
        """The names of the buffers that the forward pass updates."""
        return [o.mutated_input.target for o in self._kept(InputMutationAOTOutput)]

    def _kept(self, kind: type) -> list[Any]:
        return [output for output in self.outputs if isinstance(output, kind)]

    def __call__(
        self,
        tensors: Mapping[str, torch.Tensor],
        batch: Sequence[Any],
        *,
        steps: torch.Tensor,
        scale: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """The loss, gradients by parameter, new values by buffer.

        tensors: parameters and buffers by first name. steps: how many were done, int64 without dimensions.
        scale: of the gradients, float32 without dimensions.
        """
        leaves = tree_leaves(batch)
        cotangent = torch.ones(()) if scale is None else scale
        values = [self._value(descriptor, tensors, leaves, cotangent) for descriptor in self.inputs]
        if self.recomputes:
            values.append(steps)
        with preserve_node_meta():  # or errors could not name the user's lines
            results = torch.fx.Interpreter(self.module).run(*values)
        found = dict(zip(self.outputs, results, strict=True))
        loss = next(found[output] for output in self._kept(PlainAOTOutput))
        updates = {o.mutated_input.target: found[o] for o in self._kept(InputMutationAOTOutput)}
        gradients: dict[str, torch.Tensor] = {}
        for output in self._kept(GradAOTOutput):
            name = self.names[output.grad_of.target]
            gradients[name] = gradients[name] + found[output] if name in gradients else found[output]
        return loss, gradients, updates

    def _value(
        self,
        descriptor: Any,
        tensors: Mapping[str, torch.Tensor],
        batch: Sequence[Any],
        cotangent: torch.Tensor,
    ) -> Any:
        if isinstance(descriptor, (ParamAOTInput, BufferAOTInput)):
            return tensors[self.names[descriptor.target]]
        if isinstance(descriptor, PlainAOTInput):
            return batch[descriptor.idx]
        if isinstance(descriptor, KeyInput):
            return draw_key()
        assert isinstance(descriptor, TangentAOTInput)
        return cotangent.to(self._loss_type())

    def _loss_type(self) -> torch.dtype:
        output = next(node for node in self.module.graph.nodes if node.op == "output")
        index = next(i for i, item in enumerate(self.outputs) if isinstance(item, PlainAOTOutput))
        return output.args[0][index].meta["val"].dtype


def trace_gradients(
    loss: BatchLoss,
    batch: tuple[Any, ...],
    recompute: str = "none",
    memory_budget: float | None = None,
    generator: str = "arguments",
    shapes: Shapes | None = None,
) -> LossGradients:
    """Traces forward and backward for the shapes of `batch`, except the dimensions that `shapes` leaves open.

    recompute, memory_budget: what backward computes again, beside what the model checkpoints.
    generator: of random numbers, see `generator`.
    Raises InputError for a batch that does not fit or a loss that depends on no parameter, UnsupportedError for
    what cannot be traced, such as a model that updates its inputs.
    """
    make_traceable()
    sizes = BatchTrace(loss, batch, shapes, loss.names(len(batch)))
    # Models look whether they are compiled, and leave out checks of values then.
    with (
        contextlib.ExitStack() as stack,
        warnings.catch_warnings(),
        without_value_checks(),
        _compiling_state_context(),
        _lines_kept(),
        sizes.traced(),
        checkpoints_marked(),
    ):
        warnings.simplefilter("ignore")
        try:
            joint = aot_export_joint_with_descriptors(stack, loss, sizes.args, decompositions=_early())
        except PipelineError:
            raise
        except Exception as error:
            raise _trace_error(error) from error
        module = joint.graph_module
        sizes.check(module)
    _give_lines_to_backward(module)
    module.graph.set_codegen(torch.fx.graph.CodeGen())
    if generator == "in-graph":
        draw_inside(module)
    return _flat(with_recomputation(module, recompute, memory_budget), _first_names(loss))


def _early() -> dict[Any, Any]:
    """Random operators become draws and what is computed from them, which is not random any more.

    Attention, which may have dropout, stays whole.
    """
    table = decomposition_table().items()
    random = {op: function for op, function in table if torch.Tag.nondeterministic_seeded in op.tags}
    return {op: function for op, function in random.items() if "attention" not in str(op)}


def _lines_kept() -> contextlib.AbstractContextManager[Any]:
    """AOTAutograd asks for no lines of Python when it traces; errors name the user's."""
    return mock.patch.object(graph_capture, "make_fx", functools.partial(make_fx, record_stack_traces=True))


def _give_lines_to_backward(module: torch.fx.GraphModule) -> None:
    """A backward operator gets the line of the forward operator that it belongs to, by autograd's own numbers."""
    lines: dict[int, str] = {}
    for node in module.graph.nodes:
        number = node.meta.get("seq_nr")
        if number is None or node.op != "call_function":
            continue
        if node.stack_trace:
            lines.setdefault(number, node.stack_trace)
        elif number in lines:
            node.stack_trace = lines[number]


def _first_names(loss: BatchLoss) -> dict[str, str]:
    named = [
        *loss.named_parameters(remove_duplicate=False),
        *loss.named_buffers(remove_duplicate=False),
    ]
    first: dict[int, str] = {}
    return {name: first.setdefault(id(tensor), name) for name, tensor in named}


def _flat(module: torch.fx.GraphModule, names: dict[str, str]) -> LossGradients:
    """The graph without the results that None stands for."""
    arguments = module.graph.find_nodes(op="placeholder")
    inputs = [node.meta["desc"] for node in arguments if "desc" in node.meta]
    output = next(node for node in module.graph.nodes if node.op == "output")
    pairs = [
        (value, descriptor)
        for value, descriptor in zip(output.args[0], output.meta["desc"], strict=True)
        if isinstance(value, torch.fx.Node) and _is_wanted(descriptor)
    ]
    output.args = (tuple(value for value, _ in pairs),)
    module.recompile()
    found = LossGradients(module, inputs, [descriptor for _, descriptor in pairs], names)
    _check(found)
    return found


def _is_wanted(descriptor: Any) -> bool:
    """Gradients of the batch, where it asks for some, are nobody's business."""
    return not isinstance(descriptor, GradAOTOutput) or isinstance(descriptor.grad_of, ParamAOTInput)


def _check(found: LossGradients) -> None:
    for output in found.outputs:
        if isinstance(output, InputMutationAOTOutput) and not isinstance(
            output.mutated_input, BufferAOTInput
        ):
            raise UnsupportedError(
                f"the forward pass updates {_what(output.mutated_input)} in place; only buffers may be updated there"
            )
        if not isinstance(output, (InputMutationAOTOutput, PlainAOTOutput, GradAOTOutput)):
            raise UnsupportedError(f"the loss has a result of the kind {type(output).__name__}")
    tied = [name for name in found.updated if list(found.names.values()).count(found.names[name]) > 1]
    if tied:
        raise UnsupportedError(f"the forward pass updates the buffer '{tied[0]}', which has several names")
    if not found.parameters:
        raise InputError(
            "the loss depends on no parameter that takes a gradient, so there is nothing to train"
        )


def _what(descriptor: Any) -> str:
    if isinstance(descriptor, ParamAOTInput):
        return f"the parameter '{descriptor.target.removeprefix('model.')}'"
    return "an argument of the batch"


def _trace_error(error: Exception) -> Exception:
    """What a user can change is an InputError: shapes that do not fit, code that needs values."""
    from pipeline.capture import raising_line

    line = raising_line(error)
    at = f" (at {line})" if line else ""
    message = str(error).strip()
    if "mutating a non-functional tensor" in message:
        return UnsupportedError(
            f"the training step updates a tensor in place that is none of the model's parameters and buffers{at}; "
            "make it state with self.register_buffer(...)"
        )
    if type(error).__name__ in ("DataDependentOutputException", "GuardOnDataDependentSymNode"):
        return UnsupportedError(
            f"the training step's control flow depends on a tensor's values{at}; use torch.where, or keep that "
            f"part outside. PyTorch says: {message}"
        )
    return InputError(
        f"the training step cannot be traced with this batch{at}: {type(error).__name__}: {message}"
    )
