"""docs/add-an-operator.md: its files, as they stand there, work."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest
import torch

import pipeline

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "add-an-operator.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    return BLOCK.findall(GUIDE.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The reader's two files: the Python blocks one after the other, and the C block."""
    folder = tmp_path_factory.mktemp("guide")
    python = [text for language, text in blocks() if language == "python" and "decomposes" not in text]
    (folder / "swiglu.py").write_text("\n\n".join(python))
    (sources,) = [text for language, text in blocks() if language == "c"]
    (folder / "swiglu.c").write_text(sources)
    return folder


@pytest.fixture(scope="module")
def swiglu(folder: Path):
    spec = importlib.util.spec_from_file_location("guide_swiglu", folder / "swiglu.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["guide_swiglu"] = module
    spec.loader.exec_module(module)
    return module.swiglu


def test_its_operator_checks(swiglu):
    samples = [(torch.randn(5, 8), torch.randn(5, 8)), (torch.randn(3), torch.randn(3), 0.5)]
    report = swiglu.check(samples, targets=("cpu",))
    assert report.ok, str(report)
    assert "C kernel swiglu" in str(report)


class Block(torch.nn.Module):
    def __init__(self, operator):
        super().__init__()
        self.up = torch.nn.Linear(8, 32)
        self.down = torch.nn.Linear(16, 8)
        self.operator = operator

    def forward(self, x):
        return self.down(self.operator(*self.up(x).chunk(2, -1)))


def test_its_operator_compiles_with_the_kernel(swiglu):
    torch.manual_seed(0)
    model = Block(swiglu).eval()
    x = torch.randn(300, 8)
    exe = pipeline.compile(model, args=(x,))
    torch.testing.assert_close(exe(x), model(x))
    assert exe.manifest.notes == ("mylib::swiglu: C kernel swiglu.c:swiglu, 1 call",)


def test_its_lowering_compiles_for_cuda(swiglu):
    found = pipeline.explain(Block(swiglu).eval(), args=(torch.randn(3, 8),), target="cuda").custom_calls
    assert [choice.lowering for choice in found] == ["linalg lowering lower"]


def test_it_is_as_short_as_promised(folder: Path):
    """About 40 lines for the operator with its kernel: what the first two steps show."""
    whole = GUIDE.read_text()
    steps = whole[: whole.index("## 3.")]
    assert sum(len(text.splitlines()) for _, text in BLOCK.findall(steps)) <= 40
