"""Shape functions that are easy to get wrong, each with what it takes: plain Python, run as it is and as IR.

`TAKES` says for each operator what its arguments are: "tensor", "other" (a tensor, mostly one that broadcasts with
it), "tensors" (a list), "optional" (a tensor or None), "int", "ints", "each" (ints, mostly one per dimension) or
"bool".
"""

from pipeline.shape_lib.registry import shape_function

TAKES = {
    "reversed": ("tensor",),
    "two_empty_lists": ("tensor",),
    "counts": ("tensor",),
    "filled": ("tensor", "int"),
    "filled_twice": ("tensor", "other"),
    "broadcast": ("tensor", "other"),
    "concatenated": ("tensors", "int"),
    "optional_bias": ("tensor", "optional"),
    "strided": ("tensor", "each", "each"),
    "without_ones": ("tensor",),
    "collatz": ("int",),
    "first_even": ("tensor",),
    "nested_choice": ("tensor", "bool"),
    "sliced": ("tensor", "int", "int"),
    "sum_and_product": ("tensor",),
    "split_in_two": ("tensor", "int"),
    "largest": ("tensor", "other"),
    "rank_of_rank": ("tensor", "other"),
    "all_pairs": ("tensor",),
    "kept": ("tensor", "ints", "bool"),
}


@shape_function("mylib::reversed")
def reversed_sizes(x: list[int]) -> list[int]:
    out: list[int] = []
    for i in range(len(x)):
        out.append(x[len(x) - 1 - i])
    return out


@shape_function("mylib::two_empty_lists")
def two_empty_lists(x: list[int]) -> list[int]:
    odd: list[int] = []
    even: list[int] = []
    for i, size in enumerate(x):
        if i % 2 == 0:
            even.append(size)
        else:
            odd.append(size)
    return odd + even + [len(odd), len(even)]


@shape_function("mylib::counts")
def counts(x: list[int]) -> list[int]:
    out: list[int] = []
    for size in x:
        out.append(len(out))
        if size > 2:
            out.append(size)
            out[0] = len(out)
    return out


def fill(out: list[int], value: int, times: int) -> None:
    for _ in range(times):
        out.append(value)


@shape_function("mylib::filled")
def filled(x: list[int], n: int) -> list[int]:
    out: list[int] = []
    for size in x:
        fill(out, size, 2)
    out.append(n)
    return out


@shape_function("mylib::filled_twice")
def filled_twice(x: list[int], y: list[int]) -> list[int]:
    a: list[int] = []
    b: list[int] = []
    fill(a, 5, len(x))
    fill(b, 6, len(y))
    fill(a, len(b), 1)
    return a + b


def broadcast_sizes(a: list[int], b: list[int]) -> list[int]:
    out: list[int] = []
    n = max(len(a), len(b))
    for i in range(n):
        i_a = i - n + len(a)
        i_b = i - n + len(b)
        d_a = a[i_a] if i_a >= 0 else 1
        d_b = b[i_b] if i_b >= 0 else 1
        assert d_a in (d_b, 1) or d_b == 1, f"sizes {d_a} and {d_b} do not broadcast"
        out.append(d_b if d_a == 1 else d_a)
    return out


@shape_function("mylib::broadcast")
def broadcast(a: list[int], b: list[int]) -> list[int]:
    return broadcast_sizes(a, b)


@shape_function("mylib::concatenated")
def concatenated(tensors: list[list[int]], dim: int) -> list[int]:
    assert len(tensors) > 0, "nothing to concatenate"
    rank = len(tensors[0])
    assert -rank <= dim < rank, "no such dimension"
    if dim < 0:
        dim += rank
    total = 0
    for sizes in tensors:
        assert len(sizes) == rank, "ranks differ"
        for i in range(rank):
            assert i == dim or sizes[i] == tensors[0][i], "sizes differ"
        total += sizes[dim]
    out: list[int] = []
    for i in range(rank):
        out.append(total if i == dim else tensors[0][i])
    return out


@shape_function("mylib::optional_bias")
def optional_bias(x: list[int], bias: list[int] | None) -> list[int]:
    if bias is not None:
        return broadcast_sizes(x, bias)
    return x


@shape_function("mylib::strided")
def strided(x: list[int], stride: list[int], padding: list[int]) -> list[int]:
    assert len(stride) == len(x), "one stride for each dimension"
    assert len(padding) == len(x), "one padding for each dimension"
    out: list[int] = []
    for i in range(len(x)):
        assert stride[i] > 0, "strides must be positive"
        out.append((x[i] + 2 * padding[i] - 1) // stride[i] + 1)
    return out


@shape_function("mylib::without_ones")
def without_ones(x: list[int]) -> list[int]:
    out: list[int] = []
    for size in x:
        if size != 1:
            out.append(size)
    return out


@shape_function("mylib::collatz")
def collatz(n: int) -> list[int]:
    assert n > 0, "needs a positive number"
    steps = 0
    while n != 1:
        if n % 2 == 0:  # noqa: SIM108
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return [steps, n]


@shape_function("mylib::first_even")
def first_even(x: list[int]) -> list[int]:
    for i in range(len(x)):
        if x[i] % 2 == 0:
            return [i, x[i]]
    return [len(x)]


@shape_function("mylib::nested_choice")
def nested_choice(x: list[int], flag: bool) -> list[int]:
    out = [1]
    if flag:
        if len(x) > 1 and x[0] > x[1]:
            out.append(x[0])
        elif len(x) > 0:
            out.append(x[0])
            out[0] = 2
        out.append(7)
    else:
        out = [len(x)]
    return out


@shape_function("mylib::sliced")
def sliced(x: list[int], start: int, stop: int) -> list[int]:
    return x[start:stop] + x[:start] + x[-1:]


@shape_function("mylib::sum_and_product")
def sum_and_product(x: list[int]) -> list[int]:
    total = 0
    product = 1
    for size in x:
        total += size
        product *= size
    return [total, product, max(total, product), min(total, 3)]


@shape_function("mylib::split_in_two")
def split_in_two(x: list[int], dim: int) -> tuple[list[int], list[int]]:
    assert dim >= 0 and dim < len(x), "no such dimension"
    first: list[int] = []
    second: list[int] = []
    for i, size in enumerate(x):
        half = size // 2 if i == dim else size
        first.append(half)
        second.append(size - half if i == dim else size)
    return first, second


@shape_function("mylib::largest")
def largest(x: list[int], y: list[int]) -> list[int]:
    out = x
    if len(y) > len(x):
        out = y
    return out + [len(out)]  # noqa: RUF005


@shape_function("mylib::rank_of_rank")
def rank_of_rank(x: list[int], y: list[int]) -> list[int]:
    if x == y:
        return [1]
    if len(x) == len(y):
        return [2, 2]
    return [3, 3, 3]


@shape_function("mylib::all_pairs")
def all_pairs(x: list[int]) -> list[int]:
    return [a * b for a in x for b in x if a <= b]


@shape_function("mylib::kept")
def kept(x: list[int], dims: list[int], keepdim: bool) -> list[int]:
    out: list[int] = []
    for i in range(len(x)):
        reduced = False
        for dim in dims:
            assert -len(x) <= dim < len(x), f"dimension {dim} is out of range"
            if dim == i or dim + len(x) == i:
                reduced = True
        if not reduced:
            out.append(x[i])
        elif keepdim:
            out.append(1)
    return out
