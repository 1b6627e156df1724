"""What each dispatch of a program computes, read from IREE's module as it stands before it is made into code.

Runs in `pipeline.worker`. There, `stream.executable`s hold functions over linalg operations, and `stream.cmd.dispatch`
calls them, in the order in which they run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import linalg

from pipeline.cpu_kernels.writing import BYTES, OPERATIONS

FILE = "<node>"
"""The file whose line n stands for the FX node number n (see `source_lines.numbered`)."""

_NODE = re.compile(re.escape(f'"{FILE}"') + r":(\d+)")
_ARITHMETIC = re.compile(r"(arith\.(add|sub|mul|div|rem|maximum|minimum|maxnum|minnum|neg)f|math\.)")
# What has no body to count: maximum, difference, exponential, sum and quotient.
_OF_EACH_RESULT = {"linalg.softmax": 5}
_BITS = re.compile(r"\D*(\d+)")


def read_dispatches(module: ir.Module) -> dict[str, Any]:
    """{"functions": name -> what it computes, "calls": [[function of the module, name, nodes], ...]}, as JSON."""
    functions: dict[str, Any] = {}
    calls: list[Any] = []
    for op in module.body.operations:
        if op.operation.name == "stream.executable":
            functions.update(_functions(op.operation))
        else:
            owner = _symbol(op.operation)
            calls += [
                [owner, _callee(call), _nodes(call)] for call in _all(op.operation, "stream.cmd.dispatch")
            ]
    return {"functions": functions, "calls": calls}


def _functions(executable: ir.Operation) -> Iterator[tuple[str, dict[str, Any]]]:
    for function in _all(executable, "func.func"):
        inside = list(_walk(function))
        yield (
            _symbol(function),
            {
                "nodes": _origins(inside),
                "operations": _said(function, OPERATIONS)
                or _total(_operations(op) for op in inside if _computes(op)),
                "bytes": _said(function, BYTES) or _total(_bytes(op) for op in inside),
            },
        )


def _said(function: ir.Operation, name: str) -> int | None:
    """What a kernel of ours says of itself."""
    return ir.IntegerAttr(function.attributes[name]).value if name in function.attributes else None


def _origins(inside: list[ir.Operation]) -> list[int]:
    """The nodes that a function computes, or moves where it computes nothing.

    Equal constants are one, with the place of whichever came first.
    """
    computing = [inner for op in inside if _computes(op) for inner in _walk(op)]
    found = {node for op in computing or inside if op.name != "arith.constant" for node in _nodes(op)}
    return sorted(found)


def _walk(op: ir.Operation) -> Iterator[ir.Operation]:
    yield op
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _walk(inner.operation)


def _all(op: ir.Operation, name: str) -> Iterator[ir.Operation]:
    return (found for found in _walk(op) if found.name == name)


def _symbol(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value if "sym_name" in op.attributes else op.name


def _callee(call: ir.Operation) -> str:
    """The last part of the first of its entry points, ``@executable::@function``."""
    return re.findall(r"@([\w$.-]+)", str(call.attributes["entry_points"]))[-1]


def _nodes(op: ir.Operation) -> list[int]:
    return sorted({int(number) for number in _NODE.findall(str(op.location))})


def _computes(op: ir.Operation) -> bool:
    return (
        op.name.startswith(("linalg.", "iree_linalg_ext.")) and bool(op.results) and op.name != "linalg.index"
    )


def _operations(op: ir.Operation) -> int | None:
    """Float operations, a multiplication and an addition being two; None where sizes or the operation are unknown."""
    if op.name.startswith("iree_linalg_ext."):
        return None
    if op.name in _OF_EACH_RESULT:
        shape = op.results[0].type.shape
        return None if min(shape, default=0) < 0 else _OF_EACH_RESULT[op.name] * math.prod(shape)
    each = sum(bool(_ARITHMETIC.match(inner.name)) for inner in _walk(op))
    if each == 0:
        return 0
    ranges = _ranges(op)
    if ranges is None:
        return None
    for size in ranges.values():
        each *= size
    return each


def _ranges(op: ir.Operation) -> dict[int, int] | None:
    """How often each loop of a linalg operation runs."""
    found: dict[int, int] = {}
    maps = linalg.get_indexing_maps(op)
    for operand, attribute in zip(op.operands, maps, strict=False):
        if not isinstance(operand.type, ir.RankedTensorType):
            continue
        for size, expression in zip(
            operand.type.shape, ir.AffineMapAttr(attribute).value.results, strict=True
        ):
            if isinstance(expression, ir.AffineDimExpr):
                if size < 0:
                    return None
                found[expression.position] = size
    return found


def _bytes(op: ir.Operation) -> int | None:
    """Read or written by one load or store of a part of the program's memory."""
    if op.name == "iree_tensor_ext.dispatch.tensor.load":
        whole, rows = _nbytes(op.results[0].type), _looked_up(op)
        return whole if whole is None or rows is None else min(whole, rows)
    if op.name == "iree_tensor_ext.dispatch.tensor.store":
        return _nbytes(op.operands[0].type)
    return 0


def _looked_up(load: ir.Operation) -> int | None:
    """What is read of a tensor whose elements are only looked up by index; None where it is read as a whole."""
    users = [use.owner.operation for use in load.results[0].uses]
    if not users or any(user.name != "tensor.extract" for user in users):
        return None
    total = 0
    for user in users:
        ranges = _ranges(user.parent.operation) if user.parent.operation.name == "linalg.generic" else None
        if ranges is None:
            return None
        total += math.prod(ranges.values()) * _element_bytes(load.results[0].type)
    return total


def _nbytes(type_: ir.Type) -> int | None:
    if not isinstance(type_, ir.RankedTensorType):
        return None
    if min(type_.shape, default=0) < 0:
        return None
    return _element_bytes(type_) * math.prod(type_.shape)


def _element_bytes(type_: ir.RankedTensorType) -> int:
    name = str(type_.element_type)
    bits = _BITS.match(name)
    parts = 2 if name.startswith("complex") else 1
    return parts * (-(-int(bits[1]) // 8) if bits else 8)


def _total(counts: Iterator[int | None]) -> int | None:
    """The sum, unknown where a part is."""
    found = list(counts)
    return None if None in found else sum(count for count in found if count is not None)
