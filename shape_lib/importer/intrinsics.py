"""Functions whose calls become operations of the Torch dialect instead of calls."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

from .context import Context
from .source import Function
from .types import FLOAT, INT, NUMBER, ListType, OptionalType, Scalar
from .values import Value

Intrinsic = Callable[[Context, list[Value], ast.AST], Value]

_HERE = Path(__file__).resolve()
_DTYPES = _HERE.parents[1] / "dtypes.py"
_SIZES = _HERE.parents[1] / "sizes.py"
_PRELUDE = _HERE.with_name("prelude.py")
_TENSOR = Scalar("tensor")


def _promote_dtypes(context: Context, arguments: list[Value], node: ast.AST) -> Value:
    ranks = context.convert(arguments[0], ListType(OptionalType(INT)), node)
    return context.op("promote_dtypes", INT, ranks, context.convert(arguments[1], ListType(INT), node))


def _dtype_of_scalar(context: Context, arguments: list[Value], node: ast.AST) -> Value:
    scalar = context.convert(arguments[0], NUMBER, node)
    return context.op("prim.dtype", INT, context.op("prim.NumToTensor.Scalar", _TENSOR, scalar))


def _ceil(context: Context, arguments: list[Value], node: ast.AST) -> Value:
    return context.op("aten.ceil.float", INT, context.convert(arguments[0], FLOAT, node))


def _unknown_size(context: Context, arguments: list[Value], node: ast.AST) -> Value:
    # Computed from what is not set: an unset value itself may be taken for any other that it is joined with.
    return context.op("aten.neg.int", INT, context.op("prim.Uninitialized", INT))


_BY_FILE: dict[tuple[Path, str], Intrinsic] = {
    (_DTYPES, "promote_dtypes"): _promote_dtypes,
    (_DTYPES, "get_dtype_of_scalar"): _dtype_of_scalar,
    (_PRELUDE, "int_ceil"): _ceil,
    (_SIZES, "unknown_size"): _unknown_size,
}
# torch-mlir's own name for a size that only the data tells.
_BY_NAME: dict[str, Intrinsic] = {"hacky_get_unknown_dimension_size": _unknown_size}


def intrinsic(function: Function) -> Intrinsic | None:
    """How to write a call of `function` if it is one of these."""
    path = function.scope.file.path.resolve()
    return _BY_FILE.get((path, function.node.name)) or _BY_NAME.get(function.node.name)
