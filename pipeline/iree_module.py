"""From linalg to the module IREE compiles: weights become parameters, state arguments update in place.

Before (linalg, one function per entry point):

    func.func @main(%x: tensor<2x4xf32> {pipeline.input = "x"}, %c: tensor<6xf32> {pipeline.state = "cache"},
                    %w: tensor<4x4xf32> {pipeline.weight = "fc.weight"}) -> (tensor<2x4xf32>, tensor<6xf32>)
        attributes {pipeline.state_outputs = ["cache"]}

After:

    util.global private @weight_0 = #flow.parameter.named<"model"::"fc.weight"> : tensor<4x4xf32>
    func.func @main(%x: tensor<2x4xf32>, %c: tensor<6xf32> {iree.abi.output = 1 : index})
        -> (tensor<2x4xf32>, tensor<6xf32>) { %w = util.global.load @weight_0 ... }
    func.func @initial_state() -> tensor<6xf32>

The functions that calls of custom operators became get their definitions here, from their lowerings' text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from iree.compiler import ir

from pipeline.runtime.manifest import INITIAL_STATE, REFLECTION_KEY, WEIGHTS_SCOPE

from .bound_reads import bound_reads
from .bound_writes import bound_writes
from .bounded_sizes import bound_sizes
from .constant_counters import make_counters_constant
from .cpu_kernels.isa import VectorUnit
from .cpu_kernels.replace import use_kernels
from .function_definitions import define_functions, is_entry_point
from .host_numbers import convert_host_floats
from .in_place import may_update_in_place
from .known_sizes import tell_sizes
from .loop_assertions import drop_loop_assertions
from .ordered_updates import order_updates
from .separate_fills import separate_fills
from .separate_threads import separate_threads
from .sliced_reads import read_whole_tensors
from .wide_math import expand_wide_math

# The names of the state that a function's last results are the new values of.
_STATE_OUTPUTS = "pipeline.state_outputs"
_ROLES = ("input", "draw", "state", "weight")


def to_iree_module(
    module: ir.Module,
    manifest: str,
    definitions: Sequence[Mapping[str, str]] = (),
    *,
    for_shaders: bool = False,
    threads_apart: bool = False,
    cpu_features: Sequence[str] | None = None,
) -> None:
    """Rewrites `module` in place. manifest: JSON to embed. definitions: of the functions it only declares.

    for_shaders: see `wide_math` and `constant_counters`. threads_apart: see `separate_threads`.
    cpu_features: of the CPU for which kernels are to be used, where it has vectors for them.
    Raises DefinitionError for a definition that does not parse or has another type than its declaration.
    """
    parameters = _Parameters()
    state: dict[str, str] = {}
    with module.context, ir.Location.unknown():
        define_functions(module, definitions)
        drop_loop_assertions(module)
        convert_host_floats(module)
        bound_reads(module)
        read_whole_tensors(module)
        bound_writes(module)
        separate_fills(module)
        if for_shaders:
            expand_wide_math(module)
            make_counters_constant(module)
        if threads_apart:
            separate_threads(module)
        order_updates(module)
        tell_sizes(module)
        functions = [op for op in module.body.operations if is_entry_point(op)]
        unit = VectorUnit.of(cpu_features or ())
        if unit is not None:
            use_kernels(module, [function.operation for function in functions], unit)
        for function in functions:
            _rewrite_function(function.operation, parameters, state)
        bound_sizes(module, [function.operation for function in functions])
        declarations = parameters.declarations(state)
        _append(module, declarations)
        reflection = ir.Attribute.parse(f"{{{_quote(REFLECTION_KEY)} = {_quote(manifest)}}}")
        functions[0].operation.attributes["iree.reflection"] = reflection


def _rewrite_function(function: ir.Operation, parameters: _Parameters, state: dict[str, str]) -> None:
    block = function.regions[0].blocks[0]
    roles = _roles(function)
    changed = _changed(function)
    for argument, (role, name) in zip(block.arguments, roles, strict=True):
        if role == "weight":
            argument.replace_all_uses_with(parameters.load(name, argument.type, block))
        elif role == "state":
            state.setdefault(name, str(argument.type))
    kept = [i for i, (role, _) in enumerate(roles) if role != "weight"]
    for i in reversed(range(len(roles))):
        if i not in kept:
            block.erase_argument(i)
    _set_signature(function, [roles[i] for i in kept])
    _keep_arguments(function, changed)


def _roles(function: ir.Operation) -> list[tuple[str, str]]:
    found = []
    for attribute in ir.ArrayAttr(function.attributes["arg_attrs"]):
        attributes = ir.DictAttr(attribute)
        role = next(role for role in _ROLES if f"pipeline.{role}" in attributes)
        found.append((role, ir.StringAttr(attributes[f"pipeline.{role}"]).value))
    return found


def _changed(function: ir.Operation) -> set[int]:
    """Numbers of the inputs that the model changes in place; inputs come first."""
    attributes = enumerate(ir.ArrayAttr(function.attributes["arg_attrs"]))
    return {number for number, attribute in attributes if "pipeline.changed" in ir.DictAttr(attribute)}


def _set_signature(function: ir.Operation, roles: list[tuple[str, str]]) -> None:
    block = function.regions[0].blocks[0]
    results = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results
    inputs = [argument.type for argument in block.arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    outputs = [ir.StringAttr(name).value for name in ir.ArrayAttr(function.attributes[_STATE_OUTPUTS])]
    del function.attributes[_STATE_OUTPUTS]
    first_state_result = len(results) - len(outputs)
    attributes = []
    for number, (role, name) in enumerate(roles):
        text = "{}"
        result = first_state_result + outputs.index(name) if role == "state" and name in outputs else None
        if result is not None and may_update_in_place(block, number, result):
            text = f"{{iree.abi.output = {result} : index}}"
        attributes.append(ir.Attribute.parse(text))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)


def _keep_arguments(function: ir.Operation, changed: set[int]) -> None:
    """A use of each argument at the very end, so that IREE does not compute in the caller's own memory.

    IREE takes an argument after its last use for its own: ``torch.index_put(x, ...)`` wrote into the
    caller's x. Left out are the arguments that the model changes anyway, and state updated in place.
    """
    block = function.regions[0].blocks[0]
    attributes = [ir.DictAttr(attribute) for attribute in ir.ArrayAttr(function.attributes["arg_attrs"])]
    with ir.InsertionPoint(list(block.operations)[-1]):
        for number, argument in enumerate(block.arguments):
            own = number in changed or "iree.abi.output" in attributes[number]
            if not own and isinstance(argument.type, ir.RankedTensorType):
                ir.Operation.create("util.optimization_barrier", results=[argument.type], operands=[argument])


class _Parameters:
    """The globals of a module that hold weights, and the functions that give them their type in the program.

    Parameters hold bytes of numbers: a bool is stored as i8 and a complex number as two floats, since
    IREE reads no other form from a weights file into the module.
    """

    def __init__(self) -> None:
        self._symbols: dict[str, str] = {}
        self._texts: list[str] = []
        self._readers: dict[str, str] = {}

    def load(self, name: str, type_: Any, block: ir.Block) -> ir.Value:
        """A value of `type_` with the weight `name`, read at the start of `block`."""
        reader = self.reader(name, str(type_))
        with ir.InsertionPoint.at_block_begin(block):
            return ir.Operation.create(
                "func.call", results=[type_], attributes={"callee": ir.FlatSymbolRefAttr.get(reader)}
            ).result

    def reader(self, name: str, type_: str) -> str:
        """The private function that returns the weight `name`."""
        if name in self._symbols:
            return self._symbols[name]
        symbol = f"weight_{len(self._symbols)}"
        self._symbols[name] = f"read_{symbol}"
        self._texts.append(_reader_text(symbol, name, type_))
        return self._symbols[name]

    def declarations(self, state: dict[str, str]) -> str:
        """MLIR text of all globals and readers, and of the function that returns the initial state."""
        if state:
            # The manifest lists the state in this order too: JSON with sorted keys.
            state = dict(sorted(state.items()))
            calls, values = [], []
            for i, (name, type_) in enumerate(state.items()):
                calls.append(f"%{i} = func.call @{self.reader(name, type_)}() : () -> {type_}")
                values.append(f"%{i}")
            types = ", ".join(state.values())
            body = "\n".join(calls)
            self._texts.append(
                f"func.func @{INITIAL_STATE}() -> ({types}) {{\n{body}\nreturn {', '.join(values)} : {types}\n}}"
            )
        return "\n".join(self._texts)


def _reader_text(symbol: str, name: str, type_: str) -> str:
    shape, element = _parse_tensor(type_)
    header = f"func.func private @read_{symbol}() -> {type_} {{\n"
    if 0 in shape:
        return header + f"%0 = tensor.empty() : {type_}\nreturn %0 : {type_}\n}}"
    stored = _stored_type(shape, element)
    return (
        f"util.global private @{symbol} = #flow.parameter.named<{_quote(WEIGHTS_SCOPE)}::{_quote(name)}> : {stored}\n"
        + header
        + f"%0 = util.global.load @{symbol} : {stored}\n"
        + _conversion(stored, type_, element, len(shape))
        + "}"
    )


def _stored_type(shape: list[int], element: str) -> str:
    if element == "i1":
        return _tensor(shape, "i8")
    if element.startswith("complex<"):
        return _tensor([*shape, 2], element[len("complex<") : -1])
    return _tensor(shape, element)


def _conversion(stored: str, type_: str, element: str, rank: int) -> str:
    if stored == type_:
        return f"return %0 : {type_}\n"
    if element == "i1":
        return f"%1 = arith.trunci %0 : {stored} to {type_}\nreturn %1 : {type_}\n"
    dims = ", ".join(f"d{i}" for i in range(rank))
    iterators = ", ".join(['"parallel"'] * rank)
    index = "".join(f"%i{i} = linalg.index {i} : index\n" for i in range(rank))
    place = "".join(f"%i{i}, " for i in range(rank))
    return (
        "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n"
        f"%e = tensor.empty() : {type_}\n"
        f"%1 = linalg.generic {{indexing_maps = [affine_map<({dims}) -> ({dims})>], "
        f"iterator_types = [{iterators}]}} outs(%e : {type_}) {{\n^bb0(%out: {element}):\n{index}"
        f"%re = tensor.extract %0[{place}%c0] : {stored}\n%im = tensor.extract %0[{place}%c1] : {stored}\n"
        f"%z = complex.create %re, %im : {element}\nlinalg.yield %z : {element}\n}} -> {type_}\n"
        f"return %1 : {type_}\n"
    )


def _parse_tensor(type_: str) -> tuple[list[int], str]:
    match = re.fullmatch(r"tensor<((?:\d+x)*)(.+)>", type_)
    if match is None:
        raise ValueError(f"a weight of type {type_} is not a static tensor")
    return [int(size) for size in match[1].split("x") if size], match[2]


def _tensor(shape: list[int], element: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def _append(module: ir.Module, text: str) -> None:
    declarations = ir.Module.parse(text, module.context)
    first = module.body.operations[0] if len(module.body.operations) else None
    for op in list(declarations.body.operations):
        if op.operation.name == "util.global" and first is not None:
            op.operation.move_before(first.operation)
        else:
            module.body.append(op)


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\0A")
    return f'"{escaped}"'
