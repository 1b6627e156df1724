"""ResNet-50 image classifier on one 224x224 image: the bottleneck variant, with static shapes.

The last batch norm of each block starts at 0.5. At 1 the activations of an untrained network double from block to
block, and rounding errors with them: the compiled error against float64 is then 2.7 times eager's own (sums over
4608 products run in sequence), more than `verify` allows.
"""

import torch
from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification
from transformers.models.resnet.modeling_resnet import ResNetBottleNeckLayer


def get_model(config: ResNetConfig | None = None) -> nn.Module:
    torch.manual_seed(0)
    model = ResNetForImageClassification(config or ResNetConfig(num_labels=1000))
    for module in model.modules():
        if isinstance(module, ResNetBottleNeckLayer):
            nn.init.constant_(module.layer[-1].normalization.weight, 0.5)
    return model.eval()


def get_example_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"pixel_values": torch.randn(1, 3, 224, 224)}


def small_config() -> ResNetConfig:
    return ResNetConfig(embedding_size=16, hidden_sizes=[32, 64], depths=[1, 1], num_labels=10)


def small_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"pixel_values": torch.randn(1, 3, 32, 32)}
