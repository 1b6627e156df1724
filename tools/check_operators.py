"""``python -m pipeline.tools.check_operators``: every shipped custom operator checked on all of its samples.

Eager, shapes and dtypes, gradients and each lowering on each target that runs here, as `CustomOp.check` compares
them. The tests check one sample of each. Exit code 0: all agree; 1: some do not.
"""

from __future__ import annotations

import sys

import click


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--op", "only", multiple=True, help="an operator to check, such as pipeline::rms_norm (default: all)"
)
@click.option("--target", "targets", multiple=True, default=("cpu",), show_default=True, help="repeatable")
def main(only: tuple[str, ...], targets: tuple[str, ...]) -> None:
    """Checks the operators of `pipeline.ops`."""
    from pipeline.dialect_passes.operators import cached_attention, cross_entropy, rms_norm, rotary, swiglu
    from pipeline.operators import CustomOp

    shipped: list[tuple[CustomOp, list]] = [
        (swiglu.swiglu, swiglu.samples()),
        (rms_norm.rms_norm, rms_norm.samples()),
        (rotary.rotary_embedding, rotary.samples()),
        (cross_entropy.cross_entropy_rows, cross_entropy.samples()),
        (cached_attention.update_cache, cached_attention.cache_samples()),
        (cached_attention.attend_cache, cached_attention.samples()),
    ]
    names = [op.name for op, _ in shipped]
    for name in only:
        if name not in names:
            raise click.BadParameter(f"choose from {', '.join(names)}", param_hint="--op")
    reports = [
        op.check(samples, targets, strict=False) for op, samples in shipped if not only or op.name in only
    ]
    print("\n".join(str(report) for report in reports))
    sys.exit(not all(report.ok for report in reports))


if __name__ == "__main__":
    main()
