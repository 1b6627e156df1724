"""One artifact for several devices: right on each that is here."""

import pytest
import torch
from torch import nn

import pipeline
from pipeline.entry_points import EntrySpec
from pipeline.runtime.errors import IncompatibleDeviceError

X = torch.randn(2, 3, 12, 12)


@pytest.fixture(scope="module")
def model():
    """Several dispatches, of convolutions, reductions and matmuls: those of one device must not hide the others."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.LayerNorm(800), nn.Linear(800, 6), nn.Softmax(-1)
    ).eval()


@pytest.fixture(scope="module")
def artifact(build, model, tmp_path_factory):
    def compile_for(targets):
        path = tmp_path_factory.mktemp("several") / "model.vmfb"
        build(model, {"main": EntrySpec((X,), {}, None)}, targets, weights="inline").save(path)
        return path

    return compile_for


@pytest.mark.vulkan
@pytest.mark.parametrize("targets", ["cpu,vulkan", "vulkan,cpu"])
def test_cpu_and_vulkan(artifact, model, targets):
    path = artifact(targets)
    for device in ("cpu", "vulkan"):
        exe = pipeline.load(path, device=device)
        assert exe.device.kind == device
        torch.testing.assert_close(exe(X), model(X))
    assert pipeline.load(path).device.kind == targets.split(",")[0]
    with pytest.raises(
        IncompatibleDeviceError, match=f"compiled for {targets.replace(',', ', ')}, not for cuda"
    ):
        pipeline.load(path, device="cuda")


def test_cpu_and_cuda(artifact, model):
    path = artifact("cpu,cuda")
    exe = pipeline.load(path)
    torch.testing.assert_close(exe(X), model(X))
    assert [target["device"] for target in exe.manifest.targets] == ["cpu", "cuda"]
    from pipeline.tools.check_ptx import read_ptx

    assert sum(ptx.kernels for ptx in read_ptx(path)) > 2
