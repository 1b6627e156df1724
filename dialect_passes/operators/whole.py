"""Calls of two tensors that become loops of our own (`expand-scalar-functions`): those take one size and one dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def whole(function: Callable[..., Tensor], a: Any, b: Any) -> Tensor:
    """The call itself, of operands made ready for it: the body of a decomposition of `function`."""
    import torch

    dtype = torch.result_type(a, b)
    return NotImplemented if ready(a, b, dtype) else function(*made_ready(a, b, dtype))


def ready(a: Any, b: Any, dtype: torch.dtype) -> bool:
    """Whether both are tensors of this dtype and of the same sizes."""
    import torch
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return False
    same = len(a.shape) == len(b.shape) and all(
        statically_known_true(m == n) for m, n in zip(a.shape, b.shape, strict=True)
    )
    return same and a.dtype == b.dtype == dtype


def made_ready(a: Any, b: Any, dtype: torch.dtype) -> list[Tensor]:
    """Both broadcast, in this dtype; numbers become tensors."""
    import torch

    tensors = (
        x.to(dtype) if isinstance(x, torch.Tensor) else torch.scalar_tensor(x, dtype=dtype) for x in (a, b)
    )
    return [*torch.broadcast_tensors(*tensors)]
