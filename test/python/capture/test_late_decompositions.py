"""Operators decomposed after export: each distinct call once, with the same results as in export."""

import pytest
import torch
from torch import nn
from torch.export import Dim

import pipeline
from pipeline import inlining, late_decompositions
from pipeline.capture import capture
from pipeline.dialect_passes.operators import decomposition_table
from pipeline.entry_points import EntrySpec


class Layers(nn.Module):
    """Two equal encoder layers, so that every call of the second is one of the first again."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.layers(x, src_key_padding_mask=mask).softmax(-1) @ x.transpose(1, 2)


@pytest.fixture(scope="module")
def spec() -> EntrySpec:
    batch, length = Dim("batch", min=1, max=8), Dim("length", min=2, max=64)
    shapes = {"x": {0: batch, 1: length}, "mask": {0: batch, 1: length}}
    mask = torch.zeros(2, 6, dtype=torch.bool)
    return EntrySpec((torch.randn(2, 6, 16), mask), {}, shapes)


def test_every_late_operator_is_in_the_table() -> None:
    _, late = late_decompositions.split_table(decomposition_table())
    assert {str(op) for op in late} == set(late_decompositions.LATE)


def test_each_distinct_call_is_traced_once(spec: EntrySpec, monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[object] = []
    trace = inlining.Inliner._trace
    monkeypatch.setattr(inlining.Inliner, "_trace", lambda *a: traced.append(a[1]) or trace(*a))
    program = capture(Layers().eval(), {"main": spec})
    nodes = list(program.entries["main"].module.graph.nodes)
    left = {str(node.target) for node in nodes} & set(late_decompositions.LATE)
    products = [node for node in nodes if str(node.target) in ("aten.mm.default", "aten.bmm.default")]
    assert not left and len(products) > len(traced)
    # The lines of the user, or of torch's own layers, stay with what a call became.
    assert all(node.meta.get("stack_trace") for node in products)


class Causal(nn.Module):
    """Attention whose mask is made of the symbolic length, with fewer key heads than query heads."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        query = x.unflatten(-1, (2, 4)).transpose(1, 2)
        key = query[:, :1]
        attention = nn.functional.scaled_dot_product_attention
        return attention(query, query, query, is_causal=True), attention(
            query, key, key, is_causal=True, enable_gqa=True
        )


def test_causal_attention_keeps_the_length_dynamic() -> None:
    shapes = {"x": {0: Dim("batch", min=1, max=8), 1: Dim("length", min=1, max=64)}}
    executable = pipeline.compile(Causal(), args=(torch.randn(2, 3, 8),), dynamic_shapes=shapes)
    assert str(executable.manifest.entry_points["main"].inputs[0]) == "batchxlengthx8xf32"
    for batch, length in ((2, 3), (1, 1), (5, 1), (1, 17)):
        x = torch.randn(batch, length, 8)
        torch.testing.assert_close(executable(x), Causal()(x))


def test_results_at_other_sizes(spec: EntrySpec) -> None:
    model = Layers().eval()
    executable = pipeline.compile(model, args=spec.args, dynamic_shapes=spec.dynamic_shapes)
    for batch, length in ((1, 2), (3, 7), (8, 33)):
        x, mask = torch.randn(batch, length, 16), torch.zeros(batch, length, dtype=torch.bool)
        mask[0, -1] = True
        with torch.no_grad():
            torch.testing.assert_close(executable(x, mask), model(x, mask))


class Pairs(nn.Module):
    """Calls that differ only in whether an argument comes twice, of values that differ only in what they hold."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = self.first(x), self.second(x)
        attention = nn.functional.scaled_dot_product_attention
        return (
            torch.matmul(a, a),
            torch.matmul(a, b),
            attention(a, a, a),
            attention(a, b, a),
            attention(b, a, x),
        )


def test_arguments_are_told_apart() -> None:
    torch.manual_seed(0)
    model, x = Pairs().eval(), torch.randn(3, 8, 8)
    executable = pipeline.compile(model, args=(x,), dynamic_shapes={"x": {0: Dim("batch", min=1, max=9)}})
    with torch.no_grad():
        torch.testing.assert_close(executable(x), model(x))
        torch.testing.assert_close(executable(x[:1]), model(x[:1]))
