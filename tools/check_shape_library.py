"""``python -m pipeline.tools.check_shape_library``: every shape and dtype function against its operator.

The functions run as plain Python on the very arguments with which operators are called while torch's samples
(OpInfo) run: eagerly, functionalized and decomposed as for capture, differentiated; error inputs too. What they
say of shapes and dtypes must be what PyTorch gives, and they must raise where it raises. A part of the calls is
also checked as compiled: refined with static and with unknown sizes. Exit code 0: all agree; 1: some do not, or
some function was never checked; 2: usage.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from .shape_check.judge import Entry


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--op", "only", multiple=True, help="an operator to check, such as aten.lgamma (default: all)")
@click.option("--samples", default=20, show_default=True, help="samples per OpInfo and dtype")
@click.option(
    "--dtypes", help="comma-separated, such as float32,int64 (default: all that an operator supports)"
)
@click.option("--compiled", default=3, show_default=True, help="calls per operator to refine as well")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="a report, one JSON a line"
)
def main(only: tuple[str, ...], samples: int, dtypes: str | None, compiled: int, output: Path | None) -> None:
    """Checks the functions of the shape library against PyTorch."""
    import torch

    from .shape_check.run import check

    torch.set_num_threads(1)
    found = check(_wanted(only), samples, _dtypes(dtypes), compiled, progress=sys.stderr.isatty())
    for entry in found:
        print(_line(entry))
    if output:
        output.write_text("".join(json.dumps(_record(entry)) + "\n" for entry in found))
    _print_totals(found)
    sys.exit(any(_problems(entry) for entry in found))


def _wanted(only: Iterable[str]) -> list[str] | None:
    from pipeline.dialect_passes.operators import load_families

    from .shape_check.judge import entries, full_name

    load_families()
    known = entries()
    names = [full_name(name.removesuffix(".default")) for name in only]
    for name in names:
        if name not in known:
            raise click.BadParameter(f"the library has no function for {name}", param_hint="--op")
    return names or None


def _dtypes(text: str | None) -> list | None:
    import torch

    if text is None:
        return None
    found = [getattr(torch, name.strip(), None) for name in text.split(",")]
    if not all(isinstance(dtype, torch.dtype) for dtype in found):
        raise click.BadParameter(f"'{text}' names something that is no dtype", param_hint="--dtypes")
    return found


def _problems(entry: Entry) -> list[str]:
    missing = [f"there is no {kind} function" for kind in ("shape", "dtype") if kind not in entry.functions]
    never = [] if entry.checked else ["no call of it was found to check (add samples to its entry)"]
    return [*missing, *never, *entry.wrong]


def _line(entry: Entry) -> str:
    problems = _problems(entry)
    verdict = "right" if not problems else f"WRONG ({len(problems)})\n    " + "\n    ".join(problems[:5])
    counts = f"{entry.checked:>6} calls {entry.errors:>4} errors {entry.compiled:>3} refined"
    return f"{entry.operator:<62}{counts}  {verdict}"


def _record(entry: Entry) -> dict:
    return {
        "operator": entry.operator,
        "functions": sorted(entry.functions),
        "calls": entry.checked,
        "errors": entry.errors,
        "excused": entry.excused,
        "refined": entry.compiled,
        "problems": _problems(entry),
    }


def _print_totals(found: list[Entry]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("operators", "functions", "calls", "error calls", "excused", "refined", "wrong")
    wrong = sum(bool(_problems(entry)) for entry in found)
    functions = sum(len(entry.functions) for entry in found)
    sums = [
        sum(getattr(entry, name) for entry in found) for name in ("checked", "errors", "excused", "compiled")
    ]
    table.add_row(*map(str, [len(found), functions, *sums, wrong]))
    Console().print(table)


if __name__ == "__main__":
    main()
