"""ResNet-18 image classifier on 224x224 images: convolutions and batch norms, with a dynamic batch size."""

import torch
from torch import nn
from torch.export import Dim
from transformers import ResNetConfig, ResNetForImageClassification

dynamic_shapes = {"pixel_values": {0: Dim("batch", min=1, max=64)}}


def get_model(config: ResNetConfig | None = None) -> nn.Module:
    config = config or ResNetConfig(
        hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic", num_labels=1000
    )
    torch.manual_seed(0)
    return ResNetForImageClassification(config).eval()


def get_example_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"pixel_values": torch.randn(2, 3, 224, 224)}


def small_config() -> ResNetConfig:
    return ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", num_labels=10
    )


def small_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"pixel_values": torch.randn(2, 3, 32, 32)}
