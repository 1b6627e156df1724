"""T5-small: an encoder and a decoder with relative position biases, with both sequence lengths dynamic."""

import torch
from torch import nn
from torch.export import Dim
from transformers import T5Config, T5ForConditionalGeneration

batch = Dim("batch", min=1, max=16)
dynamic_shapes = {
    "input_ids": {0: batch, 1: Dim("sequence", min=1, max=512)},
    "decoder_input_ids": {0: batch, 1: Dim("decoder_sequence", min=1, max=512)},
}


def get_model(config: T5Config | None = None) -> nn.Module:
    torch.manual_seed(0)
    return T5ForConditionalGeneration(config or T5Config(use_cache=False)).eval()


def inputs(batch: int, sequence: int, decoder: int, vocabulary: int = 32128) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {
        "input_ids": torch.randint(vocabulary, (batch, sequence)),
        "decoder_input_ids": torch.randint(vocabulary, (batch, decoder)),
    }


def get_example_inputs() -> dict[str, torch.Tensor]:
    return inputs(2, 64, 16)


def get_further_inputs() -> list[dict[str, torch.Tensor]]:
    return [inputs(1, 1, 1), inputs(1, 37, 3), inputs(3, 20, 70)]


def small_config() -> T5Config:
    return T5Config(vocab_size=97, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, use_cache=False)


def small_inputs() -> dict[str, torch.Tensor]:
    return inputs(2, 16, 8, vocabulary=97)


def small_further_inputs() -> list[dict[str, torch.Tensor]]:
    return [inputs(*sizes, vocabulary=97) for sizes in ((1, 1, 1), (1, 37, 3), (3, 20, 70))]
