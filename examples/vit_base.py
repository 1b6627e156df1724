"""ViT-Base/16 image classifier on one 224x224 image: patch embedding and a transformer encoder."""

import torch
from torch import nn
from transformers import ViTConfig, ViTForImageClassification


def get_model(config: ViTConfig | None = None) -> nn.Module:
    torch.manual_seed(0)
    return ViTForImageClassification(config or ViTConfig(num_labels=1000)).eval()


def get_example_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"pixel_values": torch.randn(1, 3, 224, 224)}


def small_config() -> ViTConfig:
    return ViTConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=32,
        patch_size=8,
        num_labels=10,
    )


def small_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"pixel_values": torch.randn(1, 3, 32, 32)}
