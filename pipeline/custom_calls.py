"""Which lowering each call of a custom operator (`pipeline.op`) gets, decided when it is captured.

In order of preference: a native kernel given for the target, a lowering function, and else the operator's
meaning, inlined here as any decomposition. A call that keeps its operator becomes a call of a function whose
definition its lowering writes once the target is known (see `pipeline.importer`, `pipeline.iree_module`).

Before:  %y = mylib.swiglu(%x, %gate, 7.0)
After:   the same, marked with the symbol of its definition; or, without a lowering for it:
         %s = aten.sigmoid(%x) ...
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from .dialect_passes.custom_operators.call_types import CallTypes
from .dialect_passes.custom_operators.declaration import CustomOp
from .dialect_passes.custom_operators.lowering import MEANING, Lowering, TargetLike
from .dialect_passes.custom_operators.registry import find
from .dialect_passes.custom_operators.symbolic_sizes import describe_call
from .errors import InputError
from .functional_meaning import aliased_argument, functional_call, functional_meaning
from .inlining import Inliner, Table
from .source_lines import user_line

SYMBOL = "pipeline.call"
"""Key in an FX node's meta: the symbol of the function that the call becomes."""

_FORMS = ("native", "linalg", "torch")
_MUTABLE = "it changes its arguments, which kernels and lowerings do not"


@dataclass(frozen=True)
class Definition:
    """A function that calls of one operator with the same types and constants become."""

    symbol: str
    operator: str
    lowering: Lowering
    types: CallTypes

    @property
    def title(self) -> str:
        """Names operator and lowering, for messages."""
        return f"{self.operator}: {self.lowering.title}"

    def in_torch_dialect(self) -> str:
        """The definition by a lowering of the form "torch", which is the same for every target."""
        return self.lowering.define(self.symbol, self.types, None, None)

    def in_linalg(self, target: TargetLike, folder: Path) -> str:
        """The definition by any other lowering, for `target`; what it needs is put into `folder`."""
        return self.lowering.define(self.symbol, self.types, target, folder)

    def features(self, device: str) -> tuple[str, ...]:
        """What the kernel asks of its device beyond the types of its tensors."""
        return self.lowering.features(self.types) if device in self.lowering.targets else ()


@dataclass(frozen=True)
class Choice:
    """What one call got. passed_over: each better lowering's title and why it does not take the call."""

    operator: str
    lowering: str
    passed_over: tuple[tuple[str, str], ...]
    line: str | None


def lowering_notes(choices: Sequence[Choice]) -> list[str]:
    """What the artifact says of its custom operators: those with lowerings of their own, and what each got."""
    counts = Counter((c.operator, c.lowering, c.passed_over) for c in choices)
    notes = []
    for (operator, lowering, passed_over), count in counts.items():
        if passed_over or lowering != MEANING:
            reasons = "".join(f"; not {title}: {reason}" for title, reason in passed_over)
            notes.append(f"{operator}: {lowering}, {count} call{'s' if count > 1 else ''}{reasons}")
    return notes


@dataclass(frozen=True)
class CustomLowerings:
    """How custom operators are lowered.

    devices: of all targets. forced: operator name -> title of the lowering to take, or "meaning".
    """

    devices: tuple[str, ...] = ("cpu",)
    forced: Mapping[str, str] = field(default_factory=dict)


class CustomCalls:
    """Decides about the custom operators of a program, entry point by entry point.

    definitions: symbol -> what to define. choices: one per call, for `pipeline explain`.
    """

    def __init__(self, settings: CustomLowerings, table: Table) -> None:
        unknown = [name for name in settings.forced if find(name) is None]
        if unknown:
            raise InputError(
                f"lowerings: no operator '{unknown[0]}' is declared; import what declares it first"
            )
        self._settings = settings
        self._table = table
        self.definitions: dict[str, Definition] = {}
        self.choices: list[Choice] = []

    def lower(self, module: GraphModule) -> None:
        """Marks or inlines every call in `module`.

        Raises InputError for a lowering asked for that cannot be, and for an operator that contradicts itself.
        """
        inliner = Inliner(module, self._table)
        waiting = deque(module.graph.nodes)
        while waiting:
            node = waiting.popleft()
            if node.op == "call_function" and (op := custom_op(node)) is not None:
                waiting += self._lower_call(node, op, inliner)
        inliner.finish()

    def _lower_call(self, node: Node, op: CustomOp, inliner: Inliner) -> list[Node]:
        """The nodes to look at next: a meaning may use custom operators itself."""
        if node.target is not op.overload:
            self._note(op, node, None, [(lowering.title, _MUTABLE) for lowering in self._candidates(op)])
            if name := aliased_argument(op, node):
                raise InputError(
                    f"{_called(op, node)}: its argument '{name}' may share memory with one that it changes; "
                    f"pass a copy ({name}.clone())"
                )
            return inliner.inline(node, functional_call(op))
        args, kwargs = _values(node)
        if problem := op.call_problem(args, kwargs):
            raise InputError(f"{_called(op, node)}: {problem}")
        types = describe_call(op.schema.named(args, kwargs), _results(node))
        lowering, passed_over = self._choose(op, types)
        self._note(op, node, lowering, passed_over)
        if lowering is None:
            return self._inline_meaning(node, op, types, inliner)
        node.meta[SYMBOL] = self._symbol(op, lowering, types)
        return []

    def _inline_meaning(self, node: Node, op: CustomOp, types: CallTypes, inliner: Inliner) -> list[Node]:
        called = _called(op, node)
        nodes = inliner.inline(node, functional_meaning(op))
        for inner in nodes:
            if inner.op == "call_function" and custom_op(inner) is op:
                args, kwargs = _values(inner)
                if describe_call(op.schema.named(args, kwargs), _results(inner)) == types:
                    raise InputError(
                        f"{called}: its meaning is the operator itself, and it has no lowering for {types}"
                    )
        return nodes

    def _choose(self, op: CustomOp, types: CallTypes) -> tuple[Lowering | None, list[tuple[str, str]]]:
        forced = self._settings.forced.get(op.name)
        refused: list[tuple[Lowering, str]] = []
        for lowering in self._candidates(op):
            refusal = self._refusal(lowering, types, forced)
            if refusal is None:
                # Of several kernels each for a dtype, one fits: the others are not worth a word.
                return lowering, [(other.title, why) for other, why in refused if other.form != lowering.form]
            refused.append((lowering, refusal))
        passed_over = [(lowering.title, why) for lowering, why in refused]
        if forced not in (None, MEANING):
            raise InputError(f"{op.name}: {_why_not(forced, passed_over)}")
        return None, passed_over

    def _candidates(self, op: CustomOp) -> list[Lowering]:
        """The lowerings for any device asked for, the preferred first."""
        mine = [item for item in op.lowerings if set(item.targets) & set(self._settings.devices)]
        return sorted(mine, key=lambda item: _FORMS.index(item.form))

    def _refusal(self, lowering: Lowering, types: CallTypes, forced: str | None) -> str | None:
        devices = self._settings.devices
        if forced is not None and lowering.title != forced:
            return f"'{forced}' is asked for"
        missing = [device for device in devices if device not in lowering.targets]
        if missing:
            return f"it is not for {', '.join(missing)}"
        symbolic = [name for name, value in types.arguments.items() if _is_symbolic(value)]
        if symbolic:
            return f"the argument {symbolic[0]} is known only when the program runs"
        return lowering.refuses(types)

    def _symbol(self, op: CustomOp, lowering: Lowering, types: CallTypes) -> str:
        for known in self.definitions.values():
            if known.lowering is lowering and known.types == types:
                return known.symbol
        symbol = f"{op.name.replace('::', '.')}_{len(self.definitions)}"
        self.definitions[symbol] = Definition(symbol, op.name, lowering, types)
        return symbol

    def _note(
        self, op: CustomOp, node: Node, lowering: Lowering | None, passed_over: Sequence[tuple[str, str]]
    ) -> None:
        title = MEANING if lowering is None else lowering.title
        self.choices.append(Choice(op.name, title, tuple(passed_over), user_line(node)))


def _called(op: CustomOp, node: Node) -> str:
    """The operator with the user's line, for messages."""
    line = user_line(node)
    return f"{op.name}{f' (called at {line})' if line else ''}"


def _is_symbolic(value: Any) -> bool:
    """Whether a scalar, or one of a list of them, is known only when the program runs."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return any(isinstance(item, (torch.SymInt, torch.SymFloat, torch.SymBool)) for item in values)


def _why_not(forced: str | None, passed_over: Sequence[tuple[str, str]]) -> str:
    reasons = dict(passed_over)
    if forced in reasons:
        return f"the lowering '{forced}' cannot be used here: {reasons[forced]}"
    choices = ", ".join(f"'{title}'" for title in (*reasons, MEANING))
    return f"it has no lowering '{forced}' for this target; choose from {choices}"


def custom_op(node: Node) -> CustomOp | None:
    """The declared operator that `node` calls, also through the wrapper that export puts around mutable ones."""
    target: Any = node.target
    if isinstance(target, torch._ops.HigherOrderOperator) and target.name() == "auto_functionalized_v2":
        target = node.args[0]
    return find(target) if isinstance(target, torch._ops.OpOverload) else None


def _values(node: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])  # type: ignore[return-value]


def _results(node: Node) -> Sequence[torch.Tensor]:
    return tree_leaves(node.meta["val"])
