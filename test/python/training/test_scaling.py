"""A step with a loss scale beside PyTorch's own loop with a GradScaler."""

import copy
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import pipeline
from pipeline.runtime import ArgumentError

Batch = tuple[torch.Tensor, torch.Tensor]


def in_float16(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.float16):
        return nn.functional.mse_loss(model(x).float(), y)


class Eager:
    """The loop of PyTorch's documentation, with clipping."""

    def __init__(self, model: nn.Module, interval: int) -> None:
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-4)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=interval)

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = in_float16(self.model, x, y)
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()


def batches(count: int, seed: int) -> list[Batch]:
    generator = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(8, 6, generator=generator), torch.randn(8, 3, generator=generator)) for _ in range(count)
    ]


@pytest.fixture(scope="module")
def compiled() -> tuple[nn.Module, pipeline.TrainingStep]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    eager = Eager(model, 3)
    step = pipeline.compile_training(
        model,
        in_float16,
        eager.optimizer,
        args=batches(1, 0)[0],
        clip_norm=0.5,
        scaler=eager.scaler,
        entry_points=["train_step"],
    )
    return model, step


@pytest.fixture
def both(compiled: Any) -> tuple[Eager, pipeline.TrainingStep]:
    return Eager(copy.deepcopy(compiled[0]), 3), compiled[1].new_state()


def assert_same(step: pipeline.TrainingStep, eager: Eager) -> None:
    # float16 keeps 11 bits, and both round the same products in other orders.
    torch.testing.assert_close(step.state_dict(), dict(eager.model.state_dict()), rtol=5e-3, atol=5e-4)
    state = eager.optimizer.state_dict()["state"]
    torch.testing.assert_close(step.optimizer_state_dict()["state"], state, rtol=1e-2, atol=1e-3)
    assert step.scaler_state_dict() == eager.scaler.state_dict()


def test_a_run_with_overflows(both: Any) -> None:
    """The scale begins too high, grows, and a batch in the middle overflows."""
    eager, step = both
    data = batches(16, 1)
    data[8] = (data[8][0] * 1e6, data[8][1])
    scales = []
    for batch in data:
        torch.testing.assert_close(step(*batch), eager(*batch), rtol=5e-3, atol=5e-4, equal_nan=True)
        assert step.scaler_state_dict() == eager.scaler.state_dict()
        scales.append(eager.scaler.get_scale())
    assert_same(step, eager)
    counts = {int(state["step"]) for state in eager.optimizer.state.values()}
    assert counts == {step.steps} and step.steps + step.skipped == len(data)
    steps = list(itertools.pairwise(scales))
    assert scales[8] < scales[7] and any(b > a for a, b in steps) and step.skipped > 1


def test_from_eager_to_compiled_and_back(both: Any, tmp_path: Path) -> None:
    eager, step = both
    first, second, third = (batches(4, seed) for seed in (2, 3, 4))
    for batch in first:
        eager(*batch)
    step.load_state_dict(eager.model.state_dict())
    step.load_optimizer_state_dict(eager.optimizer.state_dict())
    step.load_scaler_state_dict(eager.scaler.state_dict())
    other = Eager(copy.deepcopy(eager.model), 3)
    for batch in second:
        step(*batch)
        eager(*batch)
    assert_same(step, eager)
    step.save_checkpoint(tmp_path / "run.irpa")
    other.model.load_state_dict(step.state_dict())
    other.optimizer.load_state_dict(step.optimizer_state_dict())
    other.scaler.load_state_dict(step.scaler_state_dict())
    step = step.new_state()
    step.load_checkpoint(tmp_path / "run.irpa")
    for batch in third:
        step(*batch)
        other(*batch)
    assert_same(step, other)


def test_what_does_not_fit(both: Any) -> None:
    eager, step = both
    state = eager.scaler.state_dict()
    with pytest.raises(ArgumentError, match=r"compiled with growth_interval=3, got 7"):
        step.load_scaler_state_dict({**state, "growth_interval": 7})
    with pytest.raises(ArgumentError, match=r"loss scale has .*'scale'.*, got "):
        step.load_scaler_state_dict({})
    model = nn.Linear(6, 3).half()
    optimizer = torch.optim.SGD(model.parameters())
    batch = (torch.ones(2, 6).half(), torch.ones(2, 3).half())
    for scaler, message in ((eager.scaler, "the parameter 'weight' is float16"), (2.0, "got float")):
        with pytest.raises(pipeline.InputError, match=message):
            pipeline.compile_training(model, nn.MSELoss(), optimizer, args=batch, scaler=scaler)  # type: ignore[arg-type]
