"""A compiled step beside PyTorch's own training loop: same losses, same parameters, same optimizer state."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pipeline
from pipeline.runtime import ArgumentError

CLIP = 0.5


class Convolutions(nn.Module):
    """Batch norm, max-pooling, dropout, a frozen layer, and all that a model may hold besides.

    A parameter that nothing reads, one of shape (), one that is not the optimizer's, a buffer that is assigned anew,
    and attributes that are tensors, read and written.
    """

    def __init__(self) -> None:
        super().__init__()
        # Without a bias before batch norm: its gradient is rounding error, which Adam would blow up to a step.
        self.conv = nn.Conv2d(1, 4, 3, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.frozen = nn.Linear(36, 16).requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(3))
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.left_alone = nn.Parameter(torch.linspace(-9, 9, 16))
        self.register_buffer("average", torch.zeros(16))
        self.shift = torch.linspace(-0.1, 0.1, 16)
        self.out = nn.Linear(16, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(self.norm(self.conv(image)).relu(), 2)
        x = nn.functional.dropout(x.flatten(1), 0.2, self.training)
        self.last = torch.tanh(self.frozen(x) + self.shift) * self.scale + self.left_alone / 10
        if self.training:
            self.average = 0.9 * self.average + 0.1 * self.last.detach().mean(0)
        return self.out(self.last)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    others = ("out", "left_alone")
    bodies = [parameter for name, parameter in model.named_parameters() if not name.startswith(others)]
    groups = [{"params": bodies}, {"params": model.out.parameters(), "lr": 3e-3, "weight_decay": 0.1}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.8, 0.99))


LOSS = nn.CrossEntropyLoss(torch.tensor([9.0, 1.0, 2.0, 0.5]), label_smoothing=0.1, ignore_index=0)


def batches(count: int, seed: int = 0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(8, 1, 8, 8, generator=generator), torch.randint(0, 4, (8,), generator=generator))
        for _ in range(count)
    ]


def eager_steps(
    model: nn.Module, optimizer: torch.optim.Optimizer, data: list[Any], clip: float | None = CLIP
) -> list[torch.Tensor]:
    losses = []
    for image, target in data:
        optimizer.zero_grad()
        loss = LOSS(model(image), target)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.detach())
    return losses


@pytest.fixture(scope="module")
def compiled() -> tuple[nn.Module, pipeline.TrainingStep]:
    """The model as it was compiled, and the step, which tests copy by `new_state`."""
    torch.manual_seed(0)
    model = Convolutions()
    return model, pipeline.compile_training(model, LOSS, adam(model), args=batches(1)[0], clip_norm=CLIP)


@pytest.fixture
def both(compiled: Any) -> tuple[nn.Module, torch.optim.Optimizer, pipeline.TrainingStep]:
    """Model and optimizer for eager, and a step at the same state."""
    model = copy.deepcopy(compiled[0])
    return model, adam(model), compiled[1].new_state()


def assert_same(step: pipeline.TrainingStep, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    torch.testing.assert_close(step.state_dict(), dict(model.state_dict()))
    found, expected = step.optimizer_state_dict(), optimizer.state_dict()
    torch.testing.assert_close(found["state"], expected["state"])
    assert found["param_groups"] == expected["param_groups"]


def test_fifty_steps(both: Any) -> None:
    model, optimizer, step = both
    data = batches(50)
    torch.manual_seed(1)
    losses = [step(*batch) for batch in data]
    torch.manual_seed(1)
    torch.testing.assert_close(losses, eager_steps(model, optimizer, data))
    assert_same(step, model, optimizer)
    assert step.steps == 50


def test_from_eager_to_compiled_and_back(both: Any) -> None:
    """One trajectory, whoever takes the steps; and learning rates that change without compiling."""
    model, optimizer, step = both
    other, data = copy.deepcopy(model), batches(12, seed=2)
    its_optimizer = adam(other)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    torch.manual_seed(3)
    losses = eager_steps(model, optimizer, data[:4])
    schedule.step()
    losses += eager_steps(model, optimizer, data[4:])
    torch.manual_seed(3)
    mixed = eager_steps(other, its_optimizer, data[:4])
    step.load_state_dict(other.state_dict())
    step.load_optimizer_state_dict(its_optimizer.state_dict())
    step.learning_rates = [rate / 2 for rate in step.learning_rates]
    mixed += [step(*batch) for batch in data[4:8]]
    other.load_state_dict(step.state_dict())
    its_optimizer.load_state_dict(step.optimizer_state_dict())
    mixed += eager_steps(other, its_optimizer, data[8:])
    torch.testing.assert_close(mixed, losses)
    torch.testing.assert_close(dict(other.state_dict()), dict(model.state_dict()))


def test_gradients_can_be_accumulated(both: Any) -> None:
    model, optimizer, step = both
    data = batches(2, seed=4)
    torch.manual_seed(5)
    found = [step.loss_and_gradients(*batch) for batch in data]
    step.apply_gradients({name: found[0][1][name] + found[1][1][name] for name in found[0][1]})
    torch.manual_seed(5)
    losses = [LOSS(model(image), target) for image, target in data]
    sum(losses).backward()
    nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    torch.testing.assert_close([loss for loss, _ in found], [loss.detach() for loss in losses])
    assert_same(step, model, optimizer)


def test_forward_is_the_model_in_evaluation_mode(both: Any) -> None:
    model, optimizer, step = both
    data = batches(2)
    torch.manual_seed(6)
    step(*data[0])
    torch.manual_seed(6)
    eager_steps(model, optimizer, data[:1])
    with torch.no_grad():
        torch.testing.assert_close(step.forward(data[1][0]), model.eval()(data[1][0]))


def test_a_saved_step_goes_on(both: Any, tmp_path: Path) -> None:
    _, _, step = both
    first, *rest = batches(4, seed=7)
    step(*first)
    step.save(tmp_path / "step.vmfb")
    step.save_checkpoint(tmp_path / "checkpoint.irpa")
    loaded = pipeline.load(tmp_path / "step.vmfb")
    assert isinstance(loaded, pipeline.TrainingStep) and loaded.steps == 1
    torch.manual_seed(8)
    losses = [step(*batch) for batch in rest]
    torch.manual_seed(8)
    assert [loaded(*batch) for batch in rest] == losses
    loaded.load_checkpoint(tmp_path / "checkpoint.irpa")
    torch.manual_seed(8)
    assert [loaded(*batch) for batch in rest] == losses


def test_seeded_steps_draw_from_numpy(both: Any) -> None:
    """Whatever torch's generator does, and each step its own numbers."""
    _, _, step = both
    again, batch = step.new_state(), batches(1)[0]
    for one in (step, again):
        one.seed(3)
    assert [step(*batch) for _ in range(3)] == [again(*batch) for _ in range(3)]
    again.seed(4)
    assert step(*batch) != again(*batch)
    micro_batches = []
    for one in (step.new_state(), step.new_state()):
        one.seed(5)
        micro_batches.append([float(one.loss_and_gradients(*batch)[0]) for _ in range(3)])
    assert len(set(micro_batches[0])) == 3 and micro_batches[0] == micro_batches[1]


def test_numpy_batches(both: Any) -> None:
    _, _, step = both
    image, target = batches(1)[0]
    step.seed(0)
    loss = step(image=image.numpy(), target=target.numpy())
    assert isinstance(loss, np.ndarray) and loss.shape == ()


def test_what_does_not_fit(both: Any) -> None:
    model, _, step = both
    state = step.optimizer_state_dict()
    with pytest.raises(ArgumentError, match=r"missing \['conv.weight'\]; unknown \['weight'\]"):
        values = dict(model.state_dict())
        step.load_state_dict({"weight": values.pop("conv.weight"), **values})
    state["param_groups"][1]["betas"] = (0.9, 0.99)
    with pytest.raises(
        ArgumentError, match=r"group 1 was compiled with betas=\(0.8, 0.99\), got \(0.9, 0.99\)"
    ):
        step.load_optimizer_state_dict(state)
    with pytest.raises(ArgumentError, match="the optimizer has 2 parameter groups, got 1"):
        step.load_optimizer_state_dict(torch.optim.AdamW(model.parameters()).state_dict())
    with pytest.raises(ArgumentError, match="2 parameter groups, got 3 rates"):
        step.learning_rates = [1.0, 2.0, 3.0]
    with pytest.raises(ArgumentError, match="a number or a sequence of numbers, got 'fast'"):
        step.learning_rates = "fast"
    for rate in (np.float32(0.5), torch.tensor(0.5), 0.5):
        step.learning_rates = rate
        assert step.learning_rates == [0.5, 0.5]
    with pytest.raises(ArgumentError, match="'target' must be 8xi64"):
        step(torch.randn(8, 1, 8, 8), torch.zeros(4, dtype=torch.int64))


class Tied(nn.Module):
    """One matrix under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 6)
        self.head = nn.Linear(6, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(tokens).cumsum(1))


def next_token(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(tokens[:, :-1])
    return nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())


def test_a_loss_that_takes_the_model() -> None:
    """Tied weights, autocast, and an optimizer in the middle of its run whose first step differs."""
    torch.manual_seed(0)
    tokens = torch.randint(0, 7, (4, 9))
    model = Tied()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, dampening=0.5, weight_decay=0.01)
    step = pipeline.compile_training(
        model, next_token, optimizer, args=(tokens,), entry_points=["train_step"]
    )
    losses, eager = [], []
    for number in range(20):
        losses.append(step(tokens=tokens))
        optimizer.zero_grad()
        loss = next_token(model, tokens)
        loss.backward()
        optimizer.step()
        eager.append(loss.detach())
        if number == 10:
            step.load_optimizer_state_dict(optimizer.state_dict())
    # bfloat16 keeps 8 bits, and both round the same products in other orders.
    torch.testing.assert_close(losses, eager, rtol=5e-3, atol=1e-3)
    assert step.state_dict().keys() == model.state_dict().keys()
    torch.testing.assert_close(step.state_dict(), dict(model.state_dict()), rtol=2e-2, atol=2e-3)
    values = dict(model.state_dict())
    with pytest.raises(ArgumentError, match=r"'head\.weight' is tied to another name of the model"):
        step.load_state_dict({**values, "head.weight": values["head.weight"] + 1})
