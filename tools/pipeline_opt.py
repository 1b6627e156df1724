"""``pipeline-opt``: runs passes, or stages, over a module of IR. Starts without torch.

Examples:

    pipeline-opt file.mlir --pass-pipeline='builtin.module(keep-nan-comparisons,func.func(cse))'
    pipeline-opt file.mlir --keep-nan-comparisons
    pipeline-opt file.mlir --refine-shapes=my_shapes.py --verify-refined
    pipeline-opt file.mlir --from torch --to linalg
    pipeline-opt linalg.mlir --from linalg --to iree
    pipeline-opt pipeline-reproducer-x1y2

The last is a folder that a failure left, here or in ``pipeline compile``: the pass that failed runs again, on the IR
that it failed on.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pipeline.dialect_passes.registry import PASSES

_STAGES = ("torch", "refined", "linalg", "iree")


# Passes that may take files, as --refine-shapes=a.py,b.py.
_TAKES_LIBRARY = ("refine-shapes",)


def _pass_options(command: Any) -> Any:
    for name, says in sorted(PASSES.items(), reverse=True):
        parameter = "pass_" + name.replace("-", "_")
        kind: dict[str, Any] = {"metavar": "[FILE,...]"} if name in _TAKES_LIBRARY else {"is_flag": True}
        command = click.option(f"--{name}", parameter, help=says, **kind)(command)
    return command


def _chosen(flags: dict[str, Any]) -> list[str]:
    """The passes whose flags are given, as pipeline items."""
    found = []
    for name in PASSES:
        value = flags["pass_" + name.replace("-", "_")]
        if isinstance(value, str):
            found.append(f"{name}{{library={shlex.quote(value)}}}" if value else name)
        elif value:
            found.append(name)
    return found


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", default="-")
@click.option("--pass-pipeline", help="passes of ours, torch-mlir's and MLIR's own, options included")
@click.option("--from", "first", type=click.Choice(_STAGES), default="torch", help="stage that FILE is at")
@click.option("--to", "last", type=click.Choice(_STAGES), help="run the stages up to this one")
@click.option(
    "--print-before", multiple=True, metavar="PASS", help="print the IR before PASS to standard error"
)
@click.option(
    "--print-after", multiple=True, metavar="PASS", help="print the IR after PASS to standard error"
)
@click.option("--print-before-all", is_flag=True, help="print the IR before every pass to standard error")
@click.option("--print-after-all", is_flag=True, help="print the IR after every pass to standard error")
@click.option("--locations", is_flag=True, help="print source locations")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="write here instead of standard output")
@_pass_options
def cli(
    file: str,
    pass_pipeline: str | None,
    first: str,
    last: str | None,
    locations: bool,
    output: Path | None,
    **flags: Any,
) -> None:
    """Run passes over FILE (text or bytecode; - is standard input; or a reproducer's folder) and print the result."""
    printing = _Printing.from_flags(flags)
    passes = [*_chosen(flags), *([pass_pipeline] if pass_pipeline else [])]
    if last == "iree":
        text = _to_iree(_read(file), first, locations)
    elif Path(file).is_dir():
        text = _run_again(Path(file), passes, printing, locations)
    else:
        text = _run_passes(_read(file), [*passes, *_stages(first, last)], printing, locations)
    if output is None:
        print(text)
    else:
        output.write_text(text + "\n")


def _read(file: str) -> bytes:
    return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()


def _stages(first: str, last: str | None) -> list[str]:
    from pipeline.stages import passes_between

    return [passes for _, passes in passes_between(first, last or first)]


@dataclass
class _Printing:
    """Which passes to print the IR before and after; None stands for all."""

    before: set[str] | None
    after: set[str] | None

    @classmethod
    def from_flags(cls, flags: dict[str, Any]) -> _Printing:
        return cls(
            *(
                None if flags[f"print_{when}_all"] else {*flags[f"print_{when}"]}
                for when in ("before", "after")
            )
        )

    def check(self, passes: Sequence[str]) -> None:
        """Raises UsageError for a name that is none of the passes that run."""
        from pipeline.dialect_passes.pipelines import names

        known = {name for item in passes for name in names(item)}
        for name in sorted((self.before or set()) | (self.after or set())):
            if name not in known:
                raise click.UsageError(f"no pass '{name}' runs here; these do: {', '.join(sorted(known))}")

    def print_before(self, item: str, module: Any) -> None:
        _print_where(self.before, "before", item, module)

    def print_after(self, item: str, module: Any) -> None:
        _print_where(self.after, "after", item, module)


def _print_where(wanted: set[str] | None, when: str, item: str, module: Any) -> None:
    from pipeline.dialect_passes.pipelines import names

    if wanted is None or wanted.intersection(names(item)):
        print(f"// -----// IR {when} {item} //----- //\n{module}", file=sys.stderr)


def _run_passes(
    source: bytes, pipelines_: Sequence[str], printing: _Printing, locations: bool, keep: bool = True
) -> str:
    """The text after the passes. keep: leave a reproducer where one fails."""
    from pipeline.dialect_passes import pipelines

    module = _parse(source)
    with module.context:
        passes = [item for text in pipelines_ for item in pipelines.expand(text)]
    printing.check(passes)
    position = -1

    def before(item: str, module: Any) -> None:
        nonlocal position
        position += 1
        printing.print_before(item, module)

    try:
        pipelines.run(module, passes, before=before, after=printing.print_after)
    except pipelines.PassError as error:
        from pipeline.errors import EXIT_INTERNAL, exit_code

        if keep and exit_code(error.__cause__ or error) == EXIT_INTERNAL:
            error.add_note(f"reproducer: {_keep(source, passes[: position + 1], str(error))}")
        raise
    return module.operation.get_asm(enable_debug_info=locations)


def _keep(source: bytes, passes: Sequence[str], message: str) -> Path:
    """A reproducer of the last of `passes`: the ones before it run again, since it may have changed the module."""
    from pipeline import reproducer
    from pipeline.dialect_passes import pipelines

    module = _parse(source)
    pipelines.run(module, list(passes[:-1]))
    with reproducer.of_pass(passes[-1], message) as file:
        module.operation.write_bytecode(file)
    return Path(file.name).parent


def _run_again(folder: Path, passes: list[str], printing: _Printing, locations: bool) -> str:
    from pipeline import reproducer

    source, failed = reproducer.read(folder)
    # Options of the pass may name files in the folder.
    with contextlib.chdir(folder):
        return _run_passes(source, passes or [failed], printing, locations, keep=False)


def _parse(source: bytes) -> Any:
    from torch_mlir import ir
    from torch_mlir.dialects import torch as torch_dialect

    context = ir.Context()
    torch_dialect.register_dialect(context)
    context.allow_unregistered_dialects = True
    return ir.Module.parse(source, context)


def _to_iree(source: bytes, first: str, locations: bool) -> str:
    """The last dialect stage, with an empty manifest."""
    from iree.compiler import ir

    from pipeline.iree_module import to_iree_module

    if first != "linalg":
        raise click.UsageError("--to iree starts --from linalg")
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(source)
        to_iree_module(module, "{}")
        return module.operation.get_asm(enable_debug_info=locations)


def _arguments(given: Sequence[str]) -> list[str]:
    """A flag that may take a value takes the next word for it unless it ends in ``=``."""
    return [f"{word}=" if word.removeprefix("--") in _TAKES_LIBRARY else word for word in given]


def main() -> None:
    """Entry point: one message and exit code 2 for bad input, 3 for unknown types, 4 for a failing pass."""
    try:
        cli.main(_arguments(sys.argv[1:]), standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (ValueError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    except Exception as error:
        # MLIR's and the passes' own errors; their classes load only with torch-mlir.
        from pipeline.errors import exit_code

        click.echo("\n".join([f"error: {error}", *getattr(error, "__notes__", ())]), err=True)
        sys.exit(exit_code(error.__cause__ or error))


if __name__ == "__main__":
    main()
