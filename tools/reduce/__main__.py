"""``python -m pipeline.tools.reduce MODEL``: the fewest operators of MODEL that still fail in the same way.

MODEL is what ``pipeline compile`` takes. It fails where it cannot be compiled, crashes, hangs or gives other values
than eager PyTorch; the same way means the same kind of failure: the same unsupported operators, the same error of the
compiler, a wrong value, the same signal. The result is a Python file to ``pipeline verify``, written anew at each step,
so that a search that is stopped leaves what it has. It has the sizes of the example inputs: a failure that needs sizes
left open does not show. Exit code 0: reduced; 2: MODEL does not fail.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("model")
@click.option("-o", "--output", default="reduced.py", show_default=True, type=click.Path(path_type=Path))
@click.option("--entry", help="entry point; needed when there are several")
@click.option("--target", default="cpu", show_default=True, help="cpu, vulkan or cuda")
@click.option(
    "--disable-pass", "disable_passes", multiple=True, help="leave out this pass of ours; repeatable"
)
@click.option("--timeout", default=120.0, show_default=True, help="seconds until a program counts as hanging")
def main(
    model: str, output: Path, entry: str | None, target: str, disable_passes: tuple[str, ...], timeout: float
) -> None:
    """Reduces MODEL."""
    from pipeline.api import compile_options
    from pipeline.errors import ON_PURPOSE, exit_code
    from pipeline.model_file import load_model

    from . import program, writing
    from .failure import Failure, failure
    from .search import reduce

    try:
        loaded = load_model(model)
        options = compile_options(target, disable_passes=disable_passes, timeout=timeout, **loaded.options)
        if entry is None and len(loaded.entries) > 1:
            raise click.UsageError(f"--entry: choose from {', '.join(loaded.entries)}")
        spec = loaded.entries[entry] if entry else next(iter(loaded.entries.values()))
        whole = program.read(loaded.model, spec)
    except KeyError:
        raise click.UsageError(f"--entry: no entry point '{entry}'") from None
    except ON_PURPOSE as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(exit_code(error))
    found = failure(whole, options, timeout)
    if found is None:
        raise click.UsageError(f"{model} does not fail with the sizes of its example inputs")
    click.echo(f"{len(whole.operators())} operators, {found.kind}")

    def keep(candidate: program.Program, how: Failure) -> None:
        output.write_text(writing.text(candidate, how, model, loaded.options))

    def fails(candidate: program.Program) -> bool:
        now = failure(candidate, options, timeout)
        same = now is not None and now.kind == found.kind
        click.echo(
            f"  {len(candidate.operators())} operators: {'still' if same else now.kind if now else 'right'}"
        )
        if same and now is not None:
            keep(candidate, now)
        return same

    keep(whole, found)
    smallest = reduce(whole, fails)
    click.echo(f"{len(smallest.operators())} operators are left: {output}")


if __name__ == "__main__":
    main()
