"""A graph of aten operators, as AOTAutograd makes it, as an ExportedProgram: `capture` goes on from there.

Nothing is traced for it: the graph has fake values, whose symbols are the dynamic dimensions. Tensors that the graph
holds itself become constants, and the arguments named in `weights` parameters. Their values are bound at load.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch._export.verifier import TrainingIRVerifier
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_structure

from pipeline.errors import UnsupportedError
from pipeline.memory_places import count_from_elements

from .devices import refuse_operators_elsewhere


def as_exported(module: GraphModule, weights: Mapping[str, str]) -> ExportedProgram:
    """`module`, which takes and returns flat values, as an ExportedProgram; it is not changed.

    weights: placeholder -> name, of those whose values are known before any call; their sizes must be fixed.
    Raises UnsupportedError for arguments and results that are neither tensors nor ints, and for operators that read
    memory outside of their arguments or work on tensors of another device than the CPU.
    """
    module = GraphModule(module, copy.deepcopy(module.graph))
    refuse_operators_elsewhere(module)
    count_from_elements(module, lambda _: None)  # Dynamo guards no offset
    constants = _lift_constants(module)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    named = {
        **{name: ("constant", name) for name in constants},
        **{k: ("weight", v) for k, v in weights.items()},
    }
    inputs = [_input(node, named) for node in placeholders]
    given = [spec for spec in inputs if spec.kind == InputKind.USER_INPUT]
    results = list(next(iter(module.graph.find_nodes(op="output"))).args[0])
    signature = ModuleCallSignature(
        # Names would be checked after every transformation, which renames; the structure is all that counts.
        inputs=[],
        outputs=[],
        in_spec=tree_structure((tuple(range(len(given))), {})),
        out_spec=tree_structure(tuple(range(len(results)))),
    )
    program = ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=ExportGraphSignature(
            inputs, [OutputSpec(OutputKind.USER_OUTPUT, _argument(value), None) for value in results]
        ),
        state_dict={weights[node.name]: _stand_in(node) for node in placeholders if node.name in weights},
        range_constraints=dict(_ranges(placeholders)),
        module_call_graph=[ModuleCallEntry("", signature)],
        constants={**constants},
        verifiers=[TrainingIRVerifier],
    )
    return program


def _lift_constants(module: GraphModule) -> dict[str, torch.Tensor]:
    """Turns the tensors that the graph holds into placeholders; their values by placeholder."""
    constants: dict[str, torch.Tensor] = {}
    first = next(iter(module.graph.nodes))
    for node in module.graph.find_nodes(op="get_attr"):
        value = getattr(module, str(node.target), None)
        if isinstance(value, torch.Tensor):
            with module.graph.inserting_before(first):
                placeholder = module.graph.placeholder(f"constant_{len(constants)}")
            placeholder.meta = dict(node.meta)
            node.replace_all_uses_with(placeholder)
            module.graph.erase_node(node)
            constants[placeholder.name] = value
    return constants


def _input(node: Node, named: Mapping[str, tuple[str, str]]) -> InputSpec:
    role, name = named.get(node.name, ("input", None))
    if role == "constant":
        return InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), name)
    if role == "weight":
        return InputSpec(InputKind.PARAMETER, TensorArgument(node.name), name)
    return InputSpec(InputKind.USER_INPUT, _argument(node), None)


def _argument(value: Any) -> Any:
    if not isinstance(value, Node):
        return ConstantArgument("", value)
    kind = value.meta.get("val")
    if isinstance(kind, torch.Tensor):
        return TensorArgument(value.name)
    if isinstance(kind, (int, torch.SymInt)):
        return SymIntArgument(value.name)
    raise UnsupportedError(
        f"'{value.name}' is a {type(kind).__name__}; only tensors and ints can be passed on"
    )


def _stand_in(node: Node) -> torch.nn.Parameter:
    """A tensor of the weight's type whose memory nobody touches: values come when the program is loaded."""
    value = node.meta["val"]
    empty = torch.empty_strided(tuple(value.shape), value.stride(), dtype=value.dtype)
    return torch.nn.Parameter(empty, requires_grad=False)


def _ranges(placeholders: list[Node]) -> Iterator[tuple[Any, Any]]:
    """The bounds of every symbol in the arguments."""
    for node in placeholders:
        value = node.meta.get("val")
        sizes = value.shape if isinstance(value, torch.Tensor) else [value]
        for size in sizes:
            if isinstance(size, torch.SymInt):
                known = size.node.shape_env.var_to_range
                yield from ((symbol, known[symbol]) for symbol in size.node.expr.free_symbols)
