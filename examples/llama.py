"""A 56M-parameter Llama without a cache: rotary embeddings, grouped-query attention, dynamic sizes."""

import torch
from torch import nn
from torch.export import Dim
from transformers import LlamaConfig, LlamaForCausalLM

batch, sequence = Dim("batch", min=1, max=16), Dim("sequence", min=1, max=2048)
dynamic_shapes = {"input_ids": {0: batch, 1: sequence}}


def get_model(config: LlamaConfig | None = None) -> nn.Module:
    config = config or LlamaConfig(
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=32000,
        use_cache=False,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


def inputs(batch: int, sequence: int, vocabulary: int = 32000) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"input_ids": torch.randint(vocabulary, (batch, sequence))}


def get_example_inputs() -> dict[str, torch.Tensor]:
    return inputs(2, 64)


def get_benchmark_inputs() -> dict[str, torch.Tensor]:
    return inputs(1, 64)


def get_further_inputs() -> list[dict[str, torch.Tensor]]:
    return [inputs(1, 1), inputs(1, 37), inputs(3, 130)]


def small_config() -> LlamaConfig:
    return LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=97,
        use_cache=False,
    )


def small_inputs() -> dict[str, torch.Tensor]:
    return inputs(2, 16, vocabulary=97)


def small_further_inputs() -> list[dict[str, torch.Tensor]]:
    return [inputs(1, 1, vocabulary=97), inputs(1, 7, vocabulary=97), inputs(3, 33, vocabulary=97)]
