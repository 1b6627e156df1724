"""From an imported Torch dialect to one in which every tensor has a known rank and dtype.

The types of results come from shape and dtype functions: plain Python that was imported as functions of the
Torch dialect, ours, the user's or torch-mlir's own. They are run by an abstract interpreter (`shape_lib.abstract`)
on the operands as far as those are known, operation by operation in the program's order, so that each result's
type is known before the next one asks. torch-mlir inlines the functions into the program and simplifies it,
which gives wrong shapes where lists are changed through other names, and drops checks that fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch_mlir import ir

from .abstract.machine import Raised
from .abstract.values import Ref, Unknown, Value
from .errors import Finding, LibraryFunctionError, ShapeCheckError
from .refinement.arguments import MisfitError
from .refinement.calls import Callees
from .refinement.inference import Told, infer
from .refinement.library import Library
from .refinement.operations import every_operation, finding, lists_tensors, operator_name
from .refinement.program_values import ProgramValues
from .refinement.retyping import retype
from .refinement.value_semantics import make_values, needs_values
from .tensor_types import TensorInfo, reader

_OPERATORS = ("torch.aten.", "torch.prims.", "torch.operator")

Evaluate = Callable[[str, list[Value]], "Sequence[tuple[Sequence[int | None], str]] | None"]
"""(operator, operands) -> (sizes, dtype) per result, or None. The operands are `TensorInfo`, Python values, lists of
them, and `shape_lib.abstract.values.Unknown` for what is not known; dtypes are names such as ``float32``."""


def refine_shapes(
    module: ir.Module, libraries: Sequence[str] = (), *, evaluate: Evaluate | None = None
) -> None:
    """Gives every tensor of `module` the rank, sizes and dtype that library functions tell, in place.

    libraries: texts of Torch dialect modules (from `shape_lib.importer`); the first that has an operator's function
        gives it, before torch-mlir's own.
    evaluate: tells the results of a ``torch.operator`` that no library knows.

    A size is given only where it holds for all values of the unknown ones. What stays unknown is for the
    verifier to report. Costs next to nothing where all is typed. Raises ShapeCheckError where a function must
    raise, LibraryFunctionError where one does not fit its operator, both with all findings at once, and
    LibraryTextError.
    """
    with module.context:
        asking = open_operators(module)
        if not asking:
            return
        library = Library(libraries, module.context)
        library.prepare(asking)
        if needs_values(module):
            make_values(module, [name for name in asking if evaluate or library.knows(name)])
        _Refinement(module, library, evaluate).run()
        module.operation.verify()


def open_operators(module: ir.Module) -> set[str]:
    """The operators that results of unknown rank or dtype come from; empty where there is nothing to refine."""
    tensor_of = reader()
    asking = {operator_name(op) for op in every_operation(module) if _is_open(op, tensor_of)}
    if asking:
        # Lists of tensors never have types of their own: those that are taken out of them may be meant.
        asking |= {operator_name(op) for op in every_operation(module) if _gives_list(op)}
    return asking


@dataclass
class _Refinement:
    """One run over a module."""

    module: ir.Module
    library: Library
    evaluate: Evaluate | None
    values: ProgramValues = field(default_factory=ProgramValues)
    tensor_of: Callable[[ir.Type], TensorInfo | None] = field(default_factory=reader)
    failed: list[Finding] = field(default_factory=list)
    misfits: list[Finding] = field(default_factory=list)

    def run(self) -> None:
        """Raises what `refine_shapes` raises."""
        callees = Callees(self.module)
        for function in callees.in_order():
            self._regions(function, callees)
        callees.settle_all()
        if self.misfits:
            raise LibraryFunctionError(self.misfits)
        if self.failed:
            raise ShapeCheckError(self.failed)

    def _regions(self, op: ir.Operation, callees: Callees) -> None:
        self.values.around_regions(op)
        for region in op.regions:
            for block in region.blocks:
                for inner in list(block.operations):
                    self._visit(inner.operation, callees)
        self.values.around_regions(op)

    def _visit(self, op: ir.Operation, callees: Callees) -> None:
        if len(op.regions):
            self._regions(op, callees)
        elif op.name == "func.call":
            callees.settle(op)
        elif not self.values.follow(op) and self._asks(op):
            self._infer(op)
        for result in op.results:
            said = self.tensor_of(result.type)
            known = self.values.of(result) if said is not None else None
            if isinstance(known, TensorInfo) and known != said:
                retype(result, known)

    def _asks(self, op: ir.Operation) -> bool:
        """Whether the operator's functions may tell something new: the types of lists never do."""
        return _is_open(op, self.tensor_of) or _gives_list(op)

    def _infer(self, op: ir.Operation) -> None:
        """Notes what the operator's functions tell of its results, and the callback of what they leave open."""
        name = operator_name(op)
        operands = [self.values.of(operand) for operand in op.operands]
        shape, dtype = self.library.find("shape", name), self.library.find("dtype", name)
        types = [result.type for result in op.results]
        try:
            self._note(op, infer(types, operands, self.values.heap, shape, dtype))
        except Raised as raised:
            self.failed.append(finding(op, _check_text(raised)))
        except MisfitError as error:
            self.misfits.append(finding(op, str(error)))
        else:
            if self.evaluate and op.name == "torch.operator" and self._still_open(op):
                told = self.evaluate(name, [self._plain(operand) for operand in operands])
                self._note(op, [TensorInfo(tuple(sizes), dtype) for sizes, dtype in told or ()])

    def _still_open(self, op: ir.Operation) -> bool:
        known = [self.values.of(result) for result in op.results]
        return any(isinstance(value, TensorInfo) and not value.refined for value in known)

    def _plain(self, operand: Value) -> Value:
        """Lists as Python has them."""
        if not isinstance(operand, Ref):
            return operand
        contents = self.values.heap.read(operand)
        return Unknown.PRESENT if contents is None else [self._plain(value) for value in contents]

    def _note(self, op: ir.Operation, told: Sequence[Told]) -> None:
        for i, (result, known) in enumerate(zip(op.results, told, strict=False)):
            if isinstance(known, list):
                self.values.set(result, self.values.heap.new(tuple(known)))
            elif isinstance(known, TensorInfo):
                self._note_tensor(op, i, known)

    def _note_tensor(self, op: ir.Operation, i: int, told: TensorInfo) -> None:
        said = self.values.of(op.results[i])
        known = said.meet(told)
        if known is None:
            text = f"its functions say that result {i} is ({told}), the program says ({said})"
            self.misfits.append(finding(op, text))
        else:
            self.values.set(op.results[i], known)


def _is_open(op: ir.Operation, tensor_of: Callable[[ir.Type], TensorInfo | None]) -> bool:
    """Whether some result is a tensor of unknown rank or dtype."""
    said = [tensor_of(result.type) for result in op.results]
    return any(tensor is not None and not tensor.refined for tensor in said)


def _gives_list(op: ir.Operation) -> bool:
    return op.name.startswith(_OPERATORS) and any(lists_tensors(result.type) for result in op.results)


def _check_text(raised: Raised) -> str:
    where = f" ({raised.location})" if raised.location else ""
    return f"{raised.message.removeprefix('AssertionError:').strip() or 'a check fails'}{where}"
