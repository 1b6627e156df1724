"""`LoopKernel`: the lowering of an operator over stacks of matrices by a kernel for one of them.

The kernel is compiled into one dispatch whose workgroups each take matrices of the stack. It serves every target and
sizes known only when the program runs. On a GPU one thread computes a matrix: right, not fast.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..custom_operators import mlir_text
from ..custom_operators.call_types import CallTypes, TensorType
from ..custom_operators.declaration import CustomOp
from ..custom_operators.declared import declared
from ..custom_operators.launch import operand_sizes
from ..custom_operators.lowering import (
    TARGETS,
    Form,
    Lowering,
    LoweringError,
    Refused,
    TargetLike,
    register,
)
from ..custom_operators.mlir_text import FunctionBody, sizes_text
from ..custom_operators.sizes import Size, minimum
from .emitter import Emitter
from .translate import translate
from .values import Array, Kind, LoopError, Number, Value, memory_type

_WORKGROUPS = 65535
"""Vulkan devices are only sure to take so many; each workgroup then takes several matrices."""

_ELEMENTS: dict[str, tuple[str, Kind]] = {
    "float32": ("f32", "real"),
    "float64": ("f64", "real"),
    "complex64": ("f32", "complex"),
    "complex128": ("f64", "complex"),
    "int32": ("i32", "int"),
}

_SCRATCH: dict[tuple[Kind, str], str] = {
    ("real", "f32"): "float32",
    ("real", "f64"): "float64",
    ("complex", "f32"): "complex64",
    ("complex", "f64"): "complex128",
}
"""The dtype of scratch memory, by its kind and by what the kernel computes in."""

Sizes = tuple[int | Size, ...]
Scratch = Callable[..., Mapping[str, Sequence[int | Size]]]


@dataclass(frozen=True)
class _Tensor:
    """A tensor of the dispatch. name: of the kernel's parameter; sizes: the stack's, then a matrix's."""

    name: str
    type: TensorType
    sizes: Sizes


def loops(
    op: CustomOp,
    scratch: Scratch | None = None,
    real: Sequence[str] = (),
    targets: tuple[str, ...] = TARGETS,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers the decorated kernel as a lowering of `op`, for `targets`.

    The kernel takes the operator's arguments by name, and the others of its parameters are the results, in order. Of
    tensors it gets the part of one entry of the stack, which their first dimension counts.
    scratch: gets the sizes of the first tensor and tells those of the memory the kernel needs, by parameter name.
    real: which of that holds real numbers though the tensors may be complex.
    """

    def declare(kernel: Callable[..., None]) -> Callable[..., None]:
        register(op, LoopKernel(kernel, scratch, frozenset(real), targets))
        return kernel

    return declare


class LoopKernel(Lowering):
    """A kernel in Python for one matrix."""

    form: Form = "linalg"

    def __init__(
        self,
        kernel: Callable[..., None],
        scratch: Scratch | None,
        real: frozenset[str] = frozenset(),
        targets: tuple[str, ...] = TARGETS,
    ) -> None:
        self.targets = targets
        self.declared = declared(kernel)
        self.title = f"loops {self.declared.function}"
        self.identity = (self.form, self.declared.function)
        self._kernel = kernel
        self._scratch = scratch
        self._real = real

    def refuses(self, call: CallTypes) -> str | None:
        """Dtypes that kernels do not compute in."""
        for _, tensor in [*call.tensors(), *(("", result) for result in call.results)]:
            if tensor.dtype not in _ELEMENTS:
                return f"it computes in float32, float64, complex64 and complex128, not in {tensor.dtype}"
        try:
            self._tensors(call, "f32")
        except Refused as refused:
            return str(refused)
        return None

    def define(self, symbol: str, call: CallTypes, target: TargetLike | None, folder: Path | None) -> str:
        """The executable with the kernel's loops, and the function that dispatches it."""
        assert target is not None
        real = _computes_in(call, target.device)
        operands, results, scratch = self._tensors(call, real)
        tensors = [*operands, *results, *scratch]
        body = FunctionBody([tensor.type for tensor in operands])
        symbolic = _distinct(tensors)
        count = tensors[0].sizes[0]
        groups = body.workload([minimum(count, _WORKGROUPS)])
        constants = [body.add(f"arith.index_cast {body.size(size)} : index to i32") for size in symbolic]
        constants.append(_unknown_zero(body))
        typed = [f"{t.type.builtin}{sizes_text(body, t.type, t.sizes)}" for t in tensors]
        inputs, outputs = typed[: len(operands)], typed[len(operands) :]
        arguments = ", ".join([*(f"%a{i}" for i in range(len(inputs))), *constants])
        types = ", ".join([*inputs, *["i32"] * len(constants)])
        names = [f"%r{i}" for i in range(len(outputs))]
        lines = [
            *body.lines,
            f"{', '.join(names)} = flow.dispatch @{symbol}_kernel::@{symbol}_entry[{', '.join(groups)}]({arguments})"
            f" : ({types}) -> ({', '.join(outputs)})",
            f"return {', '.join(names[: len(results)])} : {', '.join(t.type.builtin for t in results)}",
        ]
        text = mlir_text.function_text(symbol, body.operands, call.results, lines)
        try:
            return self._executable(symbol, call, tensors, symbolic, real) + text
        except LoopError as error:
            raise LoweringError(f"{self.title}: {error}") from error

    def _tensors(self, call: CallTypes, real: str) -> tuple[list[_Tensor], list[_Tensor], list[_Tensor]]:
        """Operands, results and scratch memory."""
        operands = [
            _Tensor(name, type_, tuple(operand_sizes(type_, number)))
            for number, (name, type_) in enumerate(call.tensors())
        ]
        first = operands[0]
        needed = self._scratch(*first.sizes[1:]) if self._scratch else {}
        names = [n for n in inspect.signature(self._kernel).parameters if n not in {*call.arguments, *needed}]
        sizes = _result_sizes(call)
        results = [
            _Tensor(name, type_, own) for name, type_, own in zip(names, call.results, sizes, strict=True)
        ]
        scratch = []
        for name, own in needed.items():
            whole = (first.sizes[0], *own)
            shape = tuple(size if isinstance(size, int) else None for size in whole)
            kind: Kind = "real" if name in self._real else _ELEMENTS[first.type.dtype][1]
            scratch.append(_Tensor(name, TensorType(shape, _SCRATCH[kind, real]), whole))
        return operands, results, scratch

    def _executable(
        self, symbol: str, call: CallTypes, tensors: Sequence[_Tensor], symbolic: Sequence[Size], real: str
    ) -> str:
        bindings = [f"%b{i}: !stream.binding" for i in range(len(tensors))]
        arguments = ", ".join([*bindings, *(f"%c{i}: i32" for i in range(len(symbolic) + 1))])
        lines = "\n".join(f"      {line}" for line in self._entry(call, tensors, symbolic, real))
        return (
            f"stream.executable private @{symbol}_kernel {{\n"
            f"  stream.executable.export public @{symbol}_entry workgroups(%w: index) -> (index, index, index) {{\n"
            "    %one = arith.constant 1 : index\n"
            "    stream.return %w, %one, %one : index, index, index\n  }\n"
            f"  builtin.module {{\n    func.func @{symbol}_entry({arguments}) {{\n{lines}\n      return\n"
            "    }\n  }\n}\n"
        )

    def _entry(
        self, call: CallTypes, tensors: Sequence[_Tensor], symbolic: Sequence[Size], real: str
    ) -> list[str]:
        """All matrices of one workgroup: it takes each that its number leads to in steps of their count."""
        emitter = Emitter(real)
        known = {
            repr(size): Value("int", (emitter.add(f"arith.index_cast %c{i} : i32 to index"),))
            for i, size in enumerate(symbolic)
        }
        zero = emitter.add(f"arith.index_cast %c{len(symbolic)} : i32 to index")
        arrays = [self._array(emitter, i, tensor, known, zero) for i, tensor in enumerate(tensors)]
        group = emitter.add("stream.dispatch.workgroup.id[0] : index")
        groups = emitter.add("stream.dispatch.workgroup.count[0] : index")
        count = emitter.value(_known(tensors[0].sizes[0], known), "int").parts[0]
        entry = emitter.name()
        emitter.lines.append(f"scf.for {entry} = {group} to {count} step {groups} {{")
        given = {t.name: replace(array, entry=entry) for t, array in zip(tensors, arrays, strict=True)}
        flags = {name: value for name, value in call.arguments.items() if name not in given}
        translate(self._kernel, {**flags, **given}, emitter)
        return [*emitter.lines, "}"]

    def _array(
        self, emitter: Emitter, number: int, tensor: _Tensor, known: Mapping[str, Value], zero: str
    ) -> Array:
        """The memory of a tensor."""
        element, kind = _ELEMENTS[tensor.type.dtype]
        count, *sizes = (_known(size, known) for size in tensor.sizes)
        elements: Number = 2 if kind == "complex" else 1
        for size in sizes:
            elements = emitter.arithmetic("*", elements, size)
        extents = ", ".join(emitter.value(extent, "int").parts[0] for extent in (count, elements))
        memory = emitter.add(
            f"stream.binding.subspan %b{number}[{zero}] : !stream.binding -> {memory_type(element)}{{{extents}}}"
        )
        return Array(memory, element, kind, zero, tuple(sizes))


def _unknown_zero(body: FunctionBody) -> str:
    """Where every tensor begins in its memory, as a value that the compiler does not know.

    SPIR-V is made of memory whose layout says that it may begin anywhere, and the one of memory that is known to begin
    at the start of a buffer says otherwise. Which tensor lies where is decided after these loops are written.
    """
    return body.add(f"util.optimization_barrier {body.add('arith.constant 0 : i32')} : i32")


def _known(size: int | Size, known: Mapping[str, Value]) -> int | Value:
    return size if isinstance(size, int) else known[repr(size)]


def _distinct(tensors: Sequence[_Tensor]) -> list[Size]:
    """The sizes that are only known when the program runs."""
    found = {repr(size): size for tensor in tensors for size in tensor.sizes if isinstance(size, Size)}
    return list(found.values())


def _result_sizes(call: CallTypes) -> list[Sizes]:
    if call.result_sizes is not None:
        return [tuple(row) for row in call.result_sizes]
    rows: list[Sizes] = [tuple(size for size in result.shape if size is not None) for result in call.results]
    if [len(row) for row in rows] != [result.rank for result in call.results]:
        raise Refused("the sizes of its results do not follow from those of its arguments")
    return rows


def _computes_in(call: CallTypes, device: str) -> str:
    """float32 is computed in float64 where every device has it: rounding then adds nothing to the data's own."""
    types = [tensor.dtype for _, tensor in call.tensors()]
    single = not any(dtype in ("float64", "complex128") for dtype in types)
    return "f32" if single and device != "cpu" else "f64"
