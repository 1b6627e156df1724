"""What backward computes again: eager's gradients, and less memory in a compiled step."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import pipeline
from pipeline.training.gradients import LossGradients, trace_gradients
from pipeline.training.loss import BatchLoss


class Convolutions(nn.Module):
    """Batch norm, which updates statistics, and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.second, self.out = nn.Conv2d(4, 4, 3, bias=False), nn.Linear(64, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.dropout(self.norm(self.first(x)).tanh(), 0.3)
        return self.out(self.second(x).sigmoid().flatten(1))


def traced_like_eager(model: nn.Module, data: tuple[Any, ...], **options: Any) -> LossGradients:
    """The joint graph, whose values are compared with eager's."""
    loss = BatchLoss(model, nn.CrossEntropyLoss())
    found = trace_gradients(loss, data, **options)
    tensors = {name: tensor.detach().clone() for name, tensor in loss.state_dict(keep_vars=True).items()}
    torch.manual_seed(1)
    value, gradients, updates = found(tensors, data, steps=torch.tensor(0))
    torch.manual_seed(1)
    expected = loss(*data)
    expected.backward()
    torch.testing.assert_close(value, expected.detach())
    torch.testing.assert_close(gradients, {name: p.grad for name, p in loss.named_parameters()})
    after = loss.state_dict()
    torch.testing.assert_close(updates, {name: after[name] for name in updates})
    return found


def count(found: LossGradients, operator: str) -> int:
    return sum(str(node.target) == operator for node in found.module.graph.nodes)


IMAGES = (torch.randn(6, 1, 8, 8), torch.tensor([0, 1, 2, 2, 1, 0]))


@pytest.mark.parametrize(
    ("recompute", "budget", "convolutions", "tanhs"),
    [("none", None, 2, 1), ("min-cut", None, 2, 1), ("min-cut", 0.3, 3, 2), ("all", None, 4, 2)],
)
def test_what_is_computed_again(recompute: str, budget: float | None, convolutions: int, tanhs: int) -> None:
    found = traced_like_eager(Convolutions(), IMAGES, recompute=recompute, memory_budget=budget)
    assert count(found, "aten.convolution.default") == convolutions
    assert count(found, "aten.tanh.default") == tanhs
    assert count(found, "aten.bernoulli.p") == 1


class Blocks(nn.Module):
    """Parts in a row, each of which is run again in backward; what is behind them is not."""

    def __init__(self, count: int, width: int, **checkpointed: Any) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(count))
        self.checkpointed = checkpointed

    def part(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return x + nn.functional.dropout(layer(x).sigmoid().tanh(), 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.blocks:
            if self.checkpointed:
                x = checkpoint(self.part, layer, x, use_reentrant=False, **self.checkpointed)
            else:
                x = self.part(layer, x)
        return x.sin()


def keep_products() -> Any:
    def policy(_context: Any, operator: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
        product = operator is torch.ops.aten.addmm.default
        return CheckpointPolicy.MUST_SAVE if product else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


VECTORS = (torch.randn(6, 4), torch.tensor([0, 1, 2, 3, 1, 0]))


@pytest.mark.parametrize(("context", "products"), [({}, 6), ({"context_fn": keep_products}, 3)])
def test_checkpointed_parts(context: Any, products: int) -> None:
    model = Blocks(3, 4, preserve_rng_state=True, **context)
    found = traced_like_eager(model, VECTORS)
    assert count(found, "aten.addmm.default") == products
    assert count(found, "aten.tanh.default") == 6
    assert count(found, "aten.bernoulli.p") == 3
    assert count(found, "aten.sin.default") == 1


class Attention(nn.Module):
    """Attention, which has several results, and another operator of that kind behind it."""

    def __init__(self, then: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.qkv, self.out, self.then = nn.Linear(4, 12), nn.Linear(4, 4), then

    def part(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x)[None, None].chunk(3, -1)
        x = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)[0, 0]
        return self.then(self.out(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.part, x, use_reentrant=False)


@pytest.mark.parametrize("recompute", ["none", "min-cut", "all"])
def test_operators_with_several_results(recompute: str) -> None:
    model = Attention(lambda x: nn.functional.layer_norm(x, [4]))
    found = traced_like_eager(model, VECTORS, recompute=recompute)
    assert count(found, "aten._scaled_dot_product_flash_attention_for_cpu.default") == 2
    # Its draws are taken for other elements than eager's: nothing to compare with.
    random = BatchLoss(Attention(lambda x: nn.functional.rrelu(x, training=True)), nn.CrossEntropyLoss())
    found = trace_gradients(random, VECTORS, recompute)
    assert count(found, "aten._scaled_dot_product_flash_attention_for_cpu.default") == 2
    assert count(found, "aten.uniform.default") == 1


def peak(step: pipeline.TrainingStep, batch: tuple[torch.Tensor, ...]) -> int:
    """How many MB of memory a step takes at most, beside what the process has already."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    step(*batch)
    return (_status("VmHWM") - before) // 1024


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))


def test_a_compiled_step_takes_less_memory() -> None:
    """A value is 4 MB; eight layers keep two or three each, or one each and those of one layer."""
    batch = (torch.randn(8192, 128), torch.randn(8192, 128))
    found = {}
    for checkpointed in ({}, {"preserve_rng_state": True}):
        torch.manual_seed(0)
        model = Blocks(8, 128, **checkpointed)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = pipeline.compile_training(
            model, nn.MSELoss(), optimizer, args=batch, entry_points=["train_step"]
        )
        step.seed(0)
        found[bool(checkpointed)] = step(*batch), peak(step, batch), step.state_dict()
    torch.testing.assert_close(found[True][::2], found[False][::2])
    assert found[True][1] < 0.75 * found[False][1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recompute": "some"}, "recompute 'some' is unknown; choose from none, min-cut, all"),
        ({"memory_budget": 0.5}, "memory_budget goes with recompute='min-cut', not with 'none'"),
        ({"recompute": "min-cut", "memory_budget": 0}, "must be above 0 and at most 1, got 0"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters())
    with pytest.raises(pipeline.InputError, match=message):
        pipeline.compile_training(model, nn.CrossEntropyLoss(), optimizer, args=VECTORS, **options)
