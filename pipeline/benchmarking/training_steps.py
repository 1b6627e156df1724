"""The same for a training step: forward, loss, backward and the optimizer's update, on one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pipeline.compiler import compile_program
from pipeline.model_file import LoadedTraining
from pipeline.runtime import TrainingStep
from pipeline.training.compiling import capture_training, for_training
from pipeline.training.loss import takes_model

from .competitors import OURS, Ready, our_device, our_options, rung
from .workload import Training


class Loop:
    """PyTorch's training loop. compiled: applied to the function from a batch to its loss."""

    def __init__(
        self, loaded: LoadedTraining, compiled: Callable[[Any], Any] = lambda function: function
    ) -> None:
        self._loaded = loaded
        self._loss = compiled(self._eager_loss)
        self._parameters = [p for p in loaded.model.parameters() if p.requires_grad]

    def _eager_loss(self, *batch: Tensor) -> Tensor:
        model, loss_fn = self._loaded.model, self._loaded.loss_fn
        return loss_fn(model, *batch) if takes_model(loss_fn) else loss_fn(model(*batch[:-1]), batch[-1])

    def __call__(self) -> Tensor:
        """One step; its loss, of shape ()."""
        self._loaded.optimizer.zero_grad()
        loss = self._loss(*self._loaded.args)
        loss.backward()
        if self._loaded.how.get("clip_norm") is not None:
            torch.nn.utils.clip_grad_norm_(self._parameters, self._loaded.how["clip_norm"])
        self._loaded.optimizer.step()
        return loss.detach()


def eager(work: Training) -> Ready:
    """PyTorch as it is."""
    return Ready(Loop(work.loaded))


def inductor(work: Training) -> Ready:
    """``torch.compile`` over model and loss, forward and backward; the optimizer in eager."""
    return Ready(Loop(work.loaded, torch.compile))


def ours(work: Training) -> Ready:
    """`pipeline.compile_training`: one program for all of it."""
    settings = for_training(our_options(work.options))
    loaded = work.loaded
    how = {**loaded.how, "entry_points": ["train_step"]}
    program = capture_training(loaded.model, loaded.loss_fn, loaded.optimizer, loaded.args, settings, **how)
    step = TrainingStep(compile_program(program, settings), device=our_device(settings, work.threads))
    return Ready(lambda: step(*loaded.args), note=rung(step))


COMPETITORS: dict[str, Callable[[Training], Ready]] = {OURS: ours, "eager": eager, "inductor": inductor}
"""Name -> what makes the step."""
