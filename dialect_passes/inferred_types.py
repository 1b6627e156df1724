"""The types of operations that a pass makes, as the shape library tells them."""

from __future__ import annotations

from torch_mlir import ir

from pipeline.shape_lib.abstract.machine import Raised
from pipeline.shape_lib.refinement.arguments import MisfitError
from pipeline.shape_lib.refinement.inference import infer
from pipeline.shape_lib.refinement.library import Library
from pipeline.shape_lib.refinement.operations import operator_name
from pipeline.shape_lib.refinement.program_values import ProgramValues
from pipeline.shape_lib.tensor_types import TensorInfo, build, parse

from .shape_libraries import default_libraries
from .torch_ops import producer

# Getting torch-mlir's functions costs a third of a second, however many they are: those that passes ask for often.
_OFTEN = tuple(
    f"aten.{name}"
    for name in (
        "add.Tensor add.Scalar addmm bmm cat clamp div.Tensor div.Scalar erf exp expand eq.Tensor le.Tensor linear "
        "logical_not lt.Tensor matmul maximum mean.dim minimum mm mul.Tensor mul.Scalar neg permute pow.Tensor_Scalar "
        "reshape rsqrt select.int sigmoid slice.Tensor softmax.int _softmax sqrt squeeze.dim sub.Tensor sub.Scalar "
        "sum.dim_IntList t tanh transpose.int unsqueeze view where.self"
    ).split()
)


class TypeInference:
    """Tells result types; gets the library functions when it is first asked."""

    def __init__(self, context: ir.Context) -> None:
        self._context = context
        self._libraries: dict[str, Library] = {}
        self._stock: Library | None = None

    def of(self, op: ir.Operation) -> ir.Type:
        """The type of the one result of `op`. Raises ValueError where its rank or dtype stays unknown."""
        name = operator_name(op)
        library = self._library(name)
        values = ProgramValues()
        for operand in op.operands:
            _follow(operand, values)
        operands = [values.of(operand) for operand in op.operands]
        shape, dtype = library.find("shape", name), library.find("dtype", name)
        try:
            told = infer([op.results[0].type], operands, values.heap, shape, dtype)[0]
        except (Raised, MisfitError) as error:
            raise ValueError(f"{name} cannot take the operands a pass gives it: {error}") from error
        if not isinstance(told, TensorInfo) or not told.refined:
            raise ValueError(f"the shape library does not tell the type of {name}; give result=")
        with self._context:
            return build(told)

    def _library(self, name: str) -> Library:
        own = default_libraries({name})
        if not own:
            if self._stock is None:
                self._stock = Library([], self._context)
                self._stock.prepare(_OFTEN)
            return self._stock
        return self._libraries.setdefault(name, Library(own, self._context))


def _follow(value: ir.Value, values: ProgramValues) -> None:
    """Notes the constants and lists that `value` is made of; what is known of tensors is in their types."""
    op = producer(value)
    if op is None or parse(str(value.type)) is not None:
        return
    for operand in op.operands:
        _follow(operand, values)
    values.follow(op)
