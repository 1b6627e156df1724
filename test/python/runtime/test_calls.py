"""Calls: every dtype and memory layout in and out, nested arguments, updated arguments, and each wrong argument."""

import gc
import weakref
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import pipeline
from pipeline.runtime import ArgumentError, ExecutionError, tensors
from pipeline.runtime.tensors import span_of_view

DTYPES = [
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool),
    *(torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.complex64),
]


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class EveryDtype(nn.Module):
    """Per dtype: the argument itself, a rearrangement, and arithmetic that wraps and rounds."""

    def forward(self, values: dict[str, torch.Tensor]) -> dict[str, tuple[torch.Tensor, ...]]:
        return {name: (x, x.flip(0), self.compute(x)) for name, x in values.items()}

    @staticmethod
    def compute(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is torch.bool:
            return x.logical_not()
        return x * x if x.is_complex() else x * x + x


def sample(dtype: torch.dtype) -> torch.Tensor:
    """16 values of `dtype`, extremes among them."""
    if dtype is torch.bool:
        return torch.arange(16) % 3 == 0
    if dtype.is_complex:
        return torch.complex(torch.linspace(-2, 2, 16), torch.linspace(3, -1, 16)).to(dtype)
    if dtype.is_floating_point:
        edges = [torch.inf, -torch.inf, torch.nan, -0.0, torch.finfo(dtype).max, torch.finfo(dtype).tiny]
        return torch.tensor([*edges, *range(-5, 5)]).to(dtype)
    info = torch.iinfo(dtype)
    return torch.tensor([info.min, info.max, *range(14)], dtype=dtype)


@pytest.fixture(scope="module")
def every_dtype() -> pipeline.Executable:
    return pipeline.compile(EveryDtype(), args=({name_of(dtype): sample(dtype) for dtype in DTYPES},))


@pytest.mark.parametrize("as_numpy", [False, True], ids=["torch", "numpy"])
def test_every_dtype_comes_back_right(every_dtype: pipeline.Executable, as_numpy: bool) -> None:
    values = {name_of(dtype): sample(dtype) for dtype in DTYPES}
    expected = EveryDtype()(values)
    given = {name: tensors.to_numpy(value) for name, value in values.items()} if as_numpy else values
    found = every_dtype(given)
    for name, results in found.items():
        for result, reference in zip(results, expected[name], strict=True):
            if as_numpy:
                assert isinstance(result, np.ndarray)
                assert result.dtype == tensors.to_numpy(reference).dtype
                result = tensors.to_torch(result, tensors.dtype_of(result))  # noqa: PLW2901
            torch.testing.assert_close(result, reference, equal_nan=True)


def test_results_are_the_callers_own(every_dtype: pipeline.Executable) -> None:
    """Writable, none shares memory with an argument or another result, and all outlive the executable."""
    values = {name_of(dtype): sample(dtype) for dtype in DTYPES}
    kept = {name: value.clone() for name, value in values.items()}
    results = [result for group in every_dtype(values).values() for result in group]
    expected = [result.clone() for group in EveryDtype()(values).values() for result in group]
    for result in results:
        result.fill_(1)
    for name, value in values.items():
        torch.testing.assert_close(value, kept[name], rtol=0, atol=0, equal_nan=True)
    again = [result for group in every_dtype(values).values() for result in group]
    for result, reference in zip(again, expected, strict=True):
        torch.testing.assert_close(result, reference, equal_nan=True)


def test_results_outlive_the_executable(tmp_path, every_dtype: pipeline.Executable) -> None:
    every_dtype.save(tmp_path / "m.vmfb")
    executable = pipeline.load(tmp_path / "m.vmfb")
    values = {name_of(dtype): sample(dtype) for dtype in DTYPES}
    expected = EveryDtype()(values)
    results = executable(values)
    gone = weakref.ref(executable)
    del executable, values
    gc.collect()
    assert gone() is None
    torch.testing.assert_close(results, expected, equal_nan=True)


class Layouts(nn.Module):
    """Reads its argument row by row, so that a wrong stride shows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.arange(1, x.numel() + 1, dtype=torch.float32).reshape(x.shape)


@pytest.fixture(scope="module")
def layouts() -> pipeline.Executable:
    return pipeline.compile(Layouts(), args=(torch.zeros(16, 32),))


@pytest.fixture
def passed(layouts: pipeline.Executable, monkeypatch) -> list:
    """Collects the buffer views that reach the compiled function."""
    found: list = []
    run = layouts._program.run

    def record(name: str, arguments: list, count: int) -> list:
        found.extend(arguments)
        return run(name, arguments, count)

    monkeypatch.setattr(layouts._program, "run", record)
    direct = layouts._call_of(None)._direct
    assert direct is not None
    share = direct._import
    monkeypatch.setattr(direct, "_import", lambda capsule: found.append(share(capsule)) or found[-1])
    return found


def aligned(shape: tuple[int, ...]) -> torch.Tensor:
    """Random numbers at an address that is a multiple of 64."""
    count = int(np.prod(shape))
    room = torch.randn(count + 16)
    start = -(room.data_ptr() // 4) % 16
    return room[start : start + count].view(shape)


SHARED: dict[str, Callable[[], torch.Tensor]] = {
    "aligned": lambda: aligned((16, 32)),
    "requires_grad": lambda: aligned((16, 32)).requires_grad_(),
    "parameter": lambda: nn.Parameter(aligned((16, 32))),
    "result of a call": lambda: aligned((16, 32)).detach()[:],
    "aligned part of a bigger one": lambda: aligned((48, 32))[16:32],
}
COPIED: dict[str, Callable[[], torch.Tensor]] = {
    "transposed": lambda: torch.randn(32, 16).t(),
    "strided": lambda: torch.randn(16, 64)[:, ::2],
    "unaligned": lambda: aligned((513,))[1:].view(16, 32),
    "expanded": lambda: torch.randn(1, 32).expand(16, 32),
    "negative": lambda: torch.complex(torch.randn(16, 32), torch.randn(16, 32)).conj().imag,
    "non-contiguous requires_grad": lambda: torch.randn(32, 16, requires_grad=True).t(),
}


@pytest.mark.parametrize("make", SHARED.values(), ids=SHARED)
def test_aligned_contiguous_tensors_are_shared(
    layouts, passed: list, make: Callable[[], torch.Tensor]
) -> None:
    x = make()
    torch.testing.assert_close(layouts(x), Layouts()(x).detach())
    assert span_of_view(passed[0], layouts.device)[0] == x.data_ptr()


@pytest.mark.parametrize("make", COPIED.values(), ids=COPIED)
def test_other_layouts_are_copied(layouts, passed: list, make: Callable[[], torch.Tensor]) -> None:
    x = make()
    torch.testing.assert_close(layouts(x), Layouts()(x).detach())
    start, end = span_of_view(passed[0], layouts.device)
    assert not start <= x.data_ptr() < end


class Parts(nn.Module):
    """Results that IREE could hand out without a copy: an argument, a part of another result, one value twice."""

    def forward(self, x):
        y = x * 2
        return x, y, y[1:], y, y.sum()


def test_results_of_a_direct_call_share_no_memory() -> None:
    x = aligned((16, 32))
    exe = pipeline.compile(Parts(), args=(x,))
    assert exe._call_of(None)._direct is not None
    before, expected = x.clone(), Parts()(x.clone())
    results = exe(x)
    for i, result in enumerate(results):
        torch.testing.assert_close(results[i:], expected[i:])
        result.fill_(7.0)
    torch.testing.assert_close(x, before)
    torch.testing.assert_close(exe(x), expected)


def test_a_direct_call_gives_every_dtype() -> None:
    dtypes = [dtype for dtype in DTYPES if not (dtype is torch.bool or dtype.is_complex)]
    x = {name_of(dtype): aligned((16,)).to(dtype).copy_(sample(dtype)) for dtype in dtypes}
    exe = pipeline.compile(_Flat(), args=tuple(x.values()))
    assert exe._call_of(None)._direct is not None
    torch.testing.assert_close(exe(*x.values()), _Flat()(*x.values()), equal_nan=True)


class _Flat(nn.Module):
    """`EveryDtype` with tensors for arguments and results."""

    def forward(self, *values):
        signs = values[0].to(torch.int8), values[1].to(torch.uint8)  # uint8 and int8 in the same memory
        return signs + tuple(result for x in values for result in (x.flip(0), EveryDtype.compute(x)))


def test_a_direct_call_that_fails_is_an_execution_error() -> None:
    exe = pipeline.compile(Parts(), args=(aligned((16, 32)),))
    direct = exe._call_of(None)._direct
    assert direct is not None
    direct._invoke = _broken
    with pytest.raises(ExecutionError, match="the call of 'main' failed on local-sync: out of order"):
        exe(aligned((16, 32)))


def _broken(*_: object) -> None:
    raise RuntimeError("out of order")


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


ARRAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "plain": lambda a: a,
    "Fortran order": np.asfortranarray,
    "negative strides": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
    "strided": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "big-endian": lambda a: a.astype(">f4"),
    "read-only": lambda a: read_only(a.copy()),
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "misaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(np.float32).reshape(a.shape),
}


@pytest.mark.parametrize("make", ARRAYS.values(), ids=ARRAYS)
def test_numpy_layouts(layouts, make: Callable[[np.ndarray], np.ndarray]) -> None:
    x = make(np.random.default_rng(0).standard_normal((16, 32), np.float32))
    result = layouts(x)
    assert isinstance(result, np.ndarray)
    expected = np.ascontiguousarray(x, "=f4") * np.arange(1, 513, dtype=np.float32).reshape(16, 32)
    np.testing.assert_array_equal(result, expected)


class Producer:
    """An array of some other library, which offers DLPack and nothing else."""

    def __init__(self, array: np.ndarray | torch.Tensor) -> None:
        self._array = array

    def __dlpack__(self, **options: object) -> object:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> object:
        return self._array.__dlpack_device__()


class WithoutCpu(Producer):
    """One whose memory NumPy cannot read, but that converts itself."""

    def __dlpack__(self, **options: object) -> object:
        raise BufferError("not on the CPU")

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._array)


@pytest.mark.parametrize("wrap", [Producer, WithoutCpu])
def test_other_libraries_arrays(layouts, wrap: type) -> None:
    x = np.random.default_rng(1).standard_normal((16, 32), np.float32)
    np.testing.assert_array_equal(layouts(wrap(x)), layouts(x))


def test_tensors_that_cannot_be_read(layouts) -> None:
    unreadable = WithoutCpu(np.zeros((16, 32), np.float32))
    unreadable.__class__ = type("Foreign", (Producer,), {"__dlpack__": WithoutCpu.__dlpack__})
    with pytest.raises(
        ArgumentError, match=r"'x' must be 16x32xf32: a Foreign that NumPy cannot read \(not on the CPU"
    ):
        layouts(unreadable)
    with pytest.raises(
        ArgumentError, match="'x' must be 16x32xf32: a tensor on the meta device cannot be read"
    ):
        layouts(torch.zeros(16, 32, device="meta"))
    with pytest.raises(
        ArgumentError, match=r"'x' must be 16x32xf32: a tensor of the layout torch.sparse_coo cannot"
    ):
        layouts(torch.zeros(16, 32).to_sparse())


class Nested(nn.Module):
    """Positional and keyword arguments, nested ones, constants, scalars, a dynamic batch and an empty tensor."""

    def forward(self, x, pair, extra=None, *, factor=2, options):
        first, rest = pair["first"], pair["rest"]
        total = x * factor + first + rest[0] * options[0]
        return {"total": total, "parts": (rest[1].t(), [first.sum(), None, factor]), "none": extra}


NESTED_ARGS = (
    torch.randn(3, 4),
    {"first": torch.randn(3, 4), "rest": [torch.tensor(2.5), torch.zeros(0, 2)]},
)
NESTED_KWARGS = {"factor": 3, "options": (torch.randn(4), 1.5)}


@pytest.fixture(scope="module")
def nested() -> pipeline.Executable:
    batch = Dim("batch", min=1, max=64)
    shapes = {
        "x": {0: batch},
        "pair": {"first": {0: batch}, "rest": [None, None]},
        "factor": None,
        "options": (None, None),
    }
    return pipeline.compile(Nested(), args=NESTED_ARGS, kwargs=NESTED_KWARGS, dynamic_shapes=shapes)


def nested_call(**changes: object) -> dict:
    """Arguments by name, at another batch than the exported one."""
    x, first = torch.randn(7, 4), torch.randn(7, 4)
    pair = {"first": first, "rest": [torch.tensor(2.5), torch.zeros(0, 2)]}
    return {"x": x, "pair": pair, **NESTED_KWARGS, **changes}


def test_ways_to_pass_arguments(nested: pipeline.Executable) -> None:
    call = nested_call()
    expected = Nested()(**call)
    x, pair = call.pop("x"), call.pop("pair")
    for result in (
        nested(x, pair, **call),
        nested(x, pair=pair, **call),
        nested(pair=pair, x=x, **call),
        nested(x, pair, options=call["options"]),
        nested(x, {"rest": tuple(pair["rest"]), "first": pair["first"]}, **call),
        nested.main(x, pair, **call),
        nested.entry_point("main")(x, pair, **call),
    ):
        torch.testing.assert_close(result, expected)
        assert list(result) == ["total", "parts", "none"]
        assert result["parts"][1][1:] == [None, 3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": torch.randn(7, 5)}, r"'x' must be batchx4xf32, got 7x5xf32: dimension 1 must be 4, got 5"),
        ({"x": torch.randn(65, 4)}, r"got 65x4xf32: dimension 0 must be batch \(1 <= batch <= 64\), got 65"),
        ({"x": torch.randn(0, 4)}, r"dimension 0 must be batch \(1 <= batch <= 64\), got 0"),
        ({"x": torch.randn(7)}, r"got 7xf32: expected 2 dimensions, got 1"),
        (
            {"x": torch.randn(6, 4)},
            r"'pair\['first'\]' must be .*dimension 0 must be batch \(batch = 6\), got 7",
        ),
        ({"x": torch.randn(7, 4).double()}, r"'x' must be batchx4xf32, got 7x4xf64: its dtype differs"),
        ({"x": np.zeros((7, 4), np.uint16)}, r"'x' must be batchx4xf32, got 7x4xuint16: its dtype differs"),
        ({"x": torch.zeros(7, 4).to(torch.float8_e5m2)}, "got 7x4xtorch.float8_e5m2: its dtype differs"),
        ({"x": [[1.0]]}, "argument 'x' must be a tensor batchx4xf32, got list"),
        ({"x": 3}, "argument 'x' must be a tensor batchx4xf32, got 3"),
        ({"x": None}, "argument 'x' must be a tensor batchx4xf32, got None"),
        ({"factor": 4}, "argument 'factor' was compiled as the constant 3, got 4"),
        ({"factor": True}, "argument 'factor' was compiled as the constant 3, got True"),
        (
            {"options": (torch.randn(4), 1)},
            r"argument 'options\[1\]' was compiled as the constant 1.5, got 1",
        ),
        ({"options": (torch.randn(4),)}, "argument 'options' must have 2 items, got 1"),
        (
            {"pair": {"first": torch.zeros(7, 4)}},
            r"argument 'pair' must have the keys .*; missing \['rest'\]",
        ),
        ({"other": 1}, "main has no argument 'other'; it takes x, pair, extra, factor, options"),
    ],
)
def test_wrong_arguments(nested: pipeline.Executable, changes: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        nested(**nested_call(**changes))


def test_wrong_counts(nested: pipeline.Executable) -> None:
    call = nested_call()
    x, pair = call.pop("x"), call.pop("pair")
    with pytest.raises(ArgumentError, match=r"main takes 3 positional arguments \(x, pair, .*\), got 4"):
        nested(x, pair, None, 3, **call)
    with pytest.raises(ArgumentError, match="argument 'extra' was compiled as the constant None, got 3"):
        nested(x, pair, 3, **call)
    with pytest.raises(ArgumentError, match="main got the argument 'x' twice"):
        nested(x, pair, x=x, **call)
    with pytest.raises(ArgumentError, match=r"missing argument 'pair' \(batchx4xf32, f32, 0x2xf32\) of main"):
        nested(x, **call)
    with pytest.raises(ArgumentError, match=r"missing argument 'options' \(4xf32\) of main"):
        nested(x, pair)
    with pytest.raises(ArgumentError, match="no entry point 'other'; this artifact has: main"):
        nested.entry_point("other")
    with pytest.raises(AttributeError, match="no attribute or entry point 'other'"):
        _ = nested.other
    # An error leaves nothing behind.
    torch.testing.assert_close(nested(x, pair, **call), Nested()(x, pair, **call))


class Updates(nn.Module):
    """Updates two of its arguments, and returns what they were before."""

    def forward(self, cache: torch.Tensor, count: torch.Tensor, x: torch.Tensor):
        before = cache.clone()
        cache[:, 1:3] += x
        count.add_(1)
        return before, cache.sum(), count * 2


@pytest.fixture(scope="module")
def updates() -> pipeline.Executable:
    return pipeline.compile(Updates(), args=(torch.zeros(4, 8), torch.tensor(0), torch.randn(4, 2)))


CACHES: dict[str, Callable[[], torch.Tensor]] = {
    "aligned": lambda: aligned((4, 8)),
    "transposed": lambda: torch.randn(8, 4).t(),
    "strided": lambda: torch.randn(4, 16)[:, 1::2],
    "inside a bigger one": lambda: torch.randn(6, 10)[1:5, 1:9],
}


@pytest.mark.parametrize("make", CACHES.values(), ids=CACHES)
def test_updated_arguments_are_written_back(updates, make: Callable[[], torch.Tensor]) -> None:
    cache, count = make(), torch.tensor(3)
    ours, ours_count = cache.clone(), count.clone()
    pointer, history = cache.data_ptr(), []
    for step in range(3):
        x = torch.full((4, 2), float(step))
        expected = Updates()(ours, ours_count, x)
        result = updates(cache, count, x)
        history.append((result, tuple(value.clone() for value in expected)))
    for result, expected in history:
        torch.testing.assert_close(result, expected)
    torch.testing.assert_close((cache, count), (ours, ours_count))
    assert cache.data_ptr() == pointer


@pytest.mark.parametrize("order", ["C", "F"])
def test_updated_numpy_arguments_are_written_back(updates, order) -> None:
    cache = np.array(np.arange(32, dtype=np.float32).reshape(4, 8), order=order)
    count = np.array(0)
    before, _, doubled = updates(cache, count, np.ones((4, 2), np.float32))
    expected = np.arange(32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(before, expected)
    expected[:, 1:3] += 1
    np.testing.assert_array_equal(cache, expected)
    assert (int(count), int(doubled)) == (1, 2)


def test_arguments_that_cannot_be_updated(updates) -> None:
    x = torch.zeros(4, 2)
    for cache, problem in (
        (torch.zeros(1, 8).expand(4, 8), "has several elements in one place"),
        (read_only(np.zeros((4, 8), np.float32)), "is read-only"),
    ):
        with pytest.raises(
            ArgumentError, match=f"argument 'cache' is updated by the model, but .* {problem}.*; pass a copy"
        ):
            updates(cache, torch.tensor(0), x)


def test_one_tensor_for_two_arguments(layouts, nested: pipeline.Executable) -> None:
    call = nested_call()
    call["pair"]["first"] = call["x"]
    torch.testing.assert_close(nested(**call), Nested()(**call))


def test_bf16_arrays_of_ml_dtypes(every_dtype: pipeline.Executable) -> None:
    values = {name_of(dtype): tensors.to_numpy(sample(dtype)) for dtype in DTYPES}
    assert every_dtype(values)["bfloat16"][2].dtype == np.dtype(ml_dtypes.bfloat16)
