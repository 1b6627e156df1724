"""Programs of the kinds that PyTorch's tests of inductor try on the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .cases import AHEAD, JUST_IN_TIME, Case, floats, integers

A, B, IMAGES, PLACES = floats(4, 6), floats(4, 6), floats(2, 3, 8, 8), integers(4, 5)
BYTES = integers(256, 4, 6).to(torch.uint8)
WHOLE = integers(20, 4, 6)
ANY = torch.export.Dim.AUTO


def overwritten(x: Tensor, y: Tensor) -> Tensor:
    """Changes its first argument."""
    x.mul_(2).add_(y)
    x[:, 1] = 0
    return x.sum(0)


def broken(x: Tensor) -> Tensor:
    """A branch on a value, between two computations."""
    y = x * 2 + 1
    if y.sum() > 0:
        return y.relu() - x
    return y.sigmoid() + x


def printed(x: Tensor) -> Tensor:
    """Something that is no computation in the middle."""
    y = x.exp() + x
    torch._dynamo.graph_break()
    return (y * y).mean(0)


def masked_fill_loop(x: Tensor) -> Tensor:
    """Views of views, each written."""
    y = x.clone()
    for k in range(3):
        y.select(0, k).narrow(0, k, 2).fill_(float(k))
    y.t()[2].neg_()
    return y


def sized(x: Tensor) -> tuple[Tensor, int, float]:
    """Python numbers among the results."""
    return x.reshape(-1, 2).sum(1), x.shape[0] * 2, 0.5


def positions(x: Tensor) -> Tensor:
    """Sizes in arithmetic, in arange and in views."""
    n = x.shape[0]
    return (x.reshape(2 * n, -1) * torch.arange(2 * n, dtype=x.dtype)[:, None] / n).reshape(n, -1)


def causal(x: Tensor) -> Tensor:
    """Attention over as many rows as come."""
    scores = (x @ x.T).masked_fill(torch.ones(x.shape[0], x.shape[0]).tril() == 0, -torch.inf)
    return scores.softmax(-1) @ x


def bagged(table: Tensor, places: Tensor) -> Tensor:
    """Rows of a table, summed by twos."""
    return F.embedding(places, table).unflatten(0, (-1, 2)).sum(1)


def repeated(x: Tensor) -> tuple[Tensor, ...]:
    """One tensor twice, and a view of it."""
    y = x * 2
    return y, y, y[0]


class Counting(nn.Module):
    """A buffer that each call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("window", torch.zeros(3, 6))
        self.calls: Tensor
        self.window: Tensor

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.calls += 1
        self.window = torch.cat([self.window[1:], x[:1]])
        return x * self.calls, self.window.mean(0)


def _call_twice(x: Tensor) -> Any:
    counting = Counting()
    counting(x)
    return counting(x)


def _seeded(module: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(2)
    for parameter in module.parameters():
        parameter.data.normal_(0, 0.3, generator=generator)
    return module


ENCODER = _seeded(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)).eval()
ATTENTION = _seeded(nn.MultiheadAttention(8, 2, batch_first=True)).eval()
CONVOLUTION = _seeded(nn.Conv2d(3, 4, 3))

CASES: dict[str, Case] = {
    "arithmetic": Case(lambda a, b: (a + 2 * b) / (b.abs() + 1) - a.pow(3), (A, B), backward=True),
    "promotion of an int tensor": Case(lambda a, n: (a * n, n / 2, n + 1.5, n // 3), (A, WHOLE)),
    "promotion of a tensor without dimensions": Case(
        lambda a, n: (n + a.sum().double(), a + torch.tensor(2, dtype=torch.int64)), (A, WHOLE)
    ),
    "bytes that overflow": Case(lambda b: (b + b, b * 3, b >> 1, b.sum(), ~b), (BYTES,)),
    "bools": Case(
        lambda a, b: ((a > 0) ^ (b > 0), (a > 0) + (b > 0), (a > 0).sum(1), (a > b).any(0)), (A, B)
    ),
    "bfloat16": Case(lambda a, b: (a @ b.T).softmax(-1).mean(0), (A.bfloat16(), B.bfloat16())),
    "float16 and float32": Case(lambda a, b: (a * b, a + 1, torch.where(a > 0, a, b)), (A.half(), B)),
    "casts": Case(
        lambda a: (a.int(), (a * 50).to(torch.int8), a.bool(), a.double().sin().float(), a.long().half()),
        (A,),
    ),
    "rounding": Case(
        lambda a: (a.round(), (a * 10).round(decimals=1), a.floor(), a.trunc(), a.frac(), a % 0.7), (A,)
    ),
    "division of whole numbers": Case(
        lambda n: (n // -3, n % -3, torch.div(-n, 4, rounding_mode="trunc"), n.fmod(3), n.remainder(7)),
        (WHOLE,),
    ),
    "values that are not finite": Case(
        lambda a: (
            a.log(),
            a / 0,
            a.sqrt().nan_to_num(1.0),
            a.log().nansum(0),
            a.log().isnan(),
            a.log().amax(),
        ),
        (A,),
    ),
    "special functions": Case(
        lambda a: (
            a.erf(),
            a.lgamma(),
            a.digamma(),
            a.expm1(),
            torch.special.i0(a),
            a.asinh(),
            torch.sinc(a),
        ),
        (A,),
    ),
    "comparison chains": Case(
        lambda a, b: a.clamp(-0.5, 0.5).maximum(b).minimum(a.abs()), (A, B), backward=True
    ),
    "reductions": Case(
        lambda a: (
            a.sum(),
            a.mean((0, 1), keepdim=True),
            a.prod(1),
            a.std(0),
            a.norm(p=3, dim=1),
            a.median(1),
        ),
        (A,),
    ),
    "extrema with places": Case(
        lambda a: (a.max(1), a.min(0), a.argmin(), a.aminmax(dim=1), a.argsort(0)), (A,)
    ),
    "scans": Case(lambda a: (a.cumsum(1), a.cumprod(0), a.cummax(1), a.logcumsumexp(0), a.diff()), (A,)),
    "softmax and its kin": Case(
        lambda a: a.softmax(1) + a.log_softmax(0) + F.softmin(a, 1) + F.normalize(a), (A,), backward=True
    ),
    "slices": Case(lambda a: (a[1:3, ::2], a[-1], a[..., None, 2:], a[:, -3:-1]), (A,)),
    "indices": Case(
        lambda a, i: (a[i], a[:, i], a[i[:2], i[2:4]], a[i, :3], a[i[:, None], i]), (A, PLACES), backward=True
    ),
    "masks as indices": Case(
        lambda a: torch.where(a > 0)[0].sum() + a[a > 0].sum(), (A,), ways=(JUST_IN_TIME,)
    ),
    "index_put": Case(
        lambda a, i: (
            a.index_put((i,), a[:1].expand(5, 6) * 0 + 1),
            a.index_put((i, i), torch.ones(5), accumulate=True),
        ),
        (A, PLACES),
    ),
    "masked writes": Case(
        lambda a, b: (a.masked_fill(b > 0, -1.0), a.masked_scatter(b > 0, b), torch.where(b > 0, a, 2)),
        (A, B),
    ),
    "gather and scatter": Case(
        lambda a, i: (
            a.gather(0, i),
            a.scatter(0, i, 1.5),
            a.scatter_add(0, i, a[:2]),
            a.scatter_reduce(0, i, a[:2], "amax"),
            a.scatter_reduce(0, i, a[:2], "mean", include_self=False),
        ),
        (A, integers(4, 2, 6)),
    ),
    "index_add and index_copy": Case(
        lambda a, i: (
            a.index_add(0, i, a[:3], alpha=2),
            a.index_copy(1, i[:2], a[:, :2]),
            a.index_fill(0, i, 3.0),
        ),
        (A, torch.tensor([2, 0, 3])),
    ),
    "take and put": Case(
        lambda a, i: (a.take(i), a.take_along_dim(i[:, None] % 4, 0), a.put(i, a[0, :5])), (A, PLACES)
    ),
    "views": Case(
        lambda a: (a.view(2, 12).t(), a.unfold(1, 3, 2), a.expand(2, 4, 6)[1], a.movedim(0, 1).reshape(-1)),
        (A,),
    ),
    "views of another dtype": Case(lambda a: (a.view(torch.int32), a.view(torch.uint8)[:, :8]), (A,)),
    "places in memory": Case(lambda a: a.contiguous().as_strided((3, 4), (2, 1), 1) * 2, (A,)),
    "permuted input": Case(
        lambda a: (a.relu() @ a.T, a.sum(0), a.reshape(-1)), (floats(6, 4).t(),), backward=True
    ),
    "strided input": Case(lambda a: a * 2 + a.flip(0), (floats(8, 12)[::2, 1::2],), backward=True),
    "expanded input": Case(lambda a: a.cumsum(0) + 1, (floats(1, 6).expand(4, 6),)),
    "joins and pieces": Case(
        lambda a, b: (
            torch.cat([a, b[:1]]),
            torch.stack([a, b], -1),
            *a.split([1, 3]),
            *b.chunk(3, 1),
            *a.unbind(),
        ),
        (A, B),
        backward=True,
    ),
    "rolls, flips and tiles": Case(
        lambda a: (a.roll((1, -2), (0, 1)), a.flip(1), a.repeat(2, 1), a.repeat_interleave(2, 1), a.rot90()),
        (A,),
    ),
    "triangles and diagonals": Case(
        lambda a: (a.tril(1), a.triu(-1), a.diagonal(1), a.diag_embed(), torch.block_diag(a, a[:1])), (A,)
    ),
    "made tensors": Case(
        lambda a: (
            torch.arange(5) + a[0, :5],
            torch.linspace(0, 1, 6) * a,
            torch.eye(4) @ a,
            torch.full_like(a, 3),
            a.new_zeros(2),
            torch.ones_like(a, dtype=torch.int32),
        ),
        (A,),
    ),
    "sorted search": Case(
        lambda a, b: (torch.searchsorted(a.sort(1)[0], b), torch.bucketize(b, a[0].sort()[0])), (A, B)
    ),
    "histograms": Case(
        lambda n: (n.flatten().bincount(minlength=20), torch.histc(n.float(), 5, 0, 20)), (WHOLE,)
    ),
    "one-hot": Case(lambda n: F.one_hot(n, 20).float().mean(0), (WHOLE,)),
    "products": Case(
        lambda a, b: (
            a @ b.T,
            torch.mv(a, b[0]),
            torch.einsum("ij,kj->ik", a, b),
            torch.outer(a[0], b[1]),
            a.T @ b,
        ),
        (A, B),
        backward=True,
    ),
    "batches of products": Case(
        lambda x, y: (x @ y, torch.baddbmm(x @ y, x, y, beta=0.5), torch.einsum("ijk,ikl->jl", x, y)),
        (floats(2, 3, 4), floats(2, 4, 5)),
    ),
    "linear algebra": Case(
        lambda m: (
            torch.linalg.inv(m),
            torch.linalg.det(m),
            torch.linalg.cholesky(m @ m.T),
            torch.linalg.qr(m)[1].abs(),
        ),
        (floats(4, 4) + 3 * torch.eye(4),),
    ),
    "convolutions": Case(
        lambda x, w: (
            F.conv2d(x, w, padding=1),
            F.conv2d(x, w, stride=2, dilation=2),
            F.conv2d(x, w[:, :1].repeat(3, 1, 1, 1), groups=3),
        ),
        (IMAGES, floats(6, 3, 3, 3)),
        backward=True,
    ),
    "transposed convolutions": Case(
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
        (IMAGES, floats(3, 4, 3, 3)),
        backward=True,
    ),
    "convolution of one dimension": Case(
        lambda x, w: F.conv1d(x, w, padding="same"), (floats(2, 3, 9), floats(4, 3, 3)), backward=True
    ),
    "channels last": Case(
        lambda x, w: F.conv2d(x, w).relu() + 1,
        (IMAGES.to(memory_format=torch.channels_last), floats(4, 3, 3, 3)),
        backward=True,
    ),
    "pooling": Case(
        lambda x: (
            F.max_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 2, ceil_mode=True),
            F.adaptive_avg_pool2d(x, 3),
            F.lp_pool2d(x, 2, 2),
        ),
        (IMAGES,),
        backward=True,
    ),
    "pooling with places": Case(lambda x: F.max_pool2d(x, 2, return_indices=True), (IMAGES,)),
    "adaptive maximum pooling": Case(lambda x: F.adaptive_max_pool2d(x, (3, 5)), (IMAGES,), backward=True),
    "resizing": Case(
        lambda x: (
            F.interpolate(x, scale_factor=2),
            F.interpolate(x, (5, 9), mode="bilinear"),
            F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2),
        ),
        (IMAGES,),
        backward=True,
    ),
    "padding": Case(
        lambda x: (
            F.pad(x, (1, 2), value=3.0),
            F.pad(x, (1, 1, 2, 0), "reflect"),
            F.pad(x, (2, 1, 0, 1), "circular"),
            F.pad(x, (-1, 0)),
        ),
        (IMAGES,),
    ),
    "unfold and fold": Case(lambda x: F.fold(F.unfold(x, 3, padding=1), (8, 8), 3, padding=1), (IMAGES,)),
    "norms": Case(
        lambda x: (
            F.group_norm(x, 3),
            F.instance_norm(x),
            F.layer_norm(x, (8,)),
            F.rms_norm(x, (8, 8)),
            F.local_response_norm(x, 2),
        ),
        (IMAGES,),
        backward=True,
    ),
    "batch norm in training": Case(
        lambda x: F.batch_norm(x, None, None, training=True), (IMAGES,), backward=True
    ),
    "activations": Case(
        lambda a: (
            F.gelu(a)
            + F.silu(a)
            + F.elu(a)
            + F.hardswish(a)
            + F.mish(a)
            + F.softplus(a)
            + F.leaky_relu(a)
            + F.glu(a).repeat(1, 2)
        ),
        (A,),
        backward=True,
    ),
    "losses": Case(
        lambda a, b: (
            F.mse_loss(a, b),
            F.smooth_l1_loss(a, b),
            F.kl_div(a, b.softmax(1)),
            F.binary_cross_entropy_with_logits(a, b.sigmoid()),
            F.huber_loss(a, b),
        ),
        (A, B),
        backward=True,
    ),
    "cross entropy": Case(
        lambda a, n: (
            F.cross_entropy(a, n, ignore_index=1, label_smoothing=0.1),
            F.nll_loss(a, n, reduction="none"),
        ),
        (A, torch.tensor([0, 1, 5, 3])),
        backward=True,
    ),
    "embeddings": Case(bagged, (A, integers(4, 6)), backward=True),
    "attention": Case(
        lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True),
        (floats(2, 2, 5, 4), floats(2, 2, 5, 4)),
        backward=True,
    ),
    "an encoder layer in eval mode": Case(ENCODER, (floats(2, 5, 8),)),
    "an encoder layer with a mask": Case(
        lambda x: ENCODER(x, src_mask=nn.Transformer.generate_square_subsequent_mask(5)), (floats(2, 5, 8),)
    ),
    "an encoder layer with padding": Case(
        lambda x: ENCODER(x, src_key_padding_mask=torch.arange(5).expand(2, 5) > torch.tensor([[4], [2]])),
        (floats(2, 5, 8),),
    ),
    "attention's module": Case(lambda x: ATTENTION(x, x, x), (floats(2, 5, 8),)),
    "attention's module without weights": Case(
        lambda x: ATTENTION(x, x, x, need_weights=False)[0], (floats(2, 5, 8),)
    ),
    "dropout": Case(lambda a: F.dropout(a, 0.3) * 2, (A,), backward=True),
    "draws": Case(
        lambda a: (
            torch.rand(3) + torch.randn(3),
            torch.randint(0, 9, (4,)),
            torch.bernoulli(a.sigmoid()),
            torch.randperm(6),
        ),
        (A,),
    ),
    "a net in training mode": Case(
        lambda x: F.batch_norm(CONVOLUTION(x), None, None, training=True).relu(), (IMAGES,), backward=True
    ),
    "complex numbers": Case(
        lambda a, b: (
            torch.complex(a, b).exp().abs(),
            torch.view_as_real(torch.complex(a, b) * 2j),
            torch.polar(a.abs(), b).angle(),
        ),
        (A, B),
    ),
    "fourier transforms": Case(
        lambda a: (torch.fft.rfft(a).abs(), torch.fft.ifft2(torch.fft.fft2(a)).real), (A,)
    ),
    "an argument that is changed": Case(overwritten, (A, B)),
    "a view that is changed": Case(masked_fill_loop, (A,)),
    "copy_ with a cast": Case(lambda a, n: torch.empty_like(n).copy_(a * 9), (A, WHOLE)),
    "out=": Case(lambda a, b: torch.add(a, b, out=torch.empty(4, 6)), (A, B)),
    "a result that is an argument": Case(lambda a, b: (a, a + b, b), (A, B)),
    "a result that is a view": Case(lambda a: (a[1:], a.t(), a.view(-1)), (A,)),
    "one result twice": Case(repeated, (A,)),
    "no tensor among the results": Case(sized, (A,)),
    "nested results": Case(
        lambda d: {"sum": d["a"] + d["b"][0], "list": [d["a"] * 2, None, (d["b"][1],)]},
        ({"a": A, "b": [A, B]},),
    ),
    "results without elements": Case(lambda a: (a[:0] * 2, a[:, 6:].sum(1), torch.cat([a[:0], a])), (A,)),
    "a tensor without dimensions": Case(
        lambda a: (a * 2, a.sum(), a.unsqueeze(0), a.expand(3), a.item() * 0 + 1),
        (A[0, 0],),
        ways=(JUST_IN_TIME,),
    ),
    "a large reduction": Case(
        lambda x: (x.sum(), x.mean(0), x.logsumexp(1)), (floats(300, 1000),), backward=True
    ),
    "a buffer that is changed": Case(_call_twice, (A,), ways=(JUST_IN_TIME,)),
    "a branch on a value": Case(broken, (A,), ways=(JUST_IN_TIME,), backward=True),
    "a graph break": Case(printed, (A,), ways=(JUST_IN_TIME,), backward=True),
    "a loop of Python": Case(lambda a, n: sum(a * k for k in range(n)), (A, 3)),
    "a branch of torch.cond": Case(
        lambda a: torch.cond(a.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (a,)), (A,), ways=(AHEAD,)
    ),
    "any number of rows": Case(
        lambda a: a.softmax(0) @ a.T, (A,), ((floats(7, 6),), (floats(3, 6),)), ({0: ANY},), backward=True
    ),
    "sizes in arithmetic": Case(positions, (A,), ((floats(7, 6),), (floats(2, 6),)), ({0: ANY},)),
    "causal attention of any length": Case(causal, (A,), ((floats(9, 6),), (floats(5, 6),)), ({0: ANY},)),
    "joined sizes": Case(
        lambda a, b: torch.cat([a, b]).cumsum(0),
        (A, B),
        ((floats(5, 6), floats(2, 6)),),
        ({0: ANY}, {0: ANY}),
    ),
    "images of any size": Case(
        lambda x, w: F.max_pool2d(F.conv2d(x, w), 2).mean((2, 3)),
        (IMAGES, floats(4, 3, 3, 3)),
        ((floats(3, 3, 10, 12), floats(4, 3, 3, 3)),),
        ({0: ANY, 2: ANY, 3: ANY}, None),
    ),
}
"""Name -> case."""
