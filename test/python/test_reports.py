"""Every reported situation under test/reports, compiled and compared with eager PyTorch.

The conventions of the files are in test/reports/README.md. For TRAIN the forward value is compared; the
gradients belong to the training room, which compiles the backward pass.
"""

import importlib.util
import itertools
import types
from pathlib import Path
from typing import Any

import pytest
import torch

import pipeline

REPORTS = Path(__file__).resolve().parent.parent / "reports"
NAMES = sorted(path.stem for path in REPORTS.glob("r*.py"))

# More than the example's sizes, within each file's bounds; the last ones are asymmetrical.
SIZES: dict[str, list[tuple[int, ...]]] = {
    "r03": [(2, 2), (7, 3), (2, 64)],
    "r05": [(2, 2), (5, 3), (2, 31)],
    "r31": [(2,), (5,), (64,)],
    "r33": [(4, 4), (8, 10), (6, 64)],
}
RESIZED = {
    "r03": lambda b, s: (torch.randn(b, s, 6),),
    "r05": lambda r, c: (torch.arange(float(r * c)).reshape(r, c),),
    "r31": lambda n: (torch.randn(1, 3), torch.randn(n)),
    "r33": lambda h, w: (torch.randn(1, 8, h, w),),
}


def load_report(name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, REPORTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compare(report: types.ModuleType, compiled: Any, eager: Any) -> None:
    tolerance = getattr(report, "TOL", None)
    options = {} if tolerance is None else {"rtol": tolerance, "atol": tolerance}
    torch.testing.assert_close(compiled, eager, equal_nan=True, **options)


def call_both(report: types.ModuleType, model: torch.nn.Module, executable: Any, inputs: tuple) -> None:
    """One call of each on copies of `inputs`; results, updated inputs and updated buffers must agree."""
    ours, theirs = ([value.clone() for value in inputs] for _ in range(2))
    seed = torch.seed()
    with torch.no_grad():
        torch.manual_seed(seed)
        eager = model(*theirs)
        torch.manual_seed(seed)
        compiled = executable(*ours)
    compare(report, compiled, eager)
    compare(report, ours, theirs)
    buffers = dict(model.named_buffers())
    for name, value in executable.state_dict().items():
        compare(report, value, buffers[name])
    if hasattr(report, "check"):
        report.check((compiled,) if isinstance(compiled, torch.Tensor) else compiled)


def test_all_reports_are_here() -> None:
    assert len(NAMES) == 24
    dynamic = {name for name in NAMES if hasattr(load_report(name), "DYNAMIC")}
    assert dynamic == set(SIZES) == set(RESIZED)


@pytest.mark.parametrize("name", NAMES)
def test_report(name: str) -> None:
    report = load_report(name)
    torch.manual_seed(0)
    model, inputs = report.Model().eval(), report.inputs()
    options = {"args": inputs, "dynamic_shapes": getattr(report, "DYNAMIC", None)}
    if hasattr(report, "EXPECT_ERROR"):
        with pytest.raises(pipeline.PipelineError, match=report.EXPECT_ERROR):
            pipeline.compile(model, **options)
        return
    executable = pipeline.compile(model, **options)
    if getattr(report, "MUTATES", False):
        assert executable.manifest.state, "the update of the buffer was lost"
    resized = [RESIZED[name](*sizes) for sizes in SIZES.get(name, [])]
    # Twice: a second call must see the first one's updates, or draw anew.
    for values in itertools.chain([inputs, inputs], resized):
        call_both(report, model, executable, values)


def test_weights_of_r35_stay_out_of_the_ir(tmp_path: Path) -> None:
    """64 MiB of weights leave the module and the .vmfb in kilobytes."""
    report = load_report("r35")
    executable = pipeline.compile(report.Model(), args=report.inputs())
    files = {path.suffix: path.stat().st_size for path in executable.save(tmp_path / "m.vmfb")}
    assert files[".vmfb"] < 256 << 10
    assert 64 << 20 <= files[".irpa"] < 65 << 20


def test_tied_weights_of_r47_are_stored_once() -> None:
    report = load_report("r47")
    executable = pipeline.compile(report.Model(), args=report.inputs())
    assert executable.manifest.weights.nbytes == 11 * 6 * 4


def test_dropout_draws_a_new_mask_each_call() -> None:
    report = load_report("r11")
    executable = pipeline.compile(report.Model(), args=report.inputs())
    first, second = executable(*report.inputs()), executable(*report.inputs())
    assert not torch.equal(first, second)
