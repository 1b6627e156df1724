"""Capture and import: roles, names, structures, dynamic dimensions, weights that never enter the IR."""

import collections
import dataclasses

import pytest
import torch
from torch import nn
from torch.export import Dim

import pipeline
from pipeline.capture import capture
from pipeline.entry_points import EntrySpec
from pipeline.importer import import_program

Point = collections.namedtuple("Point", ["x", "y"])


@dataclasses.dataclass
class Box:
    low: torch.Tensor
    high: torch.Tensor
    label: torch.Tensor | None = None


torch.export.register_dataclass(Box, serialized_type_name="test_capture.Box")


class Everything(nn.Module):
    """Nested arguments and results, tied and unused weights, all kinds of buffers and constants."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4, bias=False)
        self.b = nn.Linear(4, 4, bias=False)
        self.b.weight = self.a.weight
        self.unused = nn.Linear(64, 64)
        self.register_buffer("kept", torch.arange(4.0))
        self.register_buffer("hidden", torch.arange(4.0) + 1, persistent=False)
        self.table = torch.arange(40.0).reshape(10, 4)

    def forward(self, x, pair, flag=True, scale=2.0, *, more, nothing=None):
        y = self.b(self.a(x)) * scale + self.kept + self.hidden + torch.tensor([1.0, 2.0, 3.0, 4.0])
        y = y + self.table[:1] if flag else y
        return {
            "box": Box(y, pair[0] + more["m"]),
            "list": [pair[1], None, 3, "text", float("inf")],
            "point": Point(y.sum(), (more["n"].x * 2,)),
        }


def arguments(rows=2):
    pair = (torch.randn(rows, 4), torch.randn(3))
    return (torch.randn(rows, 4), pair), {
        "more": {"m": torch.randn(rows, 4), "n": Point(torch.ones(2), torch.zeros(1))}
    }


@pytest.fixture(scope="module")
def everything():
    torch.manual_seed(0)
    model = Everything()
    args, kwargs = arguments()
    return model, pipeline.compile(model, args=args, kwargs=kwargs)


def test_nested_arguments_and_results(everything):
    model, executable = everything
    args, kwargs = arguments()
    expected, result = model(*args, **kwargs), executable(*args, **kwargs)
    assert isinstance(result["box"], Box) and isinstance(result["point"], Point)
    assert result["box"].label is None
    assert result["list"][1:] == [None, 3, "text", float("inf")]
    torch.testing.assert_close(result["box"].low, expected["box"].low)
    torch.testing.assert_close(result["box"].high, expected["box"].high)
    torch.testing.assert_close(result["point"].x, expected["point"].x)
    torch.testing.assert_close(result["point"].y, expected["point"].y)


def test_constants_may_be_left_out_or_repeated_but_not_changed(everything):
    model, executable = everything
    args, kwargs = arguments()
    torch.testing.assert_close(
        executable(*args, True, 2.0, **kwargs)["box"].low, model(*args, **kwargs)["box"].low
    )
    with pytest.raises(pipeline.ArgumentError, match=r"'scale' was compiled as the constant 2\.0, got 3\.0"):
        executable(*args, scale=3.0, **kwargs)
    with pytest.raises(pipeline.ArgumentError, match=r"argument 'more' must have the keys .*missing \['n'\]"):
        executable(*args, more={"m": torch.ones(2, 4)})


def test_tied_weights_are_stored_once_and_unused_ones_not_at_all(everything):
    _, executable = everything
    table = executable.manifest.weights.table
    assert set(table) in ({tied, "kept", "hidden", "main.table"} for tied in ("a.weight", "b.weight"))


class TwoMethods(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))
        self.register_buffer("total", torch.zeros(4))

    def add(self, x):
        self.total.add_(x * self.weight)
        return x.sum()

    def read(self, factor):
        return self.total * factor


def test_entry_points_share_weights_and_state():
    model = TwoMethods()
    executable = pipeline.compile(
        model,
        entry_points={
            "add": {"args": (torch.ones(4),)},
            "read_total": {"method": "read", "kwargs": {"factor": torch.tensor(2.0)}},
        },
    )
    for _ in range(2):
        executable.add(torch.ones(4))
        model.add(torch.ones(4))
    torch.testing.assert_close(executable.read_total(torch.tensor(3.0)), model.read(torch.tensor(3.0)))
    assert set(executable.manifest.weights.table) == {"weight", "total"}
    assert model.forward.__func__ is nn.Module.forward, "capture leaves the model's forward as it was"
    with pytest.raises(
        pipeline.ArgumentError, match="several entry points, call one by name: add, read_total"
    ):
        executable(torch.ones(4))


class Shapes(nn.Module):
    def forward(self, x, y):
        return x.flatten(0, 1) @ y.T, x.shape[0] * 2


def test_dynamic_dimensions_keep_the_users_names_and_bounds():
    batch, length = Dim("batch", min=1, max=8), Dim("length", min=2, max=64)
    executable = pipeline.compile(
        Shapes(),
        args=(torch.randn(2, 6, 4), torch.randn(5, 4)),
        dynamic_shapes={"x": {0: batch, 1: 2 * length}, "y": {0: Dim.AUTO}},
    )
    entry = executable.manifest.entry_points["main"]
    assert [str(spec) for spec in entry.inputs] == ["batchx2*lengthx4xf32", "y_0x4xf32"]
    assert executable.manifest.dimensions["length"].max == 64
    for rows, half, columns in [(1, 2, 3), (8, 32, 9), (3, 5, 2)]:
        x, y = torch.randn(rows, 2 * half, 4), torch.randn(columns, 4)
        product, doubled = executable(x, y)
        torch.testing.assert_close(product, Shapes()(x, y)[0])
        assert doubled == 2 * rows
    with pytest.raises(
        pipeline.ArgumentError, match=r"dimension 1 must be 2\*length \(2 <= length <= 64\), got 7"
    ):
        executable(torch.randn(2, 7, 4), torch.randn(5, 4))
    with pytest.raises(pipeline.ArgumentError, match="1 <= batch <= 8"):
        executable(torch.randn(9, 6, 4), torch.randn(5, 4))


class SharedDim(nn.Module):
    def forward(self, x, y):
        return x + y


def test_one_dimension_in_two_arguments_must_agree():
    n = Dim("n", min=1, max=9)
    executable = pipeline.compile(
        SharedDim(), args=(torch.ones(3), torch.ones(3)), dynamic_shapes={"x": {0: n}, "y": {0: n}}
    )
    torch.testing.assert_close(executable(torch.ones(5), torch.ones(5)), torch.full((5,), 2.0))
    with pytest.raises(pipeline.ArgumentError, match=r"argument 'y' .*must be n \(n = 5\), got 6"):
        executable(torch.ones(5), torch.ones(6))


class Dtypes(nn.Module):
    """Weights of every dtype, returned after a little arithmetic."""

    def __init__(self, dtypes):
        super().__init__()
        for i, dtype in enumerate(dtypes):
            value = torch.arange(6).reshape(2, 3)
            value = value.to(dtype) if dtype is not torch.bool else value % 2 == 0
            self.register_buffer(f"w{i}", value * (1 + 2j) if dtype.is_complex else value)

    def forward(self, x):
        copied = (torch.bool, torch.complex64)
        return [w.clone() if w.dtype in copied else w + x.to(w.dtype) for _, w in self.named_buffers()]


@pytest.mark.parametrize("weights", ["inline", "external"])
def test_weights_of_every_dtype(weights):
    dtypes = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64]
    dtypes += [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
    model = Dtypes(dtypes)
    executable = pipeline.compile(model, args=(torch.ones(2, 3),), weights=weights)
    for expected, result in zip(model(torch.ones(2, 3)), executable(torch.ones(2, 3)), strict=True):
        torch.testing.assert_close(result, expected)


def test_importing_never_touches_the_weights(monkeypatch):
    """256 MiB of weights, of which no byte is read, copied or printed on the way to the Torch dialect."""
    model = nn.Sequential(*[nn.Linear(4096, 4096, bias=False) for _ in range(4)]).to("cpu")
    monkeypatch.setattr(torch.Tensor, "tolist", lambda self: pytest.fail("a weight became a list"))
    monkeypatch.setattr(torch.Tensor, "numpy", lambda self: pytest.fail("a weight was read"))
    program = capture(model, {"main": EntrySpec((torch.ones(1, 4096),))})
    text = str(import_program(program))
    assert len(text) < 5000 and 'pipeline.weight = "3.weight"' in text
    assert all(
        program.weights[name].data_ptr() == parameter.data_ptr()
        for name, parameter in model.named_parameters()
    )


def test_training_mode_is_the_users_choice():
    model = nn.BatchNorm1d(3)
    assert list(capture(model, {"main": EntrySpec((torch.randn(4, 3),))}).state)
    assert not capture(model.eval(), {"main": EntrySpec((torch.randn(4, 3),))}).state


class SharedMemory(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("whole", torch.zeros(4))
        self.register_buffer("part", self.whole[:2])

    def forward(self, x):
        self.whole += x
        return self.part * 2


def test_state_that_shares_memory_is_refused():
    with pytest.raises(
        pipeline.UnsupportedError, match="updates 'whole' or 'part' in place and they share memory"
    ):
        pipeline.compile(SharedMemory(), args=(torch.ones(4),))


class Difference(nn.Module):
    """Takes each argument once."""

    def forward(self, x, y):
        return x.sin() - y


def test_the_same_example_tensor_twice():
    """torch.export takes the two for one, and a program would be wrong for all other arguments."""
    x = torch.ones(3)
    graph = capture(Difference(), {"main": EntrySpec((x, x))}).entries["main"].module
    torch.testing.assert_close(graph(x, x + 1)[0], x.sin() - (x + 1))
