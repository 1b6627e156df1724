"""Targets and their option ladders, without compiling."""

import pytest

from pipeline.errors import InputError, UnsupportedError
from pipeline.targets import parse_targets, vulkan
from pipeline.targets.target import combined_ladder

EVERYTHING = ("fp64", "fp32", "fp16", "int64", "int32", "int16", "int8", "b64", "b32", "b16", "b8")


def test_one_target_keeps_its_own_rungs():
    (cpu,) = parse_targets("cpu")
    steps = combined_ladder((cpu,))
    assert [step.name for step in steps] == [rung.name for rung in cpu.ladder]
    assert [step.options for step in steps] == [rung.options for rung in cpu.ladder]


@pytest.mark.parametrize("names", ["cpu,vulkan", "vulkan,cpu", "cpu,cuda", "cpu,cuda,vulkan"])
def test_several_targets_share_only_what_suits_all(names):
    targets = parse_targets(names)
    steps = combined_ladder(targets)
    assert len(set(steps)) == len(steps)
    for step in steps:
        levels = [option for option in step.options if option.startswith("--iree-opt-level=")]
        assert len(levels) == 1, "IREE refuses the option given twice"
        assert not any("preprocessing" in option or "data-tiling" in option for option in step.options)
        assert "--iree-hal-link-executables=false" in step.options, "linking keeps one device's code only"
        assert [target.device for target in step.targets] == names.split(",")
    lowest = min(target.ladder[0].options[0] for target in targets)
    assert steps[0].options[0] == lowest
    assert steps[0].name == f"{lowest[-2:]} for all targets"


@pytest.mark.parametrize(
    ("asked", "architecture", "noted"),
    [
        ("sm_80", "sm_80", False),
        ("sm_90", "sm_89", True),
        ("sm_120a", "sm_89", True),
        ("sm_87", "sm_86", True),
    ],
)
def test_cuda_architectures_map_to_the_nearest_lower(asked, architecture, noted):
    (target,) = parse_targets("cuda", cuda_arch=asked)
    assert target.architecture == architecture
    assert f"--iree-cuda-target={architecture}" in target.options
    assert (target.note is not None) == noted
    if noted:
        assert asked in target.note and architecture in target.note


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cuda_arch": "sm_70"}, "sm_70.*older than sm_75"),
        ({"cuda_arch": "hopper"}, "hopper.*must look like sm_80"),
        ({"text": "gpu"}, "'gpu' is unknown; choose from cpu, vulkan, cuda"),
        ({"text": "cpu,cpu"}, "twice"),
    ],
)
def test_wrong_targets_are_named(options, message):
    with pytest.raises(InputError, match=message):
        parse_targets(**{"text": "cuda", **options})


def test_portable_vulkan_asks_only_for_the_types_of_the_program():
    target = vulkan.make(vulkan.PORTABLE)
    plain = vulkan.fit(target, ["f32", "i32"], ())
    assert plain.hal_device == target.hal_device and plain.features == ()
    fitted = vulkan.fit(target, ["f16", "f32", "i1"], ())
    assert fitted.features == (
        "shaderFloat16",
        "shaderInt8",
        "storageBuffer16BitAccess",
        "storageBuffer8BitAccess",
    )
    assert "compute = fp32|int32|int8|fp16, storage = b32|b8|b16" in fitted.hal_device


def test_portable_vulkan_asks_for_64_bit_integers_last():
    fitted = vulkan.fit(vulkan.make(vulkan.PORTABLE), ["i64"], ())
    steps = combined_ladder((fitted,))
    emulated, native = steps[: len(steps) // 2], steps[len(steps) // 2 :]
    assert all(step.targets[0].features == () for step in emulated)
    for step in native:
        assert step.name.endswith("native int64")
        assert step.targets[0].features == ("shaderInt64",)
        assert "int64" in step.targets[0].hal_device


def test_a_named_vulkan_target_is_refused_what_it_lacks():
    target = vulkan.make("adreno")
    with pytest.raises(UnsupportedError, match=r"bool, float64 tensors.*'adreno'.*portable"):
        vulkan.fit(target, ["f64", "i1", "f32"], ("fp32", "int8", "b32", "b16"))
    assert vulkan.fit(target, ["f32", "i64"], ("fp32", "int32", "b32")).features == ()
    assert vulkan.fit(target, ["f32", "i64"], EVERYTHING).features == ("shaderInt64",)
