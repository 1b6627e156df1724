"""Every construct that the importer reads: the imported function says what the function itself says.

Each function is judged twice: by torch-mlir's own passes (reify, inline, simplify), as a stock user of the text
would, and by the abstract interpreter of `shape_lib`, which also tells what is raised. Every construct simplifies
in both; `while` does because it becomes a loop of 64 rounds, of which those after the last one do nothing.
`machine_only` are functions that are there for what they raise, which torch-mlir's passes drop.
"""

# The functions are written as people write them.
# ruff: noqa: B905, E711, RUF005, RUF046, SIM108, UP007

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Union

import pytest

OFFSET = 7
NAMES = ("same", "valid")
number = Union[int, float]


@dataclass(frozen=True)
class Case:
    function: Callable[..., Any]
    inputs: Sequence[tuple[Any, ...]]
    machine_only: bool


CASES: list[Case] = []


def case(
    *inputs: tuple[Any, ...], machine_only: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a function with the arguments that it is tried with."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append(Case(function, inputs, machine_only))
        return function

    return add


# ---- conditions


@case((1,), (2,), (3,), (-5,))
def if_elif_else(n: int) -> list[int]:
    if n == 1:
        out = [10]
    elif n == 2:
        out = [20, 21]
    else:
        out = []
    out.append(5)
    return out


@case(([1, 2],), ([],), ([4],))
def early_return(a: list[int]) -> list[int]:
    if len(a) == 0:
        return [9]
    if a[0] == 4:
        return a
    rest = a[1:]
    return rest + [len(a)]


@case((1, 1), (1, 2), (2, 1), (2, 2))
def return_on_one_inner_path(a: int, b: int) -> list[int]:
    x = 0
    if a == 1:
        if b == 1:
            return [111]
        x = 3
    else:
        x = 4
    return [x, a]


@case((3,), (0,), (-2,))
def ternary(n: int) -> list[int]:
    return [n if n > 0 else 0, 1 if n == 0 else (2 if n < 0 else 3)]


@case((1, 2, 3), (3, 2, 1), (1, 1, 1), (2, 3, 3))
def chained_comparison(a: int, b: int, c: int) -> list[int]:
    return [1 if a < b <= c else 0, 1 if a == b == c else 0, 1 if a != b > c else 0, 1 if c >= b >= a else 0]


@case(([], 0), ([5], 0), ([5, 6], 1), ([5, 6], 9))
def short_circuit(a: list[int], i: int) -> list[int]:
    first = len(a) > i and a[i] == 6
    second = len(a) <= i or a[i] == 5
    return [1 if first else 0, 1 if second else 0, 1 if not (first or second) else 0]


@case((0, 0.0, "", []), (3, 0.5, "x", [0]), (-1, -0.5, "yy", [1, 2]))
def truthiness(n: int, f: float, s: str, values: list[int]) -> list[int]:
    out = []
    if n:
        out.append(1)
    if f:
        out.append(2)
    if s:
        out.append(3)
    if values:
        out.append(4)
    if not n:
        out.append(5)
    return out


@case((0, 5), (3, 5), (0, 0))
def or_gives_a_value(a: int, b: int) -> list[int]:
    return [(a or b) + 1, (a and b) + 1]


@case((2,), (4,), (5,))
def membership(n: int) -> list[int]:
    values = [n, 4]
    return [
        1 if n in (2, 4) else 0,
        1 if n not in [2, 4] else 0,
        1 if 4 in values else 0,
        1 if 5 in values else 0,
        1 if n in {5, 6} else 0,
    ]


@case(("same",), ("valid",), ("full",))
def strings(mode: str) -> list[int]:
    if mode == "same":
        return [1]
    return [2, len(mode)] if mode != "valid" and mode not in ("x", "y") else [3]


# ---- loops


@case((0,), (1,), (5,))
def range_one(n: int) -> list[int]:
    out = []
    for i in range(n):
        out.append(i * i)
    return out


@case((0, 0), (2, 5), (5, 2), (3, 4))
def range_two(a: int, b: int) -> list[int]:
    out: list[int] = []
    for i in range(a, b):
        out.append(i + 1)
    return out


@case((0, 7, 3), (1, 7, 2), (7, 0, -3), (7, 1, -2), (5, 5, 1), (0, 5, -1), (3, 4, 9), (4, 3, -9))
def range_three(a: int, b: int, step: int) -> list[int]:
    out = [0]
    for i in range(a, b, step):
        out.append(i)
    for i in range(b, a, -1):
        out.append(i)
    return out


@case(([],), ([3],), ([3, 4, 5],))
def over_a_list(values: list[int]) -> list[int]:
    total = 1
    for value in values:
        total *= value
    return [total]


@case(([3, 4], [5, 6, 7]), ([], [1]), ([1, 2], [3, 4]))
def enumerate_zip_reversed(a: list[int], b: list[int]) -> list[int]:
    out = []
    for i, x in enumerate(a):
        out.append(i * 10 + x)
    for i, x in enumerate(b, 2):
        out.append(i * x)
    for x, y in zip(a, b):
        out.append(x * y)
    for x in reversed(a):
        out.append(x)
    for i, (x, y) in enumerate(zip(reversed(a), b), start=1):
        out.append(i + x + y)
    for i in reversed(range(1, 4)):
        out.append(i)
    return out


@case(([2, 3],), ([5, 7],))
def over_a_tuple_and_a_literal(a: list[int]) -> list[int]:
    x, y = a
    out = []
    for value in (x, y, 4):
        out.append(value)
    for i, value in enumerate([y, x]):
        out.append(i + value)
    for left, right in ((x, 1), (y, 2)):
        if left == 5:
            continue
        out.append(left * right)
    return out


@case(([1, 2, 3], 2), ([1, 2, 3], 9), ([], 0))
def return_in_a_loop(a: list[int], wanted: int) -> list[int]:
    for i in range(len(a)):
        if a[i] == wanted:
            return [i]
    return [99]


@case(([1, 2, 3], [3, 4]), ([1], [2]), ([], []), ([1, 2], [2, 1]))
def return_in_an_inner_loop(a: list[int], b: list[int]) -> list[int]:
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            if x == y:
                return [i, j]
        if x == 2:
            return [50]
    return []


@case(([1, 2, 3], 2), ([1, 2, 3], 9), ([], 0), ([3], 3))
def return_of_a_list_that_grows(a: list[int], stop: int) -> list[int]:
    out = []
    for x in a:
        if x == stop:
            return out
        out.append(x)
        if len(out) == 3:
            return out
    out.append(99)
    return out


@case(([1, 0, 3, 0, 5], 3), ([0, 0], 1), ([4, 4, 4], 4), ([], 1))
def break_and_continue(a: list[int], stop: int) -> list[int]:
    out = []
    count = 0
    for x in a:
        count += 1
        if x == 0:
            continue
        if x == stop:
            break
        out.append(x)
    out.append(count)
    return out


@case(([1, 2, 3], [1, 3]), ([3, 3], [3]), ([], [1]))
def break_in_an_inner_loop(a: list[int], b: list[int]) -> list[int]:
    out = []
    for x in a:
        hit = 0
        for y in b:
            if x == y:
                hit = 1
                break
            if y == 99:
                continue
        if hit == 1:
            continue
        out.append(x)
    return out


@case((0,), (1,), (6,), (40,), (2**40,))
def while_halving(n: int) -> list[int]:
    count = 0
    while n > 0:
        n = n // 2
        count += 1
    return [count]


@case(([1, 2, 3, 4], 3), ([1, 2], 5), ([], 1), ([7], 7))
def while_with_exits(a: list[int], wanted: int) -> list[int]:
    i = 0
    while True:
        if i >= len(a):
            break
        x = a[i]
        i += 1
        if x == wanted:
            return [i, 77]
        if x == 2:
            continue
        while x > 1:
            x -= 1
    return [i]


@case((0,), (3,), (5,))
def loop_variable_afterwards(n: int) -> list[int]:
    last = 42
    i = 17
    for i in range(n):
        last = i
    return [last, i]


# ---- None


@case((None, None), (3, None), (None, [1, 2]), (4, [5]))
def optional_narrowing(n: int | None, values: list[int] | None) -> list[int]:
    out: list[int] = []
    if n is None:
        out.append(0)
    else:
        out.append(n + 1)
    if values is not None and len(values) > 1:
        out.append(values[1])
    if n is not None and values is not None:
        out.append(n + values[0])
    if not (n is None or values is None):
        out.append(n * 2)
    return out


@case((None,), (0,), (5,))
def narrowed_by_return(n: int | None) -> list[int]:
    if n is None:
        return [1]
    m = n + 2
    return [m, n]


@case((None,), (5,))
def narrowed_by_assert(n: int | None) -> list[int]:
    assert n is not None, "n must be given"
    return [n + 1]


@case((None,), ([],), ([2, 3],))
def default_for_none(dims: list[int] | None) -> list[int]:
    if dims is None:
        dims = [8, 9]
    if not dims:
        dims = [4]
    return dims + [1]


@case(([3, 1, 2], 1), ([3], 7))
def optional_found_in_a_loop(a: list[int], wanted: int) -> list[int]:
    found: int | None = None
    for i, x in enumerate(a):
        if x == wanted:
            assert found is None
            found = i
    return [0] if found is None else [found, 5]


@case((None, 2), (2, 2), (3, 2))
def optional_compared(a: int | None, b: int) -> list[int]:
    return [1 if a == b else 0, 1 if a != b else 0, 1 if a == None else 0]


# ---- lists


@case(([1, 2, 3, 4],), ([5],))
def list_methods(a: list[int]) -> list[int]:
    b = list(a)
    b.append(9)
    b.insert(0, 8)
    b.insert(-1, 7)
    b.insert(100, 6)
    b.extend([4, 3])
    last = b.pop()
    first = b.pop(0)
    b.reverse()
    c = b.copy()
    c.append(last + first)
    b.clear()
    return c + b + [c.index(7), c.count(9)]


@case(([1, 2, 3, 4, 5],), ([1],), ([],))
def slices(a: list[int]) -> list[int]:
    out = [100]
    out += a[1:3]
    out += a[:-1]
    out += a[-2:]
    out += a[::-1]
    out += a[::2]
    out += a[4:0:-2]
    out += a[10:]
    out += a[:10]
    out += a[3:1]
    return out


@case(([1, 2, 3], 0, 2), ([1, 2, 3], -2, 5), ([1], 1, -1))
def slices_with_variables(a: list[int], start: int, stop: int) -> list[int]:
    return a[start:stop] + [9] + a[stop:start] + a[start:] + a[:stop]


@case(([1, 2, 3], 1), ([1, 2, 3], -1), ([4], 0))
def items(a: list[int], i: int) -> list[int]:
    b = a[:]
    b[i] = 50
    b[0] += 3
    del b[i]
    return b + [a[i], a[-1], a[0]]


@case(([1, 2, 3],), ([],))
def comprehensions(a: list[int]) -> list[int]:
    return (
        [x + 1 for x in a]
        + [x for x in a if x != 2]
        + [x * y for x in a for y in range(x)]
        + [x for i, x in enumerate(a) if i > 0 if x > 2]
        + [0 for _ in a]
        + list(range(len(a)))
        + list(x for x in a if x in (1, 3))
    )


@case((0,), (3,))
def repeated(n: int) -> list[int]:
    ones = [1] * n
    for i in range(n):
        ones[i] = ones[i] + i
    return ones + 2 * [4, 5]


@case(([1, 2], [1, 2]), ([1], [1, 2]), ([], []), ([1, 3], [1, 2]))
def compared_lists(a: list[int], b: list[int]) -> list[int]:
    c = []
    for x in a:
        c.append(x)
    return [1 if a == b else 0, 1 if a != b else 0, 1 if c == b else 0, 1 if c == [] else 0]


@case(([3, 1, 2],), ([5],))
def reductions(a: list[int]) -> list[int]:
    out = [max(a), min(a), sum(a), min(a[0], 2, 7), sum(x * x for x in a), math.prod(a)]
    return out + sorted(a) + [max(x + 1 for x in a), sum(range(4)), max(a[0], 2), min(range(2, 9))]


@case(([3, 1, 2],), ([],), ([5],))
def any_and_all(a: list[int]) -> list[int]:
    flags = [x == 2 for x in a]
    return [
        1 if any(x == 2 for x in a) else 0,
        1 if all(x > 1 for x in a) else 0,
        1 if any(flags) else 0,
        1 if all(flags) else 0,
        1 if any([]) else 0,
        sum(1 for x in a if x > 1),
        sum(a, 10),
    ]


@case(([1, 2],), ([],))
def two_names_for_one_list(a: list[int]) -> list[int]:
    b = list(a)
    c = b
    c.append(5)
    d = [b, c]
    return b + d[0]


@case(([[1, 2], [3]],), ([[4]],), ([],))
def nested_lists(tensors: list[list[int]]) -> list[int]:
    rows: list[list[int]] = []
    for t in tensors:
        row = list(t)
        row.append(9)
        rows.append(row)
    out = []
    for row in rows:
        for x in row:
            out.append(x)
    return out + [len(rows)]


def fill(values: list[int], value: int):
    for i in range(len(values)):
        values[i] = value
    values.append(7)
    return values


@case(([1, 2], 4), ([], 1))
def changed_by_a_helper(a: list[int], value: int) -> list[int]:
    b = list(a)
    c = fill(b, value)
    c.append(3)
    fill(b, 2)
    return b + a


# ---- tuples


def swapped(pair: tuple[int, int]) -> tuple[int, int]:
    return pair[1], pair[0]


def parts(a: list[int]):
    return len(a), (a, [1]), "same"


@case(([1, 2, 3],), ([],))
def tuples(a: list[int]) -> list[int]:
    n, (b, c), mode = parts(a)
    x, y = swapped((n, 4))
    pair = (x, y)
    (u, v), w = pair, 6
    u, v = v, u
    ok = 1 if pair == (4, n) and mode == "same" else 0
    return b + c + [x, y, u, v, w, ok, pair[-1], len(pair)]


@case(([1, 2], True), ([3, 4], False))
def tuple_from_branches(a: list[int], first: bool) -> list[int]:
    if first:
        pair = (a[0], [a[1]])
    else:
        pair = (a[1], [a[0], a[0]])
    k, rest = pair if a[0] != 3 else (5, [6])
    rest = rest + [k]
    return rest


@case(([1, 2],), ([3],))
def two_results(a: list[int]) -> tuple[list[int], list[int]]:
    out = a + [1]
    return out, out[1:]


# ---- numbers


@case(*[(a, b) for a in (7, -7, 0, 6, -6, 1, -1, 2**40) for b in (1, -1, 2, -2, 3, -3, 6, -6)])
def floor_and_modulo(a: int, b: int) -> list[int]:
    big = 2**41
    return [a // b + big, a % b + 10, (a // 3) + big, a % 3, a % -3 + 10, a // -2 + big, -a % 4, 7 % b + 10]


@case(*[(a, b) for a in (7.5, -7.5, 1.0, 0.3) for b in (2.0, -2.0, 0.1, -0.3)])
def float_floor_and_modulo(a: float, b: float) -> list[int]:
    return [int(a // b) + 1000, int((a % b) * 1000.0) + 3000]


@case((7, 2), (1, 3), (6, 3), (-7, 2))
def true_division(a: int, b: int) -> list[int]:
    x = a / b
    return [int(x * 10) + 100, int(x + 0.5) + 100, math.ceil(x) + 100, math.floor(x) + 100, round(x) + 100]


@case((1.5, 2), (2.5, 3), (-0.5, 1), (3.0, 0))
def floats(f: float, n: int) -> list[int]:
    g = f * n - 1 + 0.25
    out = [1 if g > f else 0, 1 if f <= n else 0, 1 if f >= 2.5 else 0, 1 if n < f else 0, 1 if f == n else 0]
    out += [1 if f != 1.5 else 0, int(-f) + 100, int(abs(f)), int(max(f, n)), int(min(f, 2.0, n)) + 10]
    return out + [int(float(n)), round(f) + 10, 1 if bool(n) else 0, int(f > 2) + 1, int(math.floor(g)) + 10]


@case((1,), (3,), (-3,))
def integers(n: int) -> list[int]:
    m = -n + 10
    m += 2
    m -= 1
    m *= 3
    return [
        m,
        abs(n),
        abs(-5),
        +n + 10,
        2**3,
        n**2,
        3 - 5 + 10,
        max(n, 0),
        (n > 0) + 1,
        OFFSET + 1,
        math.gcd(n, 6),
    ]


@case((5, 6.5), (2, -1.0))
def numbers_of_both_kinds(a: int, f: float) -> list[int]:
    return [int(either(a, True)), int(either(f, True)) + 10, int(either(3, False))]


def either(value: number, twice: bool):
    return value * 2 if twice else value


# ---- calls


def scaled(a: int, by: int = 2, *, plus: int = OFFSET) -> int:
    return a * by + plus


def no_result(a: int):
    assert a > -1000, "too small"


def may_be_none(a: int):
    if a > 2:
        return a
    return None


@case((1,), (4,))
def calls(n: int) -> list[int]:
    no_result(n)
    x = may_be_none(n)
    y = 0 if x is None else x
    args = (n, 5)
    return [scaled(n), scaled(n, 3), scaled(by=4, a=n), scaled(n, plus=0), scaled(*args, plus=1), y]


def padding_of(mode: str, kernel: int) -> int:
    if mode == NAMES[0]:
        return (kernel - 1) // 2
    elif mode == NAMES[1]:
        return 0
    else:
        raise ValueError(f"unknown padding {mode!r}")


@case(("same", 5), ("valid", 3), ("full", 3))
def raising_helper(mode: str, kernel: int) -> list[int]:
    return [padding_of(mode, kernel)]


@case(([2, 3], [3, 4]), ([2, 3], [4, 4]), ([2], [2]))
def assertions(a: list[int], b: list[int]) -> list[int]:
    assert len(a) == 2
    assert a[1] == b[0], f"sizes {a[1]} and {b[0]} differ"
    if len(b) != 2:
        raise ValueError("b must be a matrix")
    return [a[0], b[1]]


@case((4, 2), (4, 0), (-4, 0))
def division_by_zero(a: int, b: int) -> list[int]:
    return [a // b, a % b]


@case((0,), (1,))
def division_by_a_constant_zero(n: int) -> list[int]:
    zero = 0
    if n > 0:
        n = n // zero
    return [n]


@case(([1, 2, 3], 5), ([1, 2, 3], -4), ([1], 0))
def index_out_of_range(a: list[int], i: int) -> list[int]:
    b = list(a)
    b[i] = 4
    return b


@case((3, 4), (4, 4))
def not_reached(a: int, b: int) -> list[int]:
    if a != b:
        raise RuntimeError
    else:
        c = a + b
    return [c]


@case(("a", 1, 2.5, True, None, [1]))
def unused_arguments(s: Any, n: Any, f: Any, b: Any, none: Any, values: Any) -> list[int]:
    return [ignoring(s, n), ignoring(none, values)]


def ignoring(a: Any, b: Any) -> int:
    return 3


@case((100,), (70,), (64,), (63,), machine_only=True)
def too_many_rounds(n: int) -> list[int]:
    i = 0
    while i < n:
        i += 1
    return [i]


LONG_LOOP = "RuntimeError: a while loop in a shape function runs for more than 64 rounds"


def pairs() -> list[Any]:
    return [
        pytest.param(case, arguments, id=f"{case.function.__name__}-{index}")
        for case in CASES
        for index, arguments in enumerate(case.inputs)
    ]


def expected(case: Case, arguments: tuple[Any, ...]) -> Any:
    """What the function itself returns, or the exception it raises."""
    if case.function is too_many_rounds and arguments[0] > 64:
        return LONG_LOOP
    try:
        return case.function(*_copied(arguments))
    except Exception as error:
        # pytest adds the failed comparison to an assertion's message.
        message = "" if str(error).startswith("assert ") else str(error).split("\n")[0]
        return f"{type(error).__name__}: {message}".strip()


def _copied(value: Any) -> Any:
    return type(value)(_copied(v) for v in value) if isinstance(value, (list, tuple)) else value


@pytest.fixture(scope="module")
def library(imported: Any) -> Any:
    return imported([case.function for case in CASES])


@pytest.mark.parametrize(("case", "arguments"), pairs())
def test_interpreted(case: Case, arguments: tuple[Any, ...], library: Any) -> None:
    assert library.run(case.function, arguments) == expected(case, arguments)


@pytest.fixture(scope="module")
def simplified(library: Any) -> dict[tuple[str, int], Any]:
    """What torch-mlir's own passes say of all calls, each a call of an operator in one module."""
    return library.simplify([(case.function, case.inputs) for case in CASES if not case.machine_only])


@pytest.mark.parametrize("case", [c for c in CASES if not c.machine_only], ids=lambda c: c.function.__name__)
def test_simplified(case: Case, simplified: dict[tuple[str, int], Any]) -> None:
    for index, arguments in enumerate(case.inputs):
        wanted = expected(case, arguments)
        if not isinstance(wanted, str):  # torch-mlir's passes drop what raises
            assert simplified[case.function.__name__, index] == wanted, arguments
