"""Rewrite patterns as Python functions: what a pass over the Torch dialect is mostly made of.

A pattern is a function annotated with the operation it matches (a class of `torch_mlir.dialects.torch`, or several
joined by ``|``). It returns None early where it does not match, and else what takes the operation's place:

    from torch_mlir.dialects import torch

    @pattern
    def double_negation(op: torch.AtenNegOp, make: Rewriter) -> ir.Value | None:
        inner = producer(op.self_)
        return inner.operands[0] if inner is not None and inner.name == op.name else None

    @pattern
    def square(op: torch.AtenPowTensorScalarOp, make: Rewriter) -> ir.Value | None:
        return make("aten.mul.Tensor", op.self_, op.self_) if constant(op.exponent) == 2 else None

    def run(module: ir.Module) -> int:
        return rewrite_greedily(module, [double_negation, square])

Where several operations are matched together, a picture of them reads better (`dialect_passes.matching`); what it
binds become parameters:

    @pattern(op("aten.add.Tensor", op("aten.mm", value("x"), value("w"), once=True), value("bias"), number(equal=1)))
    def linear(root: ir.Operation, make: Rewriter, x: ir.Value, w: ir.Value, bias: ir.Value) -> ir.Value | None: ...

`make` makes operations before the matched one. Numbers, lists and None may be given as Python has them. Result types
come from ``result=`` or, without it, from the shape library, which costs a third of a second once. What a match leaves
unused is erased. Folding is off: torch-mlir folds ``x == x``.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any

from torch_mlir import ir
from torch_mlir import rewrite as mlir

from pipeline.shape_lib.tensor_types import parse

from .dead_code import erase_dead, is_removable
from .inferred_types import TypeInference
from .matching import Op
from .torch_ops import Maker, producer

CHANGED: tuple[ir.Value, ...] = ()
"""What a pattern returns that changed its operation in place."""

Replacement = ir.Value | ir.OpView | ir.Operation | Sequence[ir.Value] | None
_ROUNDS = 1000


@dataclass(frozen=True)
class Pattern:
    """A function and the operations that it is called for. picture: what else must match, binding parameters."""

    function: Callable[..., Replacement]
    roots: tuple[str, ...]
    picture: Op | None = None

    def apply(self, op: ir.Operation, make: Rewriter) -> Replacement:
        """What takes the place of `op`, None where it does not match."""
        if self.picture is None:
            return self.function(op.opview, make)
        found = self.picture.match(op)
        return None if found is None else self.function(op, make, **found)


def pattern(of: Callable[..., Replacement] | Op) -> Any:
    """Makes a function a `Pattern`: bare, of the operation its first parameter is annotated with, or of a picture."""
    if isinstance(of, Op):
        return lambda function: Pattern(function, of.names, of)
    parameters = [*inspect.signature(of).parameters]
    annotation = typing.get_type_hints(of)[parameters[0]]
    classes = typing.get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    return Pattern(of, tuple(cls.OPERATION_NAME for cls in classes))


def rewrite_greedily(module: ir.Module, patterns: Sequence[Pattern]) -> int:
    """Applies `patterns` in order of preference until none matches any more. Returns how often one did.

    Raises RuntimeError for patterns that never come to an end.
    """
    return _Driver(module, patterns).greedily()


def rewrite_once(module: ir.Module, patterns: Sequence[Pattern]) -> int:
    """Applies the first of `patterns` that matches to each operation, new ones left out. Returns how often."""
    return _Driver(module, patterns).once()


class Rewriter(Maker):
    """Makes operations in place of a matched one."""

    def __init__(self, op: ir.Operation, types: TypeInference) -> None:
        super().__init__(op)
        self._types = types

    def __call__(self, name: str, *operands: Any, result: ir.Type | str | None = None) -> ir.Value:
        """The one result of the operator `name` (``aten.mul.Tensor``).

        operands: values, and Python's numbers, strings, None and lists for constants. result: its type. Without it
        the shape library tells; raises ValueError where it cannot.
        """
        values = [self.value(operand) for operand in operands]
        value = self._make(f"torch.{name}", result or "!torch.vtensor", values)
        if result is None:
            value.set_type(self._types.of(typing.cast(ir.Operation, value.owner)))
        return value

    def value(self, given: Any) -> ir.Value:
        """`given` as a value: itself, or a constant."""
        if isinstance(given, ir.Value):
            return given
        if given is None:
            return self.none()
        if isinstance(given, (list, tuple)):
            elements = [self.value(element) for element in given]
            return self._make("torch.prim.ListConstruct", _list_type(elements), elements)
        with self._before.context:
            kind, attribute = _constant(given)
        return self._make(f"torch.constant.{kind}", f"!torch.{kind}", (), {"value": attribute})


def _list_type(elements: Sequence[ir.Value]) -> str:
    kinds = {str(element.type).removeprefix("!torch.").partition("<")[0] for element in elements}
    if len(kinds) > 1:
        raise ValueError(f"a list of {' and '.join(sorted(kinds))} has no type")
    return f"!torch.list<{kinds.pop() if kinds else 'int'}>"


def _constant(given: bool | int | float | str) -> tuple[str, ir.Attribute]:
    if isinstance(given, bool):
        return "bool", ir.BoolAttr.get(given)
    if isinstance(given, int):
        return "int", ir.IntegerAttr.get(ir.IntegerType.get_signless(64), given)
    if isinstance(given, float):
        return "float", ir.FloatAttr.get_f64(given)
    return "str", ir.StringAttr.get(given)


class _Driver:
    """One run of patterns over a module; holds the callbacks, which MLIR does not."""

    def __init__(self, module: ir.Module, patterns: Sequence[Pattern]) -> None:
        self._module = module
        self._types = TypeInference(module.context)
        self._callbacks = [(pattern, self._callback(pattern)) for pattern in patterns]
        self._matches = 0

    def greedily(self) -> int:
        with self._module.context:
            erase_dead(self._module)
            config = mlir.GreedyRewriteConfig()
            config.enable_folding = False
            config.enable_constant_cse = False
            config.region_simplification_level = mlir.GreedySimplifyRegionLevel.DISABLED
            config.max_iterations = _ROUNDS
            mlir.apply_patterns_and_fold_greedily(self._module.operation, self._frozen(), config)
        return self._finish()

    def once(self) -> int:
        with self._module.context:
            erase_dead(self._module)
            mlir.walk_and_apply_patterns(self._module.operation, self._frozen())
        return self._finish()

    def _finish(self) -> int:
        if self._matches:
            erase_dead(self._module)
        return self._matches

    def _frozen(self) -> mlir.FrozenRewritePatternSet:
        patterns = mlir.RewritePatternSet()
        for order, (pattern, callback) in enumerate(self._callbacks):
            for root in pattern.roots:
                patterns.add(root, callback, len(self._callbacks) - order)
        return patterns.freeze()

    def _callback(self, pattern: Pattern) -> Callable[[Any, mlir.PatternRewriter], bool]:
        """In MLIR's convention: True where nothing matched."""

        def callback(op: Any, rewriter: mlir.PatternRewriter) -> bool:
            operation = op.operation
            if is_removable(operation):
                # It only waits to be erased, and must not count as a use of what others match.
                return True
            replacement = pattern.apply(operation, Rewriter(operation, self._types))
            if replacement is None:
                return True
            self._matches += 1
            self._replace(operation, replacement, rewriter)
            return False

        return callback

    def _replace(self, op: ir.Operation, replacement: Any, rewriter: mlir.PatternRewriter) -> None:
        if isinstance(replacement, (ir.OpView, ir.Operation)):
            replacement = list(replacement.results)
        elif isinstance(replacement, ir.Value):
            replacement = [replacement]
        if not replacement and len(op.results):
            return
        operands = list(op.operands)
        rewriter.replace_op(op, [_typed(old, new) for old, new in zip(op.results, replacement, strict=True)])
        _erase_unused([producer(operand) for operand in operands], rewriter)


def _typed(old: ir.Value, new: ir.Value) -> ir.Value:
    """`new` as the type of `old`, which its users know. Raises ValueError where the two contradict each other."""
    if new.type == old.type:
        return new
    before, after = parse(str(old.type)), parse(str(new.type))
    if before is None or after is None or before.meet(after) is None:
        raise ValueError(f"a {old.type} cannot be replaced by a {new.type}")
    owner = typing.cast(ir.Operation, old.owner)
    with ir.InsertionPoint(owner), owner.location:
        return ir.Operation.create("torch.tensor_static_info_cast", [old.type], [new]).result


def _erase_unused(ops: list[ir.Operation | None], rewriter: mlir.PatternRewriter) -> None:
    """Erases those of `ops` that nothing uses any more, and what only they used."""
    seen: list[ir.Operation] = []
    waiting = [op for op in ops if op is not None]
    while waiting:
        op = waiting.pop()
        if op in seen or not is_removable(op):
            continue
        seen.append(op)
        operands = [producer(operand) for operand in op.operands]
        rewriter.erase_op(op)
        waiting += [operand for operand in operands if operand is not None]
