"""U-Net image segmentation: max pooling, transposed convolutions and skip concatenations.

Height and width are dynamic, in multiples of 16.
"""

import torch
from torch import nn
from torch.export import Dim

dynamic_shapes = ({2: 16 * Dim("height", min=2, max=32), 3: 16 * Dim("width", min=2, max=32)},)


def block(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class UNet(nn.Module):
    def __init__(self, channels: int = 3, classes: int = 2, width: int = 32, depth: int = 4) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(depth + 1)]
        self.down = nn.ModuleList(block(i, o) for i, o in zip([channels, *widths], widths[:-1], strict=False))
        self.bottom = block(widths[-2], widths[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths[:-1]))
        self.merge = nn.ModuleList(block(2 * w, w) for w in reversed(widths[:-1]))
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        skips = []
        for down in self.down:
            skips.append(down(image))
            image = self.pool(skips[-1])
        image = self.bottom(image)
        for up, merge in zip(self.up, self.merge, strict=True):
            image = merge(torch.cat([skips.pop(), up(image)], dim=1))
        return self.head(image)


def get_model() -> nn.Module:
    torch.manual_seed(0)
    return UNet().eval()


def inputs(height: int, width: int) -> tuple[torch.Tensor]:
    torch.manual_seed(0)
    return (torch.randn(1, 3, height, width),)


def get_example_inputs() -> tuple[torch.Tensor]:
    return inputs(128, 128)


def get_further_inputs() -> list[tuple[torch.Tensor]]:
    return [inputs(32, 32), inputs(48, 160), inputs(64, 32)]
