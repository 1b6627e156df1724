"""A Llama of one billion float32 parameters (4 GB) on 16 tokens, to measure the memory of a compilation."""

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM


def get_model() -> nn.Module:
    config = LlamaConfig(
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=32000,
        tie_word_embeddings=True,
        use_cache=False,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


def get_example_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"input_ids": torch.randint(32000, (1, 16))}
