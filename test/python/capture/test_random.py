"""Random operators: a seed gives the numbers of eager, in its order, call after call."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import pipeline
from pipeline.capture import exported
from pipeline.dialect_passes.operators import decomposition_table
from pipeline.entry_points import EntrySpec
from pipeline.runtime import draws
from pipeline.runtime.manifest import Draw, TensorSpec


class Noisy(nn.Module):
    """Every random operator that can be drawn outside of the graph, some of a dynamic size."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("noise", torch.zeros(3))
        self.register_buffer("weights", torch.tensor([0.1, 0.0, 0.4, 0.5]))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.noise.uniform_(1, 2)
        weights = self.weights
        return {
            "noise": self.noise + 1,
            "dropout": F.dropout(x, 0.2),
            "dropout of a permuted tensor": F.dropout(x.permute(0, 2, 3, 1), 0.2),
            "dropout2d": F.dropout2d(x, 0.3),
            "alpha_dropout": F.alpha_dropout(x, 0.1, training=True),
            "dropout of all": F.dropout(x, 1.0),
            "rand": torch.rand(3, x.shape[0]),
            "randn": torch.randn(3, dtype=torch.float64),
            "rand_like": torch.rand_like(x),
            "randn_like": torch.randn_like(x),
            "randint": torch.randint(0, 5, (3,)),
            "randint high": torch.randint(7, (x.shape[0],)),
            "randint_like": torch.randint_like(x, 5),
            "randperm": torch.randperm(5),
            "normal_": torch.empty(3).normal_(2, 3),
            "exponential_": torch.empty(3).exponential_(),
            "bernoulli_": torch.empty(3).bernoulli_(0.5),
            "bernoulli": torch.bernoulli(torch.sigmoid(x)),
            "bernoulli half": torch.bernoulli(torch.sigmoid(x).half()),
            "normal of means": torch.normal(x, 1.0),
            "normal of numbers": torch.normal(0.0, 1.0, (3,)),
            "gumbel": F.gumbel_softmax(x),
            "one of many": torch.multinomial(weights, 1),
            "some of many": torch.multinomial(weights, 2),
            "with replacement": torch.multinomial(weights.half(), 20, True),
        }


@pytest.fixture(scope="module")
def noisy() -> tuple[nn.Module, Any]:
    model = Noisy()
    shapes = {"x": {0: torch.export.Dim("n", min=2, max=9)}}
    return model, pipeline.compile(model, args=(torch.randn(4, 3, 5, 5),), dynamic_shapes=shapes)


@pytest.mark.parametrize("batch", [4, 2, 9])
def test_seed_gives_the_numbers_of_eager(noisy: tuple[nn.Module, Any], batch: int) -> None:
    model, executable = noisy
    x = torch.randn(batch, 3, 5, 5)
    torch.manual_seed(7)
    eager = [model(x) for _ in range(2)]
    torch.manual_seed(7)
    compiled = [executable(x) for _ in range(2)]
    for call in range(2):
        for name, expected in eager[call].items():
            torch.testing.assert_close(
                compiled[call][name], expected, msg=lambda text, n=name: f"{n}: {text}"
            )
    assert not torch.equal(compiled[0]["rand"], compiled[1]["rand"])
    torch.testing.assert_close(executable.state_dict()["noise"], model.noise)


METHODS: list[tuple[str, tuple[float, ...], float]] = [
    ("bernoulli_", (0.25,), 0.25),
    ("uniform_", (2.0, 4.0), 3.0),
    ("normal_", (1.0, 2.0), 1.0),
    ("random_", (0, 5), 2.0),
    ("exponential_", (2.0,), 0.5),
    ("geometric_", (0.5,), 2.0),
]


@pytest.mark.parametrize(("method", "arguments", "mean"), METHODS)
def test_without_torch_numpy_draws_the_same_distribution(
    monkeypatch: pytest.MonkeyPatch, method: str, arguments: tuple[float, ...], mean: float
) -> None:
    monkeypatch.setattr(draws, "_torch_is_installed", lambda: False)
    draw = Draw(method, arguments, TensorSpec("float32", ("n", 100)), (0, 1))
    draws.seed(3)
    (first,) = draws.make((draw,), {"n": 100})
    draws.seed(3)
    (again,) = draws.make((draw,), {"n": 100})
    assert first.shape == (100, 100)
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, again)
    # 10,000 draws: the mean is within 0.1, five standard errors of the widest of these.
    assert abs(first.mean() - mean) < 0.1


def test_uniform_draws_of_a_narrow_type_never_reach_the_upper_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "_torch_is_installed", lambda: False)
    draw = Draw("uniform_", (0.0, 1.0), TensorSpec("bfloat16", (100_000,)), (0,))
    (values,) = draws.make((draw,), {})
    assert values.astype(np.float32).max() < 1.0


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_dropout_between_recurrent_layers(layer: type[nn.RNNBase]) -> None:
    """Torch's own decomposition leaves it out."""
    model = layer(3, 4, num_layers=3, dropout=0.4, bidirectional=True, batch_first=True)
    x = torch.randn(2, 5, 3)
    program = exported(model, "main", EntrySpec((x,))).run_decompositions(decomposition_table())
    torch.manual_seed(5)
    found = program.module()(x)
    torch.manual_seed(5)
    torch.testing.assert_close(found, model(x))


@pytest.mark.parametrize("causal", [False, True])
def test_dropout_of_attention(causal: bool) -> None:
    class Attention(nn.Module):
        def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(query, key, key, dropout_p=0.5, is_causal=causal)

    arguments = torch.randn(4, 3, 8), torch.randn(4, 6, 8)
    executable = pipeline.compile(Attention(), args=arguments)
    torch.manual_seed(3)
    ours = executable(*arguments)
    torch.manual_seed(3)
    torch.testing.assert_close(ours, Attention()(*arguments))
