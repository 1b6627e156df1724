"""Kernels for the CPU against eager: sizes that fill no tile, borders, masks, everything that joins their epilogues."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import pipeline

CPUS = ["host", "haswell"] if platform.machine() == "x86_64" else ["host"]
"""With vectors of 16 lanes, where this machine has them, and of 8."""


class Several(nn.Module):
    """Layers that each get the arguments of their own number."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, *args: Tensor) -> list[Tensor]:
        """All results."""
        return [layer(x) for layer, x in zip(self.layers, args, strict=True)]


class Calls(nn.Module):
    """A module around a function of it and the arguments."""

    def __init__(self, function: Callable[..., Any], *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        """The function's result."""
        return self.function(*self.layers, *args)


def compiled(model: nn.Module, args: tuple[Tensor, ...], cpu: str = "host") -> tuple[Any, list[str]]:
    """The model's results, and the names of the kernels in its program."""
    printed: list[str] = []
    run = pipeline.compile(
        model, args=args, cpu=cpu, print_after=["iree"], on_print=lambda _, text: printed.append(text)
    )
    calls = [part.split("::")[0] for part in printed[0].split("flow.dispatch @")[1:]]
    return run(*args), [name.rpartition("_kernel_")[0] for name in calls]


def check(model: nn.Module, args: tuple[Tensor, ...], kernels: set[str], cpu: str = "host") -> None:
    """Compares with eager, and the kinds of kernels with those expected (where the CPU has vectors for any)."""
    model.eval()
    with torch.no_grad():
        expected = model(*args)
    results, names = compiled(model, args, cpu)
    torch.testing.assert_close(results, expected, equal_nan=True)
    if platform.machine() == "x86_64":
        assert {name.partition("_")[0] for name in names} == kernels


def rand(*shape: int) -> Tensor:
    """The same numbers in each run."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("cpu", CPUS)
def test_products(cpu: str) -> None:
    """Blocks of uneven height, panels that are not full, rows far apart, more rows than one workgroup takes."""
    sizes = [(4, 8, 1), (13, 512, 31), (197, 40, 96), (460, 24, 33), (30, 65, 144), (15, 16, 64)]
    layers = [nn.Linear(depth, columns) for _, depth, columns in sizes]
    check(Several(*layers), tuple(rand(rows, depth) for rows, depth, _ in sizes), {"product"}, cpu)


EPILOGUES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda y, x: torch.relu(y),
    "relu6 and a residual": lambda y, x: F.relu6(y) + x,
    "residual": lambda y, x: torch.relu(x + y * 0.5),
    "gelu": lambda y, x: F.gelu(y),
    "tanh gelu": lambda y, x: F.gelu(y, approximate="tanh"),
    "silu": lambda y, x: F.silu(y) * x,
    "sigmoid, tanh": lambda y, x: torch.sigmoid(y) + torch.tanh(y),
    "clamped": lambda y, x: torch.maximum(y.clamp(-0.1, 0.3), -y),
    "reshaped": lambda y, x: F.gelu(y.reshape(5, 5, 41)).reshape(25, 41) + x,
    "scaled by rows": lambda y, x: y * x[:, :1],
    "read twice": lambda y, x: torch.relu(y) + y.sum(),
}


def test_epilogues() -> None:
    """Elementwise operators behind a product, in its kernel or not."""

    def run(*args: Any) -> list[Tensor]:
        *layers, x = args
        return [use(layer(x), x) for use, layer in zip(EPILOGUES.values(), layers, strict=True)]

    model = Calls(run, *(nn.Linear(41, 41) for _ in EPILOGUES))
    check(model, (rand(25, 41),), {"product"})


def test_a_bias_joins_its_product() -> None:
    """One kernel for the product, the bias and GELU: nothing is left for IREE but that."""
    printed: list[str] = []
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU()).eval()
    pipeline.compile(
        model, args=(rand(8, 32),), print_after=["iree"], on_print=lambda _, text: printed.append(text)
    )
    main = printed[0].split("stream.executable")[0]
    assert "linalg.generic" not in main or platform.machine() != "x86_64"


def test_nan_and_infinity() -> None:
    """As in eager, through an activation too."""
    x = rand(6, 16)
    x[0, 3], x[1, 4], x[2, 5], x[2, 6] = float("nan"), float("inf"), float("inf"), -float("inf")
    model = Several(nn.Sequential(nn.Linear(16, 20), nn.ReLU()), nn.Sequential(nn.Linear(16, 20), nn.ReLU6()))
    check(model, (x, x), {"product"})


def test_far_out() -> None:
    """Activations of numbers where exponentials overflow or vanish."""
    layer = nn.Linear(16, 16, bias=False)
    nn.init.eye_(layer.weight)
    x = torch.cat([torch.linspace(-120, 120, 80), torch.linspace(-12, 12, 80)]).reshape(10, 16)

    def run(layer: nn.Module, x: Tensor) -> list[Tensor]:
        uses = (F.gelu, F.silu, torch.sigmoid, torch.tanh, torch.exp, lambda y: F.gelu(y, approximate="tanh"))
        return [use(layer(x + 0.0 * i)) for i, use in enumerate(uses)]

    check(Calls(run, layer), (x,), {"product"})


CONVOLUTIONS = {
    "3x3": (nn.Conv2d(5, 24, 3, padding=1), (2, 5, 13, 11)),
    "stride": (nn.Conv2d(16, 33, 3, stride=2, padding=1), (1, 16, 9, 14)),
    "7x7": (nn.Conv2d(3, 40, 7, stride=2, padding=3), (1, 3, 31, 30)),
    "1x1": (nn.Conv2d(8, 50, 1), (3, 8, 5, 5)),
    "1x1, stride": (nn.Conv2d(8, 50, 1, stride=2), (1, 8, 7, 6)),
    "dilation": (nn.Conv2d(4, 9, 3, dilation=2, padding=2), (1, 4, 12, 10)),
    "uneven": (nn.Conv2d(4, 9, (2, 5), stride=(1, 3), padding=(1, 0), dilation=(3, 1)), (2, 4, 12, 20)),
    "no bias": (nn.Conv2d(4, 16, 3, bias=False), (1, 4, 5, 5)),
}


@pytest.mark.parametrize("cpu", CPUS)
def test_convolutions(cpu: str) -> None:
    layers = [layer for layer, _ in CONVOLUTIONS.values()]
    check(Several(*layers), tuple(rand(*shape) for _, shape in CONVOLUTIONS.values()), {"convolution"}, cpu)


DEPTHWISE = {
    "3x3": (nn.Conv2d(24, 24, 3, padding=1, groups=24), (2, 24, 13, 11)),
    "stride": (nn.Conv2d(32, 32, 3, stride=2, padding=1, groups=32), (1, 32, 9, 14)),
    "7x7": (nn.Conv2d(17, 17, 7, padding=3, groups=17), (1, 17, 14, 15)),
    "5x5, dilation": (nn.Conv2d(16, 16, 5, dilation=(1, 2), padding=(2, 4), groups=16), (1, 16, 9, 8)),
    "uneven": (nn.Conv2d(8, 8, (1, 4), stride=(2, 3), groups=8, bias=False), (3, 8, 6, 23)),
}


@pytest.mark.parametrize("cpu", CPUS)
def test_depthwise_convolutions(cpu: str) -> None:
    layers = [layer for layer, _ in DEPTHWISE.values()]
    check(Several(*layers), tuple(rand(*shape) for _, shape in DEPTHWISE.values()), {"depthwise"}, cpu)


def residual(
    first: nn.Module, second: nn.Module, norm: nn.Module, third: nn.Module, shortcut: nn.Module, x: Tensor
) -> Tensor:
    """Images that are read with a border and without one, next to each other."""
    x = F.max_pool2d(torch.relu(first(x)), 3, 2, 1)
    y = torch.relu(norm(second(x)) + x)
    return torch.relu(third(y) + shortcut(y))


@pytest.mark.parametrize("cpu", CPUS)
def test_residual_network(cpu: str) -> None:
    layers = (
        nn.Conv2d(3, 20, 5, padding=2),
        nn.Conv2d(20, 20, 3, padding=1),
        nn.BatchNorm2d(20),
        nn.Conv2d(20, 40, 3, stride=2, padding=1),
        nn.Conv2d(20, 40, 1, stride=2),
    )
    check(Calls(residual, *layers), (rand(2, 3, 19, 16),), {"convolution"}, cpu)


IMAGES: dict[str, Callable[[Tensor], Any]] = {
    "pooled": lambda y: (F.max_pool2d(y, 3, 2, 1), F.avg_pool2d(y, 2), y.mean((2, 3))),
    "joined": lambda y: torch.cat((y, torch.relu(y)), 1),
    "transposed": lambda y: y.permute(0, 2, 3, 1) * 2,
    "flat": lambda y: y.flatten(1),
    "by channel": lambda y: y * torch.arange(12.0).reshape(12, 1, 1),
    "by pixel": lambda y: y + torch.arange(7.0 * 6).reshape(7, 6),
    "padded otherwise": lambda y: (F.pad(y, (1, 2, 0, 1), value=2.0), F.pad(y, (0, 0, 0, 0, 1, 1))),
    "sliced": lambda y: y[:, 1:5, ::2],
    "itself": lambda y: (y, torch.relu(y)),
    "largest": lambda y: y.argmax(1),
}


def test_what_reads_images() -> None:
    """Whatever comes behind gets the images as they are in eager."""

    def run(layer: nn.Module, x: Tensor) -> list[Any]:
        y = layer(x)
        return [use(y) for use in IMAGES.values()]

    check(Calls(run, nn.Conv2d(3, 12, 3, padding=1)), (rand(2, 3, 7, 6),), {"convolution"})


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, bias: Tensor) -> list[Tensor]:
    """Each with scores of its own."""
    attention = F.scaled_dot_product_attention
    return [
        attention(q, k, v),
        attention(q + 1, k, v, attn_mask=mask),
        attention(q + 2, k, v, attn_mask=bias),
        attention(q + 3, k, v, attn_mask=bias[:, :, :1]),
        torch.softmax((q + 4) @ k.mT * 0.3 + bias, -1) @ v,
        torch.softmax(((q + 5) @ k.mT).masked_fill(~mask, -torch.inf), -1) @ v,
        torch.softmax((q + 6).flatten(0, 1) @ k.flatten(0, 1).mT, -1) @ v.flatten(0, 1),
    ]


@pytest.mark.parametrize(("cpu", "width"), list(zip(CPUS, [64, 40], strict=False)))
def test_attention(cpu: str, width: int) -> None:
    """With a row whose keys are all masked: zeros from one operator, NaN from the other."""
    mask = torch.rand((2, 1, 45, 77), generator=torch.Generator().manual_seed(0)) > 0.3
    mask[0, 0, 3] = False
    args = (rand(2, 3, 45, width), rand(2, 3, 77, width), rand(2, 3, 77, 24), mask, rand(1, 3, 45, 77))
    check(Calls(attend), args, {"attention"}, cpu)


def test_causal_attention() -> None:
    def run(q: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, q * 2, q + 1, is_causal=True)

    check(Calls(run), (rand(1, 2, 33, 16),), {"attention"})


def softmax_by_hand(scores: Tensor, most: Tensor, total_over: int = -1) -> Tensor:
    exponentials = torch.exp(scores - most)
    return exponentials / exponentials.sum(total_over, keepdim=True)


NO_SOFTMAX: dict[str, Callable[[Tensor], Tensor]] = {
    "maxima of columns": lambda s: softmax_by_hand(s, s.amax(-2, keepdim=True)),
    "maxima of rows, read by columns": lambda s: softmax_by_hand(s, s.amax(-1)[:, None]),
    "sums of columns": lambda s: softmax_by_hand(s, s.amax(-1, keepdim=True), -2),
    "sums of rows, read by columns": lambda s: (
        torch.exp(s - s.amax(-1, keepdim=True)) / torch.exp(s - s.amax(-1, keepdim=True)).sum(-1)[:, None]
    ),
    "other maxima": lambda s: softmax_by_hand(s, s.abs().amax(-1, keepdim=True)),
    "the other way round": lambda s: softmax_by_hand(s.amax(-1, keepdim=True), s),
    "upside down": lambda s: 1 / softmax_by_hand(s, s.amax(-1, keepdim=True)),
    "turned": lambda s: torch.softmax(s, -1).mT,
}


def test_what_looks_like_attention() -> None:
    """Square scores, so that sizes tell nothing."""

    def run(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        return [use((q + i) @ k.mT) @ v for i, use in enumerate(NO_SOFTMAX.values())]

    args = tuple(rand(2, 9, width) * 0.3 for width in (16, 16, 8))
    check(Calls(run), args, set())


def test_attention_with_nan_and_infinity() -> None:
    q, k, v = rand(1, 2, 17, 16), rand(1, 2, 33, 16), rand(1, 2, 33, 8)
    q[0, 0, 1, 2], q[0, 1, 3, 4], k[0, 1, 5, 6] = float("nan"), float("inf"), -float("inf")
    v[0, 0, 7, 3] = float("nan")
    check(Calls(F.scaled_dot_product_attention), (q, k, v), {"attention"})


def test_scores_that_others_read() -> None:
    """Probabilities as a result beside are computed anyway."""

    def run(q: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        probabilities = torch.softmax(q @ q.mT, -1)
        return probabilities, probabilities @ v

    check(Calls(run), (rand(2, 9, 16), rand(2, 9, 8)), set())


NOT_TAKEN = {
    "float64": (nn.Linear(16, 20).double(), rand(8, 16).double()),
    "groups": (nn.Conv2d(8, 8, 3, groups=2), rand(1, 8, 6, 6)),
    "few rows": (nn.Linear(16, 20), rand(1, 16)),
}


def test_weights_as_arguments_are_left_to_iree() -> None:
    check(Calls(lambda x, w: F.conv2d(x, w, padding=1)), (rand(1, 8, 6, 6), rand(9, 8, 3, 3)), set())
    check(Calls(F.linear), (rand(9, 8), rand(20, 8)), set())


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_what_is_left_to_iree(name: str) -> None:
    layer, x = NOT_TAKEN[name]
    check(layer, (x,), set())


def test_bfloat16_is_computed_in_float32() -> None:
    check(nn.Linear(16, 20).bfloat16(), (rand(8, 16).bfloat16(),), {"product"})


def test_switched_off() -> None:
    printed: list[str] = []
    layer, x = nn.Linear(16, 20).eval(), rand(8, 16)
    run = pipeline.compile(
        layer,
        args=(x,),
        disable_passes=["cpu-kernels"],
        print_after=["iree"],
        on_print=lambda _, text: printed.append(text),
    )
    assert "flow.dispatch" not in printed[0]
    with torch.no_grad():
        torch.testing.assert_close(run(x), layer(x))


def test_open_rows() -> None:
    """As many rows as a call has: below, at and beyond what a block and a workgroup take."""
    model = nn.Sequential(nn.Linear(48, 96), nn.GELU(), nn.Linear(96, 33), nn.ReLU()).eval()
    printed: list[str] = []
    run = pipeline.compile(
        model,
        args=(rand(8, 48),),
        dynamic_shapes=({0: torch.export.Dim("rows", min=0)},),
        print_after=["iree"],
        on_print=lambda _, text: printed.append(text),
    )
    assert printed[0].count("flow.dispatch @product_open") == 2 or platform.machine() != "x86_64"
    for rows in (0, 1, 3, 4, 5, 13, 14, 15, 28, 29, 223, 224, 225, 300, 460):
        x = rand(rows, 48)
        with torch.no_grad():
            torch.testing.assert_close(run(x), model(x))


def test_open_rows_with_a_residual() -> None:
    def run(layer: nn.Module, x: Tensor) -> Tensor:
        return torch.relu(layer(x) * 0.5 + x)

    model = Calls(run, nn.Linear(24, 24)).eval()
    compiled_ = pipeline.compile(
        model, args=(rand(9, 24),), dynamic_shapes=(({0: torch.export.Dim("rows")},),)
    )
    for rows in (1, 9, 40):
        x = rand(rows, 24)
        with torch.no_grad():
            torch.testing.assert_close(compiled_(x), model(x))


def test_images_of_open_sizes_are_left_to_iree() -> None:
    layer = nn.Conv2d(3, 8, 3).eval()
    run = pipeline.compile(layer, args=(rand(2, 3, 9, 9),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    with torch.no_grad():
        torch.testing.assert_close(run(rand(5, 3, 9, 9)), layer(rand(5, 3, 9, 9)))


def test_several_threads() -> None:
    """Workgroups in any order: each border is written once, by whoever has its columns."""
    layers = (
        nn.Conv2d(8, 80, 3, padding=1),
        nn.Conv2d(80, 80, 3, padding=1, groups=80),
        nn.Conv2d(80, 40, 3, padding=1),
    )
    model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2]).eval()
    x = rand(2, 8, 33, 31)
    run = pipeline.compile(model, args=(x,), device="cpu")
    with torch.no_grad():
        expected = model(x)
    for _ in range(5):
        torch.testing.assert_close(run(x), expected)


def test_patches() -> None:
    """Images flattened to tokens within an epilogue."""

    def run(layer: nn.Module, x: Tensor, places: Tensor) -> Tensor:
        return torch.relu(layer(x).flatten(2).transpose(1, 2) + places)

    check(Calls(run, nn.Conv2d(3, 24, 4, stride=4)), (rand(2, 3, 16, 12), rand(1, 12, 24)), {"convolution"})
