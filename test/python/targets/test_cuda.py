"""Examples compiled for CUDA: the rung of the ladder is stated, and their PTX assembles."""

import shutil

import pytest
import torch
from torch import nn

from pipeline.entry_points import EntrySpec
from pipeline.tools import check_ptx

needs_ptxas = pytest.mark.skipif(
    shutil.which("ptxas") is None, reason="ptxas is not on PATH; it is part of the CUDA toolkit"
)
# The others compile and assemble too; these are the cheapest that cover attention, convolutions and state.
NAMES = ["bert", "llama_kv_cache", "resnet18"]


@pytest.fixture(scope="module")
def compiled(build, small_example, tmp_path_factory):
    """Name and architecture -> manifest and path, compiled once."""
    found = {}

    def compile_for(name, cuda_arch):
        if (name, cuda_arch) not in found:
            model, entries = small_example(name)
            artifact = build(model, entries, "cuda", cuda_arch=cuda_arch)
            path = tmp_path_factory.mktemp("cuda") / f"{name}.vmfb"
            artifact.save(path)
            found[name, cuda_arch] = artifact.manifest, path
        return found[name, cuda_arch]

    return compile_for


@needs_ptxas
@pytest.mark.parametrize("name", NAMES)
def test_ptx_assembles(compiled, capsys, name):
    _, path = compiled(name, "sm_80")
    assert all(ptx.architecture == "sm_80" and ptx.kernels for ptx in check_ptx.read_ptx(path))
    assert check_ptx.main([str(path)]) == 0
    assert "kernels for sm_80: assembles" in capsys.readouterr().out


@needs_ptxas
def test_a_newer_gpu_gets_the_nearest_lower_ptx(compiled, capsys):
    manifest, path = compiled("mlp", "sm_90")
    assert manifest.targets[0]["architecture"] == "sm_89"
    assert any("sm_90" in note and "sm_89" in note for note in manifest.notes)
    assert check_ptx.main([str(path), "--arch", "sm_90"]) == 0
    assert "for sm_90: assembles" in capsys.readouterr().out


def test_attention_takes_a_milder_rung(compiled):
    """IREE cannot distribute BERT's embeddings fused into the LayerNorm behind them at plain O3."""
    target = compiled("bert", "sm_80")[0].targets[0]
    assert target["rung"] == "O3, less fusion"
    assert target["options"] == [
        "--iree-opt-level=O3",
        "--iree-dispatch-creation-enable-aggressive-fusion=false",
    ]


@needs_ptxas
def test_broken_ptx_is_reported():
    text = ".version 7.6\n.target sm_80\n.address_size 64\n.visible .entry f() {\n\tadd.f32 %f1, %f2;\n\tret;\n}\n"
    problem = check_ptx.assemble(check_ptx.Ptx("x.fb", text))
    assert problem is not None and "Arguments mismatch" in problem


def test_what_holds_no_ptx_is_refused(build, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: name)
    path = tmp_path / "cpu.vmfb"
    build(nn.ReLU(), {"main": EntrySpec((torch.ones(3),), {}, None)}, "cpu").save(path)
    assert check_ptx.main([str(path)]) == 2
    assert "holds no PTX" in capsys.readouterr().err
    assert check_ptx.main([str(tmp_path / "absent.vmfb")]) == 2
    assert "not a readable .vmfb" in capsys.readouterr().err
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert check_ptx.main([str(path)]) == 2
    assert "ptxas is not on PATH" in capsys.readouterr().err
