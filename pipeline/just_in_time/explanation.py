"""What `torch.compile(backend="pipeline")` would do with a call: `pipeline.explain(..., just_in_time=True)`.

Dynamo and AOTAutograd make the graphs of the call, and of its backward where there is one. Each is lowered as far as
operators that cannot be compiled show, is divided as it would be, and then runs in eager.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch._dynamo.output_graph import GraphCompileReason
from torch._dynamo.utils import graph_break_reasons
from torch.utils._pytree import tree_leaves

from pipeline.source_lines import innermost_user_frame

from . import counts
from .backend import compile_graphs
from .counts import Counters
from .settings import read_settings


@dataclass(frozen=True)
class Break:
    """Where Dynamo ends a graph in the middle of the call: why, and the user's line."""

    reason: str
    line: str | None


@dataclass(frozen=True)
class GraphsExplanation:
    """What one call would meet.

    counters: as `pipeline.counters()` would have them; its `programs` are those that would be compiled.
    """

    counters: Counters
    breaks: list[Break]


def explain_graphs(
    model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], options: Mapping[str, Any]
) -> GraphsExplanation:
    """Calls a copy of `model` with copies of the arguments, so that nothing of the caller's changes.

    options: as for `torch.compile`. Raises InputError for wrong ones, and what the call itself raises.
    """
    settings = replace(read_settings(options, None), only_lower=True)
    model, args, kwargs = copy.deepcopy((model, tuple(args), dict(kwargs)))
    before = len(graph_break_reasons)
    call = torch.compile(model, backend=partial(compile_graphs, settings=settings))
    with counts.apart() as found, torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # What falls back is in the counters.
        warnings.simplefilter("ignore")
        _differentiate(call(*args, **kwargs))
    return GraphsExplanation(found, list(map(_described, graph_break_reasons[before:])))


def _described(found: GraphCompileReason) -> Break:
    frames = [(frame.filename, frame.lineno or 0) for frame in found.user_stack]
    reason = found.reason.strip().partition("\n")[0]
    # Dynamo's own name for it.
    branches = reason.startswith("generic_jump")
    return Break("a branch on a tensor's values" if branches else reason, innermost_user_frame(frames))


def _differentiate(result: Any) -> None:
    tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if tensors:
        torch.autograd.backward(tensors, [torch.ones_like(tensor) for tensor in tensors])
