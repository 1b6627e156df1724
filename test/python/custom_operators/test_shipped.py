"""The operators of pipeline.ops: what they mean, their gradients, and what they become in compiled programs."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional
from transformers.models.cohere.modeling_cohere import apply_rotary_pos_emb as rotary_of_neighbours
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as rotary_of_halves

import pipeline
from pipeline.api import capture_checked, compile_options, entry_specs
from pipeline.compiler import emit
from pipeline.dialect_passes.operators import cached_attention as caches
from pipeline.dialect_passes.operators import cross_entropy as losses
from pipeline.dialect_passes.operators import rms_norm as norms
from pipeline.dialect_passes.operators import rotary, swiglu
from pipeline.runtime.errors import ExecutionError
from pipeline.tools import benchmark_operators

close = torch.testing.assert_close
ops = pipeline.ops
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INF, NAN = math.inf, math.nan


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


# --- What they mean: the functions of PyTorch and Hugging Face. ---


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("limit", [None, 1.5])
def test_swiglu(dtype, limit):
    x, gate = (torch.randn(4, 9).to(dtype) * 4 for _ in range(2))
    x[0, :3], gate[1, :4] = torch.tensor([INF, -INF, NAN]), torch.tensor([INF, -INF, NAN, -200])
    bounded = (x, gate) if limit is None else (x.clamp(-limit, limit), gate.clamp(max=limit))
    close(ops.swiglu(x, gate, limit), bounded[0] * functional.silu(bounded[1]), equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("eps", [None, 1e-6])
def test_rms_norm(dtype, eps):
    x, weight = torch.randn(2, 3, 16).to(dtype), torch.randn(16).to(dtype)
    for value in (x, x * 1e-4, x * 0):
        close(ops.rms_norm(value, weight, eps), functional.rms_norm(value, (16,), weight, eps))
        close(ops.rms_norm(value, eps=eps), functional.rms_norm(value, (16,), None, eps))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding(dtype, interleaved):
    q, k = torch.randn(2, 4, 5, 8).to(dtype), torch.randn(2, 2, 5, 8).to(dtype)
    cos, sin = torch.randn(2, 2, 5, 8).to(dtype)
    theirs = rotary_of_neighbours if interleaved else rotary_of_halves
    # Theirs rounds after each product: it is asked in a wider type.
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    wanted = theirs(*(t.to(wide) for t in (q, k, cos, sin)))
    close(ops.rotary_embedding(q, k, cos, sin, interleaved), tuple(t.to(dtype) for t in wanted))
    # One table for all, and elements that are not rotated.
    part = ops.rotary_embedding(q, k, cos[0, :, :4], sin[0, :, :4], interleaved)
    table = cos[0:1, :, :4].expand(2, 5, 4), sin[0:1, :, :4].expand(2, 5, 4)
    wanted = theirs(*(t.to(wide) for t in (q[..., :4], k[..., :4], *table)))
    for given, rotated, whole in zip(part, wanted, (q, k), strict=True):
        close(given, torch.cat((rotated.to(dtype), whole[..., 4:]), -1))


SHAPES = [((7,), ()), ((6, 7), (6,)), ((2, 7, 3), (2, 3)), ((2, 7, 3, 2), (2, 3, 2))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("shape", "places"), SHAPES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(dtype, shape, places, reduction):
    logits, target = torch.randn(shape, dtype=dtype) * 3, torch.randint(7, places)
    ignored = target.clone()
    ignored.view(-1)[0] = -100
    weight = torch.rand(7, dtype=dtype)
    bytes_ = target.to(torch.uint8) if target.dim() < 2 else target  # torch takes no more dimensions of them
    for case in [
        {"target": target},
        {"target": ignored},
        {"target": torch.full(places, -100)},
        {"target": target, "ignore_index": 3, "label_smoothing": 0.2},
        {"target": ignored, "weight": weight},
        {"target": ignored, "weight": weight, "label_smoothing": 0.2},
        {"target": bytes_},
        {"target": torch.rand(shape, dtype=dtype).softmax(min(1, len(shape) - 1)), "label_smoothing": 0.1},
    ]:
        wanted = functional.cross_entropy(logits, reduction=reduction, **case)
        close(ops.cross_entropy(logits, reduction=reduction, **case), wanted, equal_nan=True)


def test_cross_entropy_of_extremes():
    logits = torch.randn(5, 6)
    logits[0], logits[1, :5], logits[2, 0], logits[3, 1], logits[4] = -INF, -INF, NAN, -INF, logits[4] * 1e5
    target = torch.tensor([1, 5, 3, 1, 2])
    wanted = functional.cross_entropy(logits, target, reduction="none")
    close(ops.cross_entropy(logits, target, reduction="none"), wanted, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_cross_entropy_of_halves_is_computed_in_float32(dtype):
    logits, target = torch.randn(300, 40).to(dtype), torch.randint(40, (300,))
    wanted = functional.cross_entropy(logits.float(), target)
    close(ops.cross_entropy(logits, target), wanted.to(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("position", [4, [4, 7]])
def test_cached_attention(dtype, position):
    q, k, v = (torch.randn(2, heads, 3, 8).to(dtype) for heads in (4, 2, 2))
    before = torch.randn(2, 2, 2, 10, 8).to(dtype)
    after = before.clone()
    out = ops.cached_attention(q, k, v, after[0], after[1], torch.tensor(position))
    for entry, start in enumerate(torch.tensor(position).expand(2).tolist()):
        end = start + 3
        known = [
            torch.cat((old[entry, :, :start], new[entry]), 1) for old, new in zip(before, (k, v), strict=True)
        ]
        close(after[:, entry, :, :end], torch.stack(known))
        close(after[:, entry, :, end:], before[:, entry, :, end:])
        mask = torch.arange(end) <= start + torch.arange(3).unsqueeze(1)
        wide = [t.to(torch.promote_types(dtype, torch.float32)) for t in (q[entry], *known)]
        wanted = functional.scaled_dot_product_attention(
            *(t[None] for t in wide), attn_mask=mask, enable_gqa=True
        )
        close(out[entry], wanted[0].to(dtype))


# --- The parts of each agree. ---

FIRST: list[tuple[Any, Any, int]] = [
    (swiglu.swiglu, swiglu.samples, 1),
    (norms.rms_norm, norms.samples, 2),
    (rotary.rotary_embedding, rotary.samples, 1),
    (losses.cross_entropy_rows, losses.samples, 1),
    (caches.update_cache, caches.cache_samples, 1),
    (caches.attend_cache, caches.samples, 1),
]


@pytest.mark.parametrize(("op", "samples", "number"), FIRST, ids=lambda v: getattr(v, "name", ""))
def test_a_sample_checks(op, samples, number):
    """The others: ``python -m pipeline.tools.check_operators``."""
    report = op.check([samples()[number]])
    assert [row for row in report.rows if row.status == "ok" and row.what.startswith("cpu: ")]


def double(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_second_gradients():
    target = torch.tensor([1, -100, 3])
    rows = (double(3, 5), target, -100, 0.1)
    assert torch.autograd.gradgradcheck(losses.cross_entropy_rows, rows)
    cache = (double(1, 2, 2, 4), double(1, 1, 6, 4), double(1, 1, 6, 4), torch.tensor(3))
    assert torch.autograd.gradgradcheck(caches.attend_cache, cache)
    assert torch.autograd.gradgradcheck(norms.rms_norm, (double(2, 4), double(4), 1e-5))


def test_gradients_of_the_cache():
    """In place, as PyTorch differentiates it: through the new keys and values, and through the old ones."""
    q, k, v, old_k, old_v = double(1, 2, 2, 4), *(double(1, 1, n, 4) for n in (2, 2, 6, 6))

    def attention(q, k, v, old_k, old_v):
        return ops.cached_attention(q, k, v, old_k.clone(), old_v.clone(), torch.tensor(3))

    assert torch.autograd.gradcheck(attention, (q, k, v, old_k, old_v))


def test_the_benchmark_compares_what_is_equal():
    for case in benchmark_operators.cases():
        if case.args[0].dtype == torch.float32:
            close(case.operator()(*case.args), case.composition()(*case.args))


# --- Compiled. ---


class Decoder(nn.Module):
    """One layer of a Llama, by our operators, with its key/value cache as state."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.norm = nn.Parameter(torch.rand(128, dtype=dtype))
        self.qkv = nn.Linear(128, 4 * 64 + 2 * 2 * 64, bias=False, dtype=dtype)
        self.out = nn.Linear(256, 128, bias=False, dtype=dtype)
        self.up = nn.Linear(128, 2 * 96, bias=False, dtype=dtype)
        self.down = nn.Linear(96, 128, bias=False, dtype=dtype)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, 2, 100, 64, dtype=dtype))

    def forward(self, x, position):
        places = position + torch.arange(x.shape[1])
        angles = places.unsqueeze(1) * 10000 ** (-torch.arange(0, 64, 2) / 64)
        cos, sin = (f(torch.cat((angles, angles), -1)).to(x.dtype) for f in (torch.cos, torch.sin))
        qkv = self.qkv(ops.rms_norm(x, self.norm, 1e-6)).unflatten(-1, (8, 64)).transpose(1, 2)
        q, k, v = qkv.split((4, 2, 2), 1)
        q, k = ops.rotary_embedding(q, k, cos, sin)
        mixed = ops.cached_attention(q, k, v, self.keys, self.values, position)
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        gate, up = self.up(ops.rms_norm(x, self.norm)).chunk(2, -1)
        return x + self.down(ops.swiglu(up, gate, 5.0))


TOKENS = {"x": {1: Dim("tokens", min=1, max=100)}, "position": {}}


@pytest.fixture(scope="module")
def decoder():
    torch.manual_seed(0)
    return Decoder().eval()


@pytest.fixture(scope="module")
def compiled(decoder):
    return pipeline.compile(decoder, args=(torch.randn(1, 7, 128), torch.tensor(0)), dynamic_shapes=TOKENS)


@pytest.mark.compiler("c")
def test_kernels_and_lowerings_are_used(compiled):
    notes = "\n".join(compiled.manifest.notes)
    for part in ("rotary_f32", "cached_attention_f32", "update_cache: linalg lowering"):
        assert part in notes


@torch.no_grad()
def test_a_decoder_compiles(decoder, compiled):
    """Prompts of other lengths, then tokens one by one, to the end of the cache."""
    eager, exe = copy.deepcopy(decoder), compiled.new_state()
    position = 0
    for length in (7, 1, 64, 1, 2, 25):
        x = torch.randn(1, length, 128)
        close(exe(x, torch.tensor(position)), eager(x, torch.tensor(position)))
        position += length
    assert position == 100
    close(exe.state_dict()["keys"], eager.keys)
    close(exe.state_dict()["values"], eager.values)


@torch.no_grad()
@pytest.mark.parametrize(("length", "position"), [(1, 100), (2, 99), (3, -1), (1, 2**40)])
def test_a_full_cache_is_an_error(decoder, compiled, length, position):
    x = torch.randn(1, length, 128)
    exe = compiled.new_state()
    with pytest.raises(
        ExecutionError, match=r"cached_attention: position \+ length is more than the cache can hold"
    ):
        exe(x, torch.tensor(position))
    # Nothing was written.
    assert not any(value.any() for value in exe.state_dict().values())
    with pytest.raises(IndexError):
        copy.deepcopy(decoder)(x, torch.tensor(position))


def test_the_cache_is_updated_in_place(decoder):
    args = (torch.randn(1, 1, 128), torch.tensor(0))
    options = compile_options()
    text = emit(capture_checked(decoder, entry_specs(args, {}, None, None), options), options, "iree")
    assert text.count("iree.abi.output") == 2


def on(target, model, *args, lowerings=None):
    exe = pipeline.compile(copy.deepcopy(model), args=args, target=target, lowerings=lowerings)
    with torch.no_grad():
        return exe(*args)


@torch.no_grad()
@pytest.mark.parametrize("form", ["kernels", pytest.param("meaning", marks=pytest.mark.slow)])
def test_a_decoder_compiles_in_bfloat16(form):
    model = Decoder(torch.bfloat16).eval()
    args = (torch.randn(1, 9, 128).bfloat16(), torch.tensor(2))
    names = ("attend_cache", "update_cache", "rotary_embedding")
    chosen = {f"pipeline::{name}": "meaning" for name in names} if form == "meaning" else None
    found = on("cpu", model, *args, lowerings=chosen)
    exact = copy.deepcopy(model).double()(args[0].double(), args[1])
    # As near to the exact result as eager is: a chain of bfloat16 matmuls is further away than one tolerance.
    limit = 2 * (copy.deepcopy(model)(*args).double() - exact).abs().max()
    assert (found.double() - exact).abs().max() <= limit


class Batch(nn.Module):
    """A position for each batch entry, and heads of a width that the kernel does not take."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 3, 1, 12, width))

    def forward(self, q, k, v, position):
        keys, values = self.cache[0], self.cache[1]
        return ops.cached_attention(q, k, v, keys, values, position, 0.5)


@pytest.mark.parametrize("width", [8, pytest.param(128, marks=pytest.mark.slow)])
def test_a_batch_compiles(width):
    model = Batch(width)
    args = (torch.randn(3, 2, 4, width), *torch.randn(2, 3, 1, 4, width), torch.tensor([8, 0, 5]))
    close(on("cpu", model, *args), copy.deepcopy(model)(*args))


@pytest.mark.vulkan
@torch.no_grad()
def test_vulkan():
    model = Decoder().eval()
    args = (torch.randn(1, 3, 128), torch.tensor(5))
    close(on("vulkan", model, *args), copy.deepcopy(model)(*args))


def loss(logits, halves, target):
    first = ops.cross_entropy(logits, target, label_smoothing=0.1)
    return first + losses.cross_entropy_rows(halves, target).sum()


def with_gradients(logits, halves, target):
    value, pull = torch.func.vjp(lambda *x: loss(*x, target), logits, halves)[:2]
    return value, *pull(torch.ones_like(value))


VULKAN = pytest.param("vulkan", marks=[pytest.mark.vulkan, pytest.mark.slow])


@pytest.mark.parametrize("target", ["cpu", VULKAN])
def test_cross_entropy_in_a_training_step(target):
    args = (torch.randn(9, 50) * 2, torch.randn(9, 50).bfloat16(), torch.randint(50, (9,)))
    args[2][4] = -100
    step = make_fx(with_gradients)(*args)
    assert any("cross_entropy_rows" in str(node.target) for node in step.graph.nodes)
    close(on(target, step, *args), with_gradients(*args))


# --- What is wrong is said. ---

WRONG = {
    "swiglu: x and gate must have one shape": lambda: ops.swiglu(torch.ones(2, 3), torch.ones(3)),
    "rms_norm: weight must have a number for each": lambda: ops.rms_norm(torch.ones(2, 3), torch.ones(2)),
    "rotary_embedding: q and k must be": lambda: ops.rotary_embedding(
        *torch.ones(2, 3, 4, 8), *torch.ones(2, 4, 8)
    ),
    "rotary_embedding: cos and sin must be": lambda: ops.rotary_embedding(
        *torch.ones(2, 1, 3, 4, 8), *torch.ones(2, 5, 8)
    ),
    "the last dimension of cos, 16, must be even and at most 8": lambda: ops.rotary_embedding(
        *torch.ones(2, 1, 3, 4, 8), *torch.ones(2, 4, 16)
    ),
    "rotary_embedding: cos is for a batch of 2, q for 1": lambda: ops.rotary_embedding(
        *torch.ones(2, 1, 3, 4, 8), *torch.ones(2, 2, 4, 8)
    ),
    "cached_attention: keys and values must be": lambda: caches.update_cache(
        torch.ones(1, 2, 4, 8), torch.ones(1, 1, 1, 8), torch.tensor(0)
    ),
    r"position must be int64, one number or \[1\] of them; it is torch.int32": lambda: caches.update_cache(
        torch.ones(1, 2, 4, 8), torch.ones(1, 2, 1, 8), torch.tensor(0, dtype=torch.int32)
    ),
    "cached_attention: q must be": lambda: caches.attend_cache(
        torch.ones(1, 3, 1, 8), *torch.ones(2, 1, 2, 4, 8), torch.tensor(0)
    ),
    "cross_entropy: target must be logits without": lambda: ops.cross_entropy(
        torch.ones(2, 7, 3), torch.zeros(3, 2, dtype=torch.long)
    ),
    "cross_entropy: weight must have one number for each of the 7": lambda: ops.cross_entropy(
        torch.ones(2, 7), torch.zeros(2, dtype=torch.long), torch.ones(6)
    ),
    "reduction 'avg' is unknown; choose mean, sum or none": lambda: ops.cross_entropy(
        torch.ones(2, 7), torch.zeros(2, dtype=torch.long), reduction="avg"
    ),
    "pipeline.ops has no operator 'gelu'; it has cached_attention": lambda: ops.gelu,
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_calls(message):
    with pytest.raises((RuntimeError, ValueError, AttributeError), match=message):
        WRONG[message]()
