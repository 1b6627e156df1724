"""Whisper-tiny on 30 seconds of audio features: convolutional stem, encoder and decoder, static shapes."""

import torch
from torch import nn
from transformers import WhisperConfig, WhisperForConditionalGeneration


def get_model(config: WhisperConfig | None = None) -> nn.Module:
    torch.manual_seed(0)
    return WhisperForConditionalGeneration(config or WhisperConfig(use_cache=False)).eval()


def get_example_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {
        "input_features": torch.randn(1, 80, 3000),
        "decoder_input_ids": torch.randint(51865, (1, 8)),
    }


def small_config() -> WhisperConfig:
    return WhisperConfig(
        vocab_size=97,
        d_model=64,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_layers=2,
        decoder_attention_heads=4,
        decoder_ffn_dim=128,
        max_source_positions=50,
        max_target_positions=32,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
        decoder_start_token_id=1,
        use_cache=False,
    )


def small_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"input_features": torch.randn(1, 80, 100), "decoder_input_ids": torch.randint(97, (1, 8))}
