"""The ``pipeline`` command. torch and the compilers load only inside the commands that need them."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_TARGET_OPTIONS = (
    click.option("--target", default="cpu", show_default=True, help="cpu, vulkan, cuda, or several: cpu,vulkan"),
    click.option("--cpu", default="host", show_default=True, help="host, generic or an LLVM CPU name"),
    click.option("--cuda-arch", default="sm_80", show_default=True, help="GPU architecture, such as sm_89"),
    click.option("--vulkan-target", help="IREE Vulkan target, such as rdna3; the default runs on any device"),
    click.option("--weights", type=click.Choice(["auto", "inline", "external"]), default="auto", show_default=True,
                 help="inside the .vmfb, in a .irpa beside it, or by size"),
    click.option("--iree-arg", "iree_args", multiple=True, help="further iree-compile option; repeatable"),
    click.option("--lowering", "lowerings", multiple=True,
                 help="NAMESPACE::OPERATOR=TITLE: the lowering a custom operator must get, or meaning; repeatable"),
    click.option("--shape-lib", multiple=True, type=click.Path(path_type=Path),
                 help="shape and dtype functions that come before ours, .py or .mlir; repeatable"),
    click.option("--disable-pass", "disable_passes", multiple=True, help="leave out this pass of ours; repeatable"),
    click.option("--enable-pass", "enable_passes", multiple=True,
                 help="run this pass of ours, which runs only when asked for; repeatable"),
    click.option("--timeout", type=float, default=1800.0, show_default=True, help="seconds per compiler process"),
    click.option("--cache", is_flag=True, help="take compiled programs from the cache, and put them there"),
    click.option("--memory-limit", type=int, help="bytes of data per compiler process; default all of the machine's"),
)  # fmt: skip


def _target_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_TARGET_OPTIONS):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pipeline")
def cli() -> None:
    """Compiles PyTorch programs into portable executables for CPU, CUDA and Vulkan.

    MODEL is model.py, model.py:NAME or a .pt2 file. Exit codes: 0 right, 1 verify found a mismatch,
    2 usage or bad input, 3 unsupported, 4 internal.
    """


@cli.command("compile")
@click.argument("model")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="the .vmfb, or with --emit the text file"
)
@click.option("--emit", type=click.Choice(["torch", "refined", "linalg", "iree", "vmfb"]), default="vmfb",
              show_default=True, help="stop after this stage")  # fmt: skip
@click.option("--train", is_flag=True, help="compile a training step, with the file's loss_fn and optimizer")
@click.option("--locations", is_flag=True, help="with --emit: print source locations")
@click.option("--print-before", multiple=True, help="print the IR before this pass; repeatable")
@click.option("--print-after", multiple=True, help="print the IR after this stage or pass; repeatable")
@click.option(
    "--dump-dir", type=click.Path(path_type=Path), help="write the IR after every pass into this folder"
)
@_target_options
def compile_command(
    model: str,
    output: Path | None,
    emit: str,
    locations: bool,
    train: bool,
    **options: Any,
) -> None:
    """Compile MODEL into an artifact."""
    from . import commands

    commands.compile_model(model, output, emit, locations, train, options)


@cli.command("train")
@click.argument("artifact", type=click.Path(path_type=Path))
@click.option(
    "--data",
    required=True,
    type=click.Path(path_type=Path),
    help=".npz with an array per argument of the step: all samples one after the other, or batches",
)
@click.option("--steps", type=click.IntRange(min=1), required=True, help="how many to do")
@click.option("--shuffle", is_flag=True, help="samples in another order each time through the data")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="of dropout and of --shuffle; with each step's number, so that a resumed run goes on as it would",
)
@click.option("--learning-rate", type=float, help="for all parameter groups, instead of those of the state")
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    help=".irpa to go on from if it exists, and to leave the state in",
)
@click.option("--every", type=click.IntRange(min=1), help="write the checkpoint after this many steps too")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="the trained artifact, a .vmfb")
@click.option("--device", help="cpu, vulkan, cuda or an IREE URI; default the artifact's first target")  # fmt: skip
def train_command(artifact: Path, **options: Any) -> None:
    """Train ARTIFACT, made by compile --train, on --data. Needs only the runtime."""
    from . import train_command as command

    command.train(artifact, **options)


@cli.command()
@click.argument("artifact", type=click.Path(path_type=Path))
@click.option("--entry", help="entry point; needed when there are several")
@click.option(
    "--input", "inputs", multiple=True, help="SHAPExDTYPE=@FILE.npy or =VALUE, in order; repeatable"
)
@click.option(
    "--output", "outputs", multiple=True, type=click.Path(path_type=Path), help="@-less .npy path per output"
)
@click.option("--device", help="cpu, vulkan, cuda or an IREE URI; default the artifact's first target")
@click.option(
    "--weights", type=click.Path(path_type=Path), help="another .irpa than the one beside the artifact"
)
def run(artifact: Path, **options: Any) -> None:
    """Run ARTIFACT on its example inputs, or on --input. Needs only the runtime."""
    from . import run_command

    run_command.run(artifact, **options)


@cli.command()
@click.argument("artifact", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="print the manifest as JSON")
def inspect(artifact: Path, as_json: bool) -> None:
    """Show what ARTIFACT holds: entry points, types, bounds, state, targets, versions. Needs only the runtime."""
    from . import inspect_command

    inspect_command.inspect(artifact, as_json)


@cli.command()
@click.argument("model")
@click.option("--rtol", type=float, help="relative tolerance instead of the dtype's default; with --atol")
@click.option("--atol", type=float, help="absolute tolerance instead of the dtype's default; with --rtol")
@click.option("--device", help="where to run it; default the first target")
@click.option(
    "--bisect", is_flag=True, help="where outputs are wrong: name the first operator that is, and its line"
)
@_target_options
def verify(
    model: str, rtol: float | None, atol: float | None, device: str | None, bisect: bool, **options: Any
) -> None:
    """Compile MODEL and compare it with eager PyTorch, output by output."""
    from . import commands

    sys.exit(commands.verify_model(model, rtol, atol, device, bisect, options))


@cli.command()
@click.argument("model")
@click.option(
    "--just-in-time", is_flag=True, help="show what torch.compile would compile and what would run in eager"
)
@_target_options
def explain(model: str, just_in_time: bool, **options: Any) -> None:
    """Show every operator of MODEL, how it is lowered, and what cannot be compiled, before compiling."""
    from . import commands

    sys.exit(
        commands.explain_calls(model, options) if just_in_time else commands.explain_model(model, options)
    )


@cli.command()
@click.argument("model")
@click.option("--entry", help="entry point; needed when there are several")
@click.option("--train", is_flag=True, help="a training step, with the file's loss_fn and optimizer")
@click.option("--threads", multiple=True, help="a number or all; default 1; repeatable")
@click.option("--competitor", "competitors", multiple=True, help="time only this one and ours; repeatable")
@click.option("--rounds", type=click.IntRange(min=1), default=10, show_default=True)
@click.option(
    "--seconds",
    type=float,
    default=0.3,
    show_default=True,
    help="per round and competitor, one call at least",
)
@click.option("--patience", type=float, default=1800.0, show_default=True, help="seconds to get ready in")
@click.option(
    "--clock",
    type=click.Choice(["wall", "cpu"]),
    default="wall",
    show_default=True,
    help="cpu: time of all threads, for one thread on a machine that does other work",
)
@click.option(
    "--roofline/--no-roofline", default=True, show_default=True, help="measure what the machine allows"
)
@click.option("--json", type=click.Path(path_type=Path), help="write every measured time into this file")
@click.option("--plot", type=click.Path(path_type=Path), help="draw the ratios into this .png or .svg")
@_target_options
def bench(
    model: str,
    entry: str | None,
    train: bool,
    threads: tuple[str, ...],
    competitors: tuple[str, ...],
    rounds: int,
    seconds: float,
    patience: float,
    clock: str,
    roofline: bool,
    json: Path | None,
    plot: Path | None,
    **options: Any,
) -> None:
    """Time MODEL compiled by us, in eager, and by others that are installed, side by side and checked.

    Takes the file's benchmark_inputs where it has them, else its example inputs, at fixed sizes.
    """
    from . import bench_command
    from .benchmarking.contest import Rules

    rules = Rules(rounds, seconds, patience)
    sys.exit(bench_command.bench(
        model, entry, train, threads, competitors, rules, clock, roofline, json, plot, options
    ))  # fmt: skip


@cli.command("profile")
@click.argument("model")
@click.option("--entry", help="entry point; needed when there are several")
@click.option("--train", is_flag=True, help="a training step, with the file's loss_fn and optimizer")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--calls", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="rows of the table")
@click.option(
    "--roofline/--no-roofline", default=True, show_default=True, help="measure what the machine allows"
)
@click.option("--trace", type=click.Path(path_type=Path), help="write a trace for Perfetto into this .json")
@click.option("--html", type=click.Path(path_type=Path), help="write a page with a timeline into this file")
@click.option("--json", type=click.Path(path_type=Path), help="write all figures into this file")
@_target_options
def profile_command(model: str, **options: Any) -> None:
    """Show where a call of MODEL spends its time, dispatch by dispatch, and which of its lines that is.

    MODEL may be an artifact for the CPU too; then its dispatches have names and no lines.
    """
    from . import profile_command as command

    command.profile(model, **options)


@cli.group("cache")
def cache_group() -> None:
    """Show or empty the cache of compiled programs, in PIPELINE_CACHE or the user's cache folder."""


@cache_group.command("info")
def cache_info() -> None:
    """Show where the cache is and what it holds."""
    from . import cache_command

    cache_command.info()


@cache_group.command("clear")
def cache_clear() -> None:
    """Remove every program in the cache."""
    from . import cache_command

    cache_command.clear()


def main() -> None:
    """Entry point: maps every room's exceptions to one message and an exit code."""
    from .errors import EXIT_INTERNAL, ON_PURPOSE, exit_code

    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except ON_PURPOSE as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(exit_code(error))
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(130)
    except Exception as error:
        from . import reproducer

        where = reproducer.keep_traceback(traceback.format_exc())
        click.echo(f"internal error: {type(error).__name__}: {error}\nreproducer: {where}", err=True)
        sys.exit(EXIT_INTERNAL)


if __name__ == "__main__":
    main()
