"""Writing the MLIR of a function that launches a kernel: index arithmetic over sizes, constants, types."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from .call_types import TensorType
from .launch import Constant
from .sizes import Size

_ARITH = {"+": "arith.addi", "-": "arith.subi", "*": "arith.muli", "max": "arith.maxsi", "min": "arith.minsi"}

_RESOURCE_EXHAUSTED = 8
"""IREE's status code."""


class FunctionBody:
    """Lines of a function whose arguments are the tensors of a call, named ``%a0``, ``%a1``, ..."""

    def __init__(self, operands: Sequence[TensorType]) -> None:
        self.operands = tuple(operands)
        self.lines: list[str] = []
        self._values: dict[str, str] = {}

    def add(self, operation: str) -> str:
        """Appends an operation with one result; its name. The same text twice is one operation."""
        if operation not in self._values:
            self._values[operation] = f"%v{len(self._values)}"
            self.lines.append(f"{self._values[operation]} = {operation}")
        return self._values[operation]

    def size(self, size: int | Size) -> str:
        """A value of type index."""
        if isinstance(size, int):
            return self.add(f"arith.constant {int(size)} : index")
        left, right = size.operands
        if size.operation == "dim":
            assert isinstance(left, int)
            return self.add(f"tensor.dim %a{left}, {self.size(right)} : {self.operands[left].builtin}")
        if size.operation in ("//", "%"):
            return self._division(size.operation, left, right)
        return self.add(f"{_ARITH[size.operation]} {self.size(left)}, {self.size(right)} : index")

    def _division(self, operation: str, left: int | Size, right: int | Size) -> str:
        """Rounds down, as in Python; by at least one, since a size of zero would stop the process."""
        divisor = self.size(right)
        if isinstance(right, Size):
            divisor = self.add(f"arith.maxsi {divisor}, {self.size(1)} : index")
        quotient = self.add(f"arith.floordivsi {self.size(left)}, {divisor} : index")
        if operation == "//":
            return quotient
        multiple = self.add(f"arith.muli {quotient}, {divisor} : index")
        return self.add(f"arith.subi {self.size(left)}, {multiple} : index")

    def workload(self, counts: Sequence[int | Size]) -> list[str]:
        """The workgroup counts as values.

        The first is behind a barrier: IREE runs what depends on constants alone while it compiles, where a kernel
        for another device, or for another CPU, cannot run.
        """
        first, *rest = (self.size(count) for count in counts)
        return [self.add(f"util.optimization_barrier {first} : index"), *rest]

    def constant(self, constant: Constant) -> str:
        """A value of the constant's type."""
        if isinstance(constant.value, Size):
            return self.add(f"arith.index_cast {self.size(constant.value)} : index to {constant.type}")
        return self.add(f"arith.constant {number(constant.value, constant.type)} : {constant.type}")

    def require(self, size: Size, limit: int, message: str) -> None:
        """The call fails with `message` when `size` is above `limit`.

        By its status, since IREE removes assertions from optimized programs.
        """
        fits = self.add(f"arith.cmpi sle, {self.size(size)}, {self.size(limit)} : index")
        right, wrong = (self.add(f"arith.constant {code} : i32") for code in (0, _RESOURCE_EXHAUSTED))
        status = self.add(f"arith.select {fits}, {right}, {wrong} : i32")
        self.lines.append(f'util.status.check_ok {status}, "{message}"')

    def require_constants(self, constants: Sequence[Constant]) -> None:
        """The call fails when a size is beyond the 32 bits that it is passed in: the rest would be cut off."""
        for constant in constants:
            if isinstance(constant.value, Size) and constant.type == "i32":
                self.require(
                    constant.value, 2**31 - 1, "a size is beyond the 32 bits that a kernel takes it in"
                )


def number(value: int | float, type_: str) -> str:
    """A number as MLIR writes it: floats by their bits, which keeps NaN, infinities and all digits."""
    if type_ == "f32":
        return f"0x{struct.unpack('<I', struct.pack('<f', value))[0]:08X}"
    if type_ == "f64":
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    return str(int(value))


def sizes_text(body: FunctionBody, tensor: TensorType, sizes: Sequence[int | Size]) -> str:
    """The dynamic sizes of a tensor behind its type: ``{%v1, %v2}``, or nothing."""
    values = [body.size(sizes[dim]) for dim in tensor.dynamic_dims]
    return f"{{{', '.join(values)}}}" if values else ""


def function_text(
    symbol: str, operands: Sequence[TensorType], results: Sequence[TensorType], lines: Sequence[str]
) -> str:
    """A private function from the tensors ``%a0``, ... to `results`."""
    arguments = ", ".join(f"%a{number}: {operand.builtin}" for number, operand in enumerate(operands))
    types = ", ".join(result.builtin for result in results)
    inside = "".join(f"  {line}\n" for line in lines)
    return f"func.func private @{symbol}({arguments}) -> ({types}) {{\n{inside}}}\n"
