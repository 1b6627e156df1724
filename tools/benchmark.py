"""Measurements for docs/benchmarks.md.

python -m pipeline.tools.benchmark table --json table.json          # `pipeline bench` over the models below
python -m pipeline.tools.benchmark lowering examples/resnet18.py    # seconds from export to linalg
python -m pipeline.tools.benchmark memory examples/llama_1b.py      # peak memory of a whole compilation
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from pipeline.benchmarking.memory import TreePeak

_GB = 1e9

TABLE = (
    "examples/mlp.py",
    "examples/resnet18.py",
    "examples/resnet50.py",
    "examples/mobilenetv2.py",
    "examples/convnext_tiny.py",
    "examples/vit_base.py",
    "examples/bert.py",
    "examples/gpt2.py",
    "examples/llama.py",
    "tools/benchmark_models/t5_encoder.py",
    "examples/swin_tiny.py",
    "examples/whisper_tiny.py",
)
"""Batch 1 and fixed sizes: each file says which."""


@click.group()
def cli() -> None:
    """Measure compiling, and what was compiled."""


@cli.command()
@click.argument("models", nargs=-1)
@click.option("--json", required=True, type=click.Path(path_type=Path), help="results; what it holds is kept")
@click.option("--plot", type=click.Path(path_type=Path), help="draw the ratios into this .png or .svg")
@click.option("--threads", default="1", show_default=True, help="a number or all")
@click.option("--clock", type=click.Choice(["wall", "cpu"]), default="wall", show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--seconds", type=float, default=0.3, show_default=True, help="per round and competitor")
def table(
    models: tuple[str, ...],
    json: Path,
    plot: Path | None,
    threads: str,
    clock: str,
    rounds: int,
    seconds: float,
) -> None:
    """`pipeline bench` over all models of the table, or MODELS, and what it says in Markdown."""
    from pipeline import bench_command
    from pipeline.benchmarking import results, tables
    from pipeline.benchmarking.competitors import COMPETITORS
    from pipeline.benchmarking.contest import Rules
    from pipeline.benchmarking.workload import Subject, name_of

    bench_command.check_files(json, plot)
    count = bench_command.thread_count(threads)
    found = results.read_json(json)[1] if json.exists() else []
    done = {(item.model, item.threads) for item in found}
    for model in models or TABLE:
        if (name_of(model), count) in done:
            continue
        rules = Rules(rounds, seconds)
        found.append(
            bench_command.run(
                Subject(model, threads=count), list(COMPETITORS), rules, clock=clock, roofline=True
            )
        )
        bench_command.show(found[-1])
        # After each, since the whole takes an hour.
        bench_command.leave(found, json, plot)
    print(tables.markdown(found))


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
        peak = TreePeak(process.pid)
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


if __name__ == "__main__":
    cli()
