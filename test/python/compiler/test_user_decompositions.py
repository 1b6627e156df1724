"""``decompositions`` and ``keep`` of `pipeline.compile`, and passes left out by name."""

import pytest
import torch
from torch import nn
from torch.nn.functional import gelu, silu

import pipeline


class Model(nn.Module):
    def forward(self, x):
        return gelu(x), silu(x), torch.special.zeta(x, x + 1)


X = torch.rand(4) + 2


def test_added_and_replaced_decompositions_are_used():
    compiled = pipeline.compile(
        Model(),
        args=(X,),
        decompositions={
            torch.ops.aten.gelu.default: lambda x, approximate="none": x * 3,
            # A composite operator, which torch.export treats in a way of its own.
            "aten.silu.default": lambda x: x * 5,
            "aten::special_zeta.default": lambda x, q: x - q,
        },
        disable_passes=["fold-f64-constants"],
    )
    torch.testing.assert_close(compiled(X), (X * 3, X * 5, X - (X + 1)))


def test_bad_names_are_one_error():
    with pytest.raises(pipeline.InputError) as caught:
        pipeline.compile(
            Model(),
            args=(X,),
            decompositions={"aten.nope.default": silu, "aten.gelu": gelu, "aten.relu_.default": silu},
            keep=["aten.reshape.default", 3],
        )
    said = str(caught.value).splitlines()
    assert len(said) == 5
    assert "'aten.nope.default' is no operator" in said[0]
    assert "write one of aten.gelu.default" in said[1]
    assert "aten.relu_.default changes its arguments" in said[2]
    assert "keep: 3 is no operator" in said[3]
    assert "aten.reshape.default cannot be kept" in said[4]


def test_the_error_of_a_decomposition_names_it():
    with pytest.raises(pipeline.InputError, match=r"given for aten.gelu.default failed: KeyError: 'no'"):
        pipeline.compile(Model(), args=(X,), decompositions={"aten.gelu.default": lambda *_: {}["no"]})


def test_what_is_kept_and_cannot_be_lowered_is_unsupported():
    # Without keep, silu's own decomposition would be used; zeta has none here on purpose.
    with pytest.raises(pipeline.UnsupportedError) as caught:
        pipeline.compile(Function(torch.special.erfcx), args=(X,), keep=["aten.special_erfcx.default"])
    assert [item.operator for item in caught.value.operators] == ["aten.special_erfcx"]


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def test_only_optional_passes_can_be_left_out():
    with pytest.raises(pipeline.InputError, match=r"these can: .*fold-f64-constants"):
        pipeline.compile(Model(), args=(X,), disable_passes=["keep-nan-comparisons"])
