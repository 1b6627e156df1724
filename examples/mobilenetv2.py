"""MobileNetV2 image classifier on one 224x224 image: depthwise convolutions, ReLU6, TensorFlow-style padding.

The convolutions start from Kaiming weights: with the random weights of the library, the outputs vanish.
"""

import torch
from torch import nn
from transformers import MobileNetV2Config, MobileNetV2ForImageClassification


def get_model(config: MobileNetV2Config | None = None) -> nn.Module:
    torch.manual_seed(0)
    model = MobileNetV2ForImageClassification(config or MobileNetV2Config(num_labels=1001))
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
    return model.eval()


def get_example_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"pixel_values": torch.randn(1, 3, 224, 224)}


def small_config() -> MobileNetV2Config:
    return MobileNetV2Config(image_size=32, depth_multiplier=0.25, num_labels=10)


def small_inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"pixel_values": torch.randn(1, 3, 32, 32)}
