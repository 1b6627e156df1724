"""The gradient of custom operators: derived from the meaning, written by hand, saved, or none."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.fx.experimental.proxy_tensor import make_fx

import pipeline
from pipeline.dialect_passes.custom_operators.errors import GradientError


@pipeline.op("gradients::gated")
def gated(x: Tensor, gate: Tensor, limit: float = 7.0) -> Tensor:
    return x.clamp(max=limit) * gate.sigmoid() * x


@pipeline.op("gradients::mixed")
def mixed(
    x: Tensor,
    weights: Sequence[Tensor],
    index: Tensor,
    bias: Tensor | None = None,
    factors: list[Tensor | None] | None = None,
    scale: float = 2.0,
    sizes: list[int] = (1, 2),  # type: ignore[assignment]
) -> tuple[Tensor, Tensor]:
    y = x * scale
    for weight in weights:
        y = y + weight * weight
    y = y if bias is None else y + bias.sin()
    for factor in factors or []:
        y = y if factor is None else y * factor
    return y[index], index + sizes[1]


def leaf(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def same_gradients(call, inputs):
    """The operator's gradients, and which there are none of, are the composition's; `call` makes it of either."""
    given = torch.autograd.grad(call(True), inputs, allow_unused=True)
    wanted = torch.autograd.grad(call(False), inputs, allow_unused=True)
    assert [g is None for g in given] == [w is None for w in wanted]
    torch.testing.assert_close([g for g in given if g is not None], [w for w in wanted if w is not None])


# Lists, optional arguments, arguments left at their defaults


def test_torch_itself_fails_for_a_list_and_an_argument_at_its_default():
    """What the next test's operators would meet with torch's own registration; when this fails, simplify."""

    @torch.library.custom_op("gradients::stock", mutates_args=())
    def stock(x: Tensor, weights: Sequence[Tensor], scale: float = 2.0) -> Tensor:
        return x * weights[0] * scale

    stock.register_autograd(
        lambda ctx, grad: (grad, [grad], None), setup_context=lambda ctx, inputs, output: None
    )
    with pytest.raises(RuntimeError, match="same structure"):
        stock(leaf(3), [leaf(3)]).sum().backward()


x, w, v, bias = leaf(4), leaf(4), leaf(4), leaf(4)
index = torch.tensor([2, 0])


@pytest.mark.parametrize(
    ("call", "inputs"),
    [
        (lambda f: f(x, [w, v], index), (x, w, v)),
        (lambda f: f(x, [], index), (x,)),
        (lambda f: f(x, [w], index, bias), (x, w, bias)),
        (lambda f: f(x, (w, v), index, bias, [None, v, None], 3.0, [5, 6]), (x, w, v, bias)),
        (lambda f: f(x, weights=[w], index=index, factors=[v]), (x, w, v)),
        (lambda f: f(x.detach(), [w.detach(), v], index), (v,)),
        (lambda f: f(x.detach(), [w], index, factors=[x.detach()]), (w, x)),
        (lambda f: f(x, [x, x], index, x), (x,)),
        (lambda f: f(x * w, [x], index), (x, w)),
    ],
)
def test_mixed_arguments(call, inputs):
    same_gradients(lambda own: call(mixed if own else mixed.meaning)[0].sum(), inputs)
    torch.testing.assert_close(call(mixed), call(mixed.meaning))


def test_gradcheck():
    def only_floats(x, w, v):
        return mixed(x, [w, v], index)[0]

    checks = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
    assert gradcheck(gated, (leaf(3), leaf(3)), **checks)
    assert gradcheck(only_floats, (leaf(4), leaf(4), leaf(4)), **checks)
    assert gradgradcheck(gated, (leaf(3), leaf(3)), check_fwd_over_rev=True, check_rev_over_rev=True)
    assert gradgradcheck(only_floats, (leaf(4), leaf(4), leaf(4)))


def test_complex_numbers():
    @pipeline.op("gradients::complex")
    def product(x: Tensor, y: Tensor) -> Tensor:
        return x * y.conj() * x.abs()

    inputs = [torch.randn(3, dtype=torch.complex128, requires_grad=True) for _ in range(2)]
    assert gradcheck(product, inputs)
    assert gradgradcheck(product, inputs)


def test_results_that_have_no_gradient():
    @pipeline.op("gradients::partly")
    def partly(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x * x, x.detach() + 1, x.argmax()

    square, detached, highest = partly(leaf(3))
    assert (square.requires_grad, detached.requires_grad, highest.requires_grad) == (True, False, False)
    assert not mixed(leaf(4), [leaf(4)], index)[1].requires_grad


def test_arguments_that_the_results_do_not_depend_on_get_no_gradient():
    @pipeline.op("gradients::ignores")
    def ignores(x: Tensor, y: Tensor) -> Tensor:
        return x * 2

    x, y = leaf(3), leaf(3)
    ignores(x, y).sum().backward()
    assert x.grad is not None
    # Zeros would make an optimizer with weight decay or momentum move it.
    assert y.grad is None


def test_only_the_arguments_are_saved():
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        x, g = leaf(3), leaf(3)
        gated(x, g)
    assert len(saved) == 2
    assert {tensor.data_ptr() for tensor in saved} == {x.data_ptr(), g.data_ptr()}


def test_without_gradients_nothing_is_recorded():
    assert not gated(leaf(3).detach(), leaf(3).detach()).requires_grad
    with torch.no_grad():
        assert not gated(leaf(3), leaf(3)).requires_grad
    with torch.inference_mode():
        assert gated(torch.ones(2), torch.ones(2)).is_inference()


# Function transforms


def total(f):
    return lambda x, g: f(x, g).sum()


TRANSFORMS = {
    "grad": lambda f: grad(total(f), (0, 1)),
    "grad of grad": lambda f: grad(lambda x, g: grad(total(f))(x, g).sum(), (0, 1)),
    "vjp": lambda f: lambda x, g: vjp(f, x, g)[1](torch.ones_like(x)),
    "vjp called later": lambda f: lambda x, g: vjp(total(f), x, g)[1](torch.tensor(2.0, dtype=x.dtype)),
    "jvp": lambda f: lambda x, g: jvp(f, (x, g), (g, x)),
    "jvp of grad": lambda f: lambda x, g: jvp(grad(total(f)), (x, g), (g, x)),
    "grad of jvp": lambda f: grad(lambda x, g: jvp(f, (x, g), (g, x))[1].sum(), (0, 1)),
    "jacrev": lambda f: jacrev(f, (0, 1)),
    "jacfwd": lambda f: jacfwd(f, (0, 1)),
    "hessian": lambda f: hessian(total(f), (0, 1)),
    "jacrev of jacrev": lambda f: jacrev(jacrev(total(f))),
    "jacfwd of jacfwd": lambda f: jacfwd(jacfwd(total(f))),
    "jacrev of jacfwd": lambda f: jacrev(jacfwd(total(f), (0, 1)), (0, 1)),
    "vmap": vmap,
    "vmap of grad": lambda f: vmap(grad(total(f), (0, 1))),
    "grad of vmap": lambda f: grad(lambda x, g: vmap(f)(x, g).sum(), (0, 1)),
    "vmap over one": lambda f: vmap(f, (0, None)),
    "vmap of vmap": lambda f: lambda x, g: vmap(lambda x: vmap(f, (None, 0))(x, g))(x),
    "vmap of hessian": lambda f: vmap(hessian(total(f))),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_function_transforms(name):
    x, gate = leaf(3).detach(), leaf(3).detach()
    transform = TRANSFORMS[name]
    torch.testing.assert_close(transform(gated)(x, gate), transform(gated.meaning)(x, gate))


def test_transforms_of_lists():
    def f(op):
        return lambda x, ws: op(x, ws, index)[0].sum()

    args = (x.detach(), [w.detach(), v.detach()])
    torch.testing.assert_close(grad(f(mixed), (0, 1))(*args), grad(f(mixed.meaning), (0, 1))(*args))
    torch.testing.assert_close(hessian(f(mixed), 1)(*args), hessian(f(mixed.meaning), 1)(*args))


def test_forward_mode_of_plain_tensors():
    x, t, g = leaf(3).detach(), leaf(3).detach(), leaf(3).detach()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, t)
        result = torch.autograd.forward_ad.unpack_dual(gated(dual, g))
        wanted = torch.autograd.forward_ad.unpack_dual(gated.meaning(dual, g))
    torch.testing.assert_close(result.tangent, wanted.tangent)


# Traces: the operator in the forward part, the composition in the backward part


def targets(graph):
    return [node.target for node in graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_a_traced_training_step_has_the_operator_in_forward_and_the_composition_in_backward(mode):
    def step(w, x, gate):
        def loss(w):
            return gated(x @ w, gate).square().mean()

        return w - 0.1 * grad(loss)(w)

    args = (torch.randn(3, 3), torch.randn(2, 3), torch.randn(2, 3))
    traced = make_fx(step, tracing_mode=mode)(*args)
    found = targets(traced.graph)
    forward = found.index(gated.overload)
    assert found.count(gated.overload) == 1
    # Nothing of the meaning before it, and the recomputation after it.
    assert torch.ops.aten.sigmoid.default not in found[:forward]
    assert torch.ops.aten.sigmoid.default in found[forward:]
    torch.testing.assert_close(traced(*args), step(*args))


def test_a_traced_step_with_autograd_and_an_optimizer():
    def step(w, x, gate):
        w = w.detach().requires_grad_()
        (g,) = torch.autograd.grad(gated(x @ w, gate).square().mean(), [w])
        return w.detach() - 0.1 * g

    args = (torch.randn(3, 3), torch.randn(2, 3), torch.randn(2, 3))
    traced = make_fx(step)(*args)
    assert targets(traced.graph).count(gated.overload) == 1
    torch.testing.assert_close(traced(*args), step(*args))


def test_aotautograd_partitions_it():
    from functorch.compile import aot_function, min_cut_rematerialization_partition

    for partition in (None, min_cut_rematerialization_partition):
        graphs = []

        def keep(graph, _, graphs=graphs):
            graphs.append(targets(graph.graph))
            return graph

        options = {} if partition is None else {"partition_fn": partition}
        compiled = aot_function(lambda x, g: gated(x, g).sin(), fw_compiler=keep, bw_compiler=keep, **options)
        x, g = leaf(3), leaf(3)
        torch.testing.assert_close(
            torch.autograd.grad(compiled(x, g).sum(), (x, g)),
            torch.autograd.grad(gated.meaning(x, g).sin().sum(), (x, g)),
        )
        assert [gated.overload in graph for graph in graphs] == [True, False]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_torch_compile(backend):
    torch._dynamo.reset()
    x, w, v = leaf(4), leaf(4), leaf(4)
    program = torch.compile(
        lambda x, w, v: mixed(x * 2, [w, v], index)[0].sum(), backend=backend, fullgraph=True
    )
    same_gradients(
        lambda own: program(x, w, v) if own else mixed.meaning(x * 2, [w, v], index)[0].sum(), (x, w, v)
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", ["grad", "jvp", "vmap of grad", "vmap"])
def test_torch_compile_of_function_transforms(name, backend):
    torch._dynamo.reset()
    x, gate = leaf(3).detach(), leaf(3).detach()
    transform = TRANSFORMS[name]
    compiled = torch.compile(transform(gated), backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(x, gate), transform(gated.meaning)(x, gate))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_torch_compile_of_forward_mode(backend):
    torch._dynamo.reset()
    x, t, g = leaf(3).detach(), leaf(3).detach(), leaf(3).detach()

    def tangent(op, x, t):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, t)
            return torch.autograd.forward_ad.unpack_dual(op(dual, g)).tangent

    compiled = torch.compile(lambda x, t: tangent(gated, x, t), backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(x, t), tangent(gated.meaning, x, t))


# Arguments that change


@pipeline.op("gradients::cache", mutates_args=("cache", "count"))
def cache_rows(q: Tensor, cache: Tensor, count: Tensor, row: int) -> Tensor:
    cache[row] = q * 2
    count += 1
    return (cache * cache).sum(0)


def with_cache(op, q, order):
    cache = torch.ones(2, 3, dtype=torch.float64) * q
    count = torch.zeros(1, dtype=torch.int64)
    result = op(q, cache, count, 1)
    assert count == 1
    return result.pow(order).sum() + (cache.pow(order) * 3).sum()


def test_changed_arguments_carry_gradients():
    q = leaf(3)
    same_gradients(lambda own: with_cache(cache_rows if own else cache_rows.meaning, q, 2), (q,))
    torch.testing.assert_close(
        torch.autograd.functional.hessian(lambda q: with_cache(cache_rows, q, 2), q),
        torch.autograd.functional.hessian(lambda q: with_cache(cache_rows.meaning, q, 2), q),
    )


@pytest.mark.parametrize("transform", [grad, hessian, jacfwd, lambda f: jacrev(grad(f))])
def test_changed_arguments_under_transforms(transform):
    q = torch.arange(3.0, dtype=torch.float64)
    torch.testing.assert_close(
        transform(lambda q: with_cache(cache_rows, q, 1))(q),
        transform(lambda q: with_cache(cache_rows.meaning, q, 1))(q),
    )


def test_changed_arguments_under_torch_compile():
    """AOTAutograd takes changes made below autograd for ones without gradient: they must not be made there."""
    torch._dynamo.reset()

    def run(op, compiled):
        q = torch.arange(3.0, requires_grad=True)
        cache, count = torch.ones(2, 3), torch.zeros(1, dtype=torch.int64)
        call = torch.compile(op, backend="aot_eager", fullgraph=True) if compiled else op
        loss = call(q, cache, count, 1).sum() + (cache * 3).sum()
        return torch.autograd.grad(loss, q), cache.detach(), count

    torch.testing.assert_close(run(cache_rows, True), run(cache_rows.meaning, False))


def test_statistics_updated_without_gradient_stay_without():
    @pipeline.op("gradients::centered", mutates_args=("mean",))
    def centered(x: Tensor, mean: Tensor) -> Tensor:
        with torch.no_grad():
            mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - mean

    def train(op):
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        mean = torch.ones(3)
        for _ in range(3):  # a mean with a graph would be differentiated twice here
            op(x, mean).square().sum().backward()
        assert not mean.requires_grad
        return x.grad, mean

    torch.testing.assert_close(train(centered), train(centered.meaning))


def test_a_leaf_cannot_be_changed_in_place():
    @pipeline.op("gradients::double", mutates_args=("x",))
    def double(x: Tensor) -> None:
        x.mul_(2)

    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        double(leaf(3))
    x = leaf(3)
    y = x * 1
    double(y)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x), (torch.full_like(x, 2.0),))


# Random numbers cannot be drawn a second time


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_a_meaning_that_draws_is_not_run_twice(backend):
    @pipeline.op("gradients::dropped")
    def dropped(x: Tensor, p: float = 0.5) -> Tensor:
        return torch.nn.functional.dropout(x * x, p)

    call = dropped if backend is None else torch.compile(dropped, backend=backend, fullgraph=True)
    x = leaf(100)
    result = call(x)
    (given,) = torch.autograd.grad(result.sum(), x)
    torch.testing.assert_close(given, torch.where(result == 0, 0.0, 4 * x))
    torch.manual_seed(0)
    first = dropped(x)
    torch.manual_seed(0)
    torch.testing.assert_close(first, dropped.meaning(x))


# gradient="save" and "none"


@pipeline.op("gradients::saved", gradient="save")
def saved(x: Tensor, w: Tensor, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    weights = torch.softmax(x @ w, -1) * scale
    return weights @ w.t(), weights.argmax(-1)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_saving_instead_of_recomputing(scale):
    x, w = leaf(5, 3), leaf(3, 3)
    for _ in range(2):
        same_gradients(lambda own: (saved if own else saved.meaning)(x, w, scale)[0].sin().sum(), (x, w))
    assert gradcheck(lambda x, w: saved(x, w, scale)[0], (x, w), check_forward_ad=True)


def test_what_the_partitioner_saves_is_not_computed_again():
    # A square is as large as the argument and cheap to compute: it is computed again; a product of matrices is not.
    products = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is torch.ops.aten.mm.default:
                products.append(func)
            return func(*args, **(kwargs or {}))

    def products_of(op):
        x, w = leaf(5, 3), leaf(3, 3)
        loss = op(x, w)[0].sum()
        products.clear()
        with Watch():
            loss.backward()
        return len(products)

    saved(leaf(5, 3), leaf(3, 3))  # traced
    assert products_of(saved) == products_of(saved.meaning)


def test_saving_with_changed_arguments():
    @pipeline.op("gradients::saved_cache", mutates_args=("cache", "count"), gradient="save")
    def saved_cache(q: Tensor, cache: Tensor, count: Tensor, row: int) -> Tensor:
        cache[row] = q * 2
        count += 1
        return (cache * cache).sum(0)

    q = leaf(3)
    same_gradients(lambda own: with_cache(saved_cache if own else saved_cache.meaning, q, 2), (q,))


def test_saving_inside_transforms_and_traces():
    x, w = leaf(5, 3).detach(), leaf(3, 3).detach()

    def loss(op):
        return lambda x: op(x, w)[0].square().sum()

    torch.testing.assert_close(hessian(loss(saved))(x), hessian(loss(saved.meaning))(x))
    torch.testing.assert_close(make_fx(grad(loss(saved)))(x)(x), grad(loss(saved.meaning))(x))
    torch.library.opcheck(saved.overload, (leaf(5, 3), leaf(3, 3)))


def test_a_second_derivative_of_what_was_saved_is_an_error():
    x, w = leaf(5, 3), leaf(3, 3)
    (first,) = torch.autograd.grad(saved(x, w)[0].sin().sum(), x, create_graph=True)
    torch.testing.assert_close(first, torch.autograd.grad(saved.meaning(x, w)[0].sin().sum(), x)[0])
    with pytest.raises(RuntimeError, match='gradients::saved is differentiated twice, which gradient="save"'):
        first.sum().backward()


def test_no_gradient():
    @pipeline.op("gradients::none", gradient="none")
    def none(x: Tensor) -> Tensor:
        return x * 2

    x = leaf(3)
    assert not none(x.detach()).requires_grad
    message = 'gradients::none has no gradient: it is declared with gradient="none"'
    for differentiate in (
        lambda: none(x).sum().backward(),
        lambda: grad(lambda x: none(x).sum())(x.detach()),
        lambda: jvp(none, (x,), (x,)),
        lambda: torch.compile(none, backend="aot_eager")(x).sum().backward(),
    ):
        with pytest.raises(Exception, match=message):
            differentiate()
    with pytest.raises(GradientError, match=message):
        none(x).sum().backward()


# A backward written by hand


@pipeline.op("gradients::scaled")
def scaled(x: Tensor, weights: list[Tensor], k: float = 2.0, mask: Tensor | None = None) -> Tensor:
    y = (x * k).exp() * weights[0] + weights[1]
    return y if mask is None else y * mask


@scaled.backward
def _(grad, x, k, weights, mask, output):
    assert output.shape == x.shape
    grad = grad if mask is None else grad * mask
    exp = (x * k).exp()
    return grad * k * exp * weights[0], [grad * exp, grad], None


def test_a_backward_written_by_hand():
    mask = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    for given in (None, mask):

        def call(x, a, b, given=given):
            return scaled(x, [a, b], mask=given)

        assert gradcheck(call, (leaf(3), leaf(3), leaf(3)), check_forward_ad=True, check_batched_grad=True)
        assert gradgradcheck(call, (leaf(3), leaf(3), leaf(3)))
    torch.library.opcheck(scaled.overload, (leaf(3), [leaf(3), leaf(3)]))


def test_a_backward_written_by_hand_is_what_runs():
    @pipeline.op("gradients::hand")
    def hand(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x * y, x + y

    @hand.backward
    def _(grads, y):
        return {"x": grads[0] * y + grads[1] * 100}

    x, y = leaf(3), leaf(3)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        first, second = hand(x, y)
    assert [tensor.data_ptr() for tensor in saved] == [y.data_ptr()]
    given = torch.autograd.grad(first.sum() + second.sum(), (x, y), allow_unused=True)
    torch.testing.assert_close(given[0], y + 100)
    assert given[1] is None
    # A result that nothing uses has a gradient of zeros.
    torch.testing.assert_close(torch.autograd.grad(hand(x, y)[0].sum(), x)[0], y)


@pytest.mark.parametrize(
    ("backward", "message"),
    [
        (lambda grad, x: grad, "returned 1 gradients for the 2 arguments that hold tensors \\(x, ys\\)"),
        (lambda grad, x: {"z": grad}, "returned a gradient for 'z', which is no argument"),
        (
            lambda grad, x: (grad[:1], None),
            "gradient of 'x' has shape \\(1,\\), and the argument has \\(3,\\)",
        ),
        (lambda grad, x: (grad, grad), "gradient of 'ys' must be a list of 2"),
        (lambda grad, x: (1.0, None), "gradient of 'x' is a float"),
    ],
)
def test_what_a_backward_written_by_hand_may_not_return(backward, message):
    @pipeline.op("gradients::wrong")
    def wrong(x: Tensor, ys: list[Tensor]) -> Tensor:
        return x + ys[0] + ys[1]

    wrong.backward(backward)
    with pytest.raises(GradientError, match=f"gradients::wrong: its backward.*{message}"):
        wrong(leaf(3), [leaf(3), leaf(3)]).sum().backward()


# Operators within operators


def test_an_operator_whose_meaning_uses_another():
    @pipeline.op("gradients::outer")
    def outer(x: Tensor, gate: Tensor) -> Tensor:
        return gated(x, gate) + scaled(x, [gate, x])

    def composition(x, gate):
        return gated.meaning(x, gate) + scaled.meaning(x, [gate, x])

    assert gradcheck(outer, (leaf(3), leaf(3)), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(outer, (leaf(3), leaf(3)))
    x, gate = leaf(3).detach(), leaf(3).detach()
    torch.testing.assert_close(
        hessian(total(outer), (0, 1))(x, gate), hessian(total(composition), (0, 1))(x, gate)
    )
