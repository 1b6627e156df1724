"""The CPU target. IREE's defaults (O0, generic CPU, no data tiling) are 2 to 20 times too slow."""

from __future__ import annotations

from .target import Rung, Target

_CHANNELS_LAST = "iree-preprocessing-convert-conv-to-channels-last"
_IMG2COL = "iree-global-opt-convert-conv2d-to-img2col"
# Attention fused into one dispatch asks for more stack than the default limit of 32 KiB.
_STACK = "--iree-llvmcpu-stack-allocation-limit=1048576"


def _preprocessing(*passes: str) -> str:
    return f"--iree-preprocessing-pass-pipeline=builtin.module(util.func({','.join(passes)}))"


# Rows that are no multiple of the vector length: with IREE's own choice the softmax of Whisper's encoder
# (rows of 1500) takes 25 times as long, and the whole model 7 times.
_PEEL = "--iree-llvmcpu-vector-pproc-strategy=peel"

# One thread, 224 pixels: ResNet-50 takes 128 ms with channels-last convolutions, 49 ms with them as matmuls too.
_TILED = ("--iree-opt-level=O3", "--iree-opt-data-tiling", _STACK)


def _tiled(*extra: str, suffix: str = "") -> tuple[Rung, ...]:
    """With data tiling: what fails on some dynamic shapes comes off one by one."""
    return (
        Rung(
            f"O3, data tiling, channels-last convolutions as matmuls, transposes kept in place{suffix}",
            (
                *_TILED,
                *extra,
                _preprocessing(_CHANNELS_LAST, _IMG2COL),
                "--iree-global-opt-propagate-transposes=false",
            ),
            kernels=True,
        ),
        # Attention with a dynamic batch or sequence fails above ("affine.delinearize_index").
        Rung(
            f"O3, data tiling, channels-last convolutions as matmuls{suffix}",
            (*_TILED, *extra, _preprocessing(_CHANNELS_LAST, _IMG2COL)),
            kernels=True,
        ),
        # The channels-last pass fails, at once, on convolutions with a dynamic batch ("tensor.empty").
        Rung(
            f"O3, data tiling, convolutions as matmuls{suffix}",
            (*_TILED, *extra, _preprocessing(_IMG2COL)),
            kernels=True,
        ),
    )


_LADDER = (
    *_tiled(_PEEL),
    # Peeling fails with data tiling on an LSTM with a dynamic batch ("affine.delinearize_index").
    *_tiled(suffix=", no peeling"),
    Rung("O3, data tiling", _TILED),
    Rung("O3", ("--iree-opt-level=O3", _STACK, _PEEL)),
    Rung("O1", ("--iree-opt-level=O1", _STACK)),
    Rung("O0", ("--iree-opt-level=O0", _STACK)),
)


def make(cpu: str) -> Target:
    """cpu: "host", "generic" or an LLVM CPU name such as "haswell"."""
    options = (
        "--iree-hal-local-target-device-backends=llvm-cpu",
        f"--iree-llvmcpu-target-cpu={cpu}",
        "--iree-llvmcpu-debug-symbols=false",
    )
    return Target("cpu", cpu, "local", options, _LADDER)
