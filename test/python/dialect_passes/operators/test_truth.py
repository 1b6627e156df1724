"""any and all over several dimensions, over none, and of numbers."""

import torch

import pipeline


class Truth(torch.nn.Module):
    def forward(self, x, number):
        bytes_ = (x > 0).to(torch.uint8)
        return tuple(
            reduce(*call)
            for reduce in (torch.any, torch.all)
            for call in (
                (x, (0, -1)),
                (x, (0, 1), True),
                (x, ()),
                (bytes_, (1,)),
                (bytes_, ()),
                (number, 0),
                (number, -1, True),
                (number, ()),
            )
        )


def test_truth():
    arguments = torch.tensor([[[0.0, -1.0], [torch.nan, 0.0]], [[0.0, 0.0], [0.0, 2.0]]]), torch.tensor(-0.0)
    for ours, eager in zip(
        pipeline.compile(Truth(), args=arguments)(*arguments), Truth()(*arguments), strict=True
    ):
        torch.testing.assert_close(ours, eager)
