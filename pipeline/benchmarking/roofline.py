"""The least time that a call can take on this machine: its operations and bytes against measured peaks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from . import competitors
from .training_steps import Loop
from .workload import Training, Workload, tensors_of

_SIZE = 1536  # of the square matrices: 28 MB in all, so that arithmetic and not memory decides
_COPY = 256 << 20  # bytes, more than any cache
_SECONDS = 2.0
_LOOKUPS = (
    torch.ops.aten.embedding.default,
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_select.default,
)


@dataclass(frozen=True)
class Peaks:
    """Of this machine with a number of threads. flops: float32 operations per second, of the fastest matmul here.
    bandwidth: bytes per second that a copy reads and writes. matmul: whose matmul that was."""

    flops: float
    bandwidth: float
    matmul: str


@dataclass(frozen=True)
class Roofline:
    """operations: of matmuls, convolutions and attention, a multiplication and an addition being two.
    bytes: of weights, arguments and results, each once. seconds: the least that these take at the peaks."""

    operations: int
    bytes: int
    seconds: float


class _Matmul(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a @ b


def measure_peaks(threads: int) -> Peaks:
    """A large matmul, by whoever is installed, and a large copy; with one thread in CPU time."""
    torch.set_num_threads(threads)
    args = torch.randn(_SIZE, _SIZE), torch.randn(_SIZE, _SIZE)
    work = Workload(_Matmul().eval(), "forward", args, {}, threads, {})
    seconds = {}
    for name in ("eager", competitors.OURS, "onnxruntime", "openvino"):
        try:
            seconds[name] = _least(competitors.COMPETITORS[name](work).call, threads)
        except ModuleNotFoundError:
            continue
    best = min(seconds, key=lambda name: seconds[name])
    source = torch.ones(_COPY // 4)
    target = torch.empty_like(source)
    copying = _least(lambda: target.copy_(source), threads)
    return Peaks(2 * _SIZE**3 / seconds[best], 2 * _COPY / copying, best)


def _least(call: Callable[[], Any], threads: int) -> float:
    clock = time.process_time if threads == 1 else time.perf_counter
    call()
    best, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        start = clock()
        call()
        best = min(best, clock() - start)
    return best


def roofline(work: Workload | Training, peaks: Peaks) -> Roofline:
    """Of one call, which is made in eager."""
    operations, size = _training_cost(work) if isinstance(work, Training) else _inference_cost(work)
    return Roofline(operations, size, max(operations / peaks.flops, size / peaks.bandwidth))


def _inference_cost(work: Workload) -> tuple[int, int]:
    reads = _Reads()
    with torch.no_grad(), _counting() as counter, reads:
        result = work.call()
    tensors = [*tensors_of((work.args, work.kwargs)), *tensors_of(result)]
    weights = [*work.model.parameters(), *work.model.buffers()]
    return counter.get_total_flops(), reads.bytes(weights) + sum(t.nbytes for t in tensors)


def _training_cost(work: Training) -> tuple[int, int]:
    """Weights and the optimizer's state are read and written once; what forward keeps for backward is left out."""
    loaded = work.loaded
    with _counting() as counter:
        Loop(loaded)()
    states = [t for state in loaded.optimizer.state.values() for t in tensors_of(state)]
    kept = [*loaded.model.parameters(), *states]
    return counter.get_total_flops(), 2 * sum(t.nbytes for t in kept) + sum(t.nbytes for t in loaded.args)


class _counting:
    """Operations, with attention taken apart: the counter does not know the CPU's own."""

    def __enter__(self) -> FlopCounterMode:
        self._kernel = sdpa_kernel(SDPBackend.MATH)
        self._kernel.__enter__()
        self._counter = FlopCounterMode(display=False)
        return self._counter.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._counter.__exit__(*error)
        self._kernel.__exit__(*error)


class _Reads(TorchDispatchMode):
    """Which weights are read as a whole, and how many bytes of rows are looked up in others."""

    def __init__(self) -> None:
        super().__init__()
        self._whole: set[int] = set()
        self._rows: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        views = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
        if func in _LOOKUPS:
            place = _place(args[0])
            self._rows[place] = self._rows.get(place, 0) + result.nbytes
        elif not views:
            self._whole.update(_place(t) for t in tensors_of((args, kwargs)))
        return result

    def bytes(self, weights: list[Tensor]) -> int:
        """Read of these, each counted once."""
        sizes = {_place(t): t.nbytes for t in weights}
        return sum(
            size if place in self._whole else min(size, self._rows.get(place, 0))
            for place, size in sizes.items()
        )


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
