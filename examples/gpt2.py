"""GPT-2 (124M) language model without a cache: causal attention, dynamic batch and sequence length."""

import torch
from torch import nn
from torch.export import Dim
from transformers import GPT2Config, GPT2LMHeadModel

batch, sequence = Dim("batch", min=1, max=16), Dim("sequence", min=1, max=1024)
dynamic_shapes = {"input_ids": {0: batch, 1: sequence}}


def get_model(config: GPT2Config | None = None) -> nn.Module:
    torch.manual_seed(0)
    return GPT2LMHeadModel(config or GPT2Config(use_cache=False)).eval()


def inputs(batch: int, sequence: int, vocabulary: int = 50257) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"input_ids": torch.randint(vocabulary, (batch, sequence))}


def get_example_inputs() -> dict[str, torch.Tensor]:
    return inputs(2, 64)


def get_benchmark_inputs() -> dict[str, torch.Tensor]:
    return inputs(1, 64)


def get_further_inputs() -> list[dict[str, torch.Tensor]]:
    return [inputs(1, 1), inputs(1, 37), inputs(3, 130)]


def small_config() -> GPT2Config:
    return GPT2Config(
        vocab_size=97,
        n_embd=64,
        n_layer=2,
        n_head=4,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )


def small_inputs() -> dict[str, torch.Tensor]:
    return inputs(2, 16, vocabulary=97)


def small_further_inputs() -> list[dict[str, torch.Tensor]]:
    return [inputs(1, 1, vocabulary=97), inputs(1, 7, vocabulary=97), inputs(3, 33, vocabulary=97)]
