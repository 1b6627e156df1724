"""What only gives a tensor another type: a value and its view are one memory to whoever orders reads and writes."""

from __future__ import annotations

from collections.abc import Collection

from iree.compiler import ir

VIEWS = ("tensor.cast", "tensor.collapse_shape", "tensor.expand_shape")


def viewed(value: ir.Value, views: Collection[str] = VIEWS) -> ir.Value:
    """What `value` is a view of, if of anything, through operations of these names."""
    while not isinstance(value.owner, ir.Block) and value.owner.operation.name in views:
        value = value.owner.operation.operands[0]
    return value
