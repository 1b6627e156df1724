"""One compiled step for batches of several sizes, beside PyTorch's own loop over the same batches."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import pipeline
from pipeline.errors import InputError, UnsupportedError
from pipeline.runtime import ArgumentError

SIZES = (6, 4, 9, 6, 1, 2)


class Encoder(nn.Module):
    """A transformer with dropout in attention and behind it, over sequences of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.norm, self.dropout, self.head = nn.LayerNorm(16), nn.Dropout(0.1), nn.Linear(16, 11)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        rate = 0.1 if self.training else 0.0
        attention = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=True)
        return self.head(x + self.dropout(self.out(attention.transpose(1, 2).flatten(2)))).flatten(0, 1)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 4))


def cnn() -> nn.Module:
    first = [nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU()]
    return nn.Sequential(*first, nn.Conv2d(4, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(16, 4))


def vectors(size: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(size, 8), torch.randint(0, 4, (size,))


def images(size: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(size, 1, 8, 8), torch.randint(0, 4, (size,))


def texts(size: int) -> tuple[torch.Tensor, ...]:
    size, length = size + 1, 12 - size  # Dim.DYNAMIC begins at 2
    return torch.randint(0, 11, (size, length)), torch.randint(0, 11, (size, length)).flatten()


BATCH = Dim("batch", min=1, max=64)
MODELS: dict[str, tuple[Any, Any, Any]] = {
    "mlp": (mlp, vectors, {"input": {0: BATCH}, "target": {0: BATCH}}),
    "cnn": (cnn, images, ({0: BATCH}, {0: BATCH})),
    "transformer": (Encoder, texts, {"ids": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, "target": {0: Dim.DYNAMIC}}),
}


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4)


def eager(model: nn.Module, data: list[Any]) -> list[torch.Tensor]:
    optimizer, losses = adam(model), []
    for x, y in data:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


@pytest.mark.parametrize("name", MODELS)
def test_sizes_change_along_a_run(name: str, tmp_path: Path) -> None:
    make, batch, shapes = MODELS[name]
    torch.manual_seed(0)
    model = make()
    data = [batch(size) for size in SIZES]
    step = pipeline.compile_training(
        model, nn.CrossEntropyLoss(), adam(model), args=batch(5), dynamic_shapes=shapes
    )
    step.save(tmp_path / "step.vmfb")
    step = pipeline.load(tmp_path / "step.vmfb")
    torch.manual_seed(1)
    expected = eager(model, data)
    torch.manual_seed(1)
    torch.testing.assert_close([step(*item) for item in data], expected)
    torch.testing.assert_close(step.state_dict(), dict(model.state_dict()))
    torch.testing.assert_close(step.forward(data[2][0]), model.eval()(data[2][0]))


@pytest.fixture(scope="module")
def step() -> Any:
    """An MLP's step for batches of 1 to 64."""
    make, batch, shapes = MODELS["mlp"]
    model = make()
    only = ["train_step", "loss_and_gradients"]
    return pipeline.compile_training(
        model, nn.CrossEntropyLoss(), adam(model), args=batch(5), dynamic_shapes=shapes, entry_points=only
    )


def test_a_batch_out_of_range_or_of_two_sizes_names_its_argument(step: Any) -> None:
    with pytest.raises(ArgumentError, match=r"input.*batch"):
        step(*vectors(65))
    with pytest.raises(ArgumentError, match=r"target.*batch"):
        step(vectors(5)[0], vectors(6)[1])


def train(model: nn.Module, loss: Any, shapes: Any, **options: Any) -> Any:
    return pipeline.compile_training(
        model,
        loss,
        adam(model),
        args=vectors(5),
        dynamic_shapes=shapes,
        entry_points=["train_step"],
        **options,
    )


def test_shapes_that_fit_no_argument() -> None:
    with pytest.raises(InputError, match=r"\['x'\]; the batch's arguments are input, target"):
        train(mlp(), nn.CrossEntropyLoss(), {"x": {0: BATCH}})
    with pytest.raises(InputError, match="one item for each of input, target"):
        train(mlp(), nn.CrossEntropyLoss(), ({0: BATCH},))


def test_a_step_that_holds_for_one_size_only() -> None:
    """The size is in no shape of the graph, so that only the trace of the gradients sees it."""

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(model(x), y, reduction="sum") / (2 if len(x) == 5 else 3)

    with pytest.raises(InputError, match=r"does not take the sizes of dynamic_shapes(.|\n)*batch"):
        train(mlp(), loss, ({0: BATCH}, {0: BATCH}))


@pytest.mark.parametrize("options", [{"recompute": "all"}, {"recompute": "min-cut", "memory_budget": 0.3}])
def test_recomputation_and_sizes(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = mlp()
    step = train(model, nn.CrossEntropyLoss(), ({0: BATCH}, {0: BATCH}), **options)
    data = [vectors(size) for size in SIZES]
    torch.manual_seed(1)
    expected = eager(copy.deepcopy(model), data)
    torch.manual_seed(1)
    torch.testing.assert_close([step(*item) for item in data], expected)


def test_masks_made_inside_of_the_step_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"generator='in-graph' with dynamic_shapes"):
        train(mlp(), nn.CrossEntropyLoss(), ({0: BATCH}, {0: BATCH}), generator="in-graph")
