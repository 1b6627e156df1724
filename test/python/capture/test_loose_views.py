"""Views that only the strides of eager's kernels allow."""

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

import pipeline


class Columns(torch.nn.Module):
    """An inverse lies column by column: its transpose is contiguous. A write through a view stays one."""

    def forward(self, x):
        flat = x.clone()
        flat.view(-1).add_(1)
        return torch.linalg.inv(x).mT.view(-1), flat


class Flat(torch.nn.Module):
    """An argument whose name copies of graphs change."""

    def forward(self, input):
        return input.view(-1)


def attention_step(weight, x):
    """A training step, in which attention's result is viewed heads last, as its kernel leaves it."""
    weight = weight.detach().requires_grad_()
    with torch.enable_grad():
        query, key, value = ((x @ weight).unflatten(-1, (3, 2, 8))).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value).transpose(1, 2)
        loss = attended.reshape(2, 5, 16).square().mean()
        return loss.detach(), *torch.autograd.grad(loss, [weight])


def test_a_view_of_columns():
    x = torch.randn(3, 3) + 3 * torch.eye(3)
    torch.testing.assert_close(pipeline.compile(Columns(), args=(x,))(x), Columns()(x))


class Places(torch.nn.Module):
    """Places in memory are counted column by column where a kernel writes so. A write through them stays one."""

    def forward(self, x):
        inverse = torch.linalg.inv(x)
        written = x * 2
        torch.as_strided(written, (2, 2), (3, 1), 1).add_(1)
        return torch.as_strided(inverse, (4,), (1,), 1) * 2, torch.as_strided_copy(x.t(), (4,), (2,)), written


def test_places_in_memory():
    x = torch.randn(3, 3) + 3 * torch.eye(3)
    torch.testing.assert_close(pipeline.compile(Places(), args=(x,))(x), Places()(x))


def test_an_argument_named_like_a_builtin():
    x = torch.randn(3, 3)
    torch.testing.assert_close(pipeline.compile(Flat(), args=(x,))(x), x.view(-1))


def test_a_traced_step_through_attention():
    args = torch.randn(16, 48) / 4, torch.randn(2, 5, 16)
    traced = make_fx(attention_step, tracing_mode="fake")(*args)
    assert torch.ops.aten.view.default in {node.target for node in traced.graph.nodes}
    torch.testing.assert_close(pipeline.compile(traced, args=args)(*args), attention_step(*args))
