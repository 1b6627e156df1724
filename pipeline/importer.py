"""From a `Program` to the Torch dialect: one function per entry point, weights as named arguments.

torch-mlir's importer turns each literal tensor into a Python list, which costs minutes on big models.
Here a weight is a function argument that carries its name; its bytes never come near the IR, and the cost
of importing does not depend on them. The IREE stage turns these arguments into parameters.
"""

from __future__ import annotations

import warnings
from typing import Any

import sympy
import torch
from torch.utils._pytree import tree_leaves
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras import fx_importer
from torch_mlir.extras.fx_as_strided import rewrite_as_strided

from pipeline.dialect_passes.define_control_flow import BODIES, CONTROL, COUNTS
from pipeline.runtime.tensors import to_numpy

from .control_flow import ControlCall, control_call
from .custom_calls import SYMBOL, custom_op
from .definitions import Definitions
from .errors import Unsupported, UnsupportedError
from .program import EntryGraph, Program
from .refusals import refused_name
from .source_lines import user_line
from .stages import REASON


def import_program(program: Program) -> ir.Module:
    """A module with one public function per entry point; each argument names its role in attributes.

    What cannot be translated becomes a stand-in that no later stage takes (see `pipeline.refusals`).
    """
    context = ir.Context()
    torch_dialect.register_dialect(context)
    # Roles travel as `pipeline.*` argument attributes, which no dialect claims.
    context.allow_unregistered_dialects = True
    importer = _Importer(context=context, hooks=LiteralHooks(), graph_node_importer_cls=_NodeImporter)
    importer.definitions = Definitions(importer.module, program.definitions)
    importer._cc = _ContextCache(context, py_attr_tracker=importer._py_attr_tracker)
    for entry in program.entries.values():
        _import_entry(importer, entry)
    return importer.module


def _import_entry(importer: fx_importer.FxImporter, entry: EntryGraph) -> None:
    _take_strided_views(entry.module.graph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function = importer.import_stateless_graph(entry.module.graph, func_name=entry.name)
    with importer.module.context:
        roles = [
            ir.DictAttr.get(
                {f"pipeline.{argument.role}": ir.StringAttr.get(argument.name)}
                | ({"pipeline.changed": ir.UnitAttr.get()} if i in entry.signature.mutated_inputs else {})
            )
            for i, argument in enumerate(entry.arguments)
        ]
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(roles)
        updated = [ir.StringAttr.get(name) for name in entry.signature.state_outputs]
        function.attributes["pipeline.state_outputs"] = ir.ArrayAttr.get(updated)


def _take_strided_views(graph: torch.fx.Graph) -> None:
    """torch-mlir's rewriting, which importing would begin with; it raises for what it cannot say with indices."""
    lines = [user_line(n) for n in graph.nodes if n.target is torch.ops.aten.as_strided.default]
    try:
        rewrite_as_strided(graph)
    except ValueError as error:
        operator = Unsupported("aten.as_strided.default", len(lines), str(error), tuple(filter(None, lines)))
        raise UnsupportedError("the model uses operators that cannot be compiled:", [operator]) from error


class _Importer(fx_importer.FxImporter):
    """Knows the functions that calls of custom operators became."""

    definitions: Definitions
    control_flow = 0

    def import_body(self, module: torch.fx.GraphModule, name: str) -> None:
        """A body of control flow as a private function of this name."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.import_stateless_graph(module.graph, func_name=name, func_visibility="private")


class _ContextCache(fx_importer.ContextCache):
    """Prints a dimension that is a symbol with a constant value as that constant, not as ``?``."""

    def value_info_to_type(self, val: Any, **settings: Any) -> ir.Type:
        """Also of a condition on sizes."""
        return (
            self.torch_bool_type
            if isinstance(val, torch.SymBool)
            else super().value_info_to_type(val, **settings)
        )

    def format_asm_shape(self, shape: Any) -> str:
        return ",".join(_dim_text(size) for size in shape)


def _dim_text(size: Any) -> str:
    if not isinstance(size, torch.SymInt):
        return str(size)
    expr = sympy.sympify(size.node.expr)
    return str(int(expr)) if expr.is_Integer else "?"


class LiteralHooks(fx_importer.FxImporterHooks):
    """Prints the few small literals of a graph straight from their memory."""

    def resolve_literal(self, gni: Any, literal: Any, info: Any) -> ir.Value | None:
        if not isinstance(literal, torch.Tensor):
            return None
        array = to_numpy(literal)
        element = fx_importer.TORCH_DTYPE_TO_MLIR_TYPE[literal.dtype]()
        attribute = ir.DenseElementsAttr.get(array, type=element, shape=list(literal.shape))
        return ir.Operation.create(
            "torch.vtensor.literal",
            results=[gni._cc.tensor_to_vtensor_type(literal)],
            attributes={"value": attribute},
        ).result


class _NodeImporter(fx_importer.GraphNodeImporter):
    """Puts a stand-in where an operator is refused or cannot be translated, so that all are listed at once."""

    def _import_torch_op_overload(
        self, loc: ir.Location, node: torch.fx.Node, concrete_target: Any = None
    ) -> None:
        if REASON in node.meta:
            self._stand_in(loc, node, node.meta[REASON])
            return
        if SYMBOL in node.meta:
            self._call(loc, node, node.meta[SYMBOL])
            return
        try:
            super()._import_torch_op_overload(loc, node, concrete_target)
        except (NotImplementedError, TypeError, AssertionError, KeyError, ValueError) as error:
            self._stand_in(loc, node, f"torch-mlir cannot import it: {error}")

    def resolve_node_value(self, node: torch.fx.Node, result_index: int = 0) -> ir.Value:
        """The value of `node`; a literal gets its own at the first use, whoever asks."""
        if node.op == "get_attr" and (node, 0) not in self._v:
            with ir.Location.unknown():
                literal = getattr(node.graph.owning_module, str(node.target))
                self.bind_node_value(node, self._import_literal(literal))
        return super().resolve_node_value(node, result_index)

    def bind_node_value(self, node: torch.fx.Node, value: Any, result_index: int = 0) -> None:
        super().bind_node_value(node, value, result_index)
        if node.op == "get_attr":
            # torch-mlir looks under this key whether it made the literal already; else it binds it twice.
            self._v[(node.target, 0)] = value  # type: ignore[index]

    def _import_hop(self, loc: ir.Location, node: torch.fx.Node, hop: Any) -> None:
        if REASON in node.meta:
            self._stand_in(loc, node, node.meta[REASON])
        else:
            call = control_call(node)
            assert call is not None, "what is neither refused nor known is refused"
            self._control(loc, node, call)

    def _control(self, loc: ir.Location, node: torch.fx.Node, call: ControlCall) -> None:
        """A call of a declared function that names the bodies (see `pipeline.control_flow`)."""
        importer = self.fx_importer
        symbol = f"control.{call.kind}_{importer.control_flow}"
        importer.control_flow += 1
        names = [f"{symbol}.body_{i}" for i in range(len(call.bodies))]
        for name, body in zip(names, call.bodies, strict=True):
            importer.import_body(body, name)
        with loc:
            operands = [self._operand(loc, value) for value in call.operands]
            attributes = {
                CONTROL: ir.StringAttr.get(call.kind),
                BODIES: ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(name) for name in names]),
                COUNTS: ir.ArrayAttr.get(
                    [ir.IntegerAttr.get(ir.IntegerType.get_signless(64), n) for n in call.counts]
                ),
            }
        results = importer.definitions.declared_call(
            symbol, operands, self._result_types(node), attributes, loc
        )
        self._bind_results(node, results)

    def _operand(self, loc: ir.Location, value: Any) -> ir.Value:
        return (
            self.resolve_node_value(value)
            if isinstance(value, torch.fx.Node)
            else self._import_argument(loc, value)
        )

    def _stand_in(self, loc: ir.Location, node: torch.fx.Node, reason: str) -> None:
        """``torch.operator "torch.NAME"(tensors)`` with the reason; nothing lowers it."""
        operation = ir.Operation.create(
            "torch.operator",
            results=self._result_types(node),
            operands=[self.resolve_node_value(n) for n in node.all_input_nodes if self._has_value(n)],
            attributes={
                "name": ir.StringAttr.get(f"torch.{refused_name(node)}"),
                REASON: ir.StringAttr.get(reason),
            },
            loc=loc,
        )
        self._bind_results(node, list(operation.results))

    def _call(self, loc: ir.Location, node: torch.fx.Node, symbol: str) -> None:
        """A call of the function that the custom operator of `node` becomes, with its tensors in order."""
        op = custom_op(node)
        assert op is not None, "only custom operators have symbols"
        leaves = tree_leaves(op.schema.bind(node.args, node.kwargs))
        operands = [self.resolve_node_value(leaf) for leaf in leaves if isinstance(leaf, torch.fx.Node)]
        definitions = self.fx_importer.definitions
        self._bind_results(node, definitions.call(symbol, operands, self._result_types(node), loc))

    def _result_types(self, node: torch.fx.Node) -> list[ir.Type]:
        value = node.meta.get("val")
        values = list(value) if isinstance(value, (tuple, list)) else [value]
        return [self._type_of(item, node) for item in values]

    def _bind_results(self, node: torch.fx.Node, results: list[ir.Value]) -> None:
        if isinstance(node.meta.get("val"), (tuple, list)):
            self._multi_result_nodes.add(node)
        for i, result in enumerate(results):
            self.bind_node_value(node, result, i)

    def _has_value(self, node: torch.fx.Node) -> bool:
        return (node, 0) in self._v and node not in self._multi_result_nodes

    def _type_of(self, value: Any, node: torch.fx.Node) -> ir.Type:
        try:
            if isinstance(value, (int, torch.SymInt)):
                return self._cc.torch_int_type
            return self._cc.get_vtensor_type(value.shape, value.dtype)
        except (AttributeError, NotImplementedError, TypeError, KeyError) as error:
            line = user_line(node)
            at = f" (at {line})" if line else ""
            raise UnsupportedError(
                f"{node.target} gives a result that cannot be compiled{at}: {error}"
            ) from error
