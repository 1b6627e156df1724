"""``pipeline-opt``: runs passes, or stages, over a module of IR. Starts without torch.

Examples:

    pipeline-opt file.mlir --pass-pipeline='builtin.module(keep-nan-comparisons,func.func(cse))'
    pipeline-opt file.mlir --keep-nan-comparisons
    pipeline-opt file.mlir --refine-shapes=my_shapes.py --verify-refined
    pipeline-opt file.mlir --from torch --to linalg
    pipeline-opt linalg.mlir --from linalg --to iree
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
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


def _chosen(flags: dict[str, bool | str | None]) -> list[str]:
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
@click.option("--print-after-all", is_flag=True, help="print the IR after every pass to standard error")
@click.option("--locations", is_flag=True, help="print source locations")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="write here instead of standard output")
@_pass_options
def cli(
    file: str,
    pass_pipeline: str | None,
    first: str,
    last: str | None,
    print_after_all: bool,
    locations: bool,
    output: Path | None,
    **flags: bool | str | None,
) -> None:
    """Run passes over FILE (text or bytecode; - is standard input) and print the result."""
    source = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    chosen = _chosen(flags)
    if last == "iree":
        text = _to_iree(source, first, locations)
    else:
        pipeline = ",".join([*chosen, *([pass_pipeline] if pass_pipeline else [])])
        text = _run_passes(source, pipeline, first, last, print_after_all, locations)
    if output is None:
        print(text)
    else:
        output.write_text(text + "\n")


def _run_passes(
    source: bytes, pipeline: str, first: str, last: str | None, print_after_all: bool, locations: bool
) -> str:
    from pipeline.dialect_passes import pipelines
    from pipeline.stages import passes_between

    module = _parse(source)
    texts = [pipeline, *(passes for _, passes in passes_between(first, last or first))]
    for text in filter(None, texts):
        with module.context:
            passes = pipelines.expand(text)
        pipelines.run(module, passes, after=_print_after if print_after_all else None)
    return module.operation.get_asm(enable_debug_info=locations)


def _print_after(item: str, module: Any) -> None:
    print(f"// -----// IR after {item} //----- //\n{module}", file=sys.stderr)


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

        click.echo(f"error: {error}", err=True)
        sys.exit(exit_code(error.__cause__ or error))


if __name__ == "__main__":
    main()
