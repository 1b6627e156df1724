"""Measurements of compiling, for docs/benchmarks.md.

python -m pipeline.tools.benchmark lowering examples/resnet18.py    # seconds from export to linalg
python -m pipeline.tools.benchmark memory examples/llama_1b.py      # peak memory of a whole compilation
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import click

_GB = 1e9


@click.group()
def cli() -> None:
    """Measure compiling."""


@cli.command()
@click.argument("model")
@click.option("--rounds", default=3, show_default=True)
def lowering(model: str, rounds: int) -> None:
    """Seconds from torch.export to linalg; loading torch and making the model not counted."""
    from pipeline.api import capture_checked, compile_options
    from pipeline.compiler import lower
    from pipeline.model_file import load_model

    loaded = load_model(model)
    options = compile_options()
    for _ in range(rounds):
        start = time.perf_counter()
        program = capture_checked(loaded.model, loaded.entries, options)
        captured = time.perf_counter()
        lower(program, options)
        end = time.perf_counter()
        parts = f"capture {captured - start:.2f} s, import and lower {end - captured:.2f} s"
        print(f"{model}: {parts}, together {end - start:.2f} s")


@cli.command()
@click.argument("model")
@click.option("--target", default="cpu", show_default=True)
def memory(model: str, target: str) -> None:
    """Peak resident memory of `pipeline compile` and all its children, against the size of the weights."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "model.vmfb"
        command = [
            sys.executable,
            "-m",
            "pipeline.cli",
            "compile",
            model,
            "--target",
            target,
            "-o",
            str(output),
        ]
        start = time.perf_counter()
        process = subprocess.Popen(command)
        peak = _Peak(process.pid)
        code = process.wait()
        seconds = time.perf_counter() - start
        if code:
            sys.exit(code)
        weights = sum(file.stat().st_size for file in Path(folder).glob("*.irpa"))
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(
        f"{model}: weights {weights / _GB:.2f} GB, peak of all processes {peak.bytes / _GB:.2f} GB, "
        f"largest process {largest / _GB:.2f} GB, limit 1.5 x weights + 4 GB = {(1.5 * weights / _GB) + 4:.2f} GB, "
        f"{seconds:.0f} s"
    )


class _Peak:
    """Samples the proportional memory (PSS: a page shared by n processes counts 1/n) of a process tree."""

    def __init__(self, root: int) -> None:
        self.bytes = 0
        self._root = root
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while Path(f"/proc/{self._root}").exists():
            self.bytes = max(self.bytes, sum(_pss(pid) for pid in _tree(self._root)))
            time.sleep(0.2)


def _tree(root: int) -> list[int]:
    found = [root]
    for pid in found:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                found += map(int, children.read_text().split())
            except OSError:
                continue
    return found


def _pss(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    cli()
