"""Results have eager's types where a formula's own numbers would widen or narrow them."""

from collections.abc import Callable

import pytest
import torch

import pipeline

WHOLE = torch.arange(-3, 7)
HALF = torch.tensor([1.0, 0.0, -1.0, float("nan"), 0.3])

CASES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]] = {
    "hardtanh of integers": (lambda x: torch.nn.functional.hardtanh(x, -1.5, 2.9), WHOLE),
    "relu6 of integers": (torch.nn.functional.relu6, WHOLE.int()),
    "entr of bfloat16": (torch.special.entr, HALF.bfloat16()),
    "entr of float16": (torch.special.entr, HALF.half()),
    "entr of integers": (torch.special.entr, WHOLE),
    "square of bool": (torch.square, WHOLE > 0),
    "power of bool": (lambda x: x**3, WHOLE > 0),
    "polygamma of int32": (lambda x: torch.polygamma(2, x), WHOLE.abs().int() + 1),
    "item of uint8": (lambda x: x * x[1].item(), WHOLE.to(torch.uint8)),
}


@pytest.mark.parametrize("name", CASES)
def test_types(name: str) -> None:
    function, x = CASES[name]
    torch.testing.assert_close(pipeline.compile(function, args=(x,))(x), function(x), equal_nan=True)


def test_bits_as_another_dtype() -> None:
    """Wider, narrower and of one width."""
    pairs = [
        (torch.float32, torch.uint8),
        (torch.float64, torch.int32),
        (torch.uint8, torch.float32),
        (torch.int8, torch.int64),
        (torch.float16, torch.float64),
        (torch.int32, torch.bfloat16),
        (torch.float32, torch.int32),
    ]
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0)) * 100
    args = tuple(x.to(given) for given, _ in pairs)

    def view(*args: torch.Tensor) -> list[torch.Tensor]:
        return [x.view(wanted) for x, (_, wanted) in zip(args, pairs, strict=True)]

    for found, expected in zip(pipeline.compile(view, args=args)(*args), view(*args), strict=True):
        assert found.dtype == expected.dtype
        assert torch.equal(found.view(torch.uint8), expected.view(torch.uint8))


def test_matrix_exp_of_half_precision() -> None:
    """Eager's own is far off (1e30 for bfloat16): that of float32 decides."""
    x = torch.randn(3, 3, generator=torch.Generator().manual_seed(0)).div(4).bfloat16()
    compiled = pipeline.compile(torch.matrix_exp, args=(x,))(x)
    torch.testing.assert_close(compiled, torch.matrix_exp(x.float()).bfloat16())
