"""``torch.compile(model, backend="pipeline", options={"target": ..., ...})``.

Dynamo hands over graphs with their example inputs; AOTAutograd makes them functional, differentiates and partitions
them. What it gives are graphs of aten operators, forward, backward or for inference, and each is compiled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import TorchDynamoException
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._guards import TracingContext
from torch.fx import GraphModule

from pipeline.dialect_passes.operators.registry import make_traceable
from pipeline.errors import ON_PURPOSE

from . import counts
from .autograd_functions import refuse_ignored_backward
from .devices import refuse_arguments_elsewhere
from .fallback import compile_or_fall_back, run_whole_in_eager
from .settings import Settings, read_settings


def pipeline(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The backend: compiles one graph of Dynamo's.

    options: those of `pipeline.compile` (target, iree_args, timeout, ...), "device", "cache" (on unless False), and
        "fallback": "eager" runs what cannot be compiled in PyTorch, "error" raises UnsupportedError instead.
    mode: "reduce-overhead" runs programs for the CPU in the caller's thread, "max-autotune" in all; by default the size
        of each graph decides.
    """
    return compile_graphs(module, example_inputs, settings=read_settings(options, mode))


def compile_graphs(
    module: GraphModule, example_inputs: Sequence[Any], *, settings: Settings
) -> Callable[..., Any]:
    """What runs Dynamo's graph `module`: its graphs of aten operators, compiled as far as they can be."""
    refuse_arguments_elsewhere(module, example_inputs)
    refuse_ignored_backward(module)
    make_traceable()
    sharded = _is_sharded(module)

    def training(graph: GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
        counts.count("graphs")
        return make_boxed_func(compile_or_fall_back(graph, settings))

    def inference(graph: GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
        counts.count("graphs")
        return make_boxed_func(compile_or_fall_back(graph, settings, () if sharded else _lasting(graph)))

    compiler = aot_autograd(
        fw_compiler=training,
        bw_compiler=training,
        inference_compiler=inference,
        partition_fn=min_cut_rematerialization_partition,
    )
    try:
        with _without_onednn():
            return compiler(module, example_inputs)
    except (*ON_PURPOSE, TorchDynamoException):
        raise
    except Exception as error:
        if settings.fallback == "error":
            raise
        return run_whole_in_eager(module, "AOTAutograd cannot trace it", error)


@contextlib.contextmanager
def _without_onednn() -> Iterator[None]:
    """While graphs are made: an operator of oneDNN's would stand for a whole LSTM, in place of its arithmetic."""
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def _is_sharded(module: GraphModule) -> bool:
    """Whether FSDP has parameters among the arguments: it frees and fills their memory around each call, in silence."""
    sources = [getattr(node, "_dynamo_source", None) for node in module.graph.find_nodes(op="placeholder")]
    return any(source is not None and source.guard_source.is_fsdp_module() for source in sources)


def _lasting(graph: GraphModule) -> list[int]:
    """The parameters and buffers that the graph leaves alone: the same tensors at every call."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return []
    count = len(graph.graph.find_nodes(op="placeholder"))
    return [
        i
        for i in metadata.static_input_indices
        if i < min(count, len(metadata.input_info)) and not metadata.input_info[i].mutates_data
    ]
