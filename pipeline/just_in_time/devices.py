"""Refuses tensors that are not in the CPU's memory.

Whatever device a program computes on, its arguments and results are tensors of the CPU: a graph of CUDA tensors would
give CPU tensors, which is not what eager gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from pipeline.errors import InputError, Unsupported, UnsupportedError
from pipeline.refusals import refused_name
from pipeline.source_lines import user_line


def refuse_arguments_elsewhere(module: GraphModule, example_inputs: Sequence[Any]) -> None:
    """Raises InputError naming the arguments and parameters of Dynamo's graph that are on another device."""
    placeholders = module.graph.find_nodes(op="placeholder")
    found = [
        f"{_users_name(node)} is on {value.device}"
        for node, value in zip(placeholders, example_inputs, strict=True)
        if _is_elsewhere(value)
    ]
    if found:
        listed = ", ".join([*found[:3], *(["..."] if len(found) > 3 else [])])
        raise InputError(
            f"{listed}: the backend 'pipeline' takes and gives tensors on the CPU, whatever its target; "
            "move the model and its arguments there"
        )


def refuse_operators_elsewhere(module: GraphModule) -> None:
    """Raises UnsupportedError listing what takes or gives tensors on another device in the middle of a graph."""
    found = []
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        values = [other.meta.get("val") for other in (node, *node.all_input_nodes)]
        elsewhere = next(filter(_is_elsewhere, values), None)
        if elsewhere is not None:
            reason = f"it works on a tensor on {elsewhere.device}"
            found.append(Unsupported(refused_name(node), 1, reason, _lines(node)))
    if found:
        raise UnsupportedError("a graph leaves the CPU's memory:", found)


def _is_elsewhere(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type != "cpu"


def _users_name(node: Node) -> str:
    source = getattr(node, "_dynamo_source", None)
    return node.name if source is None else source.name


def _lines(node: Node) -> tuple[str, ...]:
    line = user_line(node)
    return (line,) if line else ()
