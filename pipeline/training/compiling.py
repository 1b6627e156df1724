"""`compile_training`: from a model, a loss and an optimizer to a step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from pipeline import compiler
from pipeline.api import compile_options
from pipeline.capture import capture
from pipeline.compiler import Options
from pipeline.entry_points import EntrySpec, as_args
from pipeline.errors import InputError, UnsupportedError
from pipeline.program import Program
from pipeline.runtime import TrainingStep

from .batch_sizes import Shapes, read_shapes
from .generator import check_generator
from .gradients import LossGradients, trace_gradients
from .loss import BatchLoss, check_batch, forward_names, refuse_loss_parameters, takes_model
from .optimizers import read_optimizer, trace_update
from .recomputation import check_recompute
from .scaling import read_scaler
from .steps import StepModule, Traced, describe, state_names

ENTRY_POINTS = ("train_step", "forward", "loss_and_gradients", "apply_gradients")

_DRAWS_NOTE = (
    "dropout and other random numbers: from torch's generator where torch is installed (torch.manual_seed gives "
    "eager's own), from a NumPy generator elsewhere and after step.seed(number)"
)

_KEY_NOTE = (
    "dropout and other random numbers: made inside of the step by Threefry-2x32, from a key of two int32 that is drawn "
    "for each call, from torch's generator or after step.seed(number) from NumPy's"
)


def compile_training(  # noqa: PLR0913 (each is a choice of the user's)
    model: nn.Module,
    loss_fn: Callable[..., Any],
    optimizer: torch.optim.Optimizer,
    *,
    args: tuple[Any, ...],
    clip_norm: float | None = None,
    scaler: torch.amp.GradScaler | None = None,
    recompute: str = "none",
    memory_budget: float | None = None,
    generator: str = "arguments",
    forward_args: tuple[Any, ...] | None = None,
    dynamic_shapes: Any = None,
    entry_points: Collection[str] = ENTRY_POINTS,
    target: str | Sequence[str] = "cpu",
    device: str | None = None,
    **options: Any,
) -> TrainingStep:
    """Compiles forward, backward and the optimizer's update into one executable and loads it.

    loss_fn: called as ``loss_fn(model(*inputs), target)``, where `target` is the last argument of the batch; or as
        ``loss_fn(model, *batch)`` if its first parameter is named ``model`` or annotated as a ``torch.nn.Module``.
        A `torch.nn.Module` as loss is always called in the first way. It returns one floating number.
    optimizer: over the model's parameters: SGD, Adam, AdamW, NAdam, RAdam, Adagrad, RMSprop, Adafactor or Muon of
        torch.optim, new or in the middle of a run. Its settings are compiled in, except the learning rates.
    args: an example batch; its shapes and dtypes are compiled in, except what `dynamic_shapes` leaves open.
    clip_norm: clips the norm of all gradients before each update, as ``torch.nn.utils.clip_grad_norm_`` does for
        ``model.parameters()``.
    scaler: of float16 autocast: the step scales the loss, unscales gradients before they are clipped, leaves an update
        out when one is not finite, and changes the scale, as a loop with this `torch.amp.GradScaler` does. Its scale
        is state (`step.scaler_state_dict()`), its other settings are compiled in. One made for a device that is not
        there is disabled, and nothing is scaled. `loss_and_gradients` gives scaled gradients, which
        `apply_gradients` takes.
    recompute: "none": backward computes again what the model checkpoints by ``torch.utils.checkpoint`` (without
        reentrance), and nothing else. "min-cut": PyTorch's partitioner decides, as under ``torch.compile``. "all":
        whatever forward computes. memory_budget: for "min-cut", above 0 and at most 1, which part of the activations'
        memory may be kept between forward and backward (``torch._functorch.config.activation_memory_budget``).
    generator: "arguments": random numbers are arguments, drawn for each step as eager draws them. "in-graph": uniform,
        normal and Bernoulli numbers, so all of dropout, are made inside of the step from a key that is drawn instead:
        other numbers with the same statistics, faster, and nothing of theirs is kept where backward computes again.
    forward_args: example arguments of the model for the entry point `forward`; by default the batch without its
        target. Where the loss calls the model itself there is no such entry point unless they are given.
    dynamic_shapes: as for `torch.export.export`, over the batch: ``{"x": {0: batch}, "target": {0: batch}}`` with the
        names of the model's and the loss's parameters, or a tuple in the batch's order. `forward` takes what it has of
        the same names. The example needs at least 2 in each open dimension, since PyTorch takes 1 for a fixed size.
    entry_points: which to compile: `train_step`, `forward` (the model in evaluation mode), `loss_and_gradients`,
        `apply_gradients`. Each costs its own time to compile.
    target, device, options: as for `pipeline.compile`. Weights are always in a .irpa beside the artifact.

    The model's train or eval mode is respected in all but `forward`. Compiling is a snapshot: the step has its own
    copy of all tensors. Raises InputError, UnsupportedError and InternalError, as `pipeline.compile` does.
    """
    settings = for_training(compile_options(target, **options))
    program = capture_training(
        model,
        loss_fn,
        optimizer,
        as_args(args, "args"),
        settings,
        clip_norm=clip_norm,
        scaler=scaler,
        recompute=recompute,
        memory_budget=memory_budget,
        generator=generator,
        forward_args=forward_args,
        dynamic_shapes=dynamic_shapes,
        entry_points=entry_points,
    )
    return TrainingStep(compiler.compile_program(program, settings), device=device)


def for_training(settings: Options) -> Options:
    """The options of a training artifact. Raises InputError for weights inside the .vmfb."""
    if settings.weights == "inline":
        raise InputError(
            "weights='inline': a training step keeps them in a .irpa, which `save` writes with their current values"
        )
    return replace(settings, weights="external")


def capture_training(  # noqa: PLR0913 (those of `compile_training`)
    model: nn.Module,
    loss_fn: Callable[..., Any],
    optimizer: torch.optim.Optimizer,
    args: tuple[Any, ...],
    settings: Options,
    *,
    clip_norm: float | None = None,
    scaler: torch.amp.GradScaler | None = None,
    recompute: str = "none",
    memory_budget: float | None = None,
    generator: str = "arguments",
    forward_args: tuple[Any, ...] | None = None,
    dynamic_shapes: Any = None,
    entry_points: Collection[str] = ENTRY_POINTS,
) -> Program:
    """The captured training step; arguments as for `compile_training`."""
    _check(model, loss_fn, args, clip_norm, entry_points)
    check_recompute(recompute, memory_budget)
    check_generator(generator)
    if generator == "in-graph" and dynamic_shapes is not None:
        raise UnsupportedError(
            "generator='in-graph' with dynamic_shapes: masks are made there for fixed sizes only; leave out one of them"
        )
    loss = BatchLoss(model, loss_fn)
    shapes = read_shapes(dynamic_shapes, loss.names(len(args)))
    gradients = trace_gradients(loss, args, recompute, memory_budget, generator, shapes)
    traced = _trace(model, loss_fn, optimizer, args, clip_norm, scaler, gradients)
    if forward_args is None and not takes_model(loss_fn):
        forward_args = args[:-1]
    found = _specs(traced, args, forward_args, shapes)
    specs = {name: spec for name, spec in found.items() if name in entry_points}
    program = capture(
        StepModule(traced),
        specs,
        decompositions=settings.decompositions,
        custom=settings.custom_lowerings,
        state=state_names(traced),
    )
    program.training = describe(traced)
    if any(entry.signature.draws for entry in program.entries.values()):
        program.notes.append(_KEY_NOTE if generator == "in-graph" else _DRAWS_NOTE)
    return program


def _check(
    model: Any, loss_fn: Any, args: tuple[Any, ...], clip_norm: float | None, entry_points: Collection[str]
) -> None:
    if not isinstance(model, nn.Module):
        raise InputError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not callable(loss_fn):
        raise InputError(f"loss_fn must be callable, got {type(loss_fn).__name__}")
    _refuse_hooks(model)
    check_batch(args, loss_fn)
    refuse_loss_parameters(loss_fn)
    if clip_norm is not None and not clip_norm > 0:
        raise InputError(f"clip_norm must be a positive number, got {clip_norm}")
    unknown = [name for name in entry_points if name not in ENTRY_POINTS]
    if unknown or not entry_points:
        raise InputError(f"entry_points has {unknown or 'nothing'}; choose from {', '.join(ENTRY_POINTS)}")


def _refuse_hooks(model: nn.Module) -> None:
    """Autograd calls hooks on parameters where it accumulates gradients, which a traced step does not do."""
    for name, parameter in model.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise UnsupportedError(f"the parameter '{name}' has hooks, which a compiled step would not call")


def _trace(
    model: nn.Module,
    loss_fn: Callable[..., Any],
    optimizer: torch.optim.Optimizer,
    args: tuple[Any, ...],
    clip_norm: float | None,
    scaler: torch.amp.GradScaler | None,
    gradients: LossGradients,
) -> Traced:
    parameters = dict(model.named_parameters())
    with_gradient = [name.removeprefix("model.") for name in gradients.parameters]
    state = read_optimizer(optimizer, parameters, with_gradient)
    if not state.trained:
        raise InputError("the optimizer holds none of the parameters that the loss depends on")
    trained = {name: parameters[name] for name in with_gradient}
    scale = read_scaler(scaler, trained)
    update = trace_update(state, trained, clip_norm)
    return Traced(
        model, gradients, with_gradient, state, update, scale, BatchLoss(model, loss_fn).names(len(args))
    )


def _specs(
    traced: Traced, args: tuple[Any, ...], forward_args: tuple[Any, ...] | None, shapes: Shapes | None
) -> dict[str, EntrySpec]:
    parameters = dict(traced.model.named_parameters())
    gradients = {name: torch.zeros_like(parameters[name]).detach() for name in traced.with_gradient}
    found = {
        "train_step": EntrySpec(args, dynamic_shapes=shapes, method="train_step"),
        "loss_and_gradients": EntrySpec(args, dynamic_shapes=shapes, method="loss_and_gradients"),
        "apply_gradients": EntrySpec((gradients,), method="apply_gradients"),
    }
    if forward_args is not None:
        forward_args = as_args(forward_args, "forward_args")
        open_sizes = _forward_shapes(traced, shapes, len(forward_args))
        found["forward"] = EntrySpec(forward_args, dynamic_shapes=open_sizes, method="predict")
    return found


def _forward_shapes(traced: Traced, shapes: Shapes | None, count: int) -> Any:
    """The specifications of the model's `count` arguments: those of the batch's arguments of the same names."""
    if shapes is None:
        return None
    by_name = dict(zip(traced.batch_names, shapes, strict=True))
    # Twice a tuple: `predict` takes them as one parameter, *args.
    return (tuple(by_name.get(name) for name in forward_names(traced.model, count)),)
