"""Where IREE fails on a program with open sizes: which operators, at which of the user's lines, and what to do.

IREE forgets source lines unless asked, and a line may hold many operators. So the program is compiled once more, with
the number of each node of its graphs as its line, and what IREE then says of a line it says of a node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from torch.fx import Node

from .errors import Unsupported, UnsupportedError
from .program import Program
from .refusals import refused_name
from .source_lines import numbered, user_line

_FILE = "<nodes>"


def refuse_open_sizes(program: Program, compile_again: Callable[[], str]) -> UnsupportedError | None:
    """The error for a program that IREE does not compile; None without open sizes, or where no operator is to be told.

    compile_again: compiles the program with source lines, and returns what IREE says.
    """
    if not program.dimensions:
        return None
    nodes = [node for entry in program.entries.values() for node in entry.module.graph.nodes]
    lines = {node: user_line(node) for node in nodes}
    with numbered(nodes, _FILE):
        said = compile_again()
    errors = re.findall(rf"(?m)^{_FILE}:(\d+):\d+: error: (.*)$", said)
    reasons = {nodes[int(number)]: text for number, text in reversed(errors)}
    if not reasons:
        return None
    return UnsupportedError(
        f"IREE cannot compile these operators as they are here.{advice(program)}",
        list(_by_operator(reasons, lines)),
    )


def advice(program: Program) -> str:
    """What may help where IREE fails: most of what it cannot compile it can with known sizes."""
    if not program.dimensions:
        return ""
    sizes = ", ".join(program.dimensions)
    return (
        f"\nThese sizes are open: {sizes}. "
        "It may compile with some or all of them fixed (left out of dynamic_shapes)."
    )


def _by_operator(reasons: dict[Node, str], lines: dict[Node, str | None]) -> Iterable[Unsupported]:
    found: dict[str, list[Node]] = {}
    for node in reasons:
        found.setdefault(refused_name(node), []).append(node)
    for name, nodes in found.items():
        where = dict.fromkeys(line for node in nodes if (line := lines[node]))
        yield Unsupported(name, len(nodes), reasons[nodes[0]][:200], tuple(where))
