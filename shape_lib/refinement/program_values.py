"""What is known of the values of a program (not of a library function): types, constants, sizes, lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_mlir import ir

from ..abstract import lists, scalars
from ..abstract.program import constant, type_name, unknown_of
from ..abstract.values import Heap, Unknown, Value
from ..tensor_types import TensorInfo, parse
from .arguments import known_sizes

# The operations of the Torch dialect that change a list. No operator with a schema does.
_CHANGES_LISTS = {
    "torch.aten.append.t",
    "torch.aten.insert.t",
    "torch.aten._set_item.t",
    "torch.aten.sort.int",
}

# They pass their operand on.
_SAME_VALUE = {
    "torch.derefine",
    "torch.prim.unchecked_cast",
    "torch.copy.to_vtensor",
    "torch.copy.to_tensor",
    "torch.tensor_static_info_cast",
}


class ProgramValues:
    """Follows a program in its order. Tensors are `TensorInfo`, all else as in `shape_lib.abstract`."""

    def __init__(self) -> None:
        self.heap = Heap()
        self._known: dict[ir.Value, Value] = {}

    def of(self, value: ir.Value) -> Value:
        """What is known of `value`."""
        if value not in self._known:
            self._known[value] = self._from_type(value.type)
        return self._known[value]

    def set(self, value: ir.Value, known: Value) -> None:
        """Notes what was found out about `value`."""
        self._known[value] = known

    def _from_type(self, type_: ir.Type) -> Value:
        tensor = parse(str(type_))
        if tensor is not None:
            return tensor
        name = type_name(type_)
        return self.heap.new(None) if name.startswith("list<") else unknown_of(name)

    def follow(self, op: ir.Operation) -> bool:
        """Takes note of an operation that is no operator on tensors; False for all others."""
        if op.name.startswith("torch.constant."):
            self.set(op.results[0], constant(op))
        elif op.name in _SAME_VALUE:
            self._pass_on(op)
        elif op.name == "torch.prim.ListUnpack":
            self._unpack(op)
        elif op.name in _SIZES:
            self.set(op.results[0], _SIZES[op.name](self, [self.of(operand) for operand in op.operands]))
        elif _is_computed(op):
            self._compute(op)
        else:
            return False
        return True

    def _pass_on(self, op: ir.Operation) -> None:
        self._note(op.results[0], self.of(op.operands[0]))

    def _unpack(self, op: ir.Operation) -> None:
        contents = self.heap.read(self.of(op.operands[0]))
        if contents is not None and len(contents) == len(op.results):
            for result, known in zip(op.results, contents, strict=True):
                self._note(result, known)

    def _note(self, value: ir.Value, known: Value) -> None:
        """`known`, and what the value's type says besides."""
        said = self._from_type(value.type)
        if isinstance(known, TensorInfo) and isinstance(said, TensorInfo):
            known = known.meet(said) or said
        self.set(value, said if isinstance(known, Unknown) else known)

    def _compute(self, op: ir.Operation) -> None:
        name = op.name.removeprefix("torch.")
        operands = [self.of(operand) for operand in op.operands]
        unknown = self._from_type(op.results[0].type) if len(op.results) else None
        operation = lists.find(name)
        try:
            if operation is not None:
                result = operation(self.heap, operands, unknown)
            else:
                result = scalars.compute(name, operands, unknown)
        except (ArithmeticError, LookupError, ValueError, TypeError):
            # The program fails there when it runs; that is no matter of types.
            result = unknown
        if len(op.results):
            self._note(op.results[0], result)

    def around_regions(self, op: ir.Operation) -> None:
        """Before and after the regions of `op`: what they change may have been changed at any time."""
        changes = False

        def look(inner: ir.Operation) -> ir.WalkResult:
            nonlocal changes
            changes |= inner.operation.name in _CHANGES_LISTS
            return ir.WalkResult.ADVANCE

        op.walk(look)
        if changes:
            self.heap.forget()


def _is_computed(op: ir.Operation) -> bool:
    """Whether the interpreter's tables tell what the operation of the program gives."""
    if not op.name.startswith("torch."):
        return False
    name = op.name.removeprefix("torch.")
    if any(parse(str(result.type)) is not None for result in op.results):
        # Of tensors only which one of a list it is; all else is what library functions are for.
        return name == "aten.__getitem__.t"
    if lists.find(name) is not None:
        return True
    tensors = any(parse(str(operand.type)) is not None for operand in op.operands)
    return not tensors and scalars.base_name(name) in scalars.KNOWN


def _size(values: ProgramValues, operands: Sequence[Value]) -> Value:
    tensor, dim = operands
    if not isinstance(tensor, TensorInfo) or tensor.sizes is None or type(dim) is not int:
        return Unknown.NATURAL
    sizes = tensor.sizes
    size = sizes[dim] if -len(sizes) <= dim < len(sizes) else None
    return Unknown.NATURAL if size is None else size


def _all_sizes(values: ProgramValues, operands: Sequence[Value]) -> Value:
    tensor = operands[0]
    return values.heap.new(known_sizes(tensor.sizes) if isinstance(tensor, TensorInfo) else None)


def _rank(values: ProgramValues, operands: Sequence[Value]) -> Value:
    sizes = operands[0].sizes if isinstance(operands[0], TensorInfo) else None
    return Unknown.NATURAL if sizes is None else len(sizes)


def _elements(values: ProgramValues, operands: Sequence[Value]) -> Value:
    tensor = operands[0]
    if not isinstance(tensor, TensorInfo) or tensor.sizes is None:
        return Unknown.NATURAL
    product: Value = 1
    for size in known_sizes(tensor.sizes) or ():
        product = scalars.compute("aten.mul.int", [product, size], Unknown.NATURAL)
    return product


def _code(values: ProgramValues, operands: Sequence[Value]) -> Value:
    tensor = operands[0]
    code = tensor.code if isinstance(tensor, TensorInfo) else None
    return Unknown.NATURAL if code is None else code


_SIZES: dict[str, Callable[[ProgramValues, Sequence[Value]], Value]] = {
    "torch.aten.size.int": _size,
    "torch.aten.sym_size.int": _size,
    "torch.aten.size": _all_sizes,
    "torch.aten.dim": _rank,
    "torch.aten.numel": _elements,
    "torch.prim.dtype": _code,
    "torch.symbolic_int": lambda values, operands: Unknown.NATURAL,
}
