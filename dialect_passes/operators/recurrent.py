"""Recurrent layers in training: dropout between the layers, which torch's decomposition of them leaves out.

It takes the rate for 0 after comparing the wrong numbers, in torch.export and AOTAutograd alike and without a word.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any


def repair_dropout() -> None:
    """Makes torch's decomposition of lstm, gru and rnn drop what eager drops. Imports torch."""
    from torch._decomp import decompositions

    helper = decompositions._rnn_helper
    if not isinstance(helper, functools.partial):
        decompositions._rnn_helper = functools.partial(_layer_by_layer, helper)


def _layer_by_layer(
    whole: Callable[..., Any],
    x: Any,
    hidden: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    layer_fn: Callable[..., Any],
) -> tuple[Any, list[Any]]:
    """What `whole` gives, one layer after the other. hidden, params: an item per layer and direction."""
    if not (train and dropout):
        return whole(
            x, hidden, params, has_biases, num_layers, 0.0, train, bidirectional, batch_first, layer_fn
        )
    import torch

    x = x.transpose(0, 1) if batch_first else x
    final: list[Any] = []
    directions = 2 if bidirectional else 1
    for layer in range(num_layers):
        own = slice(layer * directions, (layer + 1) * directions)
        x, states = whole(
            x, hidden[own], params[own], has_biases, 1, 0.0, train, bidirectional, False, layer_fn
        )
        final += states
        if layer < num_layers - 1:
            x = torch.dropout(x, dropout, True)
    return x.transpose(0, 1) if batch_first else x, final
