"""expand-scalar-functions: some elementwise operators become loops with bodies of our own (`scalars`).

Before:  %r = torch.aten.sin %x : !torch.vtensor<[n],f32> -> !torch.vtensor<[n],f32>
After:   %b = torch_c.to_builtin_tensor %x : !torch.vtensor<[n],f32> -> tensor<nxf32>
         %g = linalg.generic ins(%b) outs(tensor.empty) { the sine of one element, in arithmetic }
         %r = torch_c.from_builtin_tensor %g : tensor<nxf32> -> !torch.vtensor<[n],f32>

The operands have the result's sizes: the decompositions of these operators see to that.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from pipeline.shape_lib.tensor_types import parse

from .scalars import BODIES
from .scalars.values import Body, Scalar
from .torch_ops import dtype, every

_USES_CASTS = "torch-func-backend-type-conversion"

_ELEMENTS = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
}


def run(module: ir.Module) -> int:
    """Changes `module` in place. Returns the number of operators that became loops."""
    found = every(module, *BODIES)
    with module.context, ir.Location.unknown():
        if found:
            _load_casts()
        return sum(map(_expand, found))


def _load_casts() -> None:
    """Makes the casts between tensors of the Torch dialect and of linalg known: only a pass with casts does."""
    PassManager.parse(f"builtin.module({_USES_CASTS})").run(ir.Module.create().operation)


def _expand(op: ir.Operation) -> bool:
    tensors = [value for value in op.operands if parse(str(value.type)) is not None]
    types = [_builtin(value) for value in tensors]
    result, body = _builtin(op.results[0]), BODIES[op.name]
    if result is None or None in types or not body.dtypes.issuperset(map(dtype, tensors)):
        return False
    with ir.InsertionPoint(op), op.location:
        values = [
            ir.Operation.create("torch_c.to_builtin_tensor", [type_], [value]).result
            for value, type_ in zip(tensors, types, strict=True)
        ]
        loop = _loop(body, values, result)
        new = ir.Operation.create("torch_c.from_builtin_tensor", [op.results[0].type], [loop]).result
    op.results[0].replace_all_uses_with(new)
    op.erase()
    return True


def _builtin(value: ir.Value) -> ir.RankedTensorType | None:
    """The type in linalg of a tensor of the Torch dialect; None for one of other elements, or not known well enough."""
    info = parse(str(value.type))
    if info is None or info.sizes is None or info.dtype not in _ELEMENTS:
        return None
    unknown = ir.ShapedType.get_dynamic_size()
    shape = [unknown if size is None else size for size in info.sizes]
    return ir.RankedTensorType.get(shape, ir.Type.parse(_ELEMENTS[info.dtype]))


def _loop(body: Body, values: Sequence[ir.Value], result: ir.RankedTensorType) -> ir.Value:
    empty = ir.Operation.create("tensor.empty", [result], _unknown_sizes(values[0], result)).result
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(result.rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    attributes = {
        "indexing_maps": ir.ArrayAttr.get([identity] * (len(values) + 1)),
        "iterator_types": ir.ArrayAttr.get([parallel] * result.rank),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(values), 1]),
    }
    generic = ir.Operation.create("linalg.generic", [result], [*values, empty], attributes, regions=1)
    elements = [ir.RankedTensorType(value.type).element_type for value in [*values, empty]]
    block = generic.regions[0].blocks.append(*elements)
    with ir.InsertionPoint(block):
        element = body.function(*(Scalar(argument) for argument in [*block.arguments][:-1]))
        ir.Operation.create("linalg.yield", operands=[element.value])
    return generic.result


def _unknown_sizes(value: ir.Value, type_: ir.RankedTensorType) -> list[ir.Value]:
    index, found = ir.IndexType.get(), []
    for number in range(type_.rank):
        if type_.is_dynamic_dim(number):
            attribute = {"value": ir.IntegerAttr.get(index, number)}
            position = ir.Operation.create("arith.constant", [index], attributes=attribute).result
            found.append(ir.Operation.create("tensor.dim", [index], [value, position]).result)
    return found
