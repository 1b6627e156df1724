"""Trains small models compiled and in eager, side by side, and prints how far apart they end.

python -m pipeline.tools.training [NAME ...] --steps 50 --target cpu [--just-in-time]
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

import pipeline
from pipeline.runtime.errors import RuntimeRoomError
from pipeline.training.loss import takes_model

from .models import TASKS, Task

Batch = tuple[torch.Tensor, ...]


class Step(Protocol):
    """A training step: takes a batch, returns its loss, of shape ()."""

    def __call__(self, *batch: torch.Tensor) -> Any: ...

    def state_dict(self) -> dict[str, torch.Tensor]: ...  # of the model


@dataclass(frozen=True)
class Run:
    """One loss per step and what each took; the first step's seconds count from before the step was made."""

    losses: list[float]
    seconds: list[float]
    state: dict[str, torch.Tensor]


@dataclass(frozen=True)
class Outcome:
    """Both runs from the same weights, batches and seed."""

    compiled: Run
    eager: Run

    @property
    def losses(self) -> float:
        """The largest difference of two losses."""
        return max(abs(a - b) for a, b in zip(self.eager.losses, self.compiled.losses, strict=True))

    @property
    def tensors(self) -> float:
        """The largest difference in a parameter or buffer."""
        found = self.compiled.state
        return max(
            float((found[name].double() - value.double()).abs().max())
            for name, value in self.eager.state.items()
        )

    @property
    def right(self) -> bool:
        """Whether losses and tensors agree at float32's default tolerance."""
        found, expected = self.compiled.state, self.eager.state
        return all(_close(found[name], value) for name, value in expected.items()) and _close(
            torch.tensor(self.compiled.losses), torch.tensor(self.eager.losses)
        )


def compare(task: Task, steps: int, target: str, *, just_in_time: bool) -> Outcome:
    """Trains by AdamW; just_in_time: by a loop over `torch.compile`'s model, else by `pipeline.compile_training`."""
    eager_model = copy.deepcopy(task.model)
    generator = torch.Generator().manual_seed(0)
    batches = [task.draw(generator) for _ in range(steps)]
    make = _just_in_time if just_in_time else _ahead_of_time
    compiled = _run(lambda: make(task, batches[0], target), batches)
    return Outcome(compiled, _run(lambda: _Loop(eager_model, task), batches))


def _close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.allclose(found, expected, rtol=1.3e-6, atol=1e-5)


def _run(make: Callable[[], Step], batches: Sequence[Batch]) -> Run:
    torch.manual_seed(0)
    losses, seconds = [], []
    start = time.perf_counter()
    step = make()
    for batch in batches:
        losses.append(float(step(*batch)))
        end = time.perf_counter()
        seconds.append(end - start)
        start = end
    return Run(losses, seconds, step.state_dict())


def _ahead_of_time(task: Task, batch: Batch, target: str) -> Step:
    return pipeline.compile_training(
        task.model,
        task.loss_fn,
        _optimizer(task.model),
        args=batch,
        entry_points=["train_step"],
        target=target,
    )


def _just_in_time(task: Task, _batch: Batch, target: str) -> Step:
    """Without fallback and graph breaks: that all is compiled is part of the claim. Without the cache, to time it."""
    torch._dynamo.reset()
    options = {"target": target, "fallback": "error", "cache": False}
    return _Loop(
        task.model, task, torch.compile(task.model, backend="pipeline", fullgraph=True, options=options)
    )


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """Where a gradient is 0 but for rounding, as of attention's key biases, the usual eps of 1e-8 makes whole steps."""
    return torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4)


class _Loop:
    """PyTorch's training loop. called: the model, or what runs in its place."""

    def __init__(self, model: nn.Module, task: Task, called: Callable[..., Any] | None = None) -> None:
        self._model, self._loss_fn = model, task.loss_fn
        self._called = model if called is None else called
        self._takes_model = takes_model(task.loss_fn)
        self._optimizer = _optimizer(model)

    def __call__(self, *batch: torch.Tensor) -> torch.Tensor:
        self._optimizer.zero_grad()
        *inputs, target = batch
        loss = (
            self._loss_fn(self._called, *batch)
            if self._takes_model
            else self._loss_fn(self._called(*inputs), target)
        )
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def state_dict(self) -> dict[str, torch.Tensor]:
        return self._model.state_dict()


def main() -> int:
    """Prints a line per model; 1 where one differs or fails."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.tools.training", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TASKS))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--target", default="cpu")
    parser.add_argument(
        "--just-in-time", action="store_true", help="through torch.compile(backend='pipeline')"
    )
    options = parser.parse_args()
    print(f"{'model':8} {'first loss':>10} {'last loss':>10} {'eager':>10} {'losses':>8} {'tensors':>8} "
          f"{'first s':>7} {'step ms':>8} {'eager ms':>8}")  # fmt: skip
    # Recurrent layers reach a backend of torch.compile's only so.
    with torch._dynamo.config.patch(allow_rnn=True):
        outcomes = [_report(name, options) for name in options.names or TASKS]
    return 0 if all(outcomes) else 1


def _report(name: str, options: argparse.Namespace) -> bool:
    torch.manual_seed(0)
    try:
        found = compare(TASKS[name](), options.steps, options.target, just_in_time=options.just_in_time)
    except (pipeline.PipelineError, RuntimeRoomError, torch._dynamo.exc.TorchDynamoException) as error:
        print(f"{name:8} {type(error).__name__}: {error}", flush=True)
        return False
    compiled, eager = found.compiled, found.eager
    print(f"{name:8} {compiled.losses[0]:10.6f} {compiled.losses[-1]:10.6f} {eager.losses[-1]:10.6f} "
          f"{found.losses:8.1e} {found.tensors:8.1e} {compiled.seconds[0]:7.1f} "
          f"{1000 * min(compiled.seconds):8.3f} {1000 * min(eager.seconds):8.3f}"
          + ("" if found.right else "  DIFFERS"), flush=True)  # fmt: skip
    return found.right


if __name__ == "__main__":
    sys.exit(main())
