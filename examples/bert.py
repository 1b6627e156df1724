"""BERT-base: keyword inputs with a padding mask, a dataclass output, dynamic batch and sequence length."""

import torch
from torch import nn
from torch.export import Dim
from transformers import BertConfig, BertModel

batch, sequence = Dim("batch", min=1, max=16), Dim("sequence", min=1, max=512)
dynamic_shapes = {"input_ids": {0: batch, 1: sequence}, "attention_mask": {0: batch, 1: sequence}}


def get_model(config: BertConfig | None = None) -> nn.Module:
    torch.manual_seed(0)
    return BertModel(config or BertConfig()).eval()


def inputs(batch: int, sequence: int, vocabulary: int = 30522) -> dict[str, torch.Tensor]:
    """Token sequences, each a quarter shorter than the one before and padded to the length of the first."""
    torch.manual_seed(0)
    lengths = torch.tensor([[max(1, sequence - i * sequence // 4)] for i in range(batch)])
    return {
        "input_ids": torch.randint(vocabulary, (batch, sequence)),
        "attention_mask": (torch.arange(sequence) < lengths).long(),
    }


def get_example_inputs() -> dict[str, torch.Tensor]:
    return inputs(2, 128)


def get_benchmark_inputs() -> dict[str, torch.Tensor]:
    return inputs(1, 128)


def get_further_inputs() -> list[dict[str, torch.Tensor]]:
    return [inputs(1, 1), inputs(1, 37), inputs(3, 200)]


def small_config() -> BertConfig:
    return BertConfig(
        vocab_size=97,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
    )


def small_inputs() -> dict[str, torch.Tensor]:
    return inputs(2, 16, vocabulary=97)


def small_further_inputs() -> list[dict[str, torch.Tensor]]:
    return [inputs(1, 1, vocabulary=97), inputs(1, 7, vocabulary=97), inputs(3, 33, vocabulary=97)]
