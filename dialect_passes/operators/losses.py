"""Gradients of loss functions that PyTorch does not decompose."""

from __future__ import annotations

from pipeline.shape_lib.helpers.promotion import floating, same
from pipeline.shape_lib.registry import dtype_function, shape_function


def _assert_targets(x: list[int], target: list[int]) -> None:
    assert len(x) <= 2, "the scores are a vector or a batch of vectors"
    if len(x) == 2:
        assert x[1] != 0, "there are no classes"
        assert len(target) <= 1, "there is one target per row"
        if len(target) == 1:
            assert target[0] == x[0], "there is one target per row"


@shape_function("aten.multi_margin_loss_backward.default")
def multi_margin_loss_backward_shape(
    grad: list[int],
    x: list[int],
    target: list[int],
    p: float,
    margin: float,
    weight: list[int] | None,
    reduction: int,
) -> list[int]:
    """That of the scores."""
    assert p == 1 or p == 2, "p is either 1 or 2"
    _assert_targets(x, target)
    return x


@dtype_function("aten.multi_margin_loss_backward.default")
def multi_margin_loss_backward_dtype(
    grad: tuple[int, int],
    x: tuple[int, int],
    target: tuple[int, int],
    p: int | float,
    margin: int | float,
    weight: tuple[int, int] | None,
    reduction: int,
) -> int:
    """Of gradient and scores alike."""
    _, dtype = grad
    _, x_dtype = x
    return same(floating(dtype), x_dtype)


@shape_function("aten.multilabel_margin_loss_backward.default")
def multilabel_margin_loss_backward_shape(
    grad: list[int], x: list[int], target: list[int], reduction: int, is_target: list[int]
) -> list[int]:
    """That of the scores."""
    assert len(x) <= 2, "the scores are a vector or a batch of vectors"
    return x


@dtype_function("aten.multilabel_margin_loss_backward.default")
def multilabel_margin_loss_backward_dtype(
    grad: tuple[int, int],
    x: tuple[int, int],
    target: tuple[int, int],
    reduction: int,
    is_target: tuple[int, int],
) -> int:
    """Of gradient and scores alike."""
    _, dtype = grad
    _, x_dtype = x
    return same(floating(dtype), x_dtype)
