"""Whether a competitor computes what eager does, judged as `pipeline verify` judges."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pipeline.model_file import LoadedTraining
from pipeline.reference import Call, Reference
from pipeline.verify import Pair, compare

from .competitors import Ready
from .training_steps import Loop
from .workload import Training, Workload, tensors_of

STEPS = 3
"""Training steps that are compared."""

# Adam divides each gradient by its own size: what is 0 but for rounding moves a weight by a whole step.
_LATER_LOSSES = (1e-4, 1e-5)


@dataclass(frozen=True)
class Verdict:
    """error: the largest difference from eager. problem: None where it is right."""

    error: float
    problem: str | None = None


class InferenceCheck:
    """Eager's results, taken before anybody calls the model."""

    def __init__(self, work: Workload) -> None:
        self._reference = Reference(work.model)
        self._call = Call(work.method, work.args, work.kwargs)
        self._expected = tensors_of(self._reference.run(self._call, None, []).result)

    def verdict(self, ready: Ready) -> Verdict:
        """Of one call."""
        torch.manual_seed(0)
        found = [tensor.clone() for tensor in ready.tensors(ready.call())]
        if len(found) != len(self._expected):
            return Verdict(float("inf"), f"{len(found)} tensors, eager returns {len(self._expected)}")
        exact = cache(self._exact)
        pairs = [
            Pair(f"output {i}", a, b, lambda i=i: exact()[i] if exact() else None)
            for i, (a, b) in enumerate(zip(self._expected, found, strict=True))
        ]
        return _worst([compare(pair.name, pair) for pair in pairs])

    def _exact(self) -> list[Tensor]:
        run = self._reference.run_in_float64(self._call, None, {})
        return tensors_of(run.result) if run else []


class TrainingCheck:
    """Eager's losses over a few steps, from a copy of model and optimizer."""

    def __init__(self, work: Training) -> None:
        loaded = work.loaded
        model, optimizer, loss_fn = copy.deepcopy((loaded.model, loaded.optimizer, loaded.loss_fn))
        own = LoadedTraining(model, loss_fn, optimizer, loaded.args, loaded.how, loaded.options)
        self._drawing = _Drawing()
        with self._drawing:
            self._expected = _losses(Loop(own))

    def verdict(self, ready: Ready) -> Verdict:
        """Of the first steps: the first loss at the default tolerance, later ones at a wider one."""
        found = _losses(ready.call)
        tolerances = [None, *[_LATER_LOSSES] * (STEPS - 1)]
        verdict = _worst(
            [
                compare(f"loss {i + 1}", Pair("loss", a, b), tolerance)
                for i, (a, b, tolerance) in enumerate(zip(self._expected, found, tolerances, strict=True))
            ]
        )
        if verdict.problem and self._drawing.drew:
            return Verdict(verdict.error, "other random numbers than eager's, or wrong")
        return verdict


class _Drawing(TorchDispatchMode):
    """Notes whether anything draws random numbers."""

    drew = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.drew = self.drew or torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def _losses(step: Any) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.as_tensor(step()).clone() for _ in range(STEPS)]


def _worst(comparisons: list[Any]) -> Verdict:
    error = max((item.error for item in comparisons), default=0.0)
    problem = next((f"{item.name}: {item.problem}" for item in comparisons if not item.right), None)
    return Verdict(error, problem)
