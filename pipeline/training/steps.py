"""The module whose methods are a training artifact's entry points, and whose buffers are its state.

Captured like any other model with buffers: what a method writes into them becomes an update in place on the device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pipeline.errors import UnsupportedError
from pipeline.runtime.training_manifest import SCALE, SKIPPED, STEPS, TRACKER, Training, rate_name

from .gradients import LossGradients
from .loss import named
from .optimizers import OptimizerState, Tensors, Update
from .scaling import LossScale, unscaled
from .side_effects import assignments_written

_MODEL = "model."


@dataclass
class Traced:
    """The parts of a training step.

    with_gradient: the parameters that the loss depends on. batch_names: of the batch's arguments.
    """

    model: nn.Module
    gradients: LossGradients
    with_gradient: list[str]
    optimizer: OptimizerState
    update: Update
    scale: LossScale | None
    batch_names: list[str]


class StepModule(nn.Module):
    """Buffers: ``model.NAME`` of a parameter and buffer, ``optimizer.KEY.NAME``, and those of `training_manifest`."""

    def __init__(self, traced: Traced) -> None:
        super().__init__()
        # Behind a tuple: as submodules these would add their tensors under further names.
        self._traced = (traced,)
        for name, tensor in _initial(traced).items():
            _register(self, name, tensor)
        self.train_step = named(self._train_step, traced.batch_names)
        self.loss_and_gradients = named(self._loss_and_gradients, traced.batch_names)

    def _train_step(self, *batch: Any) -> torch.Tensor:
        loss, gradients = self._gradients(batch)
        self.apply_gradients(gradients)
        return loss

    def _loss_and_gradients(self, *batch: Any) -> tuple[torch.Tensor, Tensors]:
        loss, gradients = self._gradients(batch)
        return loss, gradients

    def apply_gradients(self, gradients: Tensors) -> None:
        """Clips and updates as a step does. gradients: by parameter, as `loss_and_gradients` gives them."""
        if self._traced[0].scale is None:
            self._store(self._updated(gradients))
            self.get_buffer(STEPS).add_(1)
        else:
            self._apply_scaled(self._traced[0].scale, gradients)

    def _apply_scaled(self, scale: LossScale, gradients: Tensors) -> None:
        """The update without the scale, if all gradients are finite."""
        factor, tracker = self.get_buffer(SCALE), self.get_buffer(TRACKER)
        gradients, finite = unscaled(gradients, self._traced[0].optimizer.trained, factor)
        new = self._updated(gradients)
        self._store({name: torch.where(finite, value, self.get_buffer(name)) for name, value in new.items()})
        self._store(scale.updated(factor, tracker, finite))
        self.get_buffer(STEPS).add_(finite.long())
        self.get_buffer(SKIPPED).add_((~finite).long())

    def _updated(self, gradients: Tensors) -> Tensors:
        """The new parameters and the optimizer's new state, by buffer."""
        traced = self._traced[0]
        parameters = {name: self.get_buffer(_MODEL + name) for name in traced.optimizer.trained}
        state = {name: self.get_buffer(name) for name in traced.optimizer.tensors}
        rates = [self.get_buffer(rate_name(i)) for i in range(len(traced.optimizer.groups))]
        new, new_state = traced.update(parameters, gradients, state, rates, self.get_buffer(STEPS))
        return {_MODEL + name: value for name, value in new.items()} | new_state

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """The model's own result, in evaluation mode."""
        model = self._traced[0].model
        with _evaluating(model), torch.no_grad():
            return torch.func.functional_call(_Prediction(model), self._model_tensors(), args, kwargs)

    def _model_tensors(self) -> Tensors:
        return {_MODEL + name: self.get_buffer(_MODEL + name) for name in _tensors(self._traced[0].model)}

    def _gradients(self, batch: Sequence[Any]) -> tuple[torch.Tensor, Tensors]:
        traced = self._traced[0]
        loss, gradients, updates = traced.gradients(
            self._model_tensors(),
            batch,
            steps=self.get_buffer(STEPS),
            scale=self.get_buffer(SCALE) if traced.scale is not None else None,
        )
        self._store(updates)
        found = {name.removeprefix(_MODEL): gradient for name, gradient in gradients.items()}
        return loss, {name: found[name] for name in traced.with_gradient}

    def _store(self, values: Mapping[str, torch.Tensor]) -> None:
        for name, value in values.items():
            self.get_buffer(name).copy_(value)


class _Prediction(nn.Module):
    """The model's result, with what it assigns to buffers written into them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with assignments_written(self.model):
            return self.model(*args, **kwargs)


def describe(traced: Traced) -> Training:
    """What the manifest says about the step."""
    canonical = {id(tensor): name for name, tensor in _tensors(traced.model).items()}
    _check_state_dict(traced.model, canonical.keys())
    optimizer = traced.optimizer.optimizer
    return Training(
        model={
            name: _MODEL + canonical[id(tensor)]
            for name, tensor in traced.model.state_dict(keep_vars=True).items()
            if isinstance(tensor, torch.Tensor)
        },
        optimizer=type(optimizer).__name__,
        groups=traced.optimizer.described(),
        begins_empty=not isinstance(optimizer, torch.optim.Adagrad),
        scaler=traced.scale.settings if traced.scale is not None else None,
    )


def _check_state_dict(model: nn.Module, known: Collection[int]) -> None:
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, torch.Tensor) and id(tensor) not in known:
            raise UnsupportedError(
                f"the model's state_dict() has '{name}', which is none of its parameters and buffers (a state_dict "
                "hook makes it?)"
            )


def state_names(traced: Traced) -> set[str]:
    """Every buffer that the runtime may read and set, whether or not a step changes it."""
    fixed = {*describe(traced).model.values(), STEPS, *_scale_tensors(traced)}
    return fixed | {*traced.optimizer.tensors, *(rate_name(i) for i in range(len(traced.optimizer.groups)))}


def _initial(traced: Traced) -> Tensors:
    optimizer = traced.optimizer
    rates = {
        rate_name(i): torch.tensor(group.rate, dtype=torch.float64)
        for i, group in enumerate(optimizer.groups)
    }
    return {
        **{_MODEL + name: tensor.detach() for name, tensor in _tensors(traced.model).items()},
        **optimizer.tensors,
        **rates,
        **_scale_tensors(traced),
        STEPS: torch.tensor(optimizer.steps, dtype=torch.int64),
    }


def _scale_tensors(traced: Traced) -> Tensors:
    return traced.scale.initial() if traced.scale is not None else {}


def _tensors(model: nn.Module) -> Tensors:
    """Parameters and buffers by name, tied ones once."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _register(module: nn.Module, path: str, tensor: torch.Tensor) -> None:
    *folders, name = path.split(".")
    for folder in folders:
        if folder not in module._modules:
            module.add_module(folder, nn.Module())
        module = module.get_submodule(folder)
    module.register_buffer(name, tensor)


@contextlib.contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while; each module returns to its own mode, which may differ from the model's."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
