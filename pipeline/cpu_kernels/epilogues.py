"""What follows a product or a convolution elementwise, to be computed while its results are in registers.

Before:  %y = linalg.matmul ...;  %z = linalg.generic (addf) ins(%y, %bias);  %r = linalg.generic (relu) ins(%z)
After:   one kernel, whose epilogue adds the bias and takes the maximum, vector by vector
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from iree.compiler import ir

from .values import row_shape, static_shape
from .views import Counts, View, view_of

_BODY = {
    *(
        f"arith.{name}f"
        for name in ("add", "sub", "mul", "div", "neg", "maximum", "minimum", "maxnum", "minnum", "cmp")
    ),
    *(f"arith.{name}" for name in ("select", "andi", "ori", "xori")),
    *(f"math.{name}" for name in ("absf", "copysign", "erf", "exp", "fma", "rsqrt", "sqrt", "tanh")),
}


@dataclass(frozen=True)
class Extra:
    """A tensor that an epilogue reads. memory: what holds it. view: its rows there; None: one row for all."""

    memory: ir.Value
    view: View | None

    @property
    def is_bool(self) -> bool:
        """Whether its elements are bools, else they are float32."""
        return str(self.memory.type.element_type) == "i1"


@dataclass
class Epilogue:
    """start: what they begin with. loops: the elementwise loops, in order. result: what they compute at last.

    extra: the tensors they read beside.
    """

    start: ir.Value
    result: ir.Value
    loops: list[ir.Operation] = field(default_factory=list)
    extra: dict[ir.Value, Extra] = field(default_factory=dict)

    @property
    def is_long(self) -> bool:
        """Whether its code is better written once for a tile than once for each of the tile's vectors."""
        return sum(len(list(_body(op))) for op in self.loops if op.name == "linalg.generic") > 8

    def operands(self) -> list[ir.Value]:
        """What holds the extra tensors."""
        return [extra.memory for extra in self.extra.values()]


def find(start: ir.Value, counts: Counts) -> Epilogue:
    """The loops that `start` goes through, as far as one value comes out of them; counts: of its rows."""
    best = Epilogue(start, start)
    group: dict[ir.Value, None] = {start: None}
    loops: list[ir.Operation] = []
    extra: dict[ir.Value, Extra] = {}
    while True:
        op = _next(group, loops)
        reads = _takes(op, group, counts) if op is not None else None
        if op is None or reads is None:
            return best
        loops.append(op)
        extra |= reads
        group[op.results[0]] = None
        out = [value for value in group if any(user not in loops for user in _users(value))]
        if len(out) == 1 and isinstance(out[0].type.element_type, ir.F32Type) and out[0] == op.results[0]:
            best = Epilogue(start, out[0], list(loops), dict(extra))


def _next(group: dict[ir.Value, None], loops: Sequence[ir.Operation]) -> ir.Operation | None:
    """The first operation behind that reads the group and is not yet of it."""
    users = [user for value in group for user in _users(value) if user not in loops]
    if not users or any(user.block != users[0].block for user in users):
        return None
    return functools.reduce(lambda a, b: a if a.is_before_in_block(b) else b, users)


def _users(value: ir.Value) -> list[ir.Operation]:
    return [use.owner.operation for use in value.uses]


def _takes(op: ir.Operation, group: dict[ir.Value, None], counts: Counts) -> dict[ir.Value, Extra] | None:
    """The extra tensors of `op`; None where it is no loop of the kind."""
    if op.name in ("tensor.expand_shape", "tensor.collapse_shape"):
        before, after = static_shape(op.operands[0].type), static_shape(op.results[0].type)
        return {} if before and after and before[-1] == after[-1] else None
    if op.name != "linalg.generic" or len(op.results) != 1 or not _is_elementwise(op, counts):
        return None
    found: dict[ir.Value, Extra] = {}
    rank = op.results[0].type.rank
    maps = [ir.AffineMapAttr(item).value for item in op.attributes["indexing_maps"]]
    for value, map_ in list(zip(op.operands, maps, strict=True))[:-1]:
        if value in group:
            if map_ != ir.AffineMap.get_identity(rank):
                return None
        elif splat_text(value) is None:
            extra = _extra(value, map_, op.results[0].type, counts)
            if extra is None:
                return None
            found[value] = extra
    return found


def _is_elementwise(op: ir.Operation, counts: Counts) -> bool:
    shape = row_shape(op.results[0].type, counts)
    maps = list(op.attributes["indexing_maps"])
    return (
        shape is not None
        and all("parallel" in str(kind) for kind in op.attributes["iterator_types"])
        and ir.AffineMapAttr(maps[-1]).value == ir.AffineMap.get_identity(len(shape))
        and all(_allowed(inner.operation) for inner in _body(op))
        and not _reads_start(op)
    )


def _reads_start(op: ir.Operation) -> bool:
    block = op.regions[0].blocks[0]
    return any(True for _ in block.arguments[len(block.arguments) - 1].uses)


def _allowed(op: ir.Operation) -> bool:
    if op.name == "linalg.yield":
        return all(isinstance(value.type, ir.F32Type) or str(value.type) == "i1" for value in op.operands)
    types = [value.type for value in [*op.operands, *op.results]]
    captured = all(constant_text(value) is not None for value in op.operands if _is_outside(value, op))
    return op.name in _BODY and captured and all(isinstance(t, ir.F32Type) or str(t) == "i1" for t in types)


def _is_outside(value: ir.Value, op: ir.Operation) -> bool:
    owner = value.owner
    block = owner if isinstance(owner, ir.Block) else owner.operation.block
    return block != op.block


def _body(op: ir.Operation) -> list[ir.Operation]:
    return [inner.operation for inner in op.regions[0].blocks[0].operations]


def _extra(value: ir.Value, map_: ir.AffineMap, type_: ir.RankedTensorType, counts: Counts) -> Extra | None:
    shape = row_shape(value.type, counts)
    if shape is None or str(value.type.element_type) not in ("f32", "i1"):
        return None
    if map_ == ir.AffineMap.get_identity(type_.rank) and shape == row_shape(type_, counts):
        return Extra(*view_of(value, counts))
    sizes = static_shape(value.type)
    return None if sizes is None else _repeated(value, map_, type_, counts, sizes)


def _repeated(
    value: ir.Value, map_: ir.AffineMap, type_: ir.RankedTensorType, counts: Counts, shape: Sequence[int]
) -> Extra | None:
    """What is the same for all rows, or for some dimensions of them."""
    last = ir.AffineExpr.get_dim(type_.rank - 1)
    long = [place for place, size in zip(map_.results, shape, strict=True) if size > 1]
    if long == [last] and math.prod(shape) == type_.shape[-1]:
        return Extra(value, None)
    repeated = tuple(type_.shape[:-1]) == counts and long and long[-1] == last
    return Extra(value, View(math.prod(shape), _repeats(shape, map_, type_.rank))) if repeated else None


def _repeats(shape: Sequence[int], map_: ir.AffineMap, rank: int) -> tuple[int, ...]:
    """Elements from a row to the next along each dimension of the loop: none where they are the same ones."""
    strides = [0] * rank
    for i, place in enumerate(map_.results):
        if isinstance(place, ir.AffineDimExpr) and shape[i] > 1:
            strides[place.position] = math.prod(shape[i + 1 :])
    return tuple(strides[:-1])


def constant_text(value: ir.Value) -> str | None:
    """The text of a scalar constant."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "arith.constant":
        return None
    return str(value.owner.attributes["value"]).split(" : ")[0]


def splat_text(value: ir.Value) -> str | None:
    """The text of the only element of a constant 0-d tensor."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant" or value.type.rank:
        return None
    attribute = owner.attributes["value"]
    return (
        str(attribute).split("<", 1)[1].split(">")[0] if isinstance(attribute, ir.DenseElementsAttr) else None
    )


class VectorBody:
    """Writes the loops of an epilogue as operations on vectors."""

    def __init__(self, epilogue: Epilogue, lanes: int) -> None:
        self._epilogue = epilogue
        self._lanes = lanes
        self._count = 0

    def lines(self, start: str, extra: dict[ir.Value, str], prefix: str) -> tuple[list[str], str]:
        """Lines that compute the result of one vector, and its name.

        start: the vector that they begin with; extra: the vectors of the extra tensors.
        """
        named: dict[ir.Value, str] = {self._epilogue.start: start, **extra}
        written: list[str] = []
        for op in self._epilogue.loops:
            if op.name == "linalg.generic":
                named[op.results[0]] = self._loop(op, named, written, prefix)
            else:
                named[op.results[0]] = named[op.operands[0]]
        return written, named[self._epilogue.result]

    def _loop(self, op: ir.Operation, named: dict[ir.Value, str], written: list[str], prefix: str) -> str:
        block = op.regions[0].blocks[0]
        inner: dict[ir.Value, str] = {}
        for argument, value in zip(block.arguments, op.operands, strict=True):
            splat = splat_text(value) if value not in named else None
            if value in named:
                inner[argument] = named[value]
            elif splat is not None:
                inner[argument] = self._constant(splat, argument.type, written, prefix)
        for body in _body(op):
            operands = [self._operand(value, inner, written, prefix) for value in body.operands]
            if body.name == "linalg.yield":
                return operands[0]
            inner[body.results[0]] = self._operation(body, operands, written, prefix)
        raise AssertionError("a loop without a yield")

    def _operand(self, value: ir.Value, inner: dict[ir.Value, str], written: list[str], prefix: str) -> str:
        if value not in inner:
            text = constant_text(value)
            assert text is not None
            inner[value] = self._constant(text, value.type, written, prefix)
        return inner[value]

    def _operation(self, op: ir.Operation, operands: list[str], written: list[str], prefix: str) -> str:
        name = self._name(prefix)
        attributes = ", ".join(f"{key} = {op.attributes[key]}" for key in op.attributes)
        types = ", ".join(self._vector(value.type) for value in op.operands)
        text = (
            f'{name} = "{op.name}"({", ".join(operands)}) <{{{attributes}}}>'
            if attributes
            else (f'{name} = "{op.name}"({", ".join(operands)})')
        )
        written.append(f"{text} : ({types}) -> {self._vector(op.results[0].type)}")
        return name

    def _constant(self, text: str, type_: ir.Type, written: list[str], prefix: str) -> str:
        name = self._name(prefix)
        written.append(f"{name} = arith.constant dense<{text}> : {self._vector(type_)}")
        return name

    def _vector(self, type_: ir.Type) -> str:
        return f"vector<{self._lanes}x{type_}>"

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"%{prefix}_{self._count}"
