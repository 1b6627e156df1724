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


def get_example_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"input_ids": torch.randint(32128, (2, 64)), "decoder_input_ids": torch.randint(32128, (2, 16))}


def small_config() -> T5Config:
    return T5Config(vocab_size=97, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, use_cache=False)


def small_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"input_ids": torch.randint(97, (2, 16)), "decoder_input_ids": torch.randint(97, (2, 8))}
