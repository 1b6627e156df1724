"""Torch's scalar types as integers: the same numbers and the same promotion as torch's own."""

import itertools

import pytest
import torch

from pipeline.shape_lib import dtypes

NAMES = list(dtypes.CODES)
PROMOTED = [name for name in NAMES if not name.startswith("float8")]
SCALARS = {"bool": True, "int64": 3, "float64": 0.5, "complex128": 1j}


@pytest.mark.parametrize("name", NAMES)
def test_codes_are_torchs(name: str) -> None:
    """The operators that torch registers take a dtype by its number too."""
    made = torch.ops.aten.empty.memory_format([0], dtype=dtypes.CODES[name])
    assert made.dtype == getattr(torch, name)
    assert getattr(dtypes, "bool_" if name == "bool" else name) == dtypes.CODES[name]


def operand(rank: int | None, name: str) -> object:
    return SCALARS[name] if rank is None else torch.zeros([1] * rank, dtype=getattr(torch, name))


OPERANDS = [(rank, name) for rank in (0, 2) for name in PROMOTED] + [(None, name) for name in SCALARS]


@pytest.mark.parametrize("first", OPERANDS, ids=str)
def test_promotion_of_two(first: tuple[int | None, str]) -> None:
    compared = 0
    for second in OPERANDS:
        if first[0] is None and second[0] is None:
            continue  # numbers alone make no tensor; torch-mlir keeps them as wide as they are
        arguments = ([first[0], second[0]], [dtypes.CODES[first[1]], dtypes.CODES[second[1]]])
        try:
            wanted = torch.result_type(operand(*first), operand(*second))
        except RuntimeError:
            with pytest.raises(ValueError, match="PyTorch promotes no"):
                dtypes.promote_dtypes(*arguments)
            continue
        assert dtypes.promote_dtypes(*arguments) == dtypes.CODES[str(wanted).removeprefix("torch.")], second
        compared += 1
    assert compared


THREE = [(2, "int8"), (2, "uint8"), (0, "int64"), (0, "float64")]


@pytest.mark.parametrize("chosen", list(itertools.product(THREE, repeat=3)), ids=str)
def test_promotion_of_three(chosen: tuple[tuple[int, str], ...]) -> None:
    """Judged by the promotion of torch's own Python references, which takes any number of operands."""
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

    tensors = [operand(*entry) for entry in chosen]
    _, wanted = elementwise_dtypes(*tensors, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
    found = dtypes.promote_dtypes([rank for rank, _ in chosen], [dtypes.CODES[name] for _, name in chosen])
    assert found == dtypes.CODES[str(wanted).removeprefix("torch.")]


def test_numbers_alone_stay_as_wide_as_they_are() -> None:
    assert dtypes.promote_dtypes([None, None], [dtypes.int64, dtypes.float64]) == dtypes.float64


@pytest.mark.parametrize(("ranks", "kinds"), [([], []), ([1], []), ([1, 2], [3])])
def test_promotion_of_nothing(ranks: list[int | None], kinds: list[int]) -> None:
    with pytest.raises(ValueError, match="one rank for each dtype"):
        dtypes.promote_dtypes(ranks, kinds)


@pytest.mark.parametrize(
    ("number", "name"), [(True, "bool"), (3, "int64"), (0.5, "float64"), (1j, "complex128")]
)
def test_dtype_of_scalar(number: complex, name: str) -> None:
    assert dtypes.get_dtype_of_scalar(number) == dtypes.CODES[name]


@pytest.mark.parametrize("name", PROMOTED)
def test_predicates(name: str) -> None:
    dtype, code = getattr(torch, name), dtypes.CODES[name]
    assert dtypes.is_complex_dtype(code) == dtype.is_complex
    assert dtypes.is_float_dtype(code) == dtype.is_floating_point
    assert dtypes.is_integer_dtype(code) == (not dtype.is_complex and not dtype.is_floating_point)
    real = torch.empty(0, dtype=dtype).real.dtype
    assert dtypes.real_dtype(code) == dtypes.CODES[str(real).removeprefix("torch.")]
