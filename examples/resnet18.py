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


def inputs(batch: int, size: int = 224) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"pixel_values": torch.randn(batch, 3, size, size)}


def get_example_inputs() -> dict[str, torch.Tensor]:
    return inputs(2)


def get_benchmark_inputs() -> dict[str, torch.Tensor]:
    return inputs(1)


def get_further_inputs() -> list[dict[str, torch.Tensor]]:
    return [inputs(1), inputs(3), inputs(5)]


def small_config() -> ResNetConfig:
    return ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", num_labels=10
    )


def small_inputs() -> dict[str, torch.Tensor]:
    return inputs(2, size=32)


def small_further_inputs() -> list[dict[str, torch.Tensor]]:
    return [inputs(1, size=32), inputs(3, size=32), inputs(5, size=32)]
