"""From a PyTorch module to a `Program`: torch.export, then roles and names for everything it lifted."""

from __future__ import annotations

import inspect
import itertools
import re
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    SymIntArgument,
    TensorArgument,
)

from pipeline.dialect_passes.custom_operators.errors import CustomOperatorError
from pipeline.dialect_passes.operators import decomposition_table
from pipeline.dialect_passes.operators.registry import make_traceable
from pipeline.runtime import dtypes
from pipeline.runtime.manifest import Draw, EntryPoint, TensorSpec, ValueSpec

from .complex_border import make_border_real
from .complex_pairs import split_complex
from .constant_values import make_literal, may_be_literal
from .control_flow import graphs
from .custom_calls import CustomCalls, CustomLowerings
from .dimensions import DimensionNames, dimension_labels, tensor_spec
from .draws import lift_draws
from .effects import unwrap_effects
from .entry_points import EntrySpec
from .errors import InputError, InternalError, UnsupportedError
from .function_transforms import export
from .graph_cleanup import clean_graph
from .late_decompositions import decompose_late, split_table
from .loose_views import loosen_views
from .memory_places import without_places
from .narrow_floats import round_each_operator
from .program import Argument, EntryGraph, Program
from .refusals import mark_refused
from .signatures import constant_node, describe_parameters, describe_result, input_names
from .source_lines import innermost_user_frame
from .user_decompositions import UserDecompositions
from .value_checks import without_value_checks


def capture(
    model: torch.nn.Module | ExportedProgram,
    entries: Mapping[str, EntrySpec],
    *,
    decompositions: UserDecompositions | None = None,
    custom: CustomLowerings | None = None,
    state: Collection[str] = (),
) -> Program:
    """Captures every entry point of `model`.

    decompositions: the user's, before those of `dialect_passes.operators`.
    custom: how custom operators are lowered, which depends on the targets.
    state: tensors that are state even if no entry point updates them, so that the runtime can set them.
    Raises InputError for arguments that do not fit the model, UnsupportedError for what torch.export
    cannot capture, naming the user's line.
    """
    program = Program({}, {}, {}, {}, {})
    items = {name: _export(model, name, spec) for name, spec in entries.items()}
    own = decompositions or UserDecompositions()
    table = own.applied_to(decomposition_table())
    calls = CustomCalls(custom or CustomLowerings(), table)
    for item in items.values():
        item.decompose(table, calls, own)
    mutated = {name for item in items.values() for name in _mutated_names(item.ep)} | set(state)
    tied = _TiedNames()
    for name, item in items.items():
        _Entry(name, item, program, mutated, tied).add()
    _refuse_shared_state(program)
    program.definitions.update(calls.definitions)
    program.choices.extend(calls.choices)
    return program


def exported(model: torch.nn.Module | ExportedProgram, name: str, spec: EntrySpec) -> ExportedProgram:
    """An entry point as torch.export gives it, with every operator whole. Raises as `capture` does."""
    return _export(model, name, spec).ep


@dataclass
class _Exported:
    """An exported entry point with what only the Python side knows.

    signature: the method's parameters, None for a loaded .pt2.
    labels: (placeholder, axis) -> the user's name of that dimension.
    """

    ep: ExportedProgram
    signature: list[inspect.Parameter] | None
    labels: dict[tuple[str, int], str]

    def decompose(
        self, table: dict[Any, Callable[..., Any]], calls: CustomCalls, own: UserDecompositions
    ) -> None:
        """Mutations must be read after this: it functionalises."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                early, late = split_table(table)
                self.ep = loosen_views(without_places(self.ep)).run_decompositions(early)
                for module in list(graphs(self.ep.graph_module)):
                    calls.lower(module)
                    # torch.export overlooks some of the user's (see LATE).
                    decompose_late(module, {**late, **own.functions}, early)
                    split_complex(module, early)
                    round_each_operator(module)
            except (InputError, UnsupportedError, CustomOperatorError):
                raise
            except Exception as error:
                _refuse_mutated_constant(error)
                _refuse_written_places(error)
                _refuse_rebuilt_class(error)
                # Functionalising a mutation of aliased tensors fails here, with nothing that names them.
                _refuse_shared_memory({**self.ep.state_dict, **self.ep.constants})
                raise InternalError(
                    f"torch.export's run_decompositions failed on this model: {type(error).__name__}: {error}"
                ) from error


def _refuse_mutated_constant(error: Exception) -> None:
    found = re.match(r"Constant (\S+) is mutated", str(error))
    if found is not None:
        attribute = found[1].rpartition(".")[2]
        raise UnsupportedError(
            f"the model updates '{found[1]}', a plain tensor attribute, in place; "
            f"make it state with self.register_buffer('{attribute}', ...)"
        ) from error


def _refuse_written_places(error: Exception) -> None:
    if "as_strided() is non-compositional" in str(error):
        raise UnsupportedError(
            "the model writes through as_strided of a view, which PyTorch cannot trace; write through slices, or take "
            f"as_strided of the whole tensor. PyTorch says:\n{error}"
        ) from error


def _refuse_rebuilt_class(error: Exception) -> None:
    """Tracing again rebuilds results; a class that makes tensors meanwhile leaves constants that nothing defines."""
    if "is not in the constants dictionary" in str(error):
        raise UnsupportedError(
            "a class among the results makes tensors of its own when it is rebuilt, as Transformers' DynamicCache "
            "does; return its tensors instead, or leave the cache out (use_cache=False)"
        ) from error


def _export(model: torch.nn.Module | ExportedProgram, name: str, spec: EntrySpec) -> _Exported:
    make_traceable()
    if isinstance(model, ExportedProgram):
        return _Exported(model, None, {})
    with spec.as_forward(model, name), without_value_checks(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.check(model)
        args, kwargs = spec.arguments(model)
        try:
            ep = export(model, args, kwargs, spec.dynamic_shapes)
        except CustomOperatorError:
            raise
        except Exception as error:
            raise _capture_error(name, error) from error
        labels = dimension_labels(ep, model, spec.args, kwargs, spec.dynamic_shapes)
        return _Exported(ep, spec.parameters(model), labels)


def _capture_error(name: str, error: Exception) -> Exception:
    """A user's mistake (shapes, arguments) is an InputError; what export cannot trace is Unsupported."""
    from torch._dynamo.exc import UserError
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
    from torch.fx.experimental.symbolic_shapes import ConstraintViolationError, GuardOnDataDependentSymNode

    message = str(error).strip()
    line = raising_line(error)
    at = f" (at {line})" if line else ""
    if isinstance(error, GuardOnDataDependentSymNode):
        return UnsupportedError(
            f"{name}: the model's control flow depends on a tensor's values{at}; "
            f"use torch.cond or torch.where, or keep that part outside. torch.export says:\n{message}"
        )
    if isinstance(error, DataDependentOutputException):
        return UnsupportedError(
            f"{name}: {error.func} cannot be compiled{at}: it returns a Python number that depends on a tensor's "
            "values; compare with tensor operations (torch.isclose(...).all()), or keep that part outside"
        )
    if isinstance(error, DynamicOutputShapeException):
        return UnsupportedError(
            f"{name}: {error.func} cannot be compiled{at}: the sizes of its results depend on a tensor's values, in a "
            "way that PyTorch cannot trace; keep that part outside"
        )
    if "is not a known type" in message:
        return InputError(
            f"{name}: an argument or result has a class whose tensors torch.export cannot find{at}; pass and return "
            "tensors, dicts, tuples or registered classes (a Transformers model: use_cache=False). "
            f"torch.export says: {message}"
        )
    if isinstance(error, (UserError, ConstraintViolationError)):
        return InputError(f"{name}: torch.export refused the dynamic_shapes or the arguments{at}:\n{message}")
    return InputError(
        f"{name}: the model cannot be captured with these example inputs{at}: {type(error).__name__}: {message}"
    )


def raising_line(error: BaseException) -> str | None:
    """``file.py:12`` of the innermost frame outside torch, from the traceback."""
    frames = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    line = innermost_user_frame(frames)
    return None if line is None or line.startswith("torch/") else line


def _mutated_names(ep: ExportedProgram) -> Iterator[str]:
    for spec in ep.graph_signature.output_specs:
        if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
            assert spec.target is not None
            yield spec.target


class _Entry:
    """Builds one `EntryGraph` from a decomposed ExportedProgram and adds its tensors to the program."""

    def __init__(
        self, name: str, exported: _Exported, program: Program, mutated: set[str], tied: _TiedNames
    ) -> None:
        ep = exported.ep
        self._name = name
        self._ep = ep
        self._program = program
        self._mutated = mutated
        self._tied = tied
        self._module = ep.graph_module
        self._nodes = {node.name: node for node in ep.graph.nodes}
        self._dims = DimensionNames(ep, exported.labels)
        self._signature = exported.signature
        self._arguments: list[Argument] = []
        self._inputs: list[ValueSpec] = []
        self._draws: tuple[Draw, ...] = ()

    def add(self) -> None:
        """Orders the arguments as inputs, draws, state, weights, and the results to match."""
        unwrap_effects(self._module, self._tokens())
        self._lift_tensors()
        parameters = describe_parameters(self._ep, self._signature, self._constants())
        numbers = self._take_inputs(input_names(parameters))
        self._draws = lift_draws(self._module, self._dims)
        clean_graph(self._module)
        mark_refused(self._module)
        self._arguments = [
            node.meta["pipeline.argument"] for node in self._module.graph.nodes if node.op == "placeholder"
        ]
        signature = self._take_outputs(parameters, numbers)
        make_border_real(self._module)
        self._program.dimensions.update(self._dims.bounds())
        self._program.entries[self._name] = EntryGraph(self._name, self._module, self._arguments, signature)
        self._program.examples[self._name] = self._flat_examples()

    def _tokens(self) -> list[torch.fx.Node]:
        specs = self._ep.graph_signature.input_specs
        return [self._nodes[spec.arg.name] for spec in specs if spec.kind == InputKind.TOKEN]

    def _lift_tensors(self) -> None:
        """Parameters, buffers and constants become weights or state; unused ones and literals disappear."""
        for spec in self._ep.graph_signature.input_specs:
            if spec.kind in (InputKind.USER_INPUT, InputKind.TOKEN):
                continue
            if not isinstance(spec.arg, TensorArgument):
                raise UnsupportedError(f"{self._name}: an input of kind {spec.kind.name} cannot be compiled")
            node = self._nodes[spec.arg.name]
            assert spec.target is not None
            tensor = self._tensor(spec.target)
            if spec.target in self._mutated:
                self._add(node, "state", spec.target, tensor)
            elif not node.users:
                self._module.graph.erase_node(node)
            elif spec.kind == InputKind.CONSTANT_TENSOR and may_be_literal(tensor):
                make_literal(self._module, node, tensor)
            else:
                self._add(node, "weight", self._unique_name(spec.kind, spec.target), tensor)

    def _tensor(self, name: str) -> torch.Tensor:
        found = self._ep.state_dict.get(name, self._ep.constants.get(name))
        if not isinstance(found, torch.Tensor):
            raise UnsupportedError(f"{self._name}: '{name}' is a {type(found).__name__}, not a plain tensor")
        if found.is_meta:
            raise InputError(
                f"'{name}' is on the meta device: it has no values to compile; materialise it first"
            )
        if dtypes.from_torch(found.dtype) is None or found.layout is not torch.strided:
            raise UnsupportedError(
                f"'{name}' has dtype {found.dtype} and layout {found.layout}, which artifacts cannot hold"
            )
        return found.detach()

    def _unique_name(self, kind: InputKind, target: str) -> str:
        """Lifted constants are numbered per entry point, so several entry points would collide."""
        return f"{self._name}.{target}" if kind == InputKind.CONSTANT_TENSOR else target

    def _add(self, node: torch.fx.Node, role: Any, name: str, tensor: torch.Tensor) -> None:
        table = self._program.state if role == "state" else self._program.weights
        if role == "weight":
            name = self._tied.canonical(name, tensor)
        table.setdefault(name, tensor)
        node.meta["pipeline.argument"] = Argument(role, name)

    def _take_inputs(self, names: list[str]) -> dict[str, int]:
        """Records the user's tensor (and symbolic int) inputs; returns placeholder name -> input number."""
        numbers: dict[str, int] = {}
        for spec in self._user_inputs():
            if isinstance(spec.arg, ConstantArgument):
                self._drop_constant(spec.arg)
                continue
            node = self._nodes[spec.arg.name]
            name = names[len(numbers)]
            numbers[node.name] = len(numbers)
            self._inputs.append(self._value_spec(name, node))
            node.meta["pipeline.argument"] = Argument("input", name)
        return numbers

    def _user_inputs(self) -> list[Any]:
        return [spec for spec in self._ep.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]

    def _drop_constant(self, argument: ConstantArgument) -> None:
        node = self._nodes.get(argument.name)
        if node is not None:
            node.replace_all_uses_with(argument.value)
            self._module.graph.erase_node(node)

    def _constants(self) -> list[Any]:
        """Per user input: an input number, or the constant compiled in."""
        numbers = itertools.count()
        return [
            constant_node(spec.arg.value, f"{self._name}: input '{spec.arg.name}'")
            if isinstance(spec.arg, ConstantArgument)
            else {"leaf": next(numbers)}
            for spec in self._user_inputs()
        ]

    def _value_spec(self, name: str, node: torch.fx.Node) -> ValueSpec:
        value = node.meta["val"]
        if isinstance(value, torch.Tensor):
            return ValueSpec(name, "tensor", self._tensor_spec(name, value))
        if isinstance(value, (int, torch.SymInt)):
            return ValueSpec(name, "int")
        raise UnsupportedError(
            f"{self._name}: '{name}' is a {type(value).__name__}; only tensors and ints can be passed and returned"
        )

    def _tensor_spec(self, name: str, value: torch.Tensor) -> TensorSpec:
        if dtypes.from_torch(value.dtype) is None or value.layout is not torch.strided:
            raise UnsupportedError(
                f"{self._name}: '{name}' has dtype {value.dtype} and layout {value.layout}, "
                "which artifacts cannot hold"
            )
        return tensor_spec(value, self._dims)

    def _take_outputs(self, parameters: Any, input_numbers: dict[str, int]) -> EntryPoint:
        output = next(node for node in self._module.graph.nodes if node.op == "output")
        results: list[torch.fx.Node] = []
        specs: list[ValueSpec] = []
        flat: list[dict[str, Any]] = []
        updates: dict[int, torch.fx.Node] = {}
        state: dict[str, torch.fx.Node] = {}
        for spec, value in zip(self._ep.graph_signature.output_specs, output.args[0], strict=True):
            if spec.kind == OutputKind.TOKEN:
                continue
            if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
                assert spec.target is not None
                state[spec.target] = value
            elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                assert spec.target is not None
                updates[input_numbers[spec.target]] = value
            elif spec.kind != OutputKind.USER_OUTPUT:
                raise UnsupportedError(f"{self._name}: an output of kind {spec.kind.name} cannot be compiled")
            elif isinstance(spec.arg, (TensorArgument, SymIntArgument)) and isinstance(value, torch.fx.Node):
                flat.append({"leaf": len(results)})
                specs.append(self._value_spec(f"output {len(results)}", value))
                results.append(value)
            else:
                flat.append(constant_node(getattr(spec.arg, "value", value), f"{self._name}: output"))
        output.args = (tuple([*results, *updates.values(), *state.values()]),)
        result, names = describe_result(self._ep, flat)
        return EntryPoint(
            name=self._name,
            parameters=parameters,
            inputs=tuple(self._inputs),
            outputs=tuple(ValueSpec(names[i], spec.kind, spec.tensor) for i, spec in enumerate(specs)),
            result=result,
            mutated_inputs=tuple(updates),
            state_inputs=tuple(a.name for a in self._arguments if a.role == "state"),
            state_outputs=tuple(state),
            draws=self._draws,
        )

    def _flat_examples(self) -> list[Any]:
        example = self._ep.example_inputs
        if example is None:
            return []
        leaves = torch.utils._pytree.tree_leaves(example)
        pairs = zip(self._user_inputs(), leaves, strict=True)
        return [leaf for spec, leaf in pairs if not isinstance(spec.arg, ConstantArgument)]


class _TiedNames:
    """Weights that are the same memory under several names go by the first of them."""

    def __init__(self) -> None:
        self._names: dict[tuple[Any, ...], str] = {}

    def canonical(self, name: str, tensor: torch.Tensor) -> str:
        """The name under which this very memory was first seen."""
        if tensor.numel() == 0:
            return name
        return self._names.setdefault(_layout(tensor), name)


def _refuse_shared_state(program: Program) -> None:
    """A buffer that calls update must not share memory with another tensor: each has its own copy here."""
    for name in program.state:
        _refuse_shared_memory({**program.state, **program.weights}, name)


def _refuse_shared_memory(tensors: Mapping[str, Any], updated: str | None = None) -> None:
    """Raises UnsupportedError for two tensors (one of them `updated`) that overlap without being the same."""
    seen: dict[int, str] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor) or not tensor.numel():
            continue
        other = seen.setdefault(tensor.untyped_storage().data_ptr(), name)
        if other == name or (updated is not None and updated not in (name, other)):
            continue
        if updated is not None or _layout(tensors[other]) != _layout(tensor):
            raise UnsupportedError(
                f"the model updates '{other}' or '{name}' in place and they share memory; "
                "give one of them its own memory (clone it) before compiling"
            )


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.device)
