"""ConvNeXt-Tiny image classifier on one 224x224 image: 7x7 depthwise convolutions and layer norms.

The layer scales start at 1, not at the published 1e-6, so that with random weights every block counts.
"""

import torch
from torch import nn
from transformers import ConvNextConfig, ConvNextForImageClassification


def get_model(config: ConvNextConfig | None = None) -> nn.Module:
    torch.manual_seed(0)
    return ConvNextForImageClassification(
        config or ConvNextConfig(layer_scale_init_value=1.0, num_labels=1000)
    ).eval()


def get_example_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"pixel_values": torch.randn(1, 3, 224, 224)}


def small_config() -> ConvNextConfig:
    return ConvNextConfig(
        hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1], layer_scale_init_value=1.0, num_labels=10
    )


def small_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"pixel_values": torch.randn(1, 3, 32, 32)}
