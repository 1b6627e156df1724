"""Dynamic dimensions: learning symbols from shapes, checking them, and what the messages say."""

import pytest

from pipeline.runtime.dims import Binder, Bounds, DimensionError, evaluate, symbols

BOUNDS = {"b": Bounds(1, 64), "h": Bounds(2, None), "w": Bounds(2, 1000)}


def bound(*pairs: tuple[tuple, tuple]) -> dict[str, int]:
    """The symbol values after tensors of these (declared shape, actual shape)."""
    binder = Binder(BOUNDS)
    for shape, sizes in pairs:
        binder.bind(shape, sizes)
    binder.finish()
    return binder.values


@pytest.mark.parametrize(
    ("pairs", "values"),
    [
        ([((2, 3), (2, 3))], {}),
        ([(("b", 4), (7, 4))], {"b": 7}),
        ([(("2*h", "h"), (8, 4))], {"h": 4}),
        ([(("2*h + 1",), (9,))], {"h": 4}),
        ([(("b - 1",), (63,))], {"b": 64}),
        ([(("-h + 10",), (3,))], {"h": 7}),
        ([(("h",), (3,)), (("h*w",), (15,))], {"h": 3, "w": 5}),
        ([(("h*w",), (15,)), (("h",), (3,))], {"h": 3, "w": 5}),
        ([(("h + w",), (8,)), (("w",), (5,))], {"h": 3, "w": 5}),
        ([(("h//2",), (4,)), (("h",), (9,))], {"h": 9}),
        ([(("h**2",), (81,)), (("h",), (9,))], {"h": 9}),
        ([(("h % 4",), (1,)), (("h",), (9,))], {"h": 9}),
        ([(("12//h",), (4,)), (("h",), (3,))], {"h": 3}),
        ([(("Max(4, h)",), (4,)), (("h",), (2,))], {"h": 2}),
        ([(("Min(100, h)",), (100,)), (("h",), (250,))], {"h": 250}),
        ([(("h//2",), (4,))], {}),
    ],
)
def test_symbols_are_learned(pairs: list, values: dict[str, int]) -> None:
    assert bound(*pairs) == values


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([((2, 3), (2, 3, 1))], "expected 2 dimensions, got 3"),
        ([((2, 3), (2, 4))], "dimension 1 must be 3, got 4"),
        ([(("b",), (65,))], r"dimension 0 must be b \(1 <= b <= 64\), got 65"),
        ([(("b",), (0,))], r"dimension 0 must be b \(1 <= b <= 64\), got 0"),
        ([(("h",), (1,))], r"dimension 0 must be h \(h >= 2\), got 1"),
        ([(("2*h",), (7,))], r"dimension 0 must be 2\*h \(h >= 2\), got 7"),
        ([(("2*h",), (2,))], r"dimension 0 must be 2\*h \(h >= 2\), got 2"),
        ([(("b", "b"), (3, 4))], r"dimension 1 must be b \(b = 3\), got 4"),
        ([(("b",), (3,)), (("2*b + 1",), (8,))], r"dimension 0 must be 2\*b \+ 1 \(b = 3\), got 8"),
        ([(("h//2",), (4,)), (("h",), (7,))], r"a dimension must be h//2 \(h = 7\), got 4"),
        ([(("Max(4, h)",), (5,)), (("h",), (3,))], r"a dimension must be Max\(4, h\) \(h = 3\), got 5"),
        ([(("h*w",), (15,)), (("h",), (4,))], r"a dimension must be h\*w \(h = 4, 2 <= w <= 1000\), got 15"),
        ([(("12//(h - 2)",), (4,)), (("h",), (2,))], r"12//\(h - 2\) \(h = 2\), got 4"),
    ],
)
def test_sizes_that_cannot_be(pairs: list, message: str) -> None:
    with pytest.raises(DimensionError, match=message):
        bound(*pairs)


def test_bounds_are_described() -> None:
    assert Bounds(1, 64).describe("batch") == "1 <= batch <= 64"
    assert Bounds(0, None).describe("batch") == "batch >= 0"


def test_expressions() -> None:
    assert symbols("Max(h, 2*w) - b") == ("b", "h", "w")
    assert evaluate("Max(h, 2*w) - Min(b, 3) % 2 + w**2//h", {"h": 5, "w": 4, "b": 9}) == 8 - 1 + 3
    assert evaluate(7, {}) == 7
    with pytest.raises(KeyError):
        evaluate("h", {})
