"""Example inputs inside the manifest: exact when small or integer, a seeded recipe when large and float."""

import json
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from pipeline.runtime import dtypes, examples
from pipeline.runtime.manifest import EntryPoint, TensorSpec, ValueSpec

ENTRY = EntryPoint("main", (), (), (), {"tuple": []})


def entry(values: list) -> EntryPoint:
    """An entry point with these example inputs, after a trip through JSON."""
    specs = [
        ValueSpec("n", "int")
        if isinstance(value, int)
        else ValueSpec("x", "tensor", TensorSpec(dtypes.from_numpy(value.dtype).name, value.shape))  # type: ignore
        for value in values
    ]
    encoded = {"inputs": [examples.encode(value, i) for i, value in enumerate(values)]}
    return replace(ENTRY, inputs=tuple(specs), example=json.loads(json.dumps(encoded)))


@pytest.mark.parametrize("dtype", [row.numpy for row in dtypes.BY_NAME.values()], ids=str)
@pytest.mark.parametrize("shape", [(), (3, 5), (2, 0)])
def test_small_ones_are_exact(dtype: np.dtype, shape: tuple) -> None:
    value = np.asarray(np.random.default_rng(0).integers(0, 2, shape)).astype(dtype)
    (back,) = examples.decode(entry([value]))
    assert (back.dtype, back.shape) == (dtype, shape)
    assert back.tobytes() == value.tobytes()
    assert back.flags.writeable


def test_nan_payloads_and_signed_zeros_are_kept() -> None:
    value = np.array([0x7FC00001, 0x80000000, 0xFF800000], np.uint32).view(np.float32)
    (back,) = examples.decode(entry([value]))
    assert back.tobytes() == value.tobytes()


def test_integers_are_exact_at_any_size() -> None:
    value = np.arange(300_000, dtype=np.int64).reshape(2, -1) % 1000
    back, number = examples.decode(entry([value, 42]))
    assert np.array_equal(back, value)
    assert number == 42
    assert not examples.is_recipe(entry([value]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16, np.complex64])
def test_large_floats_are_a_seeded_recipe(dtype: type) -> None:
    shape = (1 << 20) // np.dtype(dtype).itemsize + 1
    made = entry([np.zeros(3, dtype), np.zeros(shape, dtype)])
    assert examples.is_recipe(made)
    assert len(json.dumps(made.example)) < 200
    small, large = examples.decode(made)
    assert np.array_equal(small, np.zeros(3, dtype))
    assert (large.dtype, large.shape) == (np.dtype(dtype), (shape,))
    again = examples.decode(made)[1]
    assert large.tobytes() == again.tobytes()
    assert 0.9 < np.std(large.real.astype(np.float64)) < 1.1


def test_no_examples() -> None:
    assert examples.decode(ENTRY) == []
    assert not examples.is_recipe(ENTRY)
