"""Which Vulkan artifacts a device takes: the portable and the fitting ones, and none that would be wrong."""

import gc
import os
import subprocess
import sys
import weakref

import pytest
import torch
from torch import nn

import pipeline
from pipeline.entry_points import EntrySpec
from pipeline.errors import InputError
from pipeline.runtime import device as device_room
from pipeline.runtime.errors import IncompatibleDeviceError

X = torch.randn(4, 16)
FITTING = (
    '#iree_gpu.target<arch = "{name}", features = "spirv:v1.3,cap:Shader", wgp = <compute = fp32|int32, '
    "storage = b32, subgroup = shuffle|arithmetic, subgroup_size_choices = [{size}], "
    "max_workgroup_sizes = [128, 128, 64], max_thread_count_per_workgroup = 128, "
    "max_workgroup_memory_bytes = 16384, max_workgroup_counts = [65535, 65535, 65535]>>"
)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 64), nn.LayerNorm(64), nn.Softmax(-1)).eval()


@pytest.fixture(scope="module")
def made_for(build, model, tmp_path_factory):
    """Compiles the model for a Vulkan target; the path of the artifact."""

    def compile_for(name, vulkan_target):
        path = tmp_path_factory.mktemp("vulkan") / f"{name}.vmfb"
        build(model, {"main": EntrySpec((X,), {}, None)}, "vulkan", vulkan_target=vulkan_target).save(path)
        return path

    return compile_for


@pytest.fixture(scope="module")
def portable(made_for):
    return made_for("portable", "portable")


def device_subgroup_size():
    low, _ = device_room._subgroup_range(device_room._vulkan_info("vulkan"), "vulkan")
    return low


@pytest.mark.vulkan
@pytest.mark.parametrize("architecture", ["rdna3", "ampere", "adreno", "valhall"])
def test_a_target_with_other_subgroups_is_refused(made_for, architecture):
    """It would compute wrong numbers without an error."""
    sizes = {"rdna3": "32 or 64", "ampere": "32", "adreno": "64", "valhall": "16"}[architecture]
    if str(device_subgroup_size()) in sizes.split(" or "):
        pytest.skip(f"this device forms subgroups of {device_subgroup_size()}")
    path = made_for(architecture, architecture)
    with pytest.raises(
        IncompatibleDeviceError, match=f"'{architecture}' with subgroups of {sizes};"
    ) as error:
        pipeline.load(path)
    assert architecture in str(error.value) and "portable" in str(error.value)


@pytest.mark.vulkan
def test_the_portable_target_is_right(portable, model):
    exe = pipeline.load(portable)
    assert exe.manifest.targets[0]["subgroup_operations"] == []
    torch.testing.assert_close(exe(X), model(X))


@pytest.mark.vulkan
def test_a_target_made_for_the_device_is_right(made_for, model):
    exe = pipeline.load(made_for("fitting", FITTING.format(name="mine", size=device_subgroup_size())))
    (target,) = exe.manifest.targets
    assert target["architecture"] == "mine" and target["subgroup_operations"] == ["shuffle", "arithmetic"]
    torch.testing.assert_close(exe(X), model(X))


@pytest.mark.vulkan
def test_missing_types_are_refused(portable, monkeypatch):
    """A device without 8-bit storage, as IREE describes one."""
    info = device_room._vulkan_info("vulkan").replace("shaderInt8=yes", "shaderInt8=no")
    monkeypatch.setattr(device_room, "_vulkan_info", lambda uri: info)
    target = {"architecture": "portable", "features": ["shaderInt8"], "subgroup_operations": []}
    with pytest.raises(
        IncompatibleDeviceError, match=r"m\.vmfb .*need shaderInt8, which this Vulkan device lacks"
    ):
        device_room._check_vulkan(target, "vulkan", "m.vmfb")
    pipeline.load(portable)


@pytest.mark.parametrize("name", ["riscy", "#iree_gpu.target<bad>"])
def test_unknown_targets_are_the_users(build, model, name):
    with pytest.raises(InputError, match="vulkan_target"):
        build(model, {"main": EntrySpec((X,), {}, None)}, "vulkan", vulkan_target=name)


def test_no_vulkan_driver_is_one_clear_error(portable):
    script = f"import pipeline\npipeline.load({str(portable)!r})"
    nowhere = {"VK_DRIVER_FILES": "/nonexistent", "VK_ICD_FILENAMES": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **nowhere},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "IncompatibleDeviceError: no device 'vulkan' on this machine" in done.stderr


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cuda", "compiled for vulkan, not for cuda"),
        ("cpu", "compiled for vulkan, not for cpu"),
        ("gpu", "unknown device 'gpu'; use cpu, vulkan or cuda"),
    ],
)
def test_another_device_is_one_clear_error(portable, device, message):
    with pytest.raises(IncompatibleDeviceError, match=message):
        pipeline.load(portable, device=device)


@pytest.mark.vulkan
def test_a_device_number_that_is_not_there(portable):
    with pytest.raises(IncompatibleDeviceError, match="no device 'vulkan://99'"):
        pipeline.load(portable, device="vulkan://99")


@pytest.mark.vulkan
def test_a_device_is_closed_with_the_last_executable_on_it(portable, monkeypatch):
    """Mesa's llvmpipe keeps threads busy as long as one is open."""
    monkeypatch.setattr(device_room, "_devices", weakref.WeakValueDictionary())
    executable = pipeline.load(portable)
    other = executable.new_state()
    assert other.device is pipeline.load(portable).device
    expected = executable(X)
    del executable
    gc.collect()
    torch.testing.assert_close(other(X), expected)
    assert list(device_room._devices) == ["vulkan"]
    del other
    gc.collect()
    assert not device_room._devices
