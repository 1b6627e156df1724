"""`op.check`: what agrees is reported as such, and every kind of disagreement is found."""

import pytest
import torch
from torch import Tensor

import pipeline
from pipeline.dialect_passes.custom_operators.errors import CheckError, SampleError, Unavailable
from pipeline.dialect_passes.custom_operators.lowering import MEANING
from pipeline.errors import EXIT_MISMATCH, exit_code


def statuses(report):
    return {row.what: row.status for row in report.rows}


def declare(name="checking::gated", **options):
    @pipeline.op(name, **options)
    def gated(x: Tensor, gate: Tensor, limit: float = 7.0) -> Tensor:
        return x * gate.sigmoid().clamp(max=limit)

    return gated


def sample(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype), torch.randn(*shape, dtype=dtype)


def test_all_is_well():
    report = declare().check(
        [sample(3, 4), {"x": torch.ones(2), "gate": torch.ones(2)}, (sample(2), {"limit": 0.1})]
    )
    assert report.ok
    assert len(report.rows) == 3 * 6
    assert not report.problems
    assert not report.skipped
    assert str(report).splitlines()[0].split() == ["checking::gated", "1", "2", "3"]
    assert str(report).splitlines()[-1].split() == ["cpu:", "meaning", "ok", "ok", "ok"]


def test_sixteen_bits_are_not_held_against_a_kernel():
    """Eager rounds after every operation: a fused kernel, which does not, is nearer to the truth."""
    torch.manual_seed(0)
    report = declare().check([sample(1000, dtype=torch.float16), sample(1000, dtype=torch.bfloat16)])
    assert report.ok


def wrong_eager(op):
    op.eager("cpu")(lambda x, gate, limit: x * gate)


def wrong_shape(op):
    op.shape(lambda x, gate, limit: [*x, 1])


def wrong_dtype(op):
    op.dtype(lambda x_rank_dtype, gate_rank_dtype, limit: 7)


def wrong_fake(op):
    op.fake(lambda x, gate, limit: x.new_empty(3))


def wrong_backward(op):
    op.backward(lambda grad, x, gate: (grad * gate, grad * x))


@pytest.mark.parametrize(
    ("spoil", "what", "detail"),
    [
        (wrong_eager, {"eager", "finite differences", "gradient"}, "Tensor-likes are not close"),
        (wrong_shape, {"shapes and dtypes"}, "its shape function"),
        (wrong_dtype, {"shapes and dtypes"}, "its dtype function"),
        (wrong_fake, {"shapes and dtypes", "opcheck"}, "its fake kernel"),
        (wrong_backward, {"gradient", "finite differences"}, "Tensor-likes are not close"),
    ],
)
def test_every_kind_of_disagreement_is_found(spoil, what, detail):
    op = declare("checking::spoiled")
    assert op.check([sample(3)], targets=()).ok
    spoil(op)
    report = op.check([sample(4)], targets=(), strict=False)
    # A wrong eager kernel leaves the derived gradient right, which then does not fit its differences.
    assert {row.what for row in report.problems} <= what
    assert next(iter(report.problems)).what in what
    assert any(detail in row.detail for row in report.problems)
    with pytest.raises(CheckError, match="WRONG") as caught:
        op.check([sample(4)], targets=())
    assert caught.value.report.problems
    assert exit_code(caught.value) == EXIT_MISMATCH


def test_each_lowering_is_compiled_and_compared():
    op = declare("checking::lowered")

    @op.lowering("cpu")
    def _(call):
        t = call.results[0].builtin
        return f"%r = arith.mulf %x, %gate : {t}\nreturn %r : {t}"

    report = op.check([sample(4)], strict=False)
    found = statuses(report)
    title = op.lowerings[0].title
    assert found[f"cpu: {MEANING}"] == "ok"
    assert found[f"cpu: {title}"] == "WRONG"
    assert "not close" in next(row.detail for row in report.problems)


def test_a_lowering_that_refuses_the_call_is_skipped():
    op = declare("checking::refusing")

    @op.lowering("cpu")
    def _(call):
        if call.results[0].rank != 1:
            raise pipeline.Refused("rows only")
        t = call.results[0].builtin
        return (
            f"%one = arith.constant dense<1.0> : {t}\n%n = arith.negf %gate : {t}\n%e = math.exp %n : {t}\n"
            f"%d = arith.addf %one, %e : {t}\n%r = arith.divf %x, %d : {t}\nreturn %r : {t}"
        )

    report = op.check([sample(4), sample(2, 3)])
    refused = next(iter(report.skipped))
    assert (refused.sample, refused.what) == (2, f"cpu: {op.lowerings[0].title}")
    assert "rows only" in refused.detail
    assert statuses(report)["cpu: meaning"] == "ok"


def test_arguments_that_change():
    @pipeline.op("checking::cache", mutates_args=("cache", "count"))
    def cache(q: Tensor, cache: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        cache[1] = q
        count += 1
        return cache * 2, q.argmax()

    arguments = (torch.randn(4), torch.zeros(3, 4), torch.zeros(1, dtype=torch.int64))
    report = cache.check([arguments])
    assert report.ok
    assert not report.skipped
    torch.testing.assert_close(arguments[1:], (torch.zeros(3, 4), torch.zeros(1, dtype=torch.int64)))


def test_lists_and_optional_arguments():
    @pipeline.op("checking::joined")
    def joined(xs: list[Tensor], bias: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
        y = torch.cat(xs)
        return y if bias is None else y + bias, [x + 1 for x in xs]

    report = joined.check([([torch.randn(2, 3), torch.randn(4, 3)],), ([torch.randn(2, 3)], torch.randn(3))])
    assert report.ok
    assert not report.skipped


def test_what_cannot_be_compared_is_skipped_with_the_reason():
    @pipeline.op("checking::drawn")
    def drawn(x: Tensor) -> Tensor:
        return torch.nn.functional.dropout(x, 0.5)

    report = drawn.check([torch.randn(8)])
    assert {row.what: row.detail for row in report.skipped} == {
        "opcheck": "it draws random numbers, and opcheck compares one call with another",
        "cpu: meaning": "it draws random numbers, which a compiled program draws in another order",
    }

    @pipeline.op("checking::rounding")
    def rounding(x: Tensor) -> Tensor:
        return x.float().square().to(x.dtype)

    report = rounding.check([torch.randn(8)], targets=())
    assert "itself fails it" in next(iter(report.skipped)).detail

    report = declare("checking::none", gradient="none").check([sample(2)], targets=())
    assert {row.what for row in report.skipped} == {"gradient", "finite differences"}


def test_a_target_that_does_not_run_here_is_skipped_with_the_reason(monkeypatch):
    from pipeline.dialect_passes.custom_operators import compiled_checks

    asked = []

    def compiler(module, args, target, lowerings):
        asked.append(target)
        raise Unavailable("no such device")

    monkeypatch.setattr(compiled_checks, "_compiler", compiler)
    report = declare("checking::elsewhere").check([sample(2), sample(3)], targets=("cuda",))
    assert [(row.what, row.detail) for row in report.skipped] == [("cuda: meaning", "no such device")] * 2
    assert asked == ["cuda"]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "check needs a sample"),
        ([(torch.ones(2),)], "sample 1 does not fit: missing a required argument: 'gate'"),
        ([{"x": torch.ones(2), "g": torch.ones(2)}], "sample 1 does not fit"),
    ],
)
def test_samples_that_do_not_fit(samples, message):
    with pytest.raises(SampleError, match=message):
        declare("checking::samples").check(samples, targets=())
