"""Puts kernels of our own in the place of products and convolutions in float32 (runs in the worker).

Before:  %y = linalg.matmul ins(%x, %weight) outs(%zeros);  %z = linalg.generic (addf) ins(%y, %bias)
After:   %panels = %weight, its columns in panels as wide as the kernel's tile (of weights: computed at load)
         %z = flow.dispatch @product_0(%x, %panels, %bias)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir
from iree.compiler.dialects import arith, tensor

from . import attention as attention_kernel
from . import attention_pattern, depthwise, panels
from .attention import Attention
from .channels_last import make_channels_last
from .depthwise import Depthwise
from .isa import Tile, VectorUnit
from .packing import packed, packed_keys, padded
from .panels import PanelProduct, Steps
from .replaced import Replaced
from .values import Constants, erase_unused, is_zeros, row_shape, static_shape
from .views import Counts, View, view_of

# What a kernel of attention may keep of scores: a quarter of the stack that IREE is told to allow.
_ROWS_BYTES = 1 << 18


def use_kernels(module: ir.Module, functions: Sequence[ir.Operation], unit: VectorUnit) -> None:
    """Rewrites the bodies of `functions` in place and adds the kernels to `module`."""
    for function in functions:
        make_channels_last(function)
    replacer = _Replacer(module, unit)
    for function in functions:
        replacer.visit(function)


class _Replacer:
    def __init__(self, module: ir.Module, unit: VectorUnit) -> None:
        self._module = module
        self._unit = unit
        self._symbols: dict[str, str] = {}

    def visit(self, function: ir.Operation) -> None:
        constants = Constants(function)
        block = function.regions[0].blocks[0]
        for op in [op.operation for op in block.operations if op.operation.name in _RULES]:
            _RULES[op.name](self, op, constants)

    def _matmul(self, op: ir.Operation, constants: Constants) -> None:
        left, right, start = op.operands
        counts: Counts = (None,) if left.type.is_dynamic_dim(0) else (left.type.get_dim_size(0),)
        known = row_shape(left.type, counts) and static_shape(right.type)
        if (
            not _is_f32(op)
            or not known
            or right not in constants
            or not is_zeros(start)
            or _is_transposed(op)
        ):
            return
        (rows,), (depth, columns) = counts, right.type.shape
        if depth < 8 or (rows is not None and rows < 4):
            return
        result = Replaced(op, counts)
        stride = depth + (_apart(depth) if rows is not None else 0)
        with ir.InsertionPoint(result.place), op.location:
            product = PanelProduct(
                result.shape,
                View(None if rows is None else rows * stride, (stride,)),
                (Steps(depth, 1),),
                Tile.for_columns(columns, self._unit),
                self._unit,
            )
            factors = [padded(left, [0, stride - depth]), packed(right, product)]
            text = panels.kernel_text("@@", product, result.epilogue)
            self._dispatch("product" + _sizes(product), text, factors, result)

    def _convolution(self, op: ir.Operation, constants: Constants) -> None:
        weight = op.operands[1]
        if not _is_convolution(op, constants):
            return
        result = Replaced(op, tuple(op.results[0].type.shape[:3]))
        with ir.InsertionPoint(result.place), op.location:
            image, product = self._product_of_windows(op, result)
            flat = ir.RankedTensorType.get([product.depth, product.shape.columns], weight.type.element_type)
            matrix = tensor.collapse_shape(flat, weight, [[0, 1, 2], [3]])
            text = panels.kernel_text("@@", product, result.epilogue)
            self._dispatch("convolution" + _sizes(product), text, [image, packed(matrix, product)], result)

    def _product_of_windows(self, op: ir.Operation, result: Replaced) -> tuple[ir.Value, PanelProduct]:
        """What holds the images, and the product."""
        image, view = view_of(op.operands[0], tuple(op.operands[0].type.shape[:3]))
        tall, wide, channels, columns = op.operands[1].type.shape
        (down, right), (dilated_down, dilated_right) = (
            _numbers(op, name) for name in ("strides", "dilations")
        )
        each, line, pixel = view.strides
        starts = View(view.size, (each, down * line, right * pixel), view.offset)
        # Without dilation a row of the window is neighbours all along.
        apart = [Steps(wide, dilated_right * pixel), Steps(channels, 1)]
        runs = [
            Steps(tall, dilated_down * line),
            *(apart if dilated_right > 1 else [Steps(wide * channels, 1)]),
        ]
        return image, PanelProduct(
            result.shape, starts, tuple(runs), Tile.for_columns(columns, self._unit), self._unit
        )

    def _depthwise(self, op: ir.Operation, constants: Constants) -> None:
        window = op.operands[1]
        if not _is_convolution(op, constants):
            return
        tall, wide, channels = window.type.shape
        steps, dilation = (
            (down, right) for down, right in (_numbers(op, name) for name in ("strides", "dilations"))
        )
        result = Replaced(op, tuple(op.results[0].type.shape[:3]))
        image, view = view_of(op.operands[0], tuple(op.operands[0].type.shape[:3]))
        convolution = Depthwise(result.shape, view, (tall, wide), steps, dilation, self._unit)
        with ir.InsertionPoint(result.place), op.location:
            flat = ir.RankedTensorType.get([tall * wide, channels], window.type.element_type)
            window = tensor.collapse_shape(flat, window, [[0, 1], [2]])
            sizes = "x".join(str(size) for size in (*op.results[0].type.shape, tall, wide))
            text = depthwise.kernel_text("@@", convolution, result.epilogue)
            self._dispatch(f"depthwise_{sizes}", text, [image, window], result)

    def _attention(self, op: ir.Operation, constants: Constants) -> None:
        found = attention_pattern.find(op)
        if found is None:
            return
        heads, width, keys = found.keys.type.shape
        values = found.values.type.shape[2]
        attention = Attention(found.counts, keys, width, values, found.masked, self._unit)
        if attention.bytes > _ROWS_BYTES or attention.heads != heads:
            return
        with ir.InsertionPoint(op), op.location:
            text = attention_kernel.kernel_text("@@", attention, found.scores)
            factors = [found.queries, packed_keys(found.keys, attention), found.values]
            operands = [*factors, *found.scores.operands()]
            name = f"attention_{heads}x{found.counts[-1]}x{keys}x{width}"
            made = self._call(self._symbol(name, text), operands, op.results[0].type)
        op.results[0].replace_all_uses_with(made)
        erase_unused(op)

    def _dispatch(self, name: str, text: str, factors: list[ir.Value], result: Replaced) -> None:
        """Calls the kernel in the place of the operation and its epilogue."""
        operands = [*factors, *result.epilogue.operands()]
        result.replace(self._call(self._symbol(name, text), operands, result.type))

    def _call(self, symbol: str, operands: Sequence[ir.Value], type_: ir.RankedTensorType) -> ir.Value:
        """Of a kernel, told how many rows there are where `type_` does not say it."""
        given, sizes = list(operands), []
        if not type_.has_static_shape:
            rows = tensor.dim(operands[0], arith.constant(ir.IndexType.get(), 0))
            given.append(arith.index_cast(ir.IntegerType.get_signless(32), rows))
            sizes = [rows]
        of_operands = [rows for value in operands if not value.type.has_static_shape for rows in sizes]
        return ir.Operation.create(
            "flow.dispatch",
            results=[type_],
            operands=[*sizes, *given, *of_operands, *sizes],
            attributes={
                "entry_points": ir.ArrayAttr.get([ir.SymbolRefAttr.get([symbol, symbol])]),
                "tied_operands": ir.ArrayAttr.get([ir.IntegerAttr.get(ir.IndexType.get(), -1)]),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get(
                    [len(sizes), len(given), len(of_operands), len(sizes)]
                ),
            },
        ).result

    def _symbol(self, name: str, text: str) -> str:
        """The kernel with this text; kernels that do the same are one."""
        if text not in self._symbols:
            symbol = f"{name}_kernel_{len(self._symbols)}"
            self._symbols[text] = symbol
            parsed = ir.Module.parse(text.replace("@@@", f"@{symbol}"))
            for kernel in list(parsed.body.operations):
                self._module.body.append(kernel)
        return self._symbols[text]


_RULES: dict[str, Callable[[_Replacer, ir.Operation, Constants], None]] = {
    "linalg.batch_matmul": _Replacer._attention,
    "linalg.matmul": _Replacer._matmul,
    "linalg.conv_2d_nhwc_hwcf": _Replacer._convolution,
    "linalg.depthwise_conv_2d_nhwc_hwc": _Replacer._depthwise,
}


def _sizes(product: PanelProduct) -> str:
    """Rows, depth and columns, for the name of a kernel."""
    rows = "open" if product.shape.is_open else product.shape.rows
    return f"_{rows}x{product.depth}x{product.shape.columns}"


def _is_convolution(op: ir.Operation, constants: Constants) -> bool:
    """Whether `op` is one of float32 by weights, whose sizes are known and whose sums begin with zeros."""
    known = static_shape(op.results[0].type) is not None
    return known and _is_f32(op) and op.operands[1] in constants and is_zeros(op.operands[2])


def _is_f32(op: ir.Operation) -> bool:
    return all(isinstance(value.type.element_type, ir.F32Type) for value in op.operands)


def _is_transposed(op: ir.Operation) -> bool:
    """Whether the maps are others than those of a plain product."""
    dims = [ir.AffineExpr.get_dim(i) for i in range(3)]
    plain = [(0, 2), (2, 1), (0, 1)]
    maps = (
        [ir.AffineMapAttr(item).value for item in op.attributes["indexing_maps"]]
        if "indexing_maps" in op.attributes
        else []
    )
    return any(list(m.results) != [dims[i] for i in want] for m, want in zip(maps, plain, strict=False))


def _numbers(op: ir.Operation, name: str) -> list[int]:
    return [int(number) for number in ir.DenseIntElementsAttr(op.attributes[name])]


def _apart(depth: int) -> int:
    """Elements between rows that would else fall on the same places of the caches."""
    return 16 if depth % 512 == 0 else 0
