"""expand-scalar-functions: some elementwise operators become loops with bodies of our own (`scalars`).

Before:  %r = torch.aten.sin %x : !torch.vtensor<[n],f32> -> !torch.vtensor<[n],f32>
After:   %b = torch_c.to_builtin_tensor %x : !torch.vtensor<[n],f32> -> tensor<nxf32>
         %g = linalg.generic ins(%b) outs(tensor.empty) { the sine of one element, in arithmetic }
         %r = torch_c.from_builtin_tensor %g : tensor<nxf32> -> !torch.vtensor<[n],f32>

The operands have the result's sizes: the decompositions of these operators see to that. It runs before torch-mlir's own
decompositions, which would take remainders apart, and refuse what torch-mlir does not know.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from pipeline.shape_lib.tensor_types import parse

from .scalars import BODIES
from .scalars.values import Body, Scalar
from .torch_ops import dtype, every

_UNKNOWN_TO_TORCH_MLIR = "torch.operator"
_USES_CASTS = "torch-func-backend-type-conversion"

_ELEMENTS = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "int8": "i8",
    "uint8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
}


def run(module: ir.Module) -> int:
    """Changes `module` in place. Returns the number of operators that became loops."""
    found = [op for op in every(module, _UNKNOWN_TO_TORCH_MLIR, *BODIES) if _name(op) in BODIES]
    with module.context, ir.Location.unknown():
        if found:
            _load_casts()
        return sum(map(_expand, found))


def _name(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["name"]).value if op.name == _UNKNOWN_TO_TORCH_MLIR else op.name


def _load_casts() -> None:
    """Makes the casts between tensors of the Torch dialect and of linalg known: only a pass with casts does."""
    PassManager.parse(f"builtin.module({_USES_CASTS})").run(ir.Module.create().operation)


def _expand(op: ir.Operation) -> bool:
    tensors = [value for value in op.operands if parse(str(value.type)) is not None]
    types, results = [*map(_builtin, tensors)], [*map(_builtin, op.results)]
    body = BODIES[_name(op)]
    if None in [*types, *results] or not body.dtypes.issuperset(map(dtype, tensors)):
        return False
    with ir.InsertionPoint(op), op.location:
        values = [
            ir.Operation.create("torch_c.to_builtin_tensor", [type_], [value]).result
            for value, type_ in zip(tensors, types, strict=True)
        ]
        for old, new in zip(op.results, _loop(body, values, results), strict=True):
            cast = ir.Operation.create("torch_c.from_builtin_tensor", [old.type], [new])
            old.replace_all_uses_with(cast.result)
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


def _loop(
    body: Body, values: Sequence[ir.Value], results: Sequence[ir.RankedTensorType]
) -> Sequence[ir.Value]:
    sizes, rank = _unknown_sizes(values[0], results[0]), results[0].rank
    empty = [ir.Operation.create("tensor.empty", [result], sizes).result for result in results]
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    operands = [*values, *empty]
    attributes = {
        "indexing_maps": ir.ArrayAttr.get([identity] * len(operands)),
        "iterator_types": ir.ArrayAttr.get([parallel] * rank),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(values), len(empty)]),
    }
    generic = ir.Operation.create("linalg.generic", results, operands, attributes, regions=1)
    elements = [ir.RankedTensorType(value.type).element_type for value in operands]
    block = generic.regions[0].blocks.append(*elements)
    with ir.InsertionPoint(block):
        found = body.function(*map(Scalar, [*block.arguments][: len(values)]))
        found = found if isinstance(found, tuple) else (found,)
        typed = [_as_type(value, result.element_type) for value, result in zip(found, results, strict=True)]
        ir.Operation.create("linalg.yield", operands=typed)
    return [*generic.results]


def _as_type(element: Scalar, type_: ir.Type) -> ir.Value:
    return element.value if element.type == type_ else element.as_float(type_).value


def _unknown_sizes(value: ir.Value, type_: ir.RankedTensorType) -> list[ir.Value]:
    index, found = ir.IndexType.get(), []
    for number in range(type_.rank):
        if type_.is_dynamic_dim(number):
            attribute = {"value": ir.IntegerAttr.get(index, number)}
            position = ir.Operation.create("arith.constant", [index], attributes=attribute).result
            found.append(ir.Operation.create("tensor.dim", [index], [value, position]).result)
    return found
