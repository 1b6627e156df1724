"""Fusions: results as eager's, and their work where it belongs: weights at load, sums and activations in products."""

from __future__ import annotations

import math
import re
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim

import pipeline
from pipeline import compiler
from pipeline.api import capture_checked, compile_options, entry_specs
from pipeline.errors import InputError
from pipeline.tools_path import iree_compile


def emitted(model: nn.Module, args: tuple[torch.Tensor, ...], stage: str, dynamic=None, **options) -> str:
    """The IR of `model` after `stage`."""
    settings = compile_options(**options)
    program = capture_checked(model, entry_specs(args, None, dynamic, None), settings)
    return compiler.emit(program, settings, stage)


class Folded(nn.Module):
    """What fold-batch-norm takes: convolutions of every kind and linear layers, with and without bias."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(
            {
                "plain": nn.Sequential(nn.Conv2d(4, 6, 3, bias=False), nn.BatchNorm2d(6)),
                "groups": nn.Sequential(nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2), nn.BatchNorm2d(8)),
                "transposed": nn.Sequential(
                    nn.ConvTranspose2d(4, 5, 2, stride=2), nn.BatchNorm2d(5, affine=False)
                ),
                "twice": nn.Sequential(nn.Conv2d(4, 1, 1), nn.BatchNorm2d(1), nn.BatchNorm2d(1, eps=0.1)),
            }
        )
        self.row = nn.Sequential(nn.Conv1d(4, 7, 3), nn.BatchNorm1d(7))
        self.linear = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5))
        self.scaled, self.gamma = nn.Linear(6, 5), nn.Parameter(torch.empty(5))
        self.used = nn.Sequential(nn.Conv2d(4, 6, 1), nn.BatchNorm2d(6))
        for name, tensor in [*self.named_parameters(), *self.named_buffers()]:
            if tensor.is_floating_point():
                nn.init.uniform_(tensor, 0.5 if "var" in name else -1.0, 1.5)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        results = [layer(x) for layer in self.layers.values()]
        used = self.used[0](x)
        rows = x[:, 0]
        return [
            *results,
            self.row(x[..., 0]),
            self.linear(rows[:, 0]),
            self.gamma * self.scaled(rows),
            used,
            self.used[1](used),
        ]


def test_batch_norm_is_folded() -> None:
    """One product per channel is left, of the layer that is used twice."""
    torch.manual_seed(0)
    model, x = Folded().eval(), torch.randn(3, 4, 6, 6)
    dynamic = ({0: Dim("batch", min=1, max=8)},)
    assert len(_products_of_results(emitted(model, (x,), "refined", dynamic))) == 1
    off = emitted(model, (x,), "refined", disable_passes=["fold-batch-norm"])
    assert len(_products_of_results(off)) == 9
    executable = pipeline.compile(model, args=(x,))
    with torch.no_grad():
        torch.testing.assert_close(executable(x), model(x))


def _products_of_results(refined: str) -> list[str]:
    """Products of what has a batch dimension, the first, of 3 or any size."""
    return re.findall(r"aten\.mul\.Tensor .* -> !torch\.vtensor<\[(?:3|\?),.*", refined)


class Masked(nn.Module):
    """The first of `Attentions` with a mask of each kind: all of them would take long to compile."""

    def forward(self, *args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        _, added, _, filled, *_ = Attentions().eval()(*args)
        return added, filled


class Attentions(nn.Module):
    """Attention as people write it, and two forms that mean something else for rows that are masked altogether."""

    def forward(self, q, k, v, mask, out) -> tuple[torch.Tensor, ...]:
        t = k.transpose(-2, -1)
        return (
            (q @ t / 4).softmax(-1) @ v,
            (q @ t * 0.3 + mask).softmax(-1) @ v,
            (mask + q @ t).softmax(3) @ v,
            nn.functional.dropout((q @ t / 4).masked_fill(out, -math.inf).softmax(-1), 0.1, self.training)
            @ v,
            (q[0] @ t[0]).softmax(-1) @ v[0],
            nn.functional.scaled_dot_product_attention(q, k, v),
            (q @ t / 4).masked_fill(out, -1e9).softmax(-1) @ v,
            nn.functional.scaled_dot_product_attention(q, k, v, mask),
        )


def test_attention_is_recognised() -> None:
    """Six of eight, when asked for: NaN for a row that is masked altogether, as eager has it."""
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 3, 5, 16), torch.randn(2, 3, 7, 16), torch.randn(2, 3, 7, 8)
    mask = torch.where(torch.rand(2, 1, 5, 7) > 0.3, torch.randn(2, 1, 5, 7), -math.inf)
    mask[0, 0, 1], out = -math.inf, torch.rand(5, 7) > 0.6
    out[2] = True
    model, args = Attentions().eval(), (q, k, v, mask, out)
    assert "aten.scaled_dot_product_attention" not in emitted(model, args, "refined")
    asked = {"enable_passes": ["recognize-attention"]}
    assert emitted(model, args, "refined", **asked).count("aten.scaled_dot_product_attention") == 6
    expected = model(*args)
    assert expected[3].isnan().any()
    torch.testing.assert_close(pipeline.compile(model, args=args, **asked)(*args), expected, equal_nan=True)


class Shared(nn.Module):
    """Products of one input: with a bias each, and without, of few rows and of many."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 6), nn.Linear(8, 4), nn.Linear(8, 4)
        self.gate, self.up = nn.Linear(8, 5, bias=False), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor, many: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.sin()
        return self.q(x), self.k(x), self.v(x), self.gate(y), self.up(y), self.gate(many), self.up(many)


def test_products_of_one_input_are_merged() -> None:
    """Five products become two, when asked for; those of many rows stay."""
    torch.manual_seed(0)
    model, args = Shared().eval(), (torch.randn(2, 3, 8), torch.randn(40, 8))
    asked = {"enable_passes": ["merge-shared-input-matmuls"]}
    assert emitted(model, args, "refined").count("torch.aten.mm ") == 7
    assert emitted(model, args, "refined", **asked).count("torch.aten.mm ") == 4
    with torch.no_grad():
        torch.testing.assert_close(pipeline.compile(model, args=args, **asked)(*args), model(*args))


def test_only_what_waits_can_be_asked_for() -> None:
    with pytest.raises(InputError, match="these do: merge-shared-input-matmuls, recognize-attention"):
        compile_options(enable_passes=["fold-batch-norm"])


class Layers(nn.Module):
    """A convolution with batch norm and activation, and two linear layers with theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(4, 16, 1, bias=False), nn.BatchNorm2d(16)
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.convolution(x)).relu().flatten(2).transpose(1, 2)
        return self.second(nn.functional.gelu(self.first(y))).sigmoid()


def test_bias_and_activation_are_computed_with_the_product(tmp_path: Path) -> None:
    """A call is one dispatch for each layer and at most one that turns the image; all else happens at load."""
    (tmp_path / "module.mlir").write_text(emitted(Layers().eval(), (torch.randn(1, 4, 16, 16),), "iree"))
    (step,) = [compile_options().targets[0]]
    options = [option for option in step.ladder[0].options if "data-tiling" not in option]
    command = [
        iree_compile(),
        "module.mlir",
        "--compile-to=flow",
        f"--iree-hal-target-device={step.hal_device}",
    ]
    flow = subprocess.run(
        [*command, *step.options, *options], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    call = flow[flow.index("util.func public @main(") :]
    dispatches = re.findall(r"flow\.dispatch @\S+::@(\S+?)\(", call)
    products = [name for name in dispatches if re.search("matmul|product|convolution", name)]
    assert len(products) == 3
    assert len(dispatches) <= 4, dispatches


def test_explain_counts_what_passes_change() -> None:
    model, x = Layers().eval(), torch.randn(1, 4, 16, 16)
    assert pipeline.explain(model, args=(x,)).passes["fold-batch-norm"] == 1
    off = pipeline.explain(model, args=(x,), disable_passes=["fold-batch-norm"])
    assert "fold-batch-norm" not in off.passes


class Norms(nn.Module):
    """What torch-mlir computes in float64 unless told better."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(8), nn.RMSNorm(8), nn.GroupNorm(2, 4), nn.BatchNorm1d(4)])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        gelu = nn.functional.gelu
        return (
            *[norm(x) for norm in self.norms],
            x.softmax(-1),
            gelu(x),
            gelu(x, approximate="tanh"),
            x.var(-1),
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_norms_stay_in_their_precision(dtype: torch.dtype) -> None:
    """No f64 where no tensor has it."""
    linalg = emitted(Norms().eval().to(dtype), (torch.randn(3, 4, 8, dtype=dtype),), "linalg")
    assert re.findall(r".*\bf64\b.*", linalg) == []
