"""Convolutions whose strides leave a rest of the input unread, with results of one element: IREE fails on them."""

import torch
import torch.nn.functional as F
from torch import nn

import pipeline


class Rests(nn.Module):
    def forward(self, x, kernel, line):
        return (
            F.conv2d(x, kernel, stride=2, padding=1),
            F.conv2d(x[0], kernel, stride=2, padding=1),
            F.conv2d(x[:, :1], kernel[:2, :1], torch.ones(2), stride=(1, 3), dilation=(2, 1)),
            F.conv1d(x[..., 0], line, stride=3),
        )


def test_values():
    torch.manual_seed(0)
    args = torch.randn(1, 2, 6, 3), torch.randn(4, 2, 3, 4)[..., :2], torch.randn(3, 2, 5)
    torch.testing.assert_close(pipeline.compile(Rests(), args=args)(*args), Rests()(*args))


def test_a_residual_net_on_small_images():
    """Its last stage makes one pixel of four."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1)).eval()
    x = torch.randn(2, 3, 4, 4)
    torch.testing.assert_close(pipeline.compile(model, args=(x,))(x), model(x))
