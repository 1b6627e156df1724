"""Integers over unknown sizes: they fold, and what does not becomes the same arithmetic in the compiled program."""

import itertools
import subprocess

import pytest
import torch

from pipeline.dialect_passes.custom_operators.call_types import CallTypes, TensorType
from pipeline.dialect_passes.custom_operators.mlir_text import FunctionBody
from pipeline.dialect_passes.custom_operators.sizes import Size, ceildiv, combine, maximum, minimum

N, M = Size("dim", (0, 0)), Size("dim", (0, 1))


def expressions(n, m):
    """Arithmetic of every kind, over integers or sizes alike."""
    return [
        n + 3,
        3 + n,
        n - m,
        7 - n,
        n * m * 2,
        2 * n,
        (n - 9) // 4,
        100 // (n + 1),
        (n - 9) % 4,
        50 % (m + 1),
        -n,
        ceildiv(n, 4),
        ceildiv(n * m, m + 2),
        maximum(n, m),
        minimum(n, 5),
        maximum(3, minimum(n, m - 1)),
    ]


def test_known_sizes_are_plain_integers():
    values = expressions(6, 11)
    assert all(type(value) is int for value in values)
    assert values == [9, 9, -5, 1, 132, 12, -1, 14, 1, 2, -6, 2, 6, 11, 5, 6]
    assert [ceildiv(n, 4) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_unknown_sizes_compute_what_integers_do(tmp_path):
    """All expressions in one compiled function, run with several sizes: also negative intermediate values."""
    body = FunctionBody([TensorType((None, None), "float32")])
    values = [body.add(f"arith.index_cast {body.size(e)} : index to i64") for e in expressions(N, M)]
    lines = "\n".join(body.lines)
    types = ", ".join(["i64"] * len(values))
    (tmp_path / "sizes.mlir").write_text(
        f"func.func @main(%a0: tensor<?x?xf32>) -> ({types}) {{\n{lines}\nreturn {', '.join(values)} : {types}\n}}"
    )
    command = ["iree-compile", "sizes.mlir", "-o", "sizes.vmfb", "--iree-hal-target-device=local"]
    command += ["--iree-hal-local-target-device-backends=vmvx", "--iree-opt-level=O2"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    import iree.runtime as iree

    module = iree.load_vm_flatbuffer_file(str(tmp_path / "sizes.vmfb"), driver="local-sync")
    for n, m in itertools.product((1, 6, 13), (1, 11, 4)):
        results = module.main(torch.zeros(n, m).numpy())
        assert [int(value) for value in results] == expressions(n, m)  # pyright: ignore[reportOptionalIterable]


def test_a_divisor_that_is_zero_when_the_program_runs_does_not_stop_the_process():
    body = FunctionBody([TensorType((None, None), "float32")])
    body.size(combine("//", N, M))
    assert any("arith.maxsi" in line for line in body.lines)


def test_simplification():
    assert (N * 1) is N and (N + 0) is N and (0 + N) is N and (N // 1) is N
    with pytest.raises(ZeroDivisionError):
        combine("//", N, 0)
    with pytest.raises(TypeError, match=r"not 1\.5"):
        combine("*", N, 1.5)


@pytest.mark.parametrize(
    "decide",
    [
        lambda: N == 3,
        lambda: N < 3,
        lambda: max(N, 3),
        lambda: int(N),
        lambda: range(N),
        lambda: bool(N),
    ],
)
def test_deciding_on_an_unknown_size_is_an_error(decide):
    with pytest.raises(TypeError, match="known only when the program runs"):
        decide()


def test_calls_with_equal_types_are_one():
    """Not so where Python finds values equal that a kernel tells apart."""

    def call(scale, size):
        return CallTypes({"x": TensorType((None,), "float32"), "scale": scale}, (), ((size,),))

    assert call(1, N) == call(1, Size("dim", (0, 0)))
    assert len({call(1, N), call(1.0, N), call(True, N), call(1, M), call(1, N)}) == 4
