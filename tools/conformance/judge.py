"""Right or wrong: what the compiled program gave against what eager PyTorch gave."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from pipeline import verify
from pipeline.verify import Pair

from .tolerances import WRONG_IN_EAGER, tolerance_of

Exact = Callable[[], Sequence[Any]]

RIGHT = "right"
IN_EAGER = "right, partly in eager"
WRONG_VALUE = "wrong value"
WRONG_TYPE = "wrong shape or dtype"
UNSUPPORTED = "unsupported"
NOT_CAPTURED = "not captured"
FAILURE = "compiler failure"
RUNTIME = "run-time error"
CRASH = "crash"
HANG = "hang"
ACCEPTED = "accepted"
EAGER = "eager error"
SKIPPED = "skipped"

CLEAR = (UNSUPPORTED, NOT_CAPTURED)
"""Not right, but said so in a message of ours."""

SILENT = (WRONG_VALUE, WRONG_TYPE)


class Wrong(Exception):
    """The comparison failed. status: how."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


def compare(operator: str, actual: Sequence[Any], expected: Sequence[Any], exact: Exact) -> None:
    """Compares flat results at default tolerances, or the operator's reasoned one. Raises Wrong.

    exact: gives eager's results in float64, which decide as they do in `pipeline verify` where rounding is all.
    """
    if len(actual) != len(expected):
        raise Wrong(WRONG_TYPE, f"{len(actual)} results, eager gives {len(expected)}")
    for i, (ours, eager) in enumerate(zip(actual, expected, strict=True)):
        if isinstance(eager, torch.Tensor):
            if (operator, eager.dtype) in WRONG_IN_EAGER:
                eager = exact()[i].to(eager.dtype)  # noqa: PLW2901 (what it should have been)
            _compare_tensor(operator, i, Pair("", _plain(eager), ours, lambda k=i: exact()[k]))
        elif not _same_number(ours, eager):
            raise Wrong(WRONG_VALUE, f"result {i}: {ours!r}, eager gives {eager!r}")


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().resolve_conj().resolve_neg()


def _compare_tensor(operator: str, i: int, pair: Pair) -> None:
    ours, eager = pair.compiled, pair.eager
    if not isinstance(ours, torch.Tensor):
        raise Wrong(WRONG_TYPE, f"result {i} is a {type(ours).__name__}, eager gives a tensor")
    if ours.shape != eager.shape or ours.dtype != eager.dtype:
        raise Wrong(
            WRONG_TYPE,
            f"result {i}: {list(ours.shape)} {ours.dtype}, eager gives {list(eager.shape)} {eager.dtype}",
        )
    found = verify.compare(f"result {i}", pair, tolerance_of(operator, eager.dtype))
    if not found.right and not _closer(found):
        raise Wrong(WRONG_VALUE, f"result {i}: {found.problem}; {_examples(ours, eager)}")


def _closer(found: verify.Comparison) -> bool:
    """At least as close to float64 as eager, which rounds a gradient of zero to 1e-5, say."""
    return found.compiled_error is not None and found.compiled_error <= (found.eager_error or 0.0)


def _examples(ours: torch.Tensor, eager: torch.Tensor) -> str:
    wrong = (ours != eager) & ~(ours.isnan() & eager.isnan())
    return f"ours {ours[wrong][:3].tolist()}, eager {eager[wrong][:3].tolist()}"


def _same_number(ours: Any, eager: Any) -> bool:
    if isinstance(ours, torch.Tensor) and ours.numel() == 1:
        ours = ours.item()
    if isinstance(eager, float) and isinstance(ours, (int, float)):
        close = math.isclose(ours, eager, rel_tol=1.3e-6, abs_tol=1e-5)
        return close or (math.isnan(ours) and math.isnan(eager))
    return type(ours) is type(eager) and bool(ours == eager)


def places_are_free(operator: str) -> bool:
    """Whether PyTorch does not say which of equal elements the operator's indices name."""
    return operator in ("kthvalue", "topk")


def check_places(ours: Sequence[torch.Tensor], eager: Sequence[torch.Tensor], given: torch.Tensor) -> None:
    """(values, indices): the values are eager's, and lie where the indices say. Raises Wrong."""
    if given.dim() == 0:
        return compare("", ours, eager, lambda: eager)
    compare("", ours[:1], eager[:1], lambda: eager)
    dims = [dim for dim in range(given.dim()) if _lie_there(eager, given, dim)]
    if not any(_lie_there(ours, given, dim) for dim in dims):
        raise Wrong(WRONG_VALUE, f"the values do not lie at the indices {ours[1].flatten()[:3].tolist()}")
    return None


def _lie_there(results: Sequence[torch.Tensor], given: torch.Tensor, dim: int) -> bool:
    values, places = results
    if values.dim() < given.dim():
        values, places = values.unsqueeze(dim), places.unsqueeze(dim)
    sizes = zip(values.shape, given.shape, strict=True)
    if any(ours != whole for i, (ours, whole) in enumerate(sizes) if i != dim):
        return False
    return torch.equal(given.gather(dim, places).nan_to_num(), values.nan_to_num())


def in_order_of(operator: str, ours: list[Any], eager: Sequence[Any]) -> list[Any]:
    """Eigenvalues have no order that PyTorch promises: ours, and vectors beside them, in that of eager's."""
    if operator not in ("linalg.eig", "linalg.eigvals") or ours[0].shape != eager[0].shape:
        return ours
    order = _nearest(ours[0], eager[0])
    columns = order.unsqueeze(-2)
    return [
        found.gather(-1, order if found.dim() == order.dim() else columns.expand_as(found)) for found in ours
    ]


def _nearest(ours: torch.Tensor, eager: torch.Tensor) -> torch.Tensor:
    """For each of eager's values the place of the nearest of ours that is left."""
    distances = (ours.unsqueeze(-2) - eager.unsqueeze(-1)).abs().nan_to_num()
    order = torch.zeros(eager.shape, dtype=torch.int64)
    for k in range(eager.shape[-1]):
        order[..., k] = distances[..., k, :].argmin(-1)
        distances.scatter_(-1, order[..., k, None, None].expand(*eager.shape, 1), math.inf)
    return order


def reconstructs(operator: str) -> Callable[[Sequence[torch.Tensor]], torch.Tensor] | None:
    """How a factorization's results make its input again; their signs and phases are free, their product is not."""
    return _RECONSTRUCTIONS.get(operator)


def factor_count(operator: str) -> int:
    """How many factors a factorization returns."""
    return 3 if operator in ("linalg.svd", "linalg.lu") else 2


def check_factors(operator: str, factors: Sequence[torch.Tensor], given: torch.Tensor) -> None:
    """The product of `factors` is `given`, and what must be orthonormal is. Raises Wrong."""
    rebuild = _RECONSTRUCTIONS[operator]
    _close(rebuild(factors), given, f"{operator}: the product of the factors")
    for k in _ORTHONORMAL.get(operator, ()):
        factor = factors[k].mH if k == 2 else factors[k]
        if 0 in factor.shape[-2:] or factor.shape[-2] < factor.shape[-1]:
            continue
        identity = torch.eye(factor.shape[-1], dtype=factor.dtype).expand(*factor.shape[:-2], -1, -1)
        _close(factor.mH @ factor, identity, f"{operator}: factor {k} times itself")


def _close(ours: torch.Tensor, wanted: torch.Tensor, what: str) -> None:
    # Both sides carry the rounding of a product of n terms, which default tolerances do not allow for.
    scale = 1e-4 if ours.dtype in (torch.float32, torch.complex64) else 1e-9
    try:
        torch.testing.assert_close(ours, wanted, rtol=scale, atol=scale * max(1.0, _largest(wanted)))
    except AssertionError as error:
        message = " ".join(str(error).split())[:300]
        raise Wrong(WRONG_VALUE, f"{what}: {message}") from error


def _largest(tensor: torch.Tensor) -> float:
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def _svd(f: Sequence[torch.Tensor]) -> torch.Tensor:
    k = f[1].shape[-1]
    return f[0][..., :k] * f[1].unsqueeze(-2).to(f[0].dtype) @ f[2][..., :k, :]


def _eigen(f: Sequence[torch.Tensor]) -> torch.Tensor:
    values = f[0].to(f[1].dtype)
    return f[1] * values.unsqueeze(-2) @ torch.linalg.inv(f[1])


_RECONSTRUCTIONS: dict[str, Callable[[Sequence[torch.Tensor]], torch.Tensor]] = {
    "linalg.svd": _svd,
    "linalg.eigh": lambda f: f[1] * f[0].unsqueeze(-2).to(f[1].dtype) @ f[1].mH,
    "linalg.eig": _eigen,
    "linalg.qr": lambda f: f[0] @ f[1],
    "qr": lambda f: f[0] @ f[1],
    "linalg.lu": lambda f: f[0] @ f[1] @ f[2],
}
_ORTHONORMAL = {"linalg.svd": (0, 2), "linalg.eigh": (1,), "linalg.qr": (0,), "qr": (0,)}
