"""split-product-reductions: a sum of products over several dimensions is summed over the last of them first.

IREE fuses the product into the sum and vectorizes both as a contraction. Where a factor has a later one of the
dimensions summed over but not an earlier one, as a row that is multiplied with each row of a matrix, it makes one that
is not valid, with every option set ("'vector.contract' op invalid accumulator/result vector shape"), or crashes.
Summed over one dimension at a time it is a product of a matrix and a vector, and a sum.

Before:  %p = <%x : tensor<3x5xf32> times %w : tensor<5xf32>>
         %s = linalg.generic {iterator_types = ["reduction", "reduction"]} ins(%p) outs(%zero)
After:   %r = linalg.generic {iterator_types = ["parallel", "reduction"]} ins(%p) outs(%zeros : tensor<3xf32>)
         %s = linalg.generic {iterator_types = ["reduction"]} ins(%r) outs(%zero)
"""

from __future__ import annotations

from torch_mlir import ir

_PRODUCTS = ("arith.mulf", "arith.muli")
_SUMS = ("arith.addf", "arith.addi")


def run(module: ir.Module) -> int:
    """Changes `module` in place. Returns the number of sums that it split."""
    found: list[ir.Operation] = []

    def collect(op: ir.Operation) -> ir.WalkResult:
        if op.operation.name == "linalg.generic" and _is_sum_to_split(op.operation):
            found.append(op.operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect)
    with module.context:
        for op in found:
            _split(op)
    return len(found)


def _is_sum_to_split(op: ir.Operation) -> bool:
    reduced = _reduced(op)
    if len(reduced) < 2 or len(op.operands) != 2 or not _is_identity(_maps(op)[0]):
        return False
    if [inner.name for inner in _body(op)] not in ([name, "linalg.yield"] for name in _SUMS):
        return False
    factors = _producer(op.operands[0])
    return factors is not None and _root(factors) in _PRODUCTS and _lacks_earlier(factors, reduced)


def _lacks_earlier(op: ir.Operation, reduced: list[int]) -> bool:
    """Whether a tensor that the elementwise `op` computes from has a later one of `reduced` without an earlier one."""
    for operand, map_ in zip(op.operands, _maps(op), strict=True):
        if _is_identity(map_):
            producer = _producer(operand)
            if producer is not None and _lacks_earlier(producer, reduced):
                return True
            continue
        has = [dim in _dims(map_) for dim in reduced]
        if True in has and False in has[: _last(has)]:
            return True
    return False


def _last(has: list[bool]) -> int:
    return len(has) - 1 - has[::-1].index(True)


def _is_identity(map_: ir.AffineMap) -> bool:
    return map_ == ir.AffineMap.get_identity(map_.n_dims, map_.context)


def _dims(map_: ir.AffineMap) -> set[int]:
    return {expression.position for expression in map_.results if isinstance(expression, ir.AffineDimExpr)}


def _producer(value: ir.Value) -> ir.Operation | None:
    """The elementwise operation that IREE may fuse into what reads `value`."""
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner
    return op if op.name == "linalg.generic" and not _reduced(op) and len(op.results) == 1 else None


def _root(op: ir.Operation) -> str:
    """The name of the operation that computes what the loop yields."""
    value = _body(op)[-1].operands[0]
    return "" if isinstance(value.owner, ir.Block) else value.owner.name


def _body(op: ir.Operation) -> list[ir.Operation]:
    return [inner.operation for inner in op.regions[0].blocks[0].operations]


def _maps(op: ir.Operation) -> list[ir.AffineMap]:
    return [ir.AffineMapAttr(attribute).value for attribute in ir.ArrayAttr(op.attributes["indexing_maps"])]


def _reduced(op: ir.Operation) -> list[int]:
    kinds = [str(kind) for kind in ir.ArrayAttr(op.attributes["iterator_types"])]
    return [dim for dim, kind in enumerate(kinds) if "reduction" in kind]


def _split(op: ir.Operation) -> None:
    kinds = list(ir.ArrayAttr(op.attributes["iterator_types"]))
    last = _reduced(op)[-1]
    others = [dim for dim in range(len(kinds)) if dim != last]
    with ir.InsertionPoint(op), op.location:
        op.operands[0] = _row_sums(op, last, others)
    op.attributes["iterator_types"] = ir.ArrayAttr.get([kinds[dim] for dim in others])
    op.attributes["indexing_maps"] = _map_attributes(
        _projection(len(others), list(range(len(others)))), _without_dim(_maps(op)[1], others)
    )


def _row_sums(op: ir.Operation, last: int, others: list[int]) -> ir.Value:
    """The sum over the dimension `last` alone."""
    parallel, reduction = (
        ir.Attribute.parse(f"#linalg.iterator_type<{k}>") for k in ("parallel", "reduction")
    )
    rank = len(others) + 1
    zeros = _zeros(op.operands[0], others)
    sums = ir.Operation.create(
        "linalg.generic",
        results=[zeros.type],
        operands=[op.operands[0], zeros],
        attributes={
            "indexing_maps": _map_attributes(_projection(rank, list(range(rank))), _projection(rank, others)),
            "iterator_types": ir.ArrayAttr.get([reduction if d == last else parallel for d in range(rank)]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1]),
        },
        regions=1,
    )
    element = ir.RankedTensorType(zeros.type).element_type
    block = sums.regions[0].blocks.append(element, element)
    with ir.InsertionPoint(block):
        name = _body(op)[0].name
        total = ir.Operation.create(name, [element], list(block.arguments)).result
        ir.Operation.create("linalg.yield", operands=[total])
    return sums.result


def _zeros(like: ir.Value, dims: list[int]) -> ir.Value:
    """Zeros of the sizes that `like` has along `dims`."""
    type_ = ir.RankedTensorType(like.type)
    element = type_.element_type
    sizes = [_size(like, dim) for dim in dims if type_.is_dynamic_dim(dim)]
    shape = [type_.shape[dim] for dim in dims]
    empty = ir.Operation.create("tensor.empty", [ir.RankedTensorType.get(shape, element)], sizes).result
    number = "0.0" if isinstance(element, ir.FloatType) else "0"
    zero = _constant(ir.Attribute.parse(f"{number} : {element}"), element)
    fill = ir.Operation.create(
        "linalg.fill",
        results=[empty.type],
        operands=[zero, empty],
        attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1])},
        regions=1,
    )
    block = fill.regions[0].blocks.append(element, element)
    with ir.InsertionPoint(block):
        ir.Operation.create("linalg.yield", operands=[block.arguments[0]])
    return fill.result


def _size(value: ir.Value, dim: int) -> ir.Value:
    index = ir.IndexType.get()
    return ir.Operation.create(
        "tensor.dim", [index], [value, _constant(ir.IntegerAttr.get(index, dim), index)]
    ).result


def _constant(value: ir.Attribute, type_: ir.Type) -> ir.Value:
    return ir.Operation.create("arith.constant", [type_], attributes={"value": value}).result


def _projection(rank: int, dims: list[int]) -> ir.AffineMap:
    return ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(dim) for dim in dims])


def _without_dim(map_: ir.AffineMap, others: list[int]) -> ir.AffineMap:
    """The map where only the dimensions `others` are left. Kept dimensions of size one are constants in it."""
    results = [
        ir.AffineExpr.get_dim(others.index(e.position)) if isinstance(e, ir.AffineDimExpr) else e
        for e in map_.results
    ]
    return ir.AffineMap.get(len(others), 0, results)


def _map_attributes(*maps: ir.AffineMap) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([ir.AffineMapAttr.get(map_) for map_ in maps])
