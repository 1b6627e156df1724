"""The backward of a custom operator: derived from its meaning, or written by hand."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._functorch.utils import unwrap_dead_wrappers

from . import composition
from .composition import filled
from .errors import DeclarationError, GradientError
from .results import packed

if TYPE_CHECKING:
    from .declaration import CustomOp
    from .gradient import Run
    from .schema import Schema

Gradients = Sequence[Tensor | None]


@dataclass(frozen=True)
class WrittenBackward:
    """A backward written by hand: ``function(grad, ...)``, its further parameters filled in by name.

    names: the operator's arguments that it takes. output: the parameter's name that takes the results, or None.
    """

    function: Callable[..., Any]
    names: tuple[str, ...]
    output: str | None


def written(op: CustomOp, function: Callable[..., Any]) -> WrittenBackward:
    """A user's function as the backward of `op`. Raises DeclarationError where its parameters do not fit."""
    what = f"{op.name}: backward {function.__name__}{inspect.signature(function)}"
    if op.gradient != "recompute":
        raise DeclarationError(f'{what} contradicts gradient="{op.gradient}"; leave that out')
    if op.schema.mutated:
        raise DeclarationError(
            f"{what}: an operator that changes its arguments takes its gradient from its meaning; write it without "
            "mutates_args to give it a backward by hand"
        )
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or any(p.kind is not p.POSITIONAL_OR_KEYWORD for p in parameters):
        raise DeclarationError(
            f"{what}: its first parameter takes the gradient of the result, further ones arguments of the operator "
            "by name, or `output`; no * or **"
        )
    arguments = [argument.name for argument in op.schema.arguments]
    names = [parameter.name for parameter in parameters[1:]]
    output = next((name for name in names if name in ("output", "outputs") and name not in arguments), None)
    for name in names:
        if name not in arguments and name != output:
            raise DeclarationError(
                f"{what}: '{name}' is no argument of the operator; it has {', '.join(arguments)}, and `output` is "
                "what forward returned"
            )
    return WrittenBackward(function, tuple(name for name in names if name != output), output)


def no_gradient(op: CustomOp) -> GradientError:
    """The error for the gradient of an operator declared without one."""
    return GradientError(
        f'{op.name} has no gradient: it is declared with gradient="none". Call it on detached tensors or under '
        "torch.no_grad(), or leave that out to have the gradient derived from its function"
    )


def save(ctx: Any, run: Run, tensors: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """Keeps for `run` what backward needs: the arguments' tensors; for one written by hand, those it takes."""
    ctx.run = run
    hand = run.op.written_backward
    if run.op.gradient == "none":
        return
    if hand is None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        return
    # The shapes of the others are still wanted, to check the gradients.
    ctx.shapes = [tensor.shape for tensor in tensors]
    numbered = zip(run.op.schema.arguments, filled(run.call.template, range(len(tensors))), strict=True)
    taken = [value for argument, value in numbered if argument.holds_tensors and argument.name in hand.names]
    ctx.taken = [number for number in _flat(taken) if number is not None]
    ctx.save_for_backward(*(tensors[number] for number in ctx.taken), *(outputs if hand.output else ()))


def run(ctx: Any, grads: Gradients) -> Gradients:
    """The gradients of the arguments' tensors; None where there is none."""
    run: Run = ctx.run
    if run.op.gradient == "none":
        raise no_gradient(run.op)
    saved = unwrap_dead_wrappers(ctx.saved_tensors)
    with composition.own_precision(saved):
        if run.op.written_backward is None:
            return _derived(run, saved, ctx.needs_input_grad[1:], grads)
        return _by_hand(ctx, run.op.written_backward, saved, grads)


def _derived(run: Run, saved: Sequence[Tensor], needs: Sequence[bool], grads: Gradients) -> Gradients:
    def outcomes(*wanted: Tensor) -> list[Tensor]:
        rest = iter(wanted)
        tensors = [next(rest) if need else tensor for tensor, need in zip(saved, needs, strict=True)]
        return composition.functional(run.op, run.call.values(tensors))

    wanted = [tensor for tensor, need in zip(saved, needs, strict=True) if need]
    found = iter(pull_back(outcomes, wanted, grads))
    return [next(found) if need else None for need in needs]


def pull_back(
    function: Callable[..., Sequence[Tensor]], primals: Sequence[Tensor], grads: Gradients
) -> Gradients:
    """The gradients of `primals` from those of the results of `function`; None for those it does not depend on.

    (torch.func.vjp gives zeros there, which an optimizer treats differently.)
    """
    if not torch.is_grad_enabled() and torch._C._functorch.peek_interpreter_stack() is None:
        with torch.enable_grad():
            inner = [primal.detach().requires_grad_() for primal in primals]
            return _gradients(function(*inner), inner, grads, again=False)
    used: list[bool] = []

    def differentiate(*inner: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        found = _gradients(function(*inner), inner, grads, again=True)
        used.extend(grad is not None for grad in found)
        return list(inner), [grad for grad in found if grad is not None]

    # The level of vjp is what tells the primals from each other and from the graph around them, to any order.
    pulled: Any = torch.func.vjp(differentiate, *primals, has_aux=True)
    rest = iter(pulled[-1])
    return [next(rest) if use else None for use in used]


def _gradients(
    results: Sequence[Tensor], inputs: Sequence[Tensor], grads: Gradients, *, again: bool
) -> Gradients:
    """torch.autograd.grad for the results that have a gradient. again: whether it is to be differentiated."""
    pairs = [(r, g) for r, g in zip(results, grads, strict=True) if g is not None and r.requires_grad]
    if not pairs:
        return [None] * len(inputs)
    outputs, cotangents = zip(*pairs, strict=True)
    return torch.autograd.grad(outputs, inputs, cotangents, create_graph=again, allow_unused=True)


def _by_hand(ctx: Any, hand: WrittenBackward, saved: Sequence[Tensor], grads: Gradients) -> Gradients:
    run: Run = ctx.run
    schema = run.op.schema
    tensors: list[Tensor | None] = [None] * len(ctx.shapes)
    for number, tensor in zip(ctx.taken, saved, strict=False):
        tensors[number] = tensor
    values = zip(schema.arguments, run.call.values(tensors), strict=True)
    kwargs = {argument.name: value for argument, value in values if argument.name in hand.names}
    if hand.output:
        kwargs[hand.output] = packed(schema, filled(run.structure, saved[len(ctx.taken) :]))
    given = hand.function(packed(schema, filled(run.structure, grads)), **kwargs)
    by_name = _by_name(run.op, given)
    return _fitted(run.op, schema, run.call.template, by_name, ctx.shapes)


def _by_name(op: CustomOp, given: Any) -> Mapping[str, Any]:
    """What a hand-written backward returned, by argument."""
    names = [argument.name for argument in op.schema.arguments if argument.holds_tensors]
    if isinstance(given, Mapping):
        for name in given:
            if name not in names:
                raise GradientError(
                    f"{op.name}: its backward returned a gradient for '{name}', which is no argument that holds "
                    f"tensors; those are {', '.join(names)}"
                )
        return given
    in_order = list(given) if isinstance(given, tuple) else [given]
    if len(in_order) != len(names):
        raise GradientError(
            f"{op.name}: its backward returned {len(in_order)} gradients for the {len(names)} arguments that hold "
            f"tensors ({', '.join(names)}); give None for those without one"
        )
    return dict(zip(names, in_order, strict=True))


def _fitted(
    op: CustomOp, schema: Schema, template: Sequence[Any], by_name: Mapping[str, Any], shapes: Sequence[Any]
) -> Gradients:
    """The gradients flat, one per tensor of the call. Raises GradientError for one of another shape."""
    rest = iter(shapes)
    flat: list[Tensor | None] = []
    for argument, value in zip(schema.arguments, template, strict=True):
        if not argument.holds_tensors or value is None:
            continue
        wanted = [next(rest) for item in (value if isinstance(value, list) else [value]) if item is not None]
        flat += _fitted_one(
            f"{op.name}: its backward's gradient of '{argument.name}'",
            value,
            by_name.get(argument.name),
            wanted,
        )
    return flat


def _fitted_one(what: str, value: Any, given: Any, shapes: Sequence[Any]) -> Gradients:
    if given is None:
        return [None] * len(shapes)
    if not isinstance(value, list):
        given, value = [given], [value]
    if not isinstance(given, (list, tuple)) or len(given) != len(value):
        raise GradientError(f"{what} must be a list of {len(value)}, as the argument is")
    grads = [grad for grad, item in zip(given, value, strict=True) if item is not None]
    for grad, shape in zip(grads, shapes, strict=True):
        if grad is not None and not isinstance(grad, Tensor):
            raise GradientError(f"{what} is a {type(grad).__name__}; give a Tensor or None")
        if grad is not None and grad.shape != shape:
            raise GradientError(f"{what} has shape {tuple(grad.shape)}, and the argument has {tuple(shape)}")
    return grads


def _flat(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in _flat(item)] if isinstance(value, list) else [value]
