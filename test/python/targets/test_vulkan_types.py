"""Every element type on Vulkan against eager, at lengths that leave the last 32-bit word incomplete."""

import pytest
import torch
from torch import nn

import pipeline
from pipeline.errors import UnsupportedError

# Mostly values that 32 bits cannot hold.
LARGE = torch.tensor([1, 2**31 + 5, -(2**40) - 3, 2**62 + 1, 0])

NARROW = {
    "bool and": lambda t: t["bool"] & (t["f32"] > 0),
    "bool selects": lambda t: torch.where(t["bool"], t["f32"], -t["f32"]),
    "bool any": lambda t: t["bool"].any(),
    "uint8 wraps": lambda t: t["u8"] + 200,
    "uint8 to float": lambda t: t["u8"].float() / 255,
    "int8": lambda t: t["i8"] + t["i8"],
    "int16": lambda t: t["i16"] * 2,
    "float16": lambda t: t["f16"] * 2.5 + 1,
    "float16 matmul": lambda t: t["f16"].reshape(1, 5) @ t["f16"].reshape(5, 1),
    "float16 rounds": lambda t: t["f32"].half().float(),
    "bfloat16": lambda t: t["bf16"] * 2.5 + 1,
    "bfloat16 rounds": lambda t: t["f32"].bfloat16().float(),
    "float64": lambda t: t["f64"] * 2.5 + 1e-12,
    "complex": lambda t: torch.view_as_real(torch.complex(t["f32"], t["f32"] + 1)),
}
INT64 = {
    "add": lambda t: t["i64"] + 3,
    "multiply": lambda t: t["i64"] * 3,
    "compare": lambda t: t["i64"] > 2**31,
    "to float": lambda t: t["i64"].float(),
    "to int32": lambda t: t["i64"].int(),
    "sum": lambda t: t["i64"].sum(),
    "cumulative sum": lambda t: t["i64"].cumsum(0),
    "maximum": lambda t: t["i64"].max(),
    "from float": lambda t: (t["f32"] * 1e12).long(),
    "index": lambda t: t["f32"][t["i64"].clamp(-1, 4)],
    "argmax": lambda t: t["f32"].argmax(),
    "shift": lambda t: t["i64"] >> 33,
    "shifts by any number": lambda t: (t["i64"] << (t["i64"] & 1)) ^ (t["i64"] >> (t["i64"] == 0).long()),
}


class Cases(nn.Module):
    def __init__(self, cases):
        super().__init__()
        self.cases = cases

    def forward(self, tensors):
        return {name: case(tensors) for name, case in self.cases.items()}


def narrow_inputs():
    torch.manual_seed(0)
    floats = torch.randn(5)
    return {
        "bool": torch.tensor([True, False, True, True, False]),
        "u8": torch.tensor([1, 100, 255, 7, 56], dtype=torch.uint8),
        "i8": torch.tensor([1, 100, -128, 7, 64], dtype=torch.int8),
        "i16": torch.tensor([1, 100, -20000, 7, 32767], dtype=torch.int16),
        "f16": floats.half(),
        "bf16": floats.bfloat16(),
        "f32": floats * 3,
        "f64": floats.double(),
    }


def int64_inputs():
    torch.manual_seed(0)
    return {"i64": LARGE, "f32": torch.randn(5)}


@pytest.fixture(scope="module")
def narrow():
    return pipeline.compile(Cases(NARROW), args=(narrow_inputs(),), target="vulkan")


@pytest.fixture(scope="module")
def wide():
    return pipeline.compile(Cases(INT64), args=(int64_inputs(),), target="vulkan")


@pytest.fixture(scope="module")
def narrow_results(narrow):
    return narrow(narrow_inputs())


@pytest.fixture(scope="module")
def wide_results(wide):
    return wide(int64_inputs())


@pytest.mark.vulkan
@pytest.mark.parametrize("name", NARROW)
def test_narrow_types(narrow_results, name):
    torch.testing.assert_close(narrow_results[name], NARROW[name](narrow_inputs()))


@pytest.mark.vulkan
@pytest.mark.parametrize("name", INT64)
def test_int64_beyond_32_bits(wide_results, name):
    torch.testing.assert_close(wide_results[name], INT64[name](int64_inputs()))


@pytest.mark.vulkan
def test_the_artifact_says_which_types_it_needs(narrow, wide):
    assert set(narrow.manifest.targets[0]["features"]) == {
        "shaderFloat16",
        "shaderFloat64",
        "shaderInt16",
        "shaderInt8",
        "storageBuffer16BitAccess",
        "storageBuffer8BitAccess",
    }
    assert not any("16" in name or "Int64" in name for name in wide.manifest.targets[0]["features"])


@pytest.mark.vulkan
def test_int64_division_asks_for_64_bit_integers():
    """IREE emulates no 64-bit division: the last rungs use a device's own."""
    model = Cases({"remainder": lambda t: torch.fmod(t["i64"], t["divisor"])})
    inputs = {"i64": LARGE, "divisor": torch.tensor([3, 7, -1000, 2**33, 5])}
    exe = pipeline.compile(model, args=(inputs,), target="vulkan")
    target = exe.manifest.targets[0]
    assert target["rung"].endswith("native int64") and "shaderInt64" in target["features"]
    torch.testing.assert_close(exe(inputs), model(inputs))


@pytest.mark.parametrize(
    ("dtype", "vulkan_target"),
    [("float64", "valhall"), ("bool", "adreno"), ("float16", "vp_android_baseline_2022")],
)
def test_a_type_that_a_named_target_lacks_is_refused(build, dtype, vulkan_target):
    from pipeline.entry_points import EntrySpec

    x = torch.ones(5, dtype=getattr(torch, dtype))
    entries = {"main": EntrySpec((x, x), {}, None)}

    class Both(nn.Module):
        def forward(self, a, b):
            return a & b if a.dtype == torch.bool else a + b

    with pytest.raises(UnsupportedError, match=f"{dtype} tensors.*'{vulkan_target}'"):
        build(Both(), entries, "vulkan", vulkan_target=vulkan_target)
