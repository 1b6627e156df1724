"""PyTorch's fast path of encoder layers in evaluation mode: compiled, with eager's results, nothing left to eager."""

from typing import Any

import pytest
import torch
from torch import nn

import pipeline

PADDING = torch.arange(5).expand(2, 5) >= torch.tensor([[4], [2]])
CAUSAL = torch.ones(5, 5, dtype=torch.bool).triu(1)

LAYERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "norm first, GELU": ({"norm_first": True, "activation": "gelu"}, {}),
    "causal": ({}, {"src_mask": CAUSAL}),
    "padding": ({}, {"src_key_padding_mask": PADDING}),
    "both masks": ({}, {"src_mask": CAUSAL, "src_key_padding_mask": PADDING}),
}


def _same(model: nn.Module, *args: Any, **kwargs: Any) -> None:
    with torch.no_grad():
        found = torch.compile(model, backend="pipeline")(*args, **kwargs)
        torch.testing.assert_close(found, model(*args, **kwargs), equal_nan=True)
    counters = pipeline.counters()
    assert (counters.eager, counters.failures) == ({}, [])
    assert counters.programs


@pytest.mark.parametrize("name", LAYERS)
def test_encoder_layer(name: str) -> None:
    settings, masks = LAYERS[name]
    _same(
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **settings).eval(),
        torch.randn(2, 5, 8),
        **masks,
    )


@pytest.mark.parametrize("averaged", [True, False])
def test_weights_of_attention(averaged: bool) -> None:
    """The second sample has no key at all, so that its rows are NaN, in eager too."""
    attention, x = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(2, 5, 8)
    padding = torch.tensor([[False] * 5, [True] * 5])
    _same(attention, x, x, x, key_padding_mask=padding, average_attn_weights=averaged)
