"""Every pass of ours keeps the conventions: a file and a lit test of its name, before and after in its docstring."""

import importlib
from pathlib import Path

import pytest

from pipeline.dialect_passes.registry import PASSES, REQUIRED, load_pass
from pipeline.stages import optional_passes, passes_between

ROOT = Path(__file__).resolve().parents[3]
CHANGES_NOTHING = ("verify-refined",)


@pytest.mark.parametrize("name", PASSES)
def test_the_name_is_that_of_file_and_lit_test(name):
    function = load_pass(name)
    module = importlib.import_module(function.__module__)
    assert module.__name__ == f"pipeline.dialect_passes.{name.replace('-', '_')}"
    doc = module.__doc__ or ""
    assert doc.startswith(f"{name}: ")
    if name not in CHANGES_NOTHING:
        assert "Before:" in doc and "After:" in doc
    test = (ROOT / "test" / "ir" / f"{name}.mlir").read_text()
    runs = [line for line in test.splitlines() if line.startswith("// RUN:")]
    assert any(name in line for line in runs) and "CHECK" in test


def test_required_passes_stay_and_others_can_be_left_out():
    assert set(PASSES) >= REQUIRED
    optional = optional_passes()
    assert "fold-f64-constants" in optional and not REQUIRED.intersection(optional)
    plain = dict(passes_between("torch", "linalg"))
    without = dict(passes_between("torch", "linalg", disabled=optional))
    assert [item for item in plain["linalg"].split(",") if item not in optional] == without["linalg"].split(
        ","
    )
    assert all(name not in text for name in optional for text in without.values())
