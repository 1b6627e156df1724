"""Operations that IREE puts into one shader and shares out among its threads in different ways.

Each program is called several times: what IREE keeps from call to call must not be worked in.
"""

import pytest
import torch
from iree.compiler import ir
from torch import nn

import pipeline
from pipeline.shared_threads import shared_between_threads

F = nn.functional


class Depthwise(nn.Module):
    """In one and two dimensions, with what starts from zeros, from a bias, and goes on with its result."""

    def forward(self, x, weights, bias):
        line, plane = weights
        return (
            F.conv1d(x[:, :, 0, 0], line, groups=4),
            F.conv2d(x[:, :, 0], plane, bias, groups=4).relu(),
            F.conv2d(x[:, :, 0], plane, stride=2, padding=2, dilation=2, groups=4),
        )


class Counts(nn.Module):
    """Whole numbers made of floats, which IREE keeps out of the loop that reads all of them for each result.

    Beside them a long counter that others may work in, and sums of rows.
    """

    def forward(self, x):
        places = torch.arange(x.numel(), dtype=torch.float32)
        return (
            (x.to(torch.int64).unsqueeze(0) == torch.arange(4).unsqueeze(1)).sum(1),
            torch.histc(x, 4),
            places * x,
            places.index_add(0, torch.arange(x.numel()).flip(0), x),
            x.reshape(-1, 8).sum(0, keepdim=True),
        )


@pytest.mark.vulkan
@pytest.mark.parametrize("model", [Depthwise(), Counts()], ids=lambda model: type(model).__name__)
def test_threads_read_what_they_wrote(model):
    torch.manual_seed(0)
    x = torch.randn(1, 4, 3, 8, 9)
    weights = (torch.randn(4, 1, 3), torch.randn(4, 1, 3, 3))
    args = (x.reshape(-1),) if isinstance(model, Counts) else (x, weights, torch.randn(4))
    exe = pipeline.compile(model, args=args, target="vulkan")
    for factor in (1.0, -2.0, 3.0):
        torch.testing.assert_close(exe(args[0] * factor, *args[1:]), model(args[0] * factor, *args[1:]))


@pytest.mark.vulkan
def test_a_training_step_is_the_same_each_time():
    """Gradients of biases are sums that began with what the call before left."""
    torch.manual_seed(0)
    model, loss = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), nn.CrossEntropyLoss()
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-2)
    x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
    step = pipeline.compile_training(
        model, loss, optimizer, args=(x, y), target="vulkan", entry_points=["train_step"]
    )
    for _ in range(4):
        optimizer.zero_grad()
        expected = loss(model(x), y)
        torch.testing.assert_close(step(x, y), expected.detach())
        expected.backward()
        optimizer.step()
    torch.testing.assert_close(step.state_dict(), dict(model.state_dict()))


@pytest.mark.vulkan
def test_long_rows_are_sorted_in_time():
    """IREE unrolled the counter that the rows' places are made of."""
    x = torch.randn(8000, generator=torch.Generator().manual_seed(0))
    exe = pipeline.compile(Sorted(), args=(x,), target="vulkan", timeout=120)
    torch.testing.assert_close(exe(x), torch.sort(x))


class Sorted(nn.Module):
    def forward(self, x):
        return torch.sort(x)


DISPATCH = """
#simplest = #iree_gpu.spirv_pipeline<BaseDistribute>
#pipeline = #iree_codegen.translation_info<pipeline = #simplest workgroup_size = {threads}>
#tiles = #iree_codegen.lowering_config<tile_sizes = [[4, 4, 4], [1, 1, 1]]>
func.func @conv(%x: tensor<4x4x4x3xf32>) -> tensor<4x4x4xf32> attributes {{translation_info = #pipeline}} {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x4x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
  %sums = linalg.generic {{
      indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> ({result})>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}}
      ins(%x : tensor<4x4x4x3xf32>) outs(%zeros : tensor<4x4x4xf32>) attrs = {{lowering_config = #tiles}} {{
    ^bb0(%in: f32, %out: f32):
      %sum = arith.addf %in, %out : f32
      linalg.yield %sum : f32
  }} -> tensor<4x4x4xf32>
  return %sums : tensor<4x4x4xf32>
}}
"""


@pytest.mark.parametrize(
    ("result", "threads", "expected"),
    [
        ("a, b, c", "[4, 4, 4]", []),
        ("c, a, b", "[4, 4, 4]", ["conv: linalg.generic reads linalg.fill"]),
        ("c, a, b", "[1, 1, 1]", []),
    ],
)
def test_which_pairs_are_found(result, threads, expected):
    with ir.Context():
        module = ir.Module.parse(DISPATCH.format(result=result, threads=threads))
        assert shared_between_threads(module) == expected
