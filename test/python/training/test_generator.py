"""Random numbers made inside of a step."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import pipeline
from pipeline.training.generator import _drawn, declare_threefry
from pipeline.training.gradients import trace_gradients
from pipeline.training.loss import BatchLoss

# Random123's known answers for threefry2x32 with 20 rounds: counter, key, result.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


def words(*values: int) -> list[torch.Tensor]:
    return [torch.tensor([value]).to(torch.int32) for value in values]


class Threefry(nn.Module):
    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.ops.pipeline.threefry(*given)


def test_known_answers() -> None:
    """In eager and compiled, from one text."""
    declare_threefry()
    given = [torch.cat(column) for column in zip(*(words(*c, *k) for c, k, _ in KNOWN), strict=True)]
    expected = tuple(torch.cat(column) for column in zip(*(words(*r) for _, _, r in KNOWN), strict=True))
    torch.testing.assert_close(torch.ops.pipeline.threefry(*given), expected)
    torch.testing.assert_close(pipeline.compile(Threefry(), args=tuple(given))(*given), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_statistics(dtype: torch.dtype) -> None:
    declare_threefry()
    key, shape = torch.tensor([1, -2], dtype=torch.int32), (500, 400)
    kept = _drawn(key, 0, "bernoulli_", [0.9], shape, dtype)
    assert set(kept.unique().tolist()) == {0, 1} and abs(float(kept.float().mean()) - 0.9) < 0.003
    unit = _drawn(key, 1, "uniform_", [2.0, 5.0], shape, dtype).double()
    # In bfloat16 the ends are rounded to, as eager's are.
    assert unit.min() >= 2 and unit.max() < (5.01 if dtype == torch.bfloat16 else 5)
    assert abs(float(unit.mean()) - 3.5) < 0.01
    assert abs(float(unit.var()) - 0.75) < 0.01
    normal = _drawn(key, 2, "normal_", [1.0, 2.0], shape, dtype).double()
    assert abs(float(normal.mean()) - 1) < 0.02 and abs(float(normal.std()) - 2) < 0.02
    together = torch.stack(
        [kept.double().flatten(), unit.flatten(), normal.flatten(), unit.roll(1, 0).flatten()]
    )
    assert (together.corrcoef() - torch.eye(4)).abs().max() < 0.01


class Dropped(nn.Module):
    """The gradient of the loss is the mask, up to factors."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(64, 32))

    def part(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout((x * self.weight).tanh(), 0.25).sin()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(checkpoint(self.part, x, use_reentrant=False), 0.5)


BATCH = (torch.linspace(0.1, 1, 32), torch.zeros(64, 32))


def test_numbers_are_computed_again() -> None:
    """A part that is checkpointed makes its mask twice, and keeps nothing of it."""
    loss = BatchLoss(Dropped(), nn.L1Loss(reduction="sum"))
    found = trace_gradients(loss, BATCH, generator="in-graph")
    assert sum("threefry" in str(node.target) for node in found.module.graph.nodes) == 3
    weight = loss.model.weight.detach()
    torch.manual_seed(0)
    value, gradients, _ = found({"model.weight": weight}, BATCH, steps=torch.tensor(0))
    inside = (BATCH[0] * weight).tanh()
    kept = gradients["model.weight"] != 0
    result = 2 * (inside / 0.75).sin()
    torch.testing.assert_close(value, result[kept].sum())
    expected = 2 * (inside / 0.75).cos() / 0.75 * (1 - inside**2) * BATCH[0]
    torch.testing.assert_close(gradients["model.weight"], torch.where(kept, expected, 0))
    assert abs(float(kept.float().mean()) - 0.375) < 0.05


def test_a_compiled_step_draws_a_key() -> None:
    torch.manual_seed(0)
    model = Dropped()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    options: dict[str, Any] = {"entry_points": ["loss_and_gradients"], "generator": "in-graph"}
    step = pipeline.compile_training(model, nn.L1Loss(reduction="sum"), optimizer, args=BATCH, **options)
    draws = step.manifest.entry_points["loss_and_gradients"].draws
    assert [str(draw.tensor) for draw in draws] == ["2xi32"]
    assert "Threefry" in step.manifest.notes[0]
    traced = trace_gradients(BatchLoss(model, nn.L1Loss(reduction="sum")), BATCH, generator="in-graph")
    tensors = {"model.weight": model.weight.detach()}
    for _ in range(2):
        state = torch.get_rng_state()
        loss, gradients = step.loss_and_gradients(*BATCH)
        torch.set_rng_state(state)
        expected, by_name, _ = traced(tensors, BATCH, steps=torch.tensor(0))
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(gradients["weight"], by_name["model.weight"])
    found = []
    for one in (step.new_state(), step.new_state()):
        one.seed(3)
        found.append([float(one.loss_and_gradients(*BATCH)[0]) for _ in range(3)])
    assert found[0] == found[1] and len(set(found[0])) == 3


def test_generators_that_do_not_exist() -> None:
    model = Dropped()
    optimizer = torch.optim.SGD(model.parameters())
    with pytest.raises(pipeline.InputError, match="generator 'philox' is unknown"):
        pipeline.compile_training(model, nn.L1Loss(), optimizer, args=BATCH, generator="philox")
