"""Each operator of `pipeline.ops` against the composition that it stands for, for docs/benchmarks.md.

    python -m pipeline.tools.benchmark_operators [NAME...]

Both are compiled for this CPU, give the same results, and are timed in turns on one thread: CPU time, the least of
many rounds, call included. What is printed are ratios: how many times as long as the operator something takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

from pipeline import ops
from pipeline.api import capture_checked, compile_options, entry_specs
from pipeline.compiler import compile_program
from pipeline.dialect_passes.custom_operators import registry
from pipeline.runtime import Executable

Function = Callable[..., Any]

_COLUMNS = ("composition", "its meaning", "eager composition")
_CAPACITY, _HEADS, _KV_HEADS, _WIDTH = 2048, 32, 8, 64


@dataclass(frozen=True)
class Case:
    """operator and composition: functions or modules of `args`; a module is made anew for each use."""

    name: str
    what: str
    operator: Callable[[], nn.Module]
    composition: Callable[[], nn.Module]
    args: tuple[Tensor, ...]


class Program(nn.Module):
    """A function as a module."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Tensor) -> Any:
        return self._function(*args)


def _case(name: str, what: str, operator: Function, composition: Function, *args: Tensor) -> Case:
    return Case(name, what, lambda: Program(operator), lambda: Program(composition), args)


def cases() -> Iterator[Case]:
    """Sizes of a Llama of one billion parameters: 32 query and 8 key heads of 64, a cache of 2048 tokens."""
    x, gate, wide = (torch.randn(256, 2048) for _ in range(3))
    weight = torch.randn(2048)
    yield _case("swiglu", "256 x 2048", ops.swiglu, lambda x, g: functional.silu(g) * x, x, gate)
    for dtype in (torch.float32, torch.bfloat16):
        what = f"256 x 2048, {_short(dtype)}"
        args = wide.to(dtype), weight.to(dtype)
        yield _case("rms_norm", f"{what}, against torch's", _our_rms_norm, _torch_rms_norm, *args)
        yield _case("rms_norm", f"{what}, against Llama's", _our_rms_norm, _llama_rms_norm, *args)
    yield from _rotary_cases()
    for tokens, position in ((1, 100), (1, 1000), (1, 2000), (64, 0), (64, 1000), (512, 0)):
        yield _cache_case(tokens, position, torch.float32)
    yield _cache_case(1, 1000, torch.bfloat16)
    yield _cache_case(64, 1000, torch.bfloat16)
    for rows in (64, 512):
        args = torch.randn(rows, 32000), torch.randint(32000, (rows,))
        what = f"{rows} x 32000"
        yield _case("cross_entropy", what, ops.cross_entropy, functional.cross_entropy, *args)
        ours, theirs = (_with_gradient(f, args) for f in (ops.cross_entropy, functional.cross_entropy))
        yield Case("cross_entropy", f"{what}, with its gradient", lambda m=ours: m, lambda m=theirs: m, args)


def _rotary_cases() -> Iterator[Case]:
    for interleaved, turned in ((False, _halves_turned), (True, _neighbours_turned)):
        for dtype in (torch.float32, torch.bfloat16):
            q, k = torch.randn(1, _HEADS, 256, _WIDTH), torch.randn(1, _KV_HEADS, 256, _WIDTH)
            args = [t.to(dtype) for t in (q, k, *torch.randn(2, 1, 256, _WIDTH))]
            yield _case(
                "rotary_embedding",
                f"256 tokens, {'neighbours' if interleaved else 'halves'}, {_short(dtype)}",
                lambda *args, how=interleaved: ops.rotary_embedding(*args, how),
                lambda q, k, cos, sin, turned=turned: _rotary(q, k, cos, sin, turned),
                *args,
            )


def _cache_case(tokens: int, position: int, dtype: torch.dtype) -> Case:
    news = [torch.randn(1, heads, tokens, _WIDTH, dtype=dtype) for heads in (_HEADS, _KV_HEADS, _KV_HEADS)]
    return Case(
        "cached_attention",
        f"{tokens} token{'s' if tokens > 1 else ''} at {position}, {_short(dtype)}",
        lambda: OurCache(dtype),
        lambda: ComposedCache(dtype),
        (*news, torch.tensor(position)),
    )


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _our_rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return ops.rms_norm(x, weight, 1e-6)


def _torch_rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return functional.rms_norm(x, x.shape[-1:], weight, 1e-6)


def _llama_rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * wide.to(x.dtype)


def _rotary(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, turned: Function) -> tuple[Tensor, Tensor]:
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + turned(q) * sin, k * cos + turned(k) * sin


def _halves_turned(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def _neighbours_turned(x: Tensor) -> Tensor:
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def _with_gradient(function: Function, args: tuple[Tensor, ...]) -> nn.Module:
    def step(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        loss, pull = torch.func.vjp(lambda x: function(x, target), logits)[:2]
        return loss, pull(torch.ones_like(loss))[0]

    return make_fx(step)(*args)


class OurCache(nn.Module):
    """Attention over a static cache, by our operator."""

    keys: Tensor
    values: Tensor

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, _KV_HEADS, _CAPACITY, _WIDTH, dtype=dtype))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, position: Tensor) -> Tensor:
        return ops.cached_attention(q, k, v, self.keys, self.values, position)


class ComposedCache(OurCache):
    """The same as transformers composes it: StaticCache, repeat_kv, a mask, scaled_dot_product_attention."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, position: Tensor) -> Tensor:
        places = position + torch.arange(q.shape[2])
        self.keys.index_copy_(2, places, k)
        self.values.index_copy_(2, places, v)
        mask = torch.arange(_CAPACITY) <= places.unsqueeze(1)
        keys, values = _repeated(self.keys), _repeated(self.values)
        return functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask[None, None])


def _repeated(x: Tensor) -> Tensor:
    groups = _HEADS // _KV_HEADS
    return x[:, :, None].expand(-1, -1, groups, -1, -1).reshape(1, _HEADS, _CAPACITY, _WIDTH)


def _compiled(module: nn.Module, args: tuple[Tensor, ...], lowerings: Mapping[str, str]) -> Executable:
    options = compile_options("cpu", lowerings=lowerings)
    program = capture_checked(module, entry_specs(args, None, None, None), options)
    return Executable(compile_program(program, options), device="local-sync")


def _meanings() -> dict[str, str]:
    return {op.name: "meaning" for op in registry.operators() if op.lowerings}


def measure(case: Case, seconds: float) -> tuple[dict[str, float], tuple[str, ...]]:
    """The least CPU seconds of a call of "operator" and each of the columns, and what the operator became."""
    operator = _compiled(case.operator(), case.args, {})
    runs: dict[str, Function] = {
        "operator": operator,
        "composition": _compiled(case.composition(), case.args, {}),
        "its meaning": _compiled(case.operator(), case.args, _meanings()),
        "eager composition": case.composition(),
    }
    results = {name: run(*case.args) for name, run in runs.items()}
    if case.args[0].dtype == torch.float32:
        for name, result in results.items():
            torch.testing.assert_close(result, results["operator"], msg=lambda m, n=name: f"{n}: {m}")
    best = dict.fromkeys(runs, float("inf"))
    end = time.monotonic() + seconds
    order = list(runs.items())
    while time.monotonic() < end:
        # Forth and back: what runs first finds other things in the caches.
        order.reverse()
        for name, run in order:
            start = time.process_time()
            run(*case.args)
            best[name] = min(best[name], time.process_time() - start)
    return best, operator.manifest.notes


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1)
@click.option("--seconds", default=10.0, show_default=True, help="time for the rounds of one case")
def main(names: tuple[str, ...], seconds: float) -> None:
    """Prints a Markdown table of all operators, or of those named."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("| operator | call | " + " | ".join(f"{c} / operator" for c in _COLUMNS) + " | kernel |")
    print("| --- " * (len(_COLUMNS) + 3) + "|", flush=True)
    with torch.no_grad():
        for case in cases():
            if not names or case.name in names:
                best, notes = measure(case, seconds)
                ratios = " | ".join(f"{best[column] / best['operator']:.1f}" for column in _COLUMNS)
                kernel = "yes" if any(" kernel " in note.split("; not ")[0] for note in notes) else "no"
                print(f"| {case.name} | {case.what} | {ratios} | {kernel} |", flush=True)


if __name__ == "__main__":
    main()
