"""Declaring operators: the schema from the hints, and all of PyTorch that takes a custom operator."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from numbers import Number
from typing import TYPE_CHECKING, Annotated, List, Optional, Union  # noqa: UP035

import pytest
import torch

import pipeline
from pipeline.dialect_passes.custom_operators import fingerprint, registry
from pipeline.dialect_passes.custom_operators.errors import MeaningError
from pipeline.dialect_passes.custom_operators.hints import infer_schema
from pipeline.shape_lib import registry as shape_registry

if TYPE_CHECKING:
    from torch import Tensor

# ruff: noqa: UP006, UP007, UP037, UP045  (the older spellings of hints are what is tested)


@pipeline.op("declaration::mixed")
def mixed(
    x: Tensor,
    weights: Sequence[Tensor],
    index: Tensor,
    bias: Optional[Tensor] = None,
    factors: list[Tensor | None] | None = None,
    scale: float = 2,
    sizes: list[int] = (1, 2),  # type: ignore[assignment]
    negate: bool = False,
    mode: str = "sum",
    dtype: torch.dtype | None = None,
    *,
    extra: int = 3,
    number: int | float = 2.5,
) -> tuple[Tensor, Tensor]:
    y = x * scale * number
    for weight in weights:
        y = y + weight * weight * extra
    y = y if bias is None else y + bias.sin()
    for factor in factors or []:
        y = y if factor is None else y * factor
    y = -y if negate else y
    y = y.cumsum(0) if mode == "cumsum" else y
    return y[index] if dtype is None else y[index].to(dtype), index + sizes[1]


def tensors():
    return torch.randn(4), [torch.randn(4), torch.randn(4)], torch.tensor([2, 0])


CALLS = {
    "defaults": lambda x, ws, i: ((x, ws, i), {}),
    "empty list": lambda x, ws, i: ((x, [], i), {}),
    "tuple": lambda x, ws, i: ((x, tuple(ws), i, x), {}),
    "all": lambda x, ws, i: (
        (x, ws, i, x, [None, ws[0]], 3, [5, 6], True, "cumsum", torch.float16),
        {"extra": 7, "number": 2},
    ),
    "by name": lambda x, ws, i: ((x,), {"weights": ws, "index": i, "factors": [x], "number": 4}),
}


def a(x: Tensor, y: Optional[Tensor], z: List[Tensor], w: List[Optional[Tensor]]) -> Tensor: ...
def b(x: Tensor, n: int = -1, f: float = 7, g: float = 1e-5, t: bool = True, s: str = 'a"b\\') -> Tensor: ...
def c(x: Tensor, ns: list[int], fs: Sequence[float] = (1, 2.5), bs: list[bool] | None = None) -> Tensor: ...
def d(x: Tensor, t: torch.dtype = torch.float16, v: torch.device | None = None) -> list[Tensor]: ...
def e(x: Tensor, k: Number = 2, m: Union[int, float, None] = None, *, q: int | None = 3) -> Tensor: ...
def g(
    x: Optional["Tensor"], y: list["Tensor"], z: Annotated[Tensor, "rows"]
) -> Annotated["Tensor", "sum"]: ...
def f(xs: tuple[Tensor, ...]) -> tuple[Tensor, list[Tensor], Tensor]: ...


@pytest.mark.parametrize(
    ("function", "schema"),
    [
        (a, "(Tensor x, Tensor? y, Tensor[] z, Tensor?[] w) -> Tensor"),
        (
            b,
            '(Tensor x, SymInt n=-1, float f=7.0, float g=1e-05, bool t=True, str s="a\\"b\\\\") -> Tensor',
        ),
        (c, "(Tensor x, SymInt[] ns, float[] fs=[1.0, 2.5], bool[]? bs=None) -> Tensor"),
        (d, "(Tensor x, ScalarType t=float16, Device? v=None) -> Tensor[]"),
        (e, "(Tensor x, Scalar k=2, Scalar? m=None, *, SymInt? q=3) -> Tensor"),
        (g, "(Tensor? x, Tensor[] y, Tensor z) -> Tensor"),
        (f, "(Tensor[] xs) -> (Tensor, Tensor[], Tensor)"),
    ],
)
def test_the_hints_give_the_schema(function, schema):
    text = infer_schema("test::x", function).text
    assert text == schema
    parsed = torch._C.parse_schema(f"test::x{text}")
    assert [argument.name for argument in parsed.arguments] == list(function.__annotations__)[:-1]


def test_changed_arguments_are_marked_in_the_schema():
    def update(q: Tensor, cache: Tensor, others: list[Tensor]) -> None: ...

    assert infer_schema("test::x", update, ["cache", "others"]).text == (
        "(Tensor q, Tensor(a1!) cache, Tensor(a2!)[] others) -> ()"
    )


@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_a_call_of_the_function(call):
    args, kwargs = CALLS[call](*tensors())
    torch.testing.assert_close(mixed(*args, **kwargs), mixed.meaning(*args, **kwargs))
    torch.testing.assert_close(torch.ops.declaration.mixed(*args, **kwargs), mixed.meaning(*args, **kwargs))


def test_opcheck():
    args, kwargs = CALLS["all"](*tensors())
    torch.library.opcheck(mixed.overload, args, kwargs)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_torch_compile(backend):
    torch._dynamo.reset()
    x, (w, v), index = tensors()

    def program(op, x, w):
        return op(x * 2, [w, v], index, factors=[None, v])[0].sum()

    compiled = torch.compile(lambda x, w: program(mixed, x, w), backend=backend, fullgraph=True)
    x.requires_grad_(), w.requires_grad_()
    result, wanted = compiled(x, w), program(mixed.meaning, x, w)
    torch.testing.assert_close(result, wanted)
    torch.testing.assert_close(torch.autograd.grad(result, (x, w)), torch.autograd.grad(wanted, (x, w)))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.act = mixed

    def forward(self, x, w):
        return self.act(x, [w, w], torch.tensor([0]))


def test_export_keeps_the_operator_whole_with_dynamic_sizes():
    dynamic = {0: torch.export.Dim.DYNAMIC}
    program = torch.export.export(
        Model(), (torch.randn(4), torch.randn(4)), dynamic_shapes=(dynamic, dynamic)
    )
    assert mixed.overload in [node.target for node in program.graph.nodes]
    x, w = torch.randn(7), torch.randn(7)
    torch.testing.assert_close(program.module()(x, w), Model()(x, w))


def test_vmap():
    x, (w, v), index = torch.randn(3, 4), tensors()[1], tensors()[2]
    result = torch.vmap(lambda x: mixed(x, [w, v], index)[0])(x)
    torch.testing.assert_close(result, torch.stack([mixed(row, [w, v], index)[0] for row in x]))
    # A call that nothing batched reaches stays a call of the operator.
    torch.testing.assert_close(
        torch.vmap(lambda y: y + mixed(w, [v], index)[0].sum())(x)[0], (x[0] + mixed(w, [v], index)[0].sum())
    )


def test_a_vmap_rule_of_the_authors():
    @pipeline.op("declaration::batched")
    def batched(x: Tensor, y: Tensor) -> Tensor:
        return x + y

    @batched.vmap
    def _(info, in_dims, x, y):
        assert (info.batch_size, in_dims) == (3, (0, None))
        return x + y + 100, 0

    torch.testing.assert_close(
        torch.vmap(batched, (0, None))(torch.zeros(3, 2), torch.ones(2)), torch.full((3, 2), 101.0)
    )


def test_results_own_their_memory_and_are_contiguous():
    @pipeline.op("declaration::views")
    def views(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        y = x + 1
        return x, x.transpose(0, 1), y, y

    x = torch.randn(2, 3)
    results = views(x)
    torch.testing.assert_close(results, views.meaning(x))
    assert all(result.is_contiguous() for result in results)
    assert len({tensor.untyped_storage().data_ptr() for tensor in (x, *results)}) == 5
    torch.library.opcheck(views.overload, (x,))
    batch = torch.randn(5, 2, 3)
    before = batch.clone()
    torch.vmap(lambda x: views(x)[0].add_(1))(batch)
    torch.testing.assert_close(batch, before)


def test_a_list_of_results():
    @pipeline.op("declaration::chunks")
    def chunks(x: Tensor, n: int) -> list[Tensor]:
        return list(x.chunk(n))

    x = torch.randn(4, 2)
    assert isinstance(chunks(x, 2), list)
    torch.testing.assert_close(chunks(x, 2), list(x.chunk(2)))
    compiled = torch.compile(lambda x: chunks(x, 2)[1] * 2, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), x[2:] * 2)


def test_without_tensor_arguments():
    @pipeline.op("declaration::ones")
    def ones(n: int, dtype: torch.dtype = torch.float32, device: torch.device = "cpu") -> Tensor:  # type: ignore[assignment]
        return torch.ones(n, dtype=dtype, device=device)

    torch.testing.assert_close(ones(3, torch.int64), torch.ones(3, dtype=torch.int64))
    torch.library.opcheck(ones.overload, (3,))


def test_autocast_does_not_reach_inside():
    """Eager with autocast computes what the compiled operator does, which autocast cannot reach."""

    @pipeline.op("declaration::product")
    def product(a: Tensor, b: Tensor) -> Tensor:
        return a @ b

    x = torch.randn(3, 3, requires_grad=True)
    compiled = torch.compile(product, backend="aot_eager")
    for call in (product, compiled):
        with torch.autocast("cpu", torch.bfloat16):
            result = call(x, x)
        torch.testing.assert_close(result, x @ x)
        torch.testing.assert_close(
            torch.autograd.grad(result.sum(), x), torch.autograd.grad((x @ x).sum(), x)
        )


@pipeline.op("declaration::cache", mutates_args=("cache", "count"))
def cache_rows(q: Tensor, cache: Tensor, count: Tensor, row: int) -> Tensor:
    cache[row] = q * 2
    count += 1
    return (cache * cache).sum(0)


def cache_arguments():
    return torch.arange(3.0), torch.ones(2, 3), torch.zeros(1, dtype=torch.int64), 1


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_arguments_that_change(backend):
    torch._dynamo.reset()
    given, wanted = cache_arguments(), cache_arguments()
    version = given[1]._version
    call = cache_rows if backend is None else torch.compile(cache_rows, backend=backend, fullgraph=True)
    torch.testing.assert_close(call(*given), cache_rows.meaning(*wanted))
    torch.testing.assert_close(given[:3], wanted[:3])
    assert given[1]._version > version


def test_arguments_that_change_pass_opcheck():
    torch.library.opcheck(cache_rows.overload, cache_arguments())


def test_no_result():
    @pipeline.op("declaration::scale_all", mutates_args=["xs"])
    def scale_all(xs: list[Tensor], k: float) -> None:
        for x in xs:
            x.mul_(k)

    xs = [torch.ones(2), torch.ones(3)]
    assert scale_all(xs, 3.0) is None
    torch.testing.assert_close(xs, [torch.full((2,), 3.0), torch.full((3,), 3.0)])


def test_a_meaning_that_returns_something_else_says_so():
    @pipeline.op("declaration::liar")
    def liar(x: Tensor) -> tuple[Tensor, Tensor]:
        return x  # type: ignore[return-value]

    with pytest.raises(
        MeaningError,
        match="declaration::liar: its return hint says 2 results, but its function returned a Tensor",
    ):
        liar(torch.ones(2))


def test_it_looks_like_its_function():
    assert mixed.__name__ == "mixed"
    assert repr(mixed).startswith("<operator declaration::mixed(Tensor x, Tensor[] weights,")


def test_models_that_hold_an_operator_are_copied_and_pickled():
    model = Model()
    assert copy.deepcopy(model).act is mixed
    assert pickle.loads(pickle.dumps(model)).act is mixed


def test_find():
    assert registry.find("declaration::mixed") is mixed
    assert registry.find(mixed.overload) is mixed
    assert registry.find(torch.ops.aten.relu.default) is None
    assert registry.find("declaration::none") is None


# Redeclaring


def declare(factor):
    @pipeline.op("declaration::again")
    def again(x: Tensor) -> Tensor:
        return x * factor

    return again


def test_a_declaration_that_runs_again_replaces_the_former():
    x = torch.ones(2, requires_grad=True)
    first = declare(2)
    packet = torch.ops.declaration.again
    first.shape(lambda x: x)
    assert [entry.operator for entry in shape_registry.registered() if "again" in entry.operator]
    second = declare(3)
    for call in (first, second, torch.ops.declaration.again, copy.copy(first)):
        result = call(x)
        torch.testing.assert_close(result, torch.full((2,), 3.0))
        torch.testing.assert_close(torch.autograd.grad(result.sum(), x), (torch.full((2,), 3.0),))
    assert registry.find("declaration::again") is second
    assert not [entry.operator for entry in shape_registry.registered() if "again" in entry.operator]
    assert packet is not torch.ops.declaration.again
    torch.library.opcheck(second.overload, (x,))


def test_a_replaced_operator_may_have_another_schema():
    def cell(source):
        # As a notebook runs it: every run is a file of its own, all in __main__.
        names = {"__name__": "__main__", "pipeline": pipeline, "torch": torch}
        exec(compile(source, f"<cell {hash(source)}>", "exec"), names)
        return names["f"]

    head = '@pipeline.op("declaration::cell")\n'
    old = cell(head + "def f(x: torch.Tensor) -> torch.Tensor:\n    return x * 2\n")
    new = cell(head + "def f(x: torch.Tensor, k: float = 5.0) -> torch.Tensor:\n    return x * k\n")
    torch.testing.assert_close(new(torch.ones(1), 4.0), torch.full((1,), 4.0))
    torch.testing.assert_close(old(torch.ones(1)), torch.full((1,), 5.0))


def test_a_program_compiled_by_torch_follows_a_replacement():
    torch._dynamo.reset()
    x = torch.ones(2)
    held = {"op": declare(2)}
    compiled = torch.compile(lambda x: held["op"](x) + 1, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), torch.full((2,), 3.0))
    held["op"] = declare(5)
    torch.testing.assert_close(compiled(x), torch.full((2,), 6.0))


# What the author gives


def test_functions_of_the_authors_are_checked_against_the_meaning():
    @pipeline.op("declaration::joined")
    def joined(
        xs: list[Tensor], dim: int = 0, dtype: torch.dtype | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        y = torch.cat(xs, dim)
        return y if dtype is None else y.to(dtype), [x + 1 for x in xs]

    xs = [torch.ones(2, 3), torch.ones(4, 3)]
    assert joined.call_problem((xs,), {}) is None

    @joined.shape
    def _(xs, dim, dtype):
        assert dim == 0, "only rows"
        return [xs[0][0] + xs[1][0], xs[0][1]], xs

    @joined.dtype
    def _(xs_rank_dtype, dim, dtype):
        return xs_rank_dtype[0][1], [xs_rank_dtype[0][1], xs_rank_dtype[1][1]]

    assert joined.call_problem((xs,), {}) is None
    assert "its dtype function" in joined.call_problem((xs, 0, torch.float16), {})
    assert "gives 6, [6, 6] and the operator's function 5, [6, 6]" in joined.call_problem(
        (xs, 0, torch.float16), {}
    )
    assert "AssertionError: only rows" in joined.call_problem(([xs[0], xs[0]], 1), {})
    assert {e.kind for e in shape_registry.registered() if e.operator == "declaration.joined"} == {
        "shape",
        "dtype",
    }

    @joined.fake
    def _(xs, dim, dtype):
        return xs[0].new_empty(6, 4), xs

    assert "gives float32[6, 4]" in joined.call_problem((xs,), {})
    compiled = torch.compile(lambda xs: joined(xs)[0], backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(xs), torch.ones(6, 3))


def test_an_eager_implementation_for_a_device():
    @pipeline.op("declaration::fast")
    def fast(x: Tensor) -> Tensor:
        return x * 2

    @fast.eager("cpu")
    def _(x):
        return x.t() * 3

    result = fast(torch.ones(2, 3))
    torch.testing.assert_close(result, torch.full((3, 2), 3.0))
    assert result.is_contiguous()


def test_autocast_does_not_reach_into_an_eager_implementation():
    @pipeline.op("declaration::squared")
    def squared(x: Tensor) -> Tensor:
        return x @ x

    squared.eager("cpu")(lambda x: torch.mm(x, x))
    with torch.autocast("cpu", torch.bfloat16):
        assert squared(torch.ones(2, 2)).dtype == torch.float32


# torch's caches on disk know an operator by its name alone.

FACTOR = 2


def helper(x):
    return x * FACTOR


def test_the_fingerprint_follows_the_functions_and_constants_that_a_meaning_uses(monkeypatch):
    @pipeline.op("declaration::printed")
    def printed(x: Tensor) -> Tensor:
        return helper(x)

    first = fingerprint.fingerprint(printed)
    assert fingerprint.fingerprint(printed) == first
    monkeypatch.setitem(globals(), "FACTOR", 3)
    second = fingerprint.fingerprint(printed)
    assert second != first
    monkeypatch.setitem(globals(), "helper", lambda x: x + FACTOR)
    assert fingerprint.fingerprint(printed) not in (first, second)


def test_compiler_caches_are_told_the_fingerprint():
    from torch._inductor import config

    again = declare(7)
    torch.compile(again, backend="eager")(torch.ones(1))
    told = config.unsafe_marked_cacheable_functions["torch.ops.declaration.again"]
    assert told == fingerprint.fingerprint(again)
    again = declare(8)
    torch.compile(again, backend="eager")(torch.ones(1))
    assert config.unsafe_marked_cacheable_functions["torch.ops.declaration.again"] != told
