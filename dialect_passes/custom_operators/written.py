"""`WrittenLowering`: a function that writes the IR of a call, in linalg and IREE's dialects or the Torch dialect.

It returns the text of a function's body, whose arguments have the operator's names::

    @swiglu.lowering("cpu", "vulkan")
    def lower(call):
        return f"... return %r : {call.results[0].builtin}"

or, with a parameter for each tensor, builds it with MLIR's Python bindings (``iree.compiler``, or ``torch_mlir`` for
the Torch dialect) and returns the results::

    @swiglu.lowering("cpu")
    def build(call, x, gate):
        return linalg.add(x, gate, outs=[...])
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .call_types import CallTypes, TensorType
from .declared import Declared, declared, failing_line
from .lowering import TARGETS, Form, Lowering, LoweringError, Refused, TargetLike, check_targets, register

if TYPE_CHECKING:
    from .declaration import CustomOp

LoweringFunction = Callable[..., Any]

_RETURN = re.compile(r"^[ \t]*(?:func\.)?return[ \t]+(%[^:\n]*):(.*)$", re.MULTILINE)


class WrittenLowering(Lowering):
    """A lowering function, for some targets."""

    def __init__(
        self, targets: Sequence[str], form: Form, function: LoweringFunction, where: Declared
    ) -> None:
        self.targets = tuple(targets)
        self.form = form
        self.title = f"{form} lowering {where.function}"
        self._function = function
        self.declared = where
        self.identity = (*self.targets, form, where.function)

    def refuses(self, call: CallTypes) -> str | None:
        """What the function refuses (`Refused`). Raises LoweringError as `define` does: it writes the IR too."""
        try:
            self._text("lowering", call)
        except Refused as refused:
            return str(refused)
        return None

    def define(self, symbol: str, call: CallTypes, target: TargetLike | None, folder: Path | None) -> str:
        """The function @symbol with the written body."""
        try:
            return self._text(symbol, call)
        except Refused as refused:
            raise LoweringError(f"{self.title} refuses this call: {refused}") from refused

    def _text(self, symbol: str, call: CallTypes) -> str:
        return self._built(symbol, call) if _builds(self._function) else self._written(symbol, call)

    def _written(self, symbol: str, call: CallTypes) -> str:
        body = self._ask(call)
        if not isinstance(body, str):
            raise LoweringError(
                f"{self.title} ({self.declared}) must return the text of a function's body, not {body!r}"
            )
        if self.form == "torch":
            body = _with_casts(body, call)
        arguments = ", ".join(f"%{name}: {_type(tensor, self.form)}" for name, tensor in call.tensors())
        results = ", ".join(_type(result, self.form) for result in call.results)
        text = f"func.func private @{symbol}({arguments}) -> ({results}) {{\n{body}\n}}\n"
        ir, context = _context(self.form)
        with context:
            try:
                ir.Module.parse(text)
            except ir.MLIRError as error:
                raise self._invalid(error, arguments, text) from error
        return text

    def _built(self, symbol: str, call: CallTypes) -> str:
        ir, context = _context(self.form)
        func = importlib.import_module(f"{ir.__package__}.dialects.func")
        types = [_type(tensor, self.form) for _, tensor in call.tensors()]
        with context, ir.Location.unknown():
            module = ir.Module.create()
            inputs = [ir.Type.parse(type_) for type_ in types]
            results = [ir.Type.parse(_type(result, self.form)) for result in call.results]
            with ir.InsertionPoint(module.body):
                function = func.FuncOp(symbol, (inputs, results), visibility="private")
            block = function.add_entry_block()
            with ir.InsertionPoint(block):
                values = self._values(self._ask(call, *block.arguments), ir)
                if self.form == "torch":
                    values = [_cast(value, type_, ir) for value, type_ in zip(values, results, strict=False)]
                ir.Operation.create("func.return", operands=values)
            try:
                module.operation.verify()
            except ir.MLIRError as error:
                raise self._invalid(error, ", ".join(types), str(module)) from error
            return str(function)

    def _values(self, answer: Any, ir: Any) -> list[Any]:
        """The values that a builder returned; operations stand for their results."""
        answers = answer if isinstance(answer, (list, tuple, ir.OpResultList)) else [answer]
        values = [getattr(answer, "result", answer) for answer in answers]
        if not all(isinstance(value, ir.Value) for value in values):
            raise LoweringError(
                f"{self.title} ({self.declared}) must return the values of its results, not {answer!r}"
            )
        return values

    def _ask(self, *arguments: Any) -> Any:
        try:
            return self._function(*arguments)
        except (Refused, LoweringError):
            raise
        except Exception as error:
            raise LoweringError(
                f"{self.title} ({self.declared}): {type(error).__name__}: {error}{failing_line(error, self.declared)}"
            ) from error

    def _invalid(self, error: Any, arguments: str, text: str) -> LoweringError:
        """In the words of MLIR, with the line of the text that it means."""
        diagnostic = error.error_diagnostics[0] if error.error_diagnostics else None
        message = diagnostic.message if diagnostic else str(error)
        found = re.search(r'"-":(\d+):', str(diagnostic.location)) if diagnostic else None
        line = f"\n  in: {text.splitlines()[int(found[1]) - 1].strip()}" if found else ""
        return LoweringError(
            f"{self.title} ({self.declared}) made invalid IR: {message}{line}\n  its arguments: {arguments}"
        )


def _builds(function: LoweringFunction) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return len(parameters) > 1 or any(p.kind == p.VAR_POSITIONAL for p in parameters)


def _type(tensor: TensorType, form: Form) -> str:
    return tensor.torch if form == "torch" else tensor.builtin


@functools.cache
def _context(form: Form) -> tuple[Any, Any]:
    """The Python bindings and a context that knows the dialects of a form."""
    if form == "torch":
        from torch_mlir import ir
        from torch_mlir.dialects import torch as torch_dialect

        context = ir.Context()
        torch_dialect.register_dialect(context)
        return ir, context
    from iree.compiler import ir

    return ir, ir.Context()


def _with_casts(body: str, call: CallTypes) -> str:
    """The body with results of unknown or less known types cast to the call's: refinement finds out the rest."""
    found = list(_RETURN.finditer(body))
    if len(found) != 1:
        return body
    values = [value.strip() for value in found[0][1].split(",")]
    types = ["!torch." + part.strip() for part in found[0][2].split("!torch.")[1:]]
    types = [type_.rstrip(", ") for type_ in types]
    if not len(values) == len(types) == len(call.results):
        return body
    lines = []
    for i, (type_, result) in enumerate(zip(types, call.results, strict=True)):
        if type_ != result.torch:
            lines.append(f"%cast_{i} = torch.tensor_static_info_cast {values[i]} : {type_} to {result.torch}")
            values[i] = f"%cast_{i}"
    lines.append(f"return {', '.join(values)} : {', '.join(result.torch for result in call.results)}")
    return body[: found[0].start()] + "\n".join(lines) + body[found[0].end() :]


def _cast(value: Any, type_: Any, ir: Any) -> Any:
    if value.type == type_:
        return value
    return ir.Operation.create("torch.tensor_static_info_cast", results=[type_], operands=[value]).result


def lowering_decorator(
    op: CustomOp, *targets: str, form: Form | None = None
) -> Callable[[LoweringFunction], LoweringFunction]:
    """Registers the decorated lowering function as a lowering of `op`.

    targets: those it serves; none means all. form: "linalg" (the default: linalg and IREE's dialects) or "torch".
    Raises LoweringError for a declaration that cannot be right.
    """
    chosen: Form = form or "linalg"

    def declare(function: LoweringFunction) -> LoweringFunction:
        where = declared(function)
        what = f"the lowering of {op.name} ({where})"
        names = targets or TARGETS
        check_targets(names, what)
        if chosen not in ("linalg", "torch"):
            raise LoweringError(f"{what}: form '{form}' is unknown; choose linalg or torch")
        if op.schema.mutated:
            raise LoweringError(
                f"{what}: the operator changes arguments in place, which lowerings cannot; "
                "declare it to return the new values"
            )
        if not inspect.signature(function).parameters:
            raise LoweringError(f"{what}: it must take the call's types: def {where.function}(call): ...")
        register(op, WrittenLowering(names, chosen, function, where))
        return function

    return declare
