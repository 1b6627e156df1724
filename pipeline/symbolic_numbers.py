"""Arithmetic on open sizes, spelled with the operators on numbers that torch-mlir imports and lowers.

Python's operators and functions of numbers stand in a graph as they are. torch-mlir imports some of the operators,
no function, and lowers few of what PyTorch has for the others.

Before:  %half = (%size - %shift) % %size;  %long = math.trunc(torch.sym_float(%size) * 1.5)
After:   %d = %size - %shift;  %half = %d - %d // %size * %size;  %long = aten.Int.Scalar(%size / 1 * 1.5)

What cannot be said so is refused, by name.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch.fx import GraphModule, Node

from .errors import Unsupported, UnsupportedError
from .source_lines import user_line

_IMPORTED = (
    operator.add,
    operator.sub,
    operator.mul,
    operator.floordiv,
    operator.truediv,
    operator.neg,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
    operator.getitem,
)
_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_aten, _prim = torch.ops.aten, torch.ops.prim


def spell_symbolic_numbers(module: GraphModule) -> None:
    """Rewrites the numbers that the graph computes from sizes. Raises UnsupportedError for what has no spelling."""
    refused: dict[str, list[Node]] = {}
    for node in list(module.graph.nodes):
        if not _is_arithmetic(node) or not node.users:
            continue
        spelling = _SPELLINGS.get(node.target)
        spelled = None
        if spelling is not None:
            with module.graph.inserting_before(node):
                spelled = spelling(_Maker(module, node), *node.args)
        if spelled is None:
            refused.setdefault(_name(node.target), []).append(node)
        else:
            node.replace_all_uses_with(spelled)
            module.graph.erase_node(node)
    if refused:
        raise UnsupportedError(
            "the model computes with open sizes in ways that cannot be compiled; give these dimensions fixed sizes:",
            [_unsupported(name, nodes) for name, nodes in refused.items()],
        )


def _is_arithmetic(node: Node) -> bool:
    operators = (torch._ops.OpOverload, torch._ops.HigherOrderOperator)
    return (
        node.op == "call_function" and not isinstance(node.target, operators) and node.target not in _IMPORTED
    )


def _name(target: Any) -> str:
    return f"{getattr(target, '__module__', '') or ''}.{getattr(target, '__name__', target)}".lstrip(".")


def _unsupported(name: str, nodes: list[Node]) -> Unsupported:
    lines = dict.fromkeys(line for node in nodes if (line := _line(node)))
    return Unsupported(name, len(nodes), "of a number that depends on an open size", tuple(lines))


def _line(node: Node) -> str | None:
    """Of what uses the number, where it has no line of its own."""
    return user_line(node) or next((line for user in node.users if (line := _line(user))), None)


class _Maker:
    """Makes calls in place of `node`, with the values that they have."""

    def __init__(self, module: GraphModule, node: Node) -> None:
        self._module = module
        self._like = node

    def __call__(self, target: Any, *args: Any, value: Callable[..., Any] | None = None) -> Node:
        """target(*args). value: tells the result of `args`' values where that is not `target` itself."""
        call = self._module.graph.call_function(target, args)
        call.meta = {key: item for key, item in self._like.meta.items() if key != "tensor_meta"}
        call.meta["val"] = (value or target)(*map(_value, args))
        return call


def _value(argument: Any) -> Any:
    return argument.meta["val"] if isinstance(argument, Node) else argument


def _is_float(argument: Any) -> bool:
    return isinstance(_value(argument), (float, torch.SymFloat))


def _float(make: _Maker, x: Any) -> Node:
    return make(operator.truediv, x, 1)


def _trunc(make: _Maker, x: Any) -> Any:
    return make(_aten.Int.Scalar, x, value=torch.sym_int) if _is_float(x) else x


def _ceil(make: _Maker, x: Any) -> Any:
    return make(_aten.ceil.float, x, value=math.ceil) if _is_float(x) else x


def _floor(make: _Maker, x: Any) -> Any:
    return make(operator.neg, _ceil(make, make(operator.neg, x))) if _is_float(x) else x


def _mod(make: _Maker, a: Any, b: Any) -> Node | None:
    """Of Python, which has the sign of `b`."""
    if _is_float(a) or _is_float(b):
        return None
    return make(operator.sub, a, make(operator.mul, make(operator.floordiv, a, b), b))


def _min(make: _Maker, a: Any, b: Any) -> Node | None:
    return None if _is_float(a) or _is_float(b) else make(_prim.min.int, a, b, value=torch.sym_min)


def _max(make: _Maker, a: Any, b: Any) -> Node | None:
    return None if _is_float(a) or _is_float(b) else make(_prim.max.int, a, b, value=torch.sym_max)


def _abs(make: _Maker, x: Any) -> Node | None:
    return _max(make, x, make(operator.neg, x))


def _sqrt(make: _Maker, x: Any) -> Node | None:
    if isinstance(x, Node) and x.target is operator.truediv and x.args[1] == 1:
        # What was made a float for this.
        x = x.args[0]
    return None if _is_float(x) else make(_aten.sqrt.int, x, value=torch._sym_sqrt)


def _pow(make: _Maker, base: Any, exponent: Any) -> Any:
    """Whole powers as products, and roots."""
    if isinstance(exponent, (int, float)) and exponent < 0:
        power = _pow(make, base, -exponent)
        return None if power is None else make(operator.truediv, 1.0, power)
    if exponent == 0.5:
        return _sqrt(make, base)
    if not isinstance(exponent, (int, float)) or exponent != int(exponent) or exponent == 0:
        return None
    power = reduce(lambda product, factor: make(operator.mul, product, factor), [base] * int(exponent))
    return power if isinstance(exponent, int) else _float(make, power)


def _sum(make: _Maker, numbers: Any) -> Any:
    return reduce(lambda total, number: make(operator.add, total, number), numbers)


def _not(make: _Maker, x: Any) -> Node:
    return make(operator.eq, make(_aten.Int.bool, x, value=lambda value: torch.sym_ite(value, 1, 0)), 0)


_SPELLINGS: dict[Any, Callable[..., Any]] = {
    torch.sym_float: _float,
    torch.sym_int: _trunc,
    torch.sym_min: _min,
    torch.sym_max: _max,
    torch.sym_not: _not,
    torch.sym_sum: _sum,
    torch._sym_sqrt: _sqrt,
    math.trunc: _trunc,
    math.ceil: _ceil,
    math.floor: _floor,
    math.sqrt: _sqrt,
    operator.mod: _mod,
    operator.pow: _pow,
    operator.abs: _abs,
    builtins.pow: _pow,
    builtins.abs: _abs,
    builtins.min: _min,
    builtins.max: _max,
}
