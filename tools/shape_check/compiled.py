"""The functions as compiled: modules of single calls without result types, refined, against what PyTorch gave.

Each call is refined twice: with all sizes known, where the result must be known and right, and with none known,
where a size that is told must be right all the same.
"""

from __future__ import annotations

import itertools
import operator
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras import fx_importer

from pipeline.dialect_passes.shape_libraries import default_libraries
from pipeline.shape_lib import dtypes
from pipeline.shape_lib.refine import refine_shapes
from pipeline.shape_lib.tensor_types import parse

from .calls import CODES, Call, Calls, Tensor
from .judge import Entry, open_sizes

_DTYPES = {code: dtype for dtype, code in CODES.items()}
_NAMES = {code: name for name, code in dtypes.CODES.items()}


def check_compiled(entries: Mapping[str, Entry], calls: Calls, count: int) -> None:
    """Refines up to `count` calls of each operator and notes disagreements in its entry."""
    for name, entry in entries.items():
        libraries = default_libraries([name.removesuffix(".default")])
        good = [call for call in calls.found.get(name, {}).values() if call.error is None]
        for call in itertools.islice(good, count):
            problem = refined_problem(call, libraries, open_sizes(entry, call))
            entry.compiled += problem is not _UNTRANSLATED
            if problem and problem is not _UNTRANSLATED:
                entry.wrong.append(f"{call}: {problem}")


_UNTRANSLATED = "torch-mlir's importer does not take the call"


def refined_problem(
    call: Call, libraries: list[str], left_open: Collection[tuple[int, int]] = ()
) -> str | None:
    """What refinement gets wrong about a call; None if nothing.

    left_open: (result, dimension) of sizes that cannot be known.
    """
    for known in (True, False):
        try:
            module = _module(call)
        except (NotImplementedError, TypeError, AssertionError, KeyError, ValueError):
            # Among them complex numbers as constants, and dtypes that it does not know.
            return _UNTRANSLATED
        _forget_types(module, arguments_too=not known)
        try:
            refine_shapes(module, libraries)
        except Exception as error:
            return f"refined ({'static' if known else 'dynamic'}): {type(error).__name__}: {error}"
        problem = _compare(call, module, known, left_open)
        if problem:
            return f"refined ({'static' if known else 'dynamic'}): {problem}"
    return None


def _module(call: Call) -> ir.Module:
    """A function that makes the call and returns its tensors."""
    context = ir.Context()
    torch_dialect.register_dialect(context)
    graph = Graph()
    with FakeTensorMode() as mode:
        arguments = [_node(graph, mode, value) for value in call.arguments]
        arguments, named = _split(call, arguments)
        node = graph.call_function(_overload(call.operator), tuple(arguments), named)
        values = [None if result is None else _fake(mode, result) for result in call.results]
    single = len(values) == 1 and not _gives_list(call.operator)
    node.meta["val"] = values[0] if single else values
    graph.output((node,) if single else tuple(_items(graph, node, values)))
    importer = fx_importer.FxImporter(context=context)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importer.import_stateless_graph(graph, func_name="main")
    return importer.module


def _overload(name: str) -> Any:
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def _gives_list(name: str) -> bool:
    return str(_overload(name)._schema.returns[0].type).startswith("List")


def _items(graph: Graph, node: Any, values: list[Any]) -> Iterable[Any]:
    for i, value in enumerate(values):
        if value is not None:
            item = graph.call_function(operator.getitem, (node, i))
            item.meta["val"] = value
            yield item


def _fake(mode: FakeTensorMode, tensor: Tensor) -> torch.Tensor:
    with mode:
        return torch.empty(tensor.shape, dtype=_DTYPES[tensor.dtype])


def _node(graph: Graph, mode: FakeTensorMode, value: Any) -> Any:
    if isinstance(value, Tensor):
        placeholder = graph.placeholder(f"x{len(graph.nodes)}")
        placeholder.meta["val"] = _fake(mode, value)
        return placeholder
    return [_node(graph, mode, item) for item in value] if isinstance(value, tuple) else value


def _split(call: Call, arguments: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments. Codes become dtypes again, and what says where a tensor lies is left out."""
    positional, named = [], {}
    for argument, value in zip(_overload(call.operator)._schema.arguments, arguments, strict=True):
        if argument.name in ("layout", "device", "pin_memory", "memory_format", "generator"):
            continue
        given = _DTYPES[value] if argument.name == "dtype" and value is not None else value
        if argument.kwarg_only:
            named[argument.name] = given
        else:
            positional.append(given)
    return positional, named


def _forget_types(module: ir.Module, arguments_too: bool) -> None:
    """Makes the types of results unknown, and the sizes of arguments."""
    function = module.body.operations[0].operation
    block = function.regions[0].blocks[0]
    with module.context:
        for op in block.operations:
            for result in op.operation.results:
                result.set_type(_unknown(str(result.type)) or result.type)
        if arguments_too:
            for argument in block.arguments:
                argument.set_type(_dynamic(str(argument.type)) or argument.type)
        last = block.operations[len(block.operations) - 1].operation
        type_ = ir.FunctionType.get([a.type for a in block.arguments], [o.type for o in last.operands])
        function.attributes["function_type"] = ir.TypeAttr.get(type_)


def _unknown(type_: str) -> ir.Type | None:
    if type_.startswith("!torch.vtensor"):
        return ir.Type.parse("!torch.vtensor")
    return ir.Type.parse("!torch.list<vtensor>") if type_.startswith("!torch.list<vtensor") else None


def _dynamic(type_: str) -> ir.Type | None:
    said = parse(type_)
    if said is None or said.sizes is None:
        return None
    head, _, tail = type_.partition("[")
    return ir.Type.parse(f"{head}[{','.join('?' * len(said.sizes))}]{tail.partition(']')[2]}")


def _compare(
    call: Call, module: ir.Module, known: bool, left_open: Collection[tuple[int, int]]
) -> str | None:
    block = module.body.operations[0].operation.regions[0].blocks[0]
    returned = block.operations[len(block.operations) - 1].operation.operands
    wanted = [result for result in call.results if result is not None]
    for i, (value, result) in enumerate(zip(returned, wanted, strict=True)):
        said = _said(value)
        if said is None:
            return f"the type of result {i} is lost"
        if not known and said.dtype is None and _gives_list(call.operator):
            # How long the list is depends on the sizes.
            continue
        problem = _misses(said, result, known, {dim for at, dim in left_open if at == i})
        if problem:
            return f"result {i} is {_NAMES[result.dtype]}{list(result.shape)}, refined to {said} ({problem})"
    return None


def _said(value: ir.Value) -> Any:
    owner = value.owner
    while not isinstance(owner, ir.Block) and owner.name == "torch.tensor_static_info_cast":
        value = owner.operands[0]
        owner = value.owner
    return parse(str(value.type))


def _misses(said: Any, result: Tensor, known: bool, left_open: Collection[int]) -> str | None:
    if said.dtype != _NAMES[result.dtype]:
        return "the dtype"
    if said.sizes is None:
        return "the rank" if known else None
    if len(said.sizes) != len(result.shape):
        return "the rank"
    for dim, (told, size) in enumerate(zip(said.sizes, result.shape, strict=True)):
        if told != size and (told is not None or (known and dim not in left_open)):
            return "a size"
    return None
