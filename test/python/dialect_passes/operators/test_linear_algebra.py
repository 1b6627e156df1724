"""Linear algebra against eager: many operators in one program, and the loops run as Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import pipeline
from pipeline.dialect_passes.loops.emitter import Emitter
from pipeline.dialect_passes.loops.translate import translate
from pipeline.dialect_passes.loops.values import Array, LoopError, Value
from pipeline.dialect_passes.operators import eigen_loops, spectral_loops

linalg = torch.linalg


class Many(torch.nn.Module):
    """One result per operator; factors with free signs are multiplied back."""

    def forward(self, a: Any, b: Any, positive: Any, tall: Any) -> tuple[Any, ...]:
        u, s, vh = linalg.svd(tall, full_matrices=False)
        values, vectors = linalg.eigh(positive)
        return (
            *linalg.lu_factor(a),
            *linalg.lu(tall),
            *linalg.qr(tall, mode="complete"),
            *linalg.slogdet(a),
            linalg.det(a),
            linalg.inv(a),
            linalg.solve(a, b),
            linalg.solve(a, b.mT, left=False),
            linalg.cholesky(positive),
            linalg.cholesky(positive, upper=True),
            torch.cholesky_solve(b, linalg.cholesky(positive)),
            linalg.solve_triangular(a.triu(), b, upper=True),
            linalg.solve_triangular(a.tril(), b.mT, upper=False, left=False, unitriangular=True),
            u @ torch.diag_embed(s) @ vh,
            u.mT @ u,
            s,
            vectors @ torch.diag_embed(values) @ vectors.mT,
            values,
            linalg.pinv(tall),
            linalg.matrix_rank(tall),
            linalg.matrix_exp(a),
            linalg.lstsq(tall, tall[..., :2]).solution,
            torch.cov(tall[0]),
        )


def _arguments(batch: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(batch)
    a, b, tall = torch.randn(batch, 4, 4), torch.randn(batch, 4, 3), torch.randn(batch, 6, 4)
    return a, b, a @ a.mT + torch.eye(4), tall


def test_linear_algebra() -> None:
    # The batch is dynamic: one program for all.
    batch = torch.export.Dim("batch", min=1, max=100)
    arguments = _arguments(2)
    compiled = pipeline.compile(Many(), args=arguments, dynamic_shapes=({0: batch},) * 4)
    for count in (2, 5):
        arguments = _arguments(count)
        # Eager computes in float32, ours in float64: conditions of random matrices multiply eager's own rounding.
        torch.testing.assert_close(compiled(*arguments), Many()(*arguments), rtol=1e-4, atol=1e-4)


def _gradients(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    sources = a.detach().requires_grad_(), b.detach().requires_grad_()
    x, y = sources
    results = (
        linalg.solve(x, y),
        linalg.solve(x, y.mT, left=False),
        linalg.tensorsolve(x[0].reshape(2, 2, 4), y[0, :, 0].reshape(2, 2)),
        linalg.det(x),
        linalg.slogdet(x.mT).logabsdet,
    )
    return tuple(
        g
        for result in results
        for g in torch.autograd.grad(result.sin().sum(), sources, allow_unused=True)
        if g is not None
    )


def test_gradients_use_the_factors_that_torch_expects() -> None:
    """Traced below autograd, where a formula takes the factors of the matrix or of the transposed one."""
    a, b = _arguments(2)[:2]
    graph = make_fx(_gradients, tracing_mode="fake")(a, b)
    # As above: eager computes in float32, ours in float64.
    for ours, eager in zip(pipeline.compile(graph, args=(a, b))(a, b), _gradients(a, b), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("number", [float, complex])
def test_factors_of_a_matrix_without_full_rank(number: type) -> None:
    """Zero columns, equal columns: U and V stay orthogonal."""
    generator = np.random.default_rng(0)
    a = generator.standard_normal((6, 4)).astype(number) * (1 + 1j if number is complex else 1)
    a[:, 1], a[:, 3] = 0, a[:, 2]
    u, s, vh = np.zeros((6, 6), number), np.zeros(4), np.zeros((4, 4), number)
    work = [np.zeros(shape, number) for shape in ((6, 4), 4, 6, (4, 4), (4, 4))]
    spectral_loops.svd_loop(a, True, True, u, s, vh, *work, np.zeros(4))
    np.testing.assert_allclose(u[:, :4] * s @ vh, a, atol=1e-13)
    np.testing.assert_allclose(u.conj().T @ u, np.eye(6), atol=1e-13)
    np.testing.assert_allclose(vh @ vh.conj().T, np.eye(4), atol=1e-13)


@pytest.mark.parametrize("a", [np.roll(np.eye(5), 1, 0), np.triu(np.ones((5, 5))), np.zeros((5, 5))])
def test_eigenvalues_that_are_hard_to_find(a: np.ndarray) -> None:
    """A cycle of permutations, a single eigenvector, nothing at all."""
    a = a.astype(complex)
    values, vectors = np.zeros(5, complex), np.zeros((5, 5), complex)
    work = [np.zeros(shape, complex) for shape in ((5, 5), (5, 5), 5)]
    eigen_loops.eig_loop(a, True, values, vectors, *work, np.zeros(5), np.zeros(5, complex))
    np.testing.assert_allclose(a @ vectors, vectors * values, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1, atol=1e-12)


def sum_above(a, total, limit):
    count = 0
    for i in range(a.shape[0]):
        if a[i] > limit and count < 3:
            count += 1
    total[()] = count


def compares_complex(a, total, limit):
    total[()] = 1.0 if a[0] > limit else 0.0


def _array(name: str, kind: Any, *sizes: int) -> Array:
    return Array(name, "i32" if kind == "int" else "f32", kind, "%entry", sizes)


def test_a_kernel_becomes_loops_and_branches() -> None:
    emitter = Emitter("f64")
    limit = Value("real", ("%limit",))
    translate(
        sum_above, {"a": _array("%a", "real", 7), "total": _array("%t", "int"), "limit": limit}, emitter
    )
    text = "\n".join(emitter.lines)
    assert text.count("scf.for") == 1
    # The second condition is looked at only where the first holds.
    assert text.count("scf.if") == 2
    assert "arith.extf" in text


def test_what_has_no_form_in_the_ir_is_an_error_with_its_line() -> None:
    arguments = {"a": _array("%a", "complex", 7), "total": _array("%t", "real"), "limit": 0.0}
    with pytest.raises(LoopError, match=r"complex numbers cannot be compared\n  at .*algebra.py:\d+: total"):
        translate(compares_complex, arguments, Emitter("f32"))
