"""Cross-entropy of logits and class numbers, with the softmax inside: no probability is ever stored.

It has no kernel: IREE reduces the meaning's rows in one dispatch, and a C kernel that reads each row once was no more
than 1.1 times as fast. Its backward is written by hand: the derived one took twice as long.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pipeline.shape_lib import dtypes

from ..custom_operators.declaration import op


def cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """As torch.nn.functional.cross_entropy.

    logits: [classes], [batch, classes] or [batch, classes, ...]. target: class numbers (int64 or uint8), without
        the dimension of the classes. weight: [classes].
    ignore_index: the target of places that do not count; if none counts, the mean is NaN.
    reduction: "mean", "sum" or "none".

    What the fused operator does not cover (probabilities as targets; weight and label_smoothing together) is
    computed by torch's own function.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction '{reduction}' is unknown; choose mean, sum or none")
    if target.dtype not in (torch.int64, torch.uint8) or (weight is not None and label_smoothing):
        return functional.cross_entropy(
            logits,
            target,
            weight,
            ignore_index=ignore_index,
            reduction=reduction,
            label_smoothing=label_smoothing,
        )
    _check(logits, target, weight)
    rows = logits.unsqueeze(0) if logits.dim() == 1 else logits.movedim(1, -1).flatten(0, -2)
    flat = target.reshape(-1).long()
    losses = cross_entropy_rows(rows, flat, ignore_index, label_smoothing)
    counted = (flat != ignore_index).to(losses.dtype)
    if weight is not None:
        counted = counted * weight.to(losses.dtype).gather(0, torch.where(flat == ignore_index, 0, flat))
        losses = losses * counted
    if reduction == "none":
        return losses.reshape(target.shape).to(logits.dtype)
    total = losses.sum()
    return (total / counted.sum() if reduction == "mean" else total).to(logits.dtype)


def _check(logits: Tensor, target: Tensor, weight: Tensor | None) -> None:
    shape = logits.shape[:1] + logits.shape[2:] if logits.dim() > 1 else ()
    torch._check(
        logits.dim() > 0 and target.shape == shape,
        lambda: (
            f"cross_entropy: target must be logits without the dimension of the classes, {list(shape)}; it is "
            f"{list(target.shape)}"
        ),
    )
    classes = logits.shape[min(1, logits.dim() - 1)]
    torch._check(
        weight is None or weight.shape == (classes,),
        lambda: f"cross_entropy: weight must have one number for each of the {classes} classes",
    )


@op("pipeline::cross_entropy_rows")
def cross_entropy_rows(
    logits: Tensor, target: Tensor, ignore_index: int = -100, label_smoothing: float = 0.0
) -> Tensor:
    """The loss of every row of logits, [rows, classes], for its class in target, int64 of [rows].

    A row whose target is ignore_index has loss 0. float16 and bfloat16 are computed in float32, and the losses are
    float32 then. A row with +inf in it has loss +inf (torch's function says NaN).
    """
    x, counts, place = _prepared(logits, target, ignore_index)
    loss = torch.logsumexp(x, -1) - (1 - label_smoothing) * x.gather(1, place).squeeze(1)
    if label_smoothing:
        loss = loss - label_smoothing * x.mean(-1)
    return torch.where(counts, loss, 0.0)


def _prepared(logits: Tensor, target: Tensor, ignore_index: int) -> tuple[Tensor, Tensor, Tensor]:
    """The logits as they are computed with, which rows count, and a class for every row, as a column."""
    counts = target != ignore_index
    x = logits.to(torch.float32) if logits.dtype in (torch.float16, torch.bfloat16) else logits
    return x, counts, torch.where(counts, target, 0).unsqueeze(1)


@cross_entropy_rows.backward
def _backward(
    grad: Tensor, logits: Tensor, target: Tensor, ignore_index: int, label_smoothing: float, output: Tensor
) -> tuple[Tensor, None]:
    """(softmax - smoothed one-hot) * grad in one pass over the logits.

    The normaliser follows from the loss that forward returned, so that no row is reduced again.
    """
    x, counts, place = _prepared(logits, target, ignore_index)
    grad = torch.where(counts, grad, 0.0).unsqueeze(1)
    wanted = x.gather(1, place)
    normaliser = output.unsqueeze(1) + (1 - label_smoothing) * wanted
    if label_smoothing:
        normaliser = normaliser + label_smoothing * x.mean(-1, keepdim=True)
    everywhere = label_smoothing / x.shape[1]
    others = (torch.exp(x - normaliser) - everywhere) * grad
    at_target = (torch.exp(wanted - normaliser) - everywhere - (1 - label_smoothing)) * grad
    return others.scatter(1, place, at_target).to(logits.dtype), None


@cross_entropy_rows.shape
def cross_entropy_rows_shape(
    logits: list[int], target: list[int], ignore_index: int = -100, label_smoothing: float = 0.0
) -> list[int]:
    """One loss per row."""
    assert len(logits) == 2, "cross_entropy_rows: logits are [rows, classes]"
    assert target == [logits[0]], "cross_entropy_rows: there is one target per row"
    return target


@cross_entropy_rows.dtype
def cross_entropy_rows_dtype(
    logits_rank_dtype: tuple[int, int],
    target_rank_dtype: tuple[int, int],
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> int:
    """float32 for 16 bits, which it is computed in."""
    dtype = logits_rank_dtype[1]
    if dtype == dtypes.float16 or dtype == dtypes.bfloat16:
        return dtypes.float32
    return dtype


def samples() -> list[tuple[Any, ...]]:
    """Calls for `cross_entropy_rows.check`."""
    logits, target = torch.randn(6, 37) * 3, torch.tensor([0, 36, -100, 5, 5, 1])
    return [(logits, target), (logits, target.abs() % 37, 5, 0.1), (logits.bfloat16(), target)]
