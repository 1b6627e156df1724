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


def get_example_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    attention_mask = torch.ones(2, 128, dtype=torch.long)
    attention_mask[1, 96:] = 0
    return {"input_ids": torch.randint(30522, (2, 128)), "attention_mask": attention_mask}


def small_config() -> BertConfig:
    return BertConfig(
        vocab_size=97,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
    )


def small_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    attention_mask = torch.ones(2, 16, dtype=torch.long)
    attention_mask[1, 12:] = 0
    return {"input_ids": torch.randint(97, (2, 16)), "attention_mask": attention_mask}
