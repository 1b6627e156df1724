"""Operators of torch.nn.functional and their gradients: all as decomposed, one of each mechanism compiled.

PyTorch's own samples go through the compiler in `pipeline.tools.conformance`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

import pipeline
from pipeline.dialect_passes.operators.registry import decomposition_table
from pipeline.late_decompositions import decompose_late, split_table

aten = torch.ops.aten
Call = tuple[Any, list[Any]]


class Calls(torch.nn.Module):
    """Makes calls of operators, whose tensors are the module's inputs."""

    def __init__(self, calls: list[Call]) -> None:
        super().__init__()
        self._operators = [operator for operator, _ in calls]
        leaves, self._spec = tree_flatten([args for _, args in calls])
        self._constants = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.tensors = tuple(leaf.clone() for leaf in leaves if isinstance(leaf, torch.Tensor))
        self._places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def forward(self, *tensors: torch.Tensor) -> tuple[Any, ...]:
        leaves: list[Any] = list(self._constants)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        calls = zip(self._operators, tree_unflatten(leaves, self._spec), strict=True)
        return tuple(operator(*args) for operator, args in calls)


def _poisoned(*shape: int) -> torch.Tensor:
    """Random numbers, with NaN in one plane and nothing but -inf in a corner of another."""
    x = torch.randn(shape)
    x.flatten(0, -3)[0, 1, 1] = math.nan
    x.flatten(0, -3)[1, :3, :3] = -math.inf
    return x


def _pooling() -> Iterator[Call]:
    plane, single, volume = _poisoned(2, 3, 7, 6), _poisoned(3, 6, 7), torch.randn(2, 2, 4, 5, 6)
    maxima = aten.max_pool2d_with_indices.default
    window = [3, 2], [2, 2], [1, 1], [2, 1], True
    for x in (plane, single):
        yield maxima, [x, *window]
        values, places = maxima(x, *window)
        yield aten.max_pool2d_with_indices_backward.default, [torch.randn_like(values), x, *window, places]
        average = [3, 2], [2, 1], [1, 1], True, False, None
        pooled = aten.avg_pool2d.default(x, *average)
        yield aten.avg_pool2d.default, [x, *average]
        yield aten.avg_pool2d_backward.default, [torch.randn_like(pooled), x, *average]
    grad = torch.randn(2, 2, 2, 3, 3)
    yield aten.avg_pool3d_backward.default, [grad, volume, [2, 3, 2], [2, 1, 2], [0] * 3, False, True, -2]
    yield aten._adaptive_avg_pool3d.default, [volume, [3, 5, 7]]
    yield aten._adaptive_avg_pool2d_backward.default, [torch.randn(2, 3, 5, 9), plane]
    values, places = aten.adaptive_max_pool2d.default(plane, [3, 8])
    yield aten.adaptive_max_pool2d.default, [plane, [3, 8]]
    yield aten.adaptive_max_pool2d_backward.default, [torch.randn_like(values), plane, places]
    yield aten.fractional_max_pool2d.default, [plane, [2, 3], [4, 3], torch.rand(2, 3, 2)]


def _convolution() -> Iterator[Call]:
    every = [True, True, True]
    for weight, bias, transposed, output_padding in (
        (torch.randn(4, 2, 3, 2), [4], False, [0, 0]),
        (torch.randn(4, 3, 3, 2), [6], True, [1, 0]),
    ):
        x = torch.randn(2, 4, 7, 6)
        rest = [2, 1], [1, 2], [1, 2], transposed, output_padding, 2
        y = aten.convolution.default(x, weight, None, *rest)
        yield aten.convolution.default, [x, weight, torch.randn(bias), *rest]
        yield aten.convolution_backward.default, [torch.randn_like(y), x, weight, bias, *rest, every]
    patches, kernel = torch.randn(2, 2, 12, 12), torch.randn(3, 2, 6, 6)
    rest = [6, 6], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False]
    yield aten.convolution_backward.default, [torch.randn(2, 3, 2, 2), patches, kernel, None, *rest]
    line = torch.randn(2, 3, 5)
    yield aten.constant_pad_nd.default, [line, [-2, 3, 1, -1], 1.5]
    yield aten.replication_pad1d_backward.default, [torch.randn(2, 3, 6), line, [-1, 2]]
    yield aten.replication_pad2d_backward.default, [torch.randn(2, 6, 7), torch.randn(2, 3, 5), [1, 1, 0, 3]]


def _resampling() -> Iterator[Call]:
    x, output, size = torch.randn(2, 3, 5, 7), [8, 4], [2, 3, 5, 7]
    for name in ("upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa"):
        for options in ((False, None, None), (True, None, None), (False, 1.7, 0.6)):
            yield getattr(aten, name).default, [x, output, *options]
        backward = getattr(aten, f"{name}_backward").default
        yield backward, [torch.randn(2, 3, 8, 4), output, size, False, None, None]
    for name in ("upsample_nearest", "_upsample_nearest_exact"):
        yield getattr(aten, f"{name}2d").default, [x, output]
        yield getattr(aten, f"{name}2d_backward").default, [torch.randn(2, 3, 8, 4), output, size]
    grid = torch.randn(2, 4, 3, 2) * 1.5
    for interpolation, padding in ((0, 2), (1, 1), (2, 0)):
        options = interpolation, padding, padding == 1, [True, True]
        yield aten.grid_sampler_2d_backward.default, [torch.randn(2, 3, 4, 3), x, grid, *options]


def _attention() -> Iterator[Call]:
    query, key, value = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 6, 8), torch.randn(2, 2, 6, 8)
    forward = aten._scaled_dot_product_flash_attention_for_cpu.default
    backward = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    mask = torch.randn(5, 6)
    mask[0] = -math.inf
    for causal, given in ((True, None), (False, mask)):

        def attend(*args: Any, causal: bool = causal, given: Any = given) -> Any:
            return forward(*args[:3], 0.0, causal, attn_mask=args[3] if len(args) > 3 else given)

        def attend_backward(*args: Any, causal: bool = causal) -> Any:
            return backward(*args[:6], 0.0, causal, attn_mask=args[6] if len(args) > 6 else None)

        masks = [] if given is None else [given]
        results = attend(query, key, value, *masks)
        yield attend, [query, key, value, *masks]
        yield attend_backward, [torch.randn_like(query), query, key, value, *results, *masks]


def _rows() -> Iterator[Call]:
    x, targets = (
        torch.randn(4, 5),
        torch.tensor([[1, 0, -1, 2, 2], [-1] * 5, [4, 3, 2, 1, 0], [0, 0, 3, -1, 1]]),
    )
    loss, is_target = aten.multilabel_margin_loss_forward.default(x, targets, 0)
    yield aten.multilabel_margin_loss_backward.default, [torch.randn_like(loss), x, targets, 0, is_target]
    classes = torch.tensor([0, 3, 3, 4])
    for p, reduction, shape in ((1, 0, (4,)), (2, 1, ())):
        rest = [p, 0.7, torch.rand(5), reduction]
        yield aten.multi_margin_loss_backward.default, [torch.randn(shape), x, classes, *rest]
    weight, indices, offsets = torch.randn(6, 3), torch.tensor([0, 1, 2, 2, 5]), torch.tensor([0, 2, 2, 4])
    for mode in (0, 1, 2):
        grad = torch.randn(4, 3)

        def bags(*args: Any) -> Any:
            return aten._embedding_bag.default(*args)[0]

        def bags_backward(grad: Any, *args: Any, mode: int = mode) -> Any:
            _, *saved = aten._embedding_bag.default(*args, False, mode, False, None, False, 1)
            rest = 6, False, mode, False, None, 1
            return aten._embedding_bag_backward.default(grad, *args[1:], *saved, *rest)

        yield bags, [weight, indices, offsets, False, mode, False, None, False, 1]
        yield bags_backward, [grad, weight, indices, offsets]
    yield aten.embedding_dense_backward.default, [torch.randn(3), torch.tensor(2), 4, -1, False]
    yield aten.embedding_renorm.default, [weight, indices, 1.0, 2.0]
    other = torch.randn(3, 5)
    for p in (0.5, 1.0, 2.0, math.inf):
        distances = aten._cdist_forward.default(x, other, p, None)
        yield aten._cdist_forward.default, [x, other, p, None]
        yield aten._cdist_backward.default, [torch.randn_like(distances), x, other, p, distances]
    distances = aten._pdist_forward.default(x, 2.0)
    yield aten._pdist_backward.default, [torch.randn_like(distances), x, 2.0, distances]
    yield aten.silu_backward.default, [torch.randn(4, 5), x]
    yield aten.mish_backward.default, [torch.randn(4, 5), x]


FAMILIES = (_pooling, _convolution, _resampling, _attention, _rows)


@pytest.mark.parametrize("family", FAMILIES)
def test_decomposed_as_eager(family: Any) -> None:
    torch.manual_seed(0)
    model = Calls(list(family()))
    early, late = split_table(decomposition_table())
    program = torch.export.export(model, model.tensors).run_decompositions(early)
    decompose_late(program.graph_module, late, early)
    left = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert not [name for name in left if "backward" in name or "pool" in name or "upsample" in name]
    torch.testing.assert_close(program.module()(*model.tensors), model(*model.tensors), equal_nan=True)


def test_compiled_as_eager() -> None:
    torch.manual_seed(0)
    pooling, rows = list(_pooling()), list(_rows())
    calls = [*pooling[:4], list(_convolution())[1], list(_attention())[-1], rows[0], rows[4]]
    model = Calls(calls)
    expected, found = model(*model.tensors), pipeline.compile(model, args=model.tensors)(*model.tensors)
    torch.testing.assert_close(found, expected, equal_nan=True)
