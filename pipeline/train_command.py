"""``pipeline train``: needs only the runtime."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from . import runtime
from .batches import Batches
from .runtime import ArgumentError, TrainingStep


def train(
    artifact: Path,
    data: Path,
    steps: int,
    shuffle: bool,
    seed: int,
    learning_rate: float | None,
    checkpoint: Path | None,
    every: int | None,
    output: Path | None,
    device: str | None,
) -> None:
    """Trains, showing the loss, and leaves the state in `checkpoint` and `output`; the former also when interrupted."""
    _check_paths(checkpoint, output, every)
    step = _load(artifact, device)
    batches = Batches(step.manifest.entry_points["train_step"], data, shuffle_seed=seed if shuffle else None)
    step.seed(seed)
    if checkpoint is not None and checkpoint.exists():
        step.load_checkpoint(checkpoint)
        print(f"going on from {checkpoint}, after {step.steps} steps")
    if learning_rate is not None:
        step.learning_rates = learning_rate
    try:
        _run(step, batches, steps, lambda: _save(step, checkpoint), every)
    finally:
        _save(step, checkpoint)
    if output is not None:
        step.save(output)
        print(f"wrote {output}")


def _check_paths(checkpoint: Path | None, output: Path | None, every: int | None) -> None:
    if checkpoint is not None and checkpoint.suffix != ".irpa":
        raise ArgumentError(f"--checkpoint {checkpoint}: its name must end in .irpa")
    if every is not None and checkpoint is None:
        raise ArgumentError("--every needs --checkpoint")
    if output is not None and output.suffix != ".vmfb":
        raise ArgumentError(f"--output {output}: an artifact's name must end in .vmfb")
    for path in (checkpoint, output):
        if path is not None and not path.resolve().parent.is_dir():
            raise ArgumentError(f"{path}: the folder {path.parent} does not exist")


def _load(artifact: Path, device: str | None) -> TrainingStep:
    step = runtime.load(artifact, device=device)
    if not isinstance(step, TrainingStep) or "train_step" not in step.manifest.entry_points:
        raise ArgumentError(f"{artifact} holds no training step; make one with pipeline compile --train")
    return step


def _run(
    step: TrainingStep, batches: Batches, steps: int, save: Callable[[], None], every: int | None
) -> None:
    first, losses, start = step.steps + step.skipped, [], time.perf_counter()
    with _progress(steps) as show:
        for i in range(steps):
            losses.append(float(step(**batches[first + i])))
            show(i + 1, losses[-1])
            if every is not None and (i + 1) % every == 0:
                save()
    milliseconds = 1000 * (time.perf_counter() - start) / steps
    print(f"{steps} steps, loss {losses[0]:.6g} to {losses[-1]:.6g}, {milliseconds:.2f} ms each")
    if not all(map(math.isfinite, losses)):
        number = next(i for i, loss in enumerate(losses) if not math.isfinite(loss))
        print(f"warning: the loss was {losses[number]} in step {first + number + 1}", file=sys.stderr)


@contextmanager
def _progress(steps: int) -> Iterator[Callable[[int, float], None]]:
    """A bar on a terminal, at most ten lines elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        shown = max(1, -(-steps // 10))
        yield lambda done, loss: print(f"step {done} loss {loss:.6g}") if done % shown == 0 else None
        return
    columns = (
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.6g}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=steps, loss=math.nan)
        yield lambda done, loss: progress.update(task, completed=done, loss=loss)


def _save(step: TrainingStep, checkpoint: Path | None) -> None:
    if checkpoint is not None:
        step.save_checkpoint(checkpoint)
