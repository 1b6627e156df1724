"""What the nodes of AOTAutograd's graphs are."""

from __future__ import annotations

import torch
from torch.fx import Node


def is_view(node: Node) -> bool:
    """Whether the operator's results share memory with its argument."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def is_number(node: Node) -> bool:
    """Whether the value is one of Python's, such as a size."""
    return isinstance(node.meta.get("val"), (int, torch.SymInt, torch.SymBool, torch.SymFloat))
