"""Trains small models compiled and in eager, side by side, and prints how far apart they end.

python -m pipeline.tools.training [NAME ...] --steps 50 --target cpu
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

import pipeline
from pipeline.runtime.errors import RuntimeRoomError
from pipeline.training.loss import takes_model

from .models import TASKS, Task


@dataclass(frozen=True)
class Outcome:
    """Losses of both runs, the largest differences between them and between their final tensors, and times."""

    eager: list[float]
    compiled: list[float]
    tensors: float
    right: bool
    seconds: tuple[float, float, float]

    @property
    def losses(self) -> float:
        """The largest difference of two losses."""
        return max(abs(a - b) for a, b in zip(self.eager, self.compiled, strict=True))


def compare(task: Task, steps: int, target: str) -> Outcome:
    """Trains by AdamW from the same weights, batches and seed; right is what agrees at float32's default tolerance."""
    eager_model = copy.deepcopy(task.model)
    generator = torch.Generator().manual_seed(0)
    batches = [task.draw(generator) for _ in range(steps)]
    start = time.perf_counter()
    step = pipeline.compile_training(
        task.model,
        task.loss_fn,
        _optimizer(task.model),
        args=batches[0],
        entry_points=["train_step"],
        target=target,
    )
    compiling = time.perf_counter() - start
    torch.manual_seed(0)
    compiled, compiled_time = _timed(step, batches)
    torch.manual_seed(0)
    eager, eager_time = _timed(_EagerStep(eager_model, task), batches)
    found, expected = step.state_dict(), eager_model.state_dict()
    tensors = max(
        float((found[name].double() - value.double()).abs().max()) for name, value in expected.items()
    )
    close = all(
        torch.allclose(found[name], value, rtol=1.3e-6, atol=1e-5) for name, value in expected.items()
    )
    right = close and torch.allclose(torch.tensor(compiled), torch.tensor(eager), rtol=1.3e-6, atol=1e-5)
    return Outcome(eager, compiled, tensors, right, (compiling, compiled_time, eager_time))


def _optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Where a gradient is 0 but for rounding, as of attention's key biases, the usual eps of 1e-8 makes whole steps."""
    return torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4)


class _EagerStep:
    def __init__(self, model: torch.nn.Module, task: Task) -> None:
        self._model, self._loss_fn = model, task.loss_fn
        self._takes_model = takes_model(task.loss_fn)
        self._optimizer = _optimizer(model)

    def __call__(self, *batch: torch.Tensor) -> torch.Tensor:
        self._optimizer.zero_grad()
        *inputs, target = batch
        loss = (
            self._loss_fn(self._model, *batch)
            if self._takes_model
            else self._loss_fn(self._model(*inputs), target)
        )
        loss.backward()
        self._optimizer.step()
        return loss.detach()


def _timed(step: object, batches: Sequence[tuple[torch.Tensor, ...]]) -> tuple[list[float], float]:
    """The losses, and the least seconds of a step."""
    losses, least = [], float("inf")
    for batch in batches:
        start = time.perf_counter()
        losses.append(float(step(*batch)))  # type: ignore[operator]
        least = min(least, time.perf_counter() - start)
    return losses, least


def main() -> int:
    """Prints a line per model; 1 where one differs or fails."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.tools.training", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TASKS))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--target", default="cpu")
    options = parser.parse_args()
    print(f"{'model':8} {'first loss':>10} {'last loss':>10} {'eager':>10} {'losses':>8} {'tensors':>8} "
          f"{'compile s':>9} {'step ms':>8} {'eager ms':>8}")  # fmt: skip
    outcomes = [_report(name, options.steps, options.target) for name in options.names or TASKS]
    return 0 if all(outcomes) else 1


def _report(name: str, steps: int, target: str) -> bool:
    torch.manual_seed(0)
    try:
        found = compare(TASKS[name](), steps, target)
    except (pipeline.PipelineError, RuntimeRoomError) as error:
        print(f"{name:8} {type(error).__name__}: {error}", flush=True)
        return False
    compiling, compiled, eager = found.seconds
    print(f"{name:8} {found.compiled[0]:10.6f} {found.compiled[-1]:10.6f} {found.eager[-1]:10.6f} {found.losses:8.1e} "
          f"{found.tensors:8.1e} {compiling:9.1f} {1000 * compiled:8.3f} {1000 * eager:8.3f}"
          + ("" if found.right else "  DIFFERS"), flush=True)  # fmt: skip
    return found.right


if __name__ == "__main__":
    sys.exit(main())
