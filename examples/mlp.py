"""A two-layer perceptron with a GELU and a LayerNorm: the smallest example, with a dynamic batch size."""

import torch
from torch import nn
from torch.export import Dim

dynamic_shapes = ({0: Dim("batch", min=1, max=4096)},)


def get_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256), nn.LayerNorm(256)).eval()


def inputs(batch: int) -> tuple[torch.Tensor]:
    torch.manual_seed(0)
    return (torch.randn(batch, 256),)


def get_example_inputs() -> tuple[torch.Tensor]:
    return inputs(64)


def get_further_inputs() -> list[tuple[torch.Tensor]]:
    return [inputs(1), inputs(7), inputs(130)]
