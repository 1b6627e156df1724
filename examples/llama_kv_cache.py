"""The Llama of llama.py with a static key/value cache in buffers, as two programs, `prefill` and `decode`.

Both share the weights and the cache, and update the cache in place.
"""

from typing import Any

import torch
from torch import nn
from torch.export import Dim
from transformers import Cache, LlamaConfig, LlamaForCausalLM
from transformers.cache_utils import StaticLayer

MAX_LENGTH = 128


class CacheLayer(StaticLayer):
    """A cache layer over given tensors, filled up to `length`, which it updates in place."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, length: torch.Tensor) -> None:
        self.keys, self.values, self.cumulative_length = keys, values, length
        self.max_cache_len, self.device, self.is_initialized = keys.shape[2], keys.device, True


class CachedLlama(nn.Module):
    """A Llama for one sequence of at most MAX_LENGTH tokens."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.model = LlamaForCausalLM(config)
        shape = (1, config.num_key_value_heads, MAX_LENGTH, config.head_dim)
        for i in range(config.num_hidden_layers):
            self.register_buffer(f"keys_{i}", torch.zeros(shape), persistent=False)
            self.register_buffer(f"values_{i}", torch.zeros(shape), persistent=False)

    def prefill(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Logits of the prompt `input_ids`, of shape [1, P]; it overwrites the cache from the start."""
        return self.decode(input_ids, torch.zeros((), dtype=torch.long))

    def decode(self, input_ids: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Logits of the next token `input_ids`, of shape [1, 1], which is at the scalar `position`."""
        layers = [
            CacheLayer(self.get_buffer(f"keys_{i}"), self.get_buffer(f"values_{i}"), position.clone())
            for i in range(self.config.num_hidden_layers)
        ]
        return self.model(input_ids, cache=Cache(layers=layers), use_cache=True).logits


def get_model(config: LlamaConfig | None = None) -> nn.Module:
    config = config or LlamaConfig(
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=32000,
    )
    torch.manual_seed(0)
    return CachedLlama(config).eval()


def get_entry_points(vocab_size: int = 32000) -> dict[str, dict[str, Any]]:
    torch.manual_seed(0)
    return {
        "prefill": {
            "method": "prefill",
            "args": (torch.randint(vocab_size, (1, 64)),),
            "dynamic_shapes": {"input_ids": {1: Dim("sequence", min=1, max=MAX_LENGTH)}},
            "further_inputs": [(torch.randint(vocab_size, (1, length)),) for length in (1, 7, MAX_LENGTH)],
        },
        "decode": {"method": "decode", "args": (torch.randint(vocab_size, (1, 1)), torch.tensor(64))},
    }


def small_config() -> LlamaConfig:
    return LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=97,
    )


def small_entry_points() -> dict[str, dict[str, Any]]:
    return get_entry_points(vocab_size=97)
