"""``python -m pipeline.tools.verify_examples [NAME...]``: `pipeline verify` over examples/, as a Markdown table.

Each example runs in a process of its own: one that dies is a row of the table, and the memory of one does
not burden the next. The times of a call are the least of several, taken in turns, on one thread: CPU time,
which other work on the machine does not stretch.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

# One billion parameters, kept to measure the memory of a compilation.
_TOO_BIG = ("llama_1b",)
_HEADER = "| example | verdict | compared | error / tolerance | option set | compile s | call ms | eager ms |"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1)
@click.option("--folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default="examples")
@click.option("--rounds", default=5, show_default=True, help="calls to time, after one to warm up")
@click.option("--one", hidden=True, is_flag=True, help="this process measures NAME and prints JSON")
def main(names: tuple[str, ...], folder: Path, rounds: int, one: bool) -> None:
    """Verifies every example at full size (or the NAMEs) and prints a table; exits with 1 on a mismatch."""
    if one:
        print(json.dumps(_measure(folder / f"{names[0]}.py", rounds)))
        return
    every = sorted(path.stem for path in folder.glob("*.py"))
    found = [name for name in every if name not in _TOO_BIG and not name.startswith("train_")]
    print(_HEADER + "\n" + "| --- " * 8 + "|", flush=True)
    rows = []
    for name in names or found:
        rows.append(_in_child(name, folder, rounds))
        print(_row(name, rows[-1]), flush=True)
    sys.exit(any(row["wrong"] for row in rows))


def _in_child(name: str, folder: Path, rounds: int) -> dict[str, Any]:
    command = [sys.executable, "-m", __spec__.name, name, "--folder", str(folder), "--rounds", str(rounds)]
    done = subprocess.run([*command, "--one"], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return {"wrong": 1, "failure": last}


def _row(name: str, row: dict[str, Any]) -> str:
    if "failure" in row:
        return f"| {name} | FAILED: {row['failure']} | | | | | | |"
    verdict = "right" if not row["wrong"] else f"WRONG: {row['wrong']}"
    cells = [name, verdict, row["compared"], f"{row['worst']:.2g}", row["rung"]]
    cells += [f"{row['compile']:.1f}", f"{row['call']:.1f}", f"{row['eager']:.1f}"]
    return "| " + " | ".join(map(str, cells)) + " |"


def _measure(path: Path, rounds: int) -> dict[str, Any]:
    import torch

    from pipeline.api import capture_checked, compile_options
    from pipeline.compiler import compile_program
    from pipeline.model_file import load_model
    from pipeline.runtime import Executable
    from pipeline.verify import verify

    torch.set_num_threads(1)
    loaded = load_model(str(path))
    start = time.perf_counter()
    options = compile_options("cpu")
    artifact = compile_program(capture_checked(loaded.model, loaded.entries, options), options)
    seconds = time.perf_counter() - start
    found = verify(loaded.model, loaded.entries, Executable(artifact))
    call, eager = _times(loaded.model, loaded.entries, Executable(artifact, device="local-sync"), rounds)
    return {
        "wrong": sum(not item.right for item in found),
        "compared": len(found),
        "worst": max(_relative_error(item) for item in found),
        "rung": artifact.manifest.targets[0]["rung"],
        "compile": seconds,
        "call": call,
        "eager": eager,
    }


def _relative_error(item: Any) -> float:
    """Against the tolerance near zero; where float64 had to judge, against what that allowed."""
    if item.eager_error is not None:
        return item.compiled_error / (2 * item.eager_error)
    return item.error / item.atol if item.atol else item.error


def _times(model: Any, entries: Any, executable: Any, rounds: int) -> tuple[float, float]:
    """Milliseconds of the last entry point (the decode step, where there are two), compiled and eager."""
    import torch

    name, spec = list(entries.items())[-1]
    calls: list[Callable[..., Any]] = [executable.entry_point(name), getattr(model, spec.method)]
    best = [float("inf")] * 2
    with torch.no_grad():
        for _ in range(rounds + 1):
            for i, function in enumerate(calls):
                start = time.process_time()
                function(*spec.args, **spec.kwargs)
                best[i] = min(best[i], time.process_time() - start)
    return best[0] * 1e3, best[1] * 1e3


if __name__ == "__main__":
    main()
