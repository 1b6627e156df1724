"""The commands that compile: ``compile``, ``verify`` and ``explain``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from rich.table import Table

from pipeline.dialect_passes.registry import PASSES

from . import compiler
from .api import capture_checked, compile_options
from .compiler import Options
from .display import StageDisplay, human_bytes
from .errors import EXIT_MISMATCH, EXIT_UNSUPPORTED, InputError
from .explanation import Explanation, explain_program
from .model_file import LoadedModel, LoadedTraining, load_model, load_training
from .program import Program
from .runtime import Executable
from .runtime.artifact import weights_path
from .training.compiling import capture_training, for_training
from .verify import Comparison
from .verify import verify as compare

if TYPE_CHECKING:
    from .just_in_time.explanation import GraphsExplanation


def compile_model(
    model: str, output: Path | None, emit: str, locations: bool, train: bool, options: dict[str, Any]
) -> None:
    """``pipeline compile``."""
    target = output or Path(f"{_stem(model)}.vmfb")
    if emit == "vmfb" and target.suffix != ".vmfb":
        raise InputError(f"-o {target}: an artifact's name must end in .vmfb")
    if not target.resolve().parent.is_dir():
        raise InputError(f"-o {target}: the folder {target.parent} does not exist")
    loaded = load_training(model) if train else load_model(model)
    settings = _options(options, loaded)
    with StageDisplay() as display:
        settings = display.attach(settings)
        program = _capture(loaded, settings, display)
        if emit != "vmfb":
            _write_text(compiler.emit(program, settings, emit, locations=locations), output)
            return
        artifact = compiler.compile_program(program, settings)
        written = artifact.save(target, move=True)
    if weights_path(target) not in written:
        _remove_stale_weights(target)
    _say_compiled(target, artifact, written)


def _stem(model: str) -> str:
    return Path(model.rpartition(":")[0] if ".py:" in model else model).stem


def _options(options: dict[str, Any], loaded: LoadedModel | LoadedTraining) -> Options:
    values = compile_values(options, loaded)
    settings = compile_options(values.pop("target"), **values)
    return for_training(settings) if isinstance(loaded, LoadedTraining) else settings


def compile_values(options: dict[str, Any], loaded: LoadedModel | LoadedTraining) -> dict[str, Any]:
    """The arguments of `compile_options`: those of the command line, and the file's."""
    values = {**options, **loaded.options}
    return {**values, "lowerings": read_lowerings(values["lowerings"])}


def read_lowerings(texts: Iterable[str]) -> dict[str, str]:
    """Custom operator -> lowering, of ``--lowering``. Raises InputError for another form."""
    return dict(_lowering(text) for text in texts)


def _lowering(text: str) -> tuple[str, str]:
    operator, equals, title = text.partition("=")
    if not equals or "::" not in operator:
        raise InputError(
            f"--lowering {text}: write it as NAMESPACE::OPERATOR=TITLE, such as mylib::swiglu=meaning"
        )
    return operator, title


def _capture(loaded: LoadedModel | LoadedTraining, settings: Options, display: StageDisplay) -> Program:
    with display.timed("capture"):
        if isinstance(loaded, LoadedTraining):
            return capture_training(
                loaded.model, loaded.loss_fn, loaded.optimizer, loaded.args, settings, **loaded.how
            )
        return capture_checked(loaded.model, loaded.entries, settings)


def _write_text(text: str, output: Path | None) -> None:
    if output is None:
        print(text)
    else:
        output.write_text(text + "\n")


def _remove_stale_weights(target: Path) -> None:
    """An older .irpa of the same name would look like this artifact's and is not."""
    stale = weights_path(target)
    if stale.exists():
        print(
            f"note: {stale} is left from another artifact; {target.name} holds its own weights",
            file=sys.stderr,
        )


def _say_compiled(target: Path, artifact: Any, written: list[Path]) -> None:
    manifest = artifact.manifest
    sizes = ", ".join(f"{path} ({human_bytes(path.stat().st_size)})" for path in reversed(written))
    print(f"wrote {sizes}")
    for item in manifest.targets:
        print(f"{item['device']} {item['architecture']}: {item['rung']}")
    for note in manifest.notes:
        print(f"note: {note}")
    for entry in manifest.entry_points.values():
        if any("normal" in item for item in entry.example["inputs"]):
            print(
                f"note: {entry.name}'s example inputs are large; run uses seeded random ones of the same shapes"
            )


def verify_model(
    model: str,
    rtol: float | None,
    atol: float | None,
    device: str | None,
    bisect: bool,
    options: dict[str, Any],
) -> int:
    """``pipeline verify``; the exit code."""
    if (rtol is None) != (atol is None):
        raise InputError("give both --rtol and --atol, or neither")
    loaded = load_model(model)
    settings = _options(options, loaded)
    with StageDisplay() as display:
        settings = display.attach(settings)
        artifact = compiler.compile_program(_capture(loaded, settings, display), settings)
    executable = Executable(artifact, device=device)
    found = compare(loaded.model, loaded.entries, executable, rtol=rtol, atol=atol)
    _show_comparisons(found, executable)
    wrong = [item for item in found if not item.right]
    print(f"{len(found) - len(wrong)} right, {len(wrong)} wrong")
    if wrong and bisect:
        _say_culprit(loaded, settings, device)
    return EXIT_MISMATCH if wrong else 0


def _say_culprit(loaded: LoadedModel, settings: Options, device: str | None) -> None:
    from .bisection import bisect

    culprit = bisect(loaded.model, loaded.entries, settings, device=device)
    print(
        culprit
        or "with the values of all operators returned, everything is right: the fault is in how they are joined"
    )


def _show_comparisons(found: list[Comparison], executable: Executable) -> None:
    target = next(t for t in executable.manifest.targets if t["device"] == executable.device.kind)
    print(f"on {executable.device.uri}, {target['rung']}")
    table = Table("output", "max error", "rtol", "atol", "error vs float64 (compiled / eager)", "verdict")
    for item in found:
        exact = "" if item.compiled_error is None else f"{item.compiled_error:.3g} / {item.eager_error:.3g}"
        table.add_row(
            item.name,
            f"{item.error:.3g}",
            f"{item.rtol:g}",
            f"{item.atol:g}",
            exact,
            "right" if item.right else f"WRONG: {item.problem}",
        )
    _console().print(table)


def _console() -> Console:
    # Piped, a table must not be cut at 80 columns.
    return Console(width=None if sys.stdout.isatty() else 200)


def explain_model(model: str, options: dict[str, Any]) -> int:
    """``pipeline explain``; the exit code."""
    loaded = load_model(model)
    settings = _options(options, loaded)
    with StageDisplay() as display:
        program = _capture(loaded, settings, display)
        with display.timed("probe"):
            explanation = explain_program(
                program, settings.targets, settings.limits, settings.shape_libraries, settings.disable_passes
            )
    _show_explanation(explanation)
    return EXIT_UNSUPPORTED if explanation.unsupported else 0


def explain_calls(model: str, options: dict[str, Any]) -> int:
    """``pipeline explain --just-in-time``: each entry point called once; the exit code."""
    from .just_in_time.explanation import explain_graphs  # all of Dynamo, which takes a second

    loaded = load_model(model)
    if not isinstance(loaded.model, torch.nn.Module):
        raise InputError(f"{model}: torch.compile takes no exported program")
    values = compile_values(options, loaded)
    for ignored in ("weights", "cache"):
        values.pop(ignored)
    for name, entry in loaded.entries.items():
        found = explain_graphs(getattr(loaded.model, entry.method), entry.args, entry.kwargs, values)
        _show_graphs(name, found)
    return 0


def _show_graphs(name: str, found: GraphsExplanation) -> None:
    counters = found.counters
    table = Table("runs in eager", "calls", "because", "at")
    for operator, item in counters.eager.items():
        table.add_row(
            operator, str(item.calls), "; ".join(sorted(item.reasons)), ", ".join(sorted(item.lines))
        )
    if counters.eager:
        _console().print(table)
    calls = sum(item.calls for item in counters.eager.values())
    print(
        f"{name}: graphs {counters.graphs}, programs {counters.programs}, "
        f"calls in eager {calls}, and beside them {counters.neighbours}"
    )
    for item in found.breaks:
        print(f"break: {item.reason} (at {item.line})")
    for message in counters.failures:
        print(f"failure: {message}")


def _show_explanation(explanation: Explanation) -> None:
    table = Table("operator", "calls", "lowered to", "first used at")
    for item in explanation.operators:
        how = f"UNSUPPORTED: {item.problem}" if item.problem else ", ".join(item.lowers_to)
        lines = item.lines if item.problem else item.lines[:1]
        table.add_row(item.operator, str(item.count), how, ", ".join(lines))
    _console().print(table)
    if explanation.custom_calls:
        _show_custom_calls(explanation)
    calls = sum(item.count for item in explanation.operators)
    print(
        f"{len(explanation.operators)} operators, {calls} calls, {len(explanation.unsupported)} unsupported"
    )
    for name, count in explanation.passes.items():
        print(f"{name}: {count} {'change' if count == 1 else 'changes'}: {PASSES[name]}")
    print(
        f"weights: {human_bytes(explanation.weights_bytes)}; state: {', '.join(explanation.state) or 'none'}"
    )
    print("option sets, the first that compiles is used: " + " | ".join(explanation.ladder))
    for note in explanation.notes:
        print(f"note: {note}")


def _show_custom_calls(explanation: Explanation) -> None:
    """Which lowering each call of a custom operator got, and why not a better one."""
    table = Table("custom operator", "calls", "lowering", "passed over", "first used at")
    for choice, count in explanation.custom_calls.items():
        passed_over = "; ".join(f"{title}: {reason}" for title, reason in choice.passed_over)
        table.add_row(choice.operator, str(count), choice.lowering, passed_over, choice.line or "")
    _console().print(table)
