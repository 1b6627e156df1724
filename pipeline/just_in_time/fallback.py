"""Compiles what can be compiled of a graph; the rest runs in eager PyTorch, counted and never in silence.

The operators of AOTAutograd's graphs are PyTorch's own: in eager they are what the user would have got. A graph is
tried as a whole. What is found unsupported in it is then taken out (`splitting`), and the parts between are tried in
the same way. Where a compiler crashes or takes too long, which blames no operator, the whole part runs in eager.
"""

from __future__ import annotations

import logging
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule, Node

from pipeline import reproducer
from pipeline.errors import InputError, InternalError
from pipeline.runtime.errors import RuntimeRoomError
from pipeline.source_lines import user_line

from . import counts
from .blame import Blame, blame
from .compiled_graph import compile_graph
from .settings import Settings
from .splitting import Part, Parts, does_work, split

_log = logging.getLogger("pipeline")


def compile_or_fall_back(
    module: GraphModule, settings: Settings, weights: Sequence[int] = ()
) -> Callable[..., Any]:
    """A function from the graph's flat arguments to its flat results.

    weights: numbers of arguments to bind. Raises InputError and the runtime's errors, which are the user's to mend,
    and all others where `settings` forbid to fall back.
    """
    try:
        return compile_graph(module, settings, weights)
    except (InputError, RuntimeRoomError):
        raise
    except Exception as error:
        if settings.fallback == "error":
            raise
        crashed = isinstance(error, InternalError) and error.reproducer is not None
        found = {} if crashed else blame(module, settings)
        if not found:
            return run_whole_in_eager(module, "compiling it failed", error)
    _note(found)
    return _in_parts(module, settings, weights, found)


def run_whole_in_eager(module: GraphModule, what: str, error: Exception) -> Callable[..., Any]:
    """The graph itself, with a warning that says `what` and names a reproducer."""
    message = str(error)
    if getattr(error, "reproducer", None) is None:
        folder = reproducer.keep_traceback("".join([*traceback.format_exception(error), module.code]))
        message += f"\nreproducer: {folder}"
    operators = sum(map(does_work, module.graph.nodes))
    warnings.warn(
        f"a graph of {operators} operators runs in eager PyTorch, since {what}: {message}",
        RuntimeWarning,
        stacklevel=2,
    )
    counts.count_failure(message)
    counts.count("neighbours", operators)
    return module.forward


def _note(found: dict[Node, Blame]) -> None:
    for node, reason in found.items():
        line = user_line(node)
        counts.count_eager(reason.operator, reason.why, [line] if line else [])
        _log.info("%s runs in eager PyTorch: %s (at %s)", reason.operator, reason.why, line)


def _in_parts(
    module: GraphModule, settings: Settings, weights: Sequence[int], found: dict[Node, Blame]
) -> Callable[..., Any]:
    placeholders = module.graph.find_nodes(op="placeholder")
    lasting = {placeholders[i] for i in weights}
    steps = []
    for part in split(module, found):
        if part.eager:
            operators = sum(map(does_work, part.module.graph.nodes))
            counts.count("neighbours", operators - sum(node in part.members for node in found))
            steps.append((part, part.module.forward))
        else:
            steps.append((part, compile_or_fall_back(part.module, settings, _lasting(part, lasting))))
    return Parts(module, steps)


def _lasting(part: Part, lasting: set[Node]) -> list[int]:
    return [i for i, node in enumerate(part.inputs) if node in lasting]
