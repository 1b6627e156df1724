"""Tensors without elements, which torch-mlir's lowering divides by the sizes of."""

import torch

import pipeline


class Empty(torch.nn.Module):
    """Rearranges, multiplies and reduces nothing, and puts it beside something."""

    def forward(self, images: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        none = rows[:0]
        return (
            torch.nn.functional.pixel_shuffle(images, 2),
            images.reshape(0, 6).sum(0),
            torch.cat([none, rows]),
            torch.matmul(none, rows.t()),
            torch.matmul(rows[:, :0], none),
            torch.topk(none, 2).values,
            none.repeat(2, 3).byte() + 1,
            none.sum(),
            (none > 0).any(),
        )


def test_as_eager() -> None:
    arguments = torch.randn(0, 4, 3, 3), torch.randn(3, 5)
    executable = pipeline.compile(Empty(), args=arguments)
    torch.testing.assert_close(executable(*arguments), Empty()(*arguments))
