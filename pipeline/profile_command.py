"""``pipeline profile``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from .api import capture_checked, compile_options
from .benchmarking.benchmark import peaks_of_this_machine
from .commands import compile_values
from .display import StageDisplay
from .errors import InputError
from .model_file import LoadedModel, LoadedTraining, load_model, load_training
from .profiling import outputs
from .profiling.compiled import Sources, compile_with_sources
from .profiling.profile import Profile, profile_of
from .profiling.running import profiled_calls
from .runtime import Artifact, Executable
from .runtime.artifact import open_artifact
from .training.compiling import capture_training, for_training


def profile(
    model: str,
    entry: str | None,
    train: bool,
    threads: int,
    calls: int,
    top: int,
    roofline: bool,
    trace: Path | None,
    html: Path | None,
    json: Path | None,
    **options: Any,
) -> None:
    """Calls MODEL (or an artifact) under IREE's profiler and shows where the time goes."""
    for path in (trace, html, json):
        if path is not None and not path.resolve().parent.is_dir():
            raise InputError(f"{path}: the folder {path.parent} does not exist")
    artifact, sources = _artifact(model, train, options)
    found = _profile(artifact, sources, _entry(artifact, entry, train), threads, calls, roofline)
    print(outputs.describe(found))
    # Piped, a table must not be cut at 80 columns.
    Console(width=None if sys.stdout.isatty() else 250).print(outputs.table(found, top))
    if trace is not None:
        outputs.write_trace(found, trace)
    if html is not None:
        outputs.write_page(found, html, f"{model}: {found.entry}")
    if json is not None:
        outputs.write_json(found, json)


def _artifact(model: str, train: bool, options: dict[str, Any]) -> tuple[Artifact, Sources | None]:
    """What to run; sources only where it is compiled here."""
    if Path(model).suffix == ".vmfb":
        return open_artifact(model), None
    loaded = load_training(model) if train else load_model(model, benchmark=True)
    values = compile_values(options, loaded)
    settings = compile_options(values.pop("target"), **values)
    if settings.targets[0].device != "cpu" or len(settings.targets) > 1:
        raise InputError("--target: a profile is taken on the CPU")
    with StageDisplay() as display:
        settings = display.attach(settings)
        return compile_with_sources(_capture(loaded, settings), settings)


def _capture(loaded: LoadedModel | LoadedTraining, settings: Any) -> Any:
    if isinstance(loaded, LoadedTraining):
        how = {**loaded.how, "entry_points": ["train_step"]}
        return capture_training(
            loaded.model, loaded.loss_fn, loaded.optimizer, loaded.args, for_training(settings), **how
        )
    fixed = {name: replace(spec, dynamic_shapes=None) for name, spec in loaded.entries.items()}
    return capture_checked(loaded.model, fixed, settings)


def _entry(artifact: Artifact, entry: str | None, train: bool) -> str:
    names = list(artifact.manifest.entry_points)
    chosen = entry or ("train_step" if train else names[0])
    if chosen not in names or (entry is None and not train and len(names) > 1):
        raise InputError(f"choose an entry point with --entry: {', '.join(names)}")
    return chosen


def _profile(
    artifact: Artifact, sources: Sources | None, entry: str, threads: int, calls: int, roofline: bool
) -> Profile:
    # Loading it checks that this machine can run it, and gives the state.
    state = Executable(artifact, device="local-sync").state_dict()
    signature = artifact.manifest.entry_points[entry]
    made = profiled_calls(artifact, signature, state, calls=calls, threads=threads)
    peaks = peaks_of_this_machine(threads) if roofline else None
    return profile_of(entry, made, sources, peaks, threads)
