"""Custom operators in models as users write them: in-place meanings, views of state, literals, draws, .pt2 files."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import pipeline
from pipeline.errors import InputError, UnsupportedError
from pipeline.model_file import load_model
from pipeline.strided_views import strided_view

pytestmark = pytest.mark.compiler("c")


@pipeline.op("calls::copied")
def copied(x: Tensor) -> Tensor:
    return x.clone()


@copied.kernel(
    "cpu",
    code="""
    void copied(const float *x, float *out, int64_t n, size_t group) {
      (void)group;
      for (int64_t i = 0; i < n; ++i) out[i] = x[i];
    }
    """,
    dtypes=[torch.float32],
)
def launch_copied(x):
    return pipeline.Launch(workgroups=[1], constants=[x.numel()])


@pipeline.op("calls::scaled")
def scaled(x: Tensor, k: float) -> Tensor:
    return x * k + 1


@scaled.lowering(form="torch")
def scaled_lowering(call):
    x = call["x"].torch
    return f"""
        %k = torch.constant.float {call["k"]:e}
        %one = torch.constant.int 1
        %m = torch.aten.mul.Scalar %x, %k : {x}, !torch.float -> !torch.vtensor
        %r = torch.aten.add.Scalar %m, %one, %one : !torch.vtensor, !torch.int, !torch.int -> !torch.vtensor
        return %r : !torch.vtensor
    """


@pipeline.op("calls::in_place")
def in_place(x: Tensor) -> Tensor:
    y = x.clone()
    y.mul_(2)
    y[0] += 1
    y.t()[1].copy_(x[:, 0])
    add_to(y, x)
    add_to(y[1], x[0])
    kept = copied(x)
    kept += 1
    return y + kept


@pipeline.op("calls::add_to", mutates_args={"total"})
def add_to(total: Tensor, x: Tensor) -> None:
    total.add_(copied(x))


@pipeline.op("calls::update", mutates_args={"total", "other"})
def update(total: Tensor, x: Tensor, other: Tensor | None, *, k: int = 2) -> tuple[Tensor, Tensor]:
    old = total.clone()
    total.mul_(k)
    if other is not None:
        other.add_(x)
    return old, total.sum(0)


@pipeline.op("calls::noisy")
def noisy(x: Tensor) -> Tensor:
    return torch.dropout(x, 0.5, train=True) + torch.rand_like(x)


class Literals(nn.Module):
    """A small constant is printed into the IR; here two kernels, a lowering and an addition use it."""

    def __init__(self):
        super().__init__()
        self.literal = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def forward(self, x):
        return copied(self.literal), scaled(self.literal, 2.0), x + self.literal, copied(x.t()), self.literal


class Changes(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("flat", torch.arange(16.0).reshape(4, 4))
        self.register_buffer("deep", torch.arange(32.0).reshape(2, 4, 4))

    def forward(self, x, y):
        add_to(self.flat.t(), x)
        add_to(self.deep[1], x)
        add_to(self.deep[:, 0], x[:2])
        add_to(self.deep.transpose(0, 2)[1], x[:, :2])
        add_to(self.deep.view(-1)[3:7], x[0])
        add_to(self.flat.view(8, 2)[2:6, 1], x[0])
        add_to(self.flat.diagonal(), x[0])
        add_to(y.t(), x)
        add_to(self.flat[0], self.flat[1])
        return update(self.flat, x, None), update(self.flat, x, y, k=3), in_place(x), self.deep + 0


@pytest.mark.parametrize(
    ("model", "inputs"), [(Literals(), 1), (Changes(), 2)], ids=["literals", "in_place_and_views"]
)
def test_values_are_eagers(model, inputs):
    eager = copy.deepcopy(model)
    exe = pipeline.compile(model, args=tuple(torch.randn(4, 4) for _ in range(inputs)))
    for _ in range(2):
        args = tuple(torch.randn(4, 4) for _ in range(inputs))
        compiled_args, eager_args = copy.deepcopy((args, args))
        assert_close(exe(*compiled_args), eager(*eager_args))
        assert_close(compiled_args, eager_args)
    for name, tensor in eager.named_buffers():
        assert_close(exe.state_dict()[name], tensor)
    assert any("C kernel copied" in note for note in exe.manifest.notes)


class Noisy(nn.Module):
    def forward(self, x):
        return noisy(x), torch.rand(2), noisy(x * 2)


def test_a_meaning_draws_what_eager_draws():
    x = torch.randn(3, 4)
    exe = pipeline.compile(Noisy(), args=(x,))
    torch.manual_seed(5)
    expected = [Noisy()(x) for _ in range(2)]
    torch.manual_seed(5)
    assert_close([exe(x) for _ in range(2)], expected)


def calling(function):
    class Calls(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("state", torch.zeros(2, 3, 3))

        def forward(self, x):
            function(self.state, x)
            return self.state + x

    return Calls()


@pipeline.op("calls::undeclared")
def undeclared(x: Tensor) -> Tensor:
    return x.add_(1) * 2


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (
            lambda state, x: state.copy_(undeclared(x)),
            InputError,
            "changes an argument in place that mutates_args does not",
        ),
        (
            lambda state, x: add_to(state, state),
            InputError,
            r"called at .*test_compiled_calls.*'x' may share.*clone",
        ),
        (lambda state, x: add_to(state[0, 1:], state[0, :2]), InputError, "'x' may share"),
        (
            lambda state, x: add_to(state.diagonal(dim1=1, dim2=2), x[:2]),
            UnsupportedError,
            "calls::add_to: its argument 'total', which it changes, is a view",
        ),
    ],
    ids=["undeclared", "itself", "overlap", "diagonals"],
)
def test_what_would_be_lost_is_refused(function, error, message):
    with pytest.raises(error, match=message):
        pipeline.explain(calling(function), args=(torch.randn(3, 3),))


def test_explain_knows_the_types_inside_a_lowering_in_the_torch_dialect():
    found = pipeline.explain(Literals(), args=(torch.randn(4, 4),))
    assert not found.unsupported
    lines = {line for item in found.operators for line in item.lines}
    assert lines and all("test_compiled_calls.py" in line for line in lines)


def test_a_saved_program_says_which_operator_is_not_declared(tmp_path):
    library = torch.library.Library("calls_elsewhere", "DEF")
    library.define("gone(Tensor x) -> Tensor")
    library.impl("gone", lambda x: x.clone(), "CompositeExplicitAutograd")

    class Uses(nn.Module):
        def forward(self, x):
            return torch.ops.calls_elsewhere.gone(x)

    torch.export.save(torch.export.export(Uses(), (torch.randn(2),)), tmp_path / "model.pt2")
    library._destroy()
    with pytest.raises(InputError, match="uses the operator calls_elsewhere::gone, which is not declared"):
        load_model(str(tmp_path / "model.pt2"))


BASES = [
    torch.randn(8, 4, 4),
    torch.randn(3, 5, 1, 2),
    torch.randn(6),
    torch.randn(4, 3).t(),
    torch.randn(2, 3, 4).permute(2, 0, 1),
]


def random_view(base, generator):
    view = base
    for _ in range(4):
        dim, start, kind = (int(torch.randint(limit, (), generator=generator)) for limit in (4, 3, 5))
        if dim >= view.dim() or start >= view.shape[dim]:
            continue
        changes = (
            lambda v, d=dim, s=start: v.select(d, s),
            lambda v, d=dim, s=start: v[(slice(None),) * d + (slice(s, None, s + 1),)],
            lambda v, d=dim: v.transpose(d, -1),
            lambda v, d=dim: v.unsqueeze(d),
            lambda v: v.flatten() if v.is_contiguous() else v,
        )
        view = changes[kind](view)
    return view


def test_views_are_found_again_from_their_strides():
    generator = torch.Generator().manual_seed(0)
    found = 0
    for base in BASES:
        for _ in range(100):
            view = random_view(base, generator)
            again = strided_view(base, view.shape, view.stride(), view.storage_offset())
            if again is not None:
                found += 1
                assert torch.equal(again, view) and again.data_ptr() == view.data_ptr()
    assert found > 450
