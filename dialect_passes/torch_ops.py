"""Reading and making operations of the Torch dialect, for passes that replace several at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch_mlir import ir

from pipeline.shape_lib.tensor_types import TensorInfo, build, parse


def every(module: ir.Module, *names: str) -> list[ir.Operation]:
    """The operations of these names in the functions of `module`, in order."""
    return [
        op.operation
        for function in module.body.operations
        for block in function.regions[0].blocks
        for op in block.operations
        if op.operation.name in names
    ]


def producer(value: ir.Value) -> ir.Operation | None:
    """The operation that gives `value`, None for an argument."""
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def used_once(value: ir.Value) -> bool:
    """Whether exactly one operand is `value`."""
    uses = iter(value.uses)
    return next(uses, None) is not None and next(uses, None) is None


def constant(value: ir.Value) -> int | float | None:
    """A constant number or bool; None for anything else."""
    op = producer(value)
    if op is None or op.name not in ("torch.constant.int", "torch.constant.float", "torch.constant.bool"):
        return None
    return op.attributes["value"].value


def constants(value: ir.Value) -> list[int | float] | None:
    """A list of constant numbers; None for anything else."""
    op = producer(value)
    if op is None or op.name != "torch.prim.ListConstruct":
        return None
    numbers = [constant(operand) for operand in op.operands]
    return None if None in numbers else [number for number in numbers if number is not None]


def sizes(value: ir.Value) -> tuple[int | None, ...] | None:
    """The sizes of a tensor, None for each unknown one; None for anything but a tensor of known rank."""
    info = parse(str(value.type))
    return None if info is None else info.sizes


def dtype(value: ir.Value) -> str | None:
    """torch's name of a tensor's dtype, None for anything else."""
    info = parse(str(value.type))
    return None if info is None else info.dtype


class Maker:
    """Makes operations before `op`, at its place in the user's program."""

    def __init__(self, op: ir.Operation) -> None:
        self._before = op

    def tensor(
        self, name: str, shape: Sequence[int | None], dtype: str | None, operands: Sequence[ir.Value]
    ) -> ir.Value:
        """The result of the operator `name` (``aten.mul.Tensor``), of the given shape and dtype."""
        with self._before.context:
            type_ = build(TensorInfo(tuple(shape), dtype))
        return self._make(f"torch.{name}", type_, operands)

    def number(self, value: int) -> ir.Value:
        """A constant."""
        with self._before.context:
            attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
        return self._make("torch.constant.int", "!torch.int", (), {"value": attribute})

    def none(self) -> ir.Value:
        """The absent operand."""
        return self._make("torch.constant.none", "!torch.none", ())

    def numbers(self, values: Sequence[int]) -> ir.Value:
        """A list of constants."""
        operands = [self.number(value) for value in values]
        return self._make("torch.prim.ListConstruct", "!torch.list<int>", operands)

    def tensors(self, values: Sequence[ir.Value]) -> ir.Value:
        """A list of tensors."""
        return self._make("torch.prim.ListConstruct", "!torch.list<vtensor>", values)

    def view(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        """`value` in another shape of known sizes."""
        if sizes(value) == tuple(shape):
            return value
        return self.tensor("aten.view", shape, dtype(value), [value, self.numbers(shape)])

    def again(self, op: ir.Operation, operands: Mapping[int, ir.Value]) -> ir.Value:
        """The result of a copy of `op` with some other operands."""
        copy = op.clone(ir.InsertionPoint(self._before))
        for number, value in operands.items():
            copy.operands[number] = value
        return copy.results[0]

    def _make(
        self,
        name: str,
        type_: ir.Type | str,
        operands: Sequence[ir.Value],
        attributes: dict[str, ir.Attribute] | None = None,
    ) -> ir.Value:
        with self._before.context, ir.InsertionPoint(self._before), self._before.location:
            result = ir.Type.parse(type_) if isinstance(type_, str) else type_
            return ir.Operation.create(name, [result], list(operands), attributes).result
