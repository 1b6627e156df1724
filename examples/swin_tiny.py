"""Swin-Tiny image classifier on one 224x224 image: attention in shifted windows, with rolls and masks."""

import torch
from torch import nn
from transformers import SwinConfig, SwinForImageClassification


def get_model(config: SwinConfig | None = None) -> nn.Module:
    torch.manual_seed(0)
    return SwinForImageClassification(config or SwinConfig(num_labels=1000)).eval()


def get_example_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"pixel_values": torch.randn(1, 3, 224, 224)}


def small_config() -> SwinConfig:
    return SwinConfig(
        image_size=32,
        patch_size=2,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        num_labels=10,
    )


def small_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"pixel_values": torch.randn(1, 3, 32, 32)}
