"""Which cuts to try: first the ends by halving, then operator by operator, then sizes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.fx import Node

from .program import Program

Fails = Callable[[Program], bool]
"""Whether a program still fails in the way that matters."""


def reduce(program: Program, fails: Fails) -> Program:
    """The smallest program found that still fails; `program` itself must."""
    program = _fewer_results(program, fails)
    program = _earlier_end(program, fails)
    program = _fewer_results(program, fails)
    program = _later_start(program, fails)
    program = _without_single(program, fails)
    return _smaller_sizes(program, fails)


def _fewer_results(program: Program, fails: Fails) -> Program:
    if len(program.results) == 1:
        return program
    for name in program.results:
        single = program.cut(results=[name])
        if fails(single):
            return single
    for name in program.results:
        fewer = program.cut(results=[other for other in program.results if other != name])
        if fewer.results and fails(fewer):
            program = fewer
    return program


def _earlier_end(program: Program, fails: Fails) -> Program:
    """Ends after fewer operators, with all that later ones would have used as results."""
    names = [node.name for node in program.operators()]

    def until(count: int) -> Program:
        kept = set(names[:count])
        # A tuple is no result: without all that is taken out of it, it goes too.
        kept -= {node.name for node in _tuples(program) if any(user.name not in kept for user in node.users)}
        ends = [
            node.name
            for node in program.operators()
            if node.name in kept
            and _is_tensor(program, node.name)
            and (node.name in program.results or any(user.name not in kept for user in node.users))
        ]
        return program.cut(results=ends)

    count = _smallest(len(names), lambda count: bool(until(count).results) and fails(until(count)))
    return until(count) if count < len(names) else program


def _later_start(program: Program, fails: Fails) -> Program:
    """Takes the values of the first operators as inputs."""
    names = [node.name for node in program.operators()]

    def behind(count: int) -> Program:
        early = frozenset(name for name in names[:count] if _is_tensor(program, name))
        return program.cut(inputs=program.inputs | (early - set(program.results)))

    left = _smallest(len(names), lambda left: fails(behind(len(names) - left)))
    return behind(len(names) - left)


def _without_single(program: Program, fails: Fails) -> Program:
    """Takes the value of each operator that is left as an input, the last ones first."""
    for node in reversed(program.operators()):
        if node.name in program.results or not _is_tensor(program, node.name):
            continue
        fewer = program.cut(inputs=program.inputs | {node.name})
        if len(fewer.operators()) < len(program.operators()) and fails(fewer):
            program = fewer
    return program


def _smaller_sizes(program: Program, fails: Fails) -> Program:
    """Each size, wherever an input has it, as small as the operators allow."""
    for size in sorted(
        {size for value in program.values() for size in value.shape if size > 1}, reverse=True
    ):
        for smaller in (1, 2, size // 2):
            shrunk = program.with_values([_shrunk(value, size, smaller) for value in program.values()])
            if smaller < size and shrunk is not None and fails(shrunk):
                program = shrunk
                break
    return program


def _shrunk(value: torch.Tensor, size: int, smaller: int) -> torch.Tensor:
    for dim, found in enumerate(value.shape):
        if found == size:
            value = value.narrow(dim, 0, smaller)
    return value.contiguous()


def _smallest(most: int, holds: Callable[[int], bool]) -> int:
    """The smallest count from 1 on for which `holds`, by halving; it is known to hold for `most`."""
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return high


def _tuples(program: Program) -> list[Node]:
    return [node for node in program.operators() if not _is_tensor(program, node.name)]


def _is_tensor(program: Program, name: str) -> bool:
    return isinstance(program.eager[name], torch.Tensor)
