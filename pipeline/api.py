"""`pipeline.compile`: from a module to an executable in one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch.export import ExportedProgram

from pipeline.runtime import Executable

from . import child, shape_libraries, user_decompositions
from .cache import find_cache
from .capture import capture
from .compiler import Options, compile_program
from .entry_points import EntrySpec, as_args
from .errors import InputError
from .explanation import Explanation, explain_program
from .function_transforms import FunctionModel
from .program import Program
from .shape_libraries import ShapeLibrary
from .stages import OFFERED, optional_passes
from .targets import parse_targets
from .user_decompositions import Operator

if TYPE_CHECKING:
    from .just_in_time.explanation import GraphsExplanation

_WEIGHTS = ("auto", "inline", "external")


def compile(
    model: torch.nn.Module | Callable[..., Any] | ExportedProgram,
    *,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    entry_points: Mapping[str, Any] | None = None,
    target: str | Sequence[str] = "cpu",
    device: str | None = None,
    **options: Any,
) -> Executable:
    """Compiles `model` and loads the result.

    model: a module, what torch.export made of one, or a function, `torch.func`'s transforms and all
        (``pipeline.compile(torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0)), args=(weights, batch))``);
        tensors that a function closes over are compiled in as constants.
    args, kwargs: example arguments; their shapes and dtypes are compiled in, except the dimensions that
        `dynamic_shapes` (as for `torch.export.export`) leaves open.
    entry_points: instead of the above, several methods that share weights and state:
        ``{"prefill": {"method": "prefill", "args": (...), "kwargs": {...}, "dynamic_shapes": ...}, ...}``.
    target: "cpu", "vulkan", "cuda", or several ("cpu,vulkan") in one artifact.
    device: where to load it; by default the first target.
    options: see `compile_options`.

    The model's train or eval mode is respected. Compiling is a snapshot: later changes of the model's
    tensors do not reach the executable. Raises InputError, UnsupportedError (listing every operator that
    cannot be compiled, with source lines) or InternalError (with a reproducer folder).
    """
    entries = entry_specs(args, kwargs, dynamic_shapes, entry_points)
    settings = compile_options(target, **options)
    artifact = compile_program(capture_checked(model, entries, settings), settings)
    return Executable(artifact, device=device)


@overload
def explain(
    model: Callable[..., Any], *, just_in_time: Literal[True], **arguments: Any
) -> GraphsExplanation: ...


@overload
def explain(
    model: torch.nn.Module | Callable[..., Any] | ExportedProgram, **arguments: Any
) -> Explanation: ...


def explain(
    model: Any,
    *,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    entry_points: Mapping[str, Any] | None = None,
    target: str | Sequence[str] = "cpu",
    just_in_time: bool = False,
    **options: Any,
) -> Explanation | GraphsExplanation:
    """What compiling `model` would meet: every operator, how it is lowered, what is missing and where.

    Takes the arguments of `compile` and compiles nothing. Raises InputError, and UnsupportedError for
    what cannot even be captured.
    just_in_time: what ``torch.compile(model, backend="pipeline")`` would do instead with a call of these arguments and
        its backward: graphs, breaks between them, and what would run in eager. `model` may be any function.
    """
    if just_in_time:
        if dynamic_shapes is not None or entry_points is not None:
            raise InputError("just_in_time takes no dynamic_shapes and no entry_points: it explains one call")
        from .just_in_time.explanation import explain_graphs

        return explain_graphs(model, as_args(args, "args"), kwargs or {}, {"target": target, **options})
    settings = compile_options(target, **options)
    program = capture_checked(model, entry_specs(args, kwargs, dynamic_shapes, entry_points), settings)
    return explain_program(
        program, settings.targets, settings.limits, settings.shape_libraries, settings.disable_passes
    )


def compile_options(  # noqa: PLR0913 (one for each of the command's)
    target: str | Sequence[str] = "cpu",
    *,
    cpu: str = "host",
    cuda_arch: str = "sm_80",
    vulkan_target: str | None = None,
    weights: str = "auto",
    iree_args: Sequence[str] = (),
    lowerings: Mapping[str, str] | None = None,
    decompositions: Mapping[Operator, Callable[..., Any]] | None = None,
    keep: Sequence[Operator] = (),
    shape_lib: ShapeLibrary | Sequence[ShapeLibrary] | None = None,
    print_before: Sequence[str] = (),
    print_after: Sequence[str] = (),
    dump_dir: str | os.PathLike[str] | None = None,
    disable_passes: Sequence[str] = (),
    enable_passes: Sequence[str] = (),
    timeout: float = child.DEFAULT_TIMEOUT,
    memory_limit: int | None = None,
    cache: bool | str | os.PathLike[str] = False,
    **callbacks: Any,
) -> Options:
    """The options of a compilation.

    cpu: "host", "generic" or an LLVM CPU name. cuda_arch: such as "sm_80".
    vulkan_target: as ``iree-compile --iree-vulkan-target`` takes it; the default runs on any device.
    weights: "inline" (inside the .vmfb), "external" (a .irpa beside it) or "auto" (by size).
    iree_args: further iree-compile options, which win over ours.
    lowerings: custom operator ("mylib::swiglu") -> the lowering it must get, by the title that `explain`
        shows, or "meaning"; by default the best that takes each call.
    decompositions: operator (``torch.ops.aten.gelu.default`` or "aten.gelu.default") -> a Python function over torch
        operations that takes its place; for operators that have none, or instead of ours.
    keep: operators to leave whole, for a lowering or pass further down that knows them.
    shape_lib: shape and dtype functions for operators of yours, which come before ours: a file (Python or
        Torch dialect), a function, or several.
    print_before, print_after: passes (after: or stages) around which to print the IR.
    dump_dir: a folder for the IR after every pass.
    disable_passes: passes of ours to leave out, which is how to see what a fusion is worth or whether it is to blame.
    enable_passes: passes of ours that run only when asked for.
    timeout, memory_limit: seconds and bytes that one compiler process may take.
    cache: True or a folder: compiled programs are kept there, and taken from there instead of being compiled again.
    """
    if weights not in _WEIGHTS:
        raise InputError(f"weights '{weights}' is unknown; choose from {', '.join(_WEIGHTS)}")
    for name in disable_passes:
        if name not in optional_passes():
            raise InputError(
                f"no pass '{name}' can be switched off; these can: {', '.join(optional_passes())}"
            )
    for name in enable_passes:
        if name not in OFFERED:
            raise InputError(f"no pass '{name}' waits to be asked for; these do: {', '.join(OFFERED)}")
    folder = Path(dump_dir) if dump_dir is not None else None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    return Options(
        targets=parse_targets(target, cpu=cpu, cuda_arch=cuda_arch, vulkan_target=vulkan_target),
        weights=weights,
        iree_args=tuple(iree_args),
        lowerings=dict(lowerings or {}),
        decompositions=user_decompositions.read(decompositions, keep),
        shape_libraries=shape_libraries.read(shape_lib),
        print_before=tuple(print_before),
        print_after=tuple(print_after),
        dump_dir=folder,
        disable_passes=(*disable_passes, *(name for name in OFFERED if name not in enable_passes)),
        limits=child.Limits(timeout, memory_limit),
        cache=find_cache(cache),
        **callbacks,
    )


def entry_specs(
    args: Any, kwargs: Mapping[str, Any] | None, dynamic_shapes: Any, entry_points: Mapping[str, Any] | None
) -> dict[str, EntrySpec]:
    """The entry points to capture, from the arguments of `compile`."""
    if entry_points is None:
        return {"main": EntrySpec(as_args(args, "args"), dict(kwargs or {}), dynamic_shapes)}
    if args or kwargs or dynamic_shapes is not None:
        raise InputError("give either args/kwargs/dynamic_shapes or entry_points, not both")
    if not entry_points:
        raise InputError("entry_points is empty")
    return {name: EntrySpec.from_user(name, value) for name, value in entry_points.items()}


def capture_checked(model: Any, entries: Mapping[str, EntrySpec], options: Options) -> Program:
    """`capture` for the targets of `options`, with an InputError for what is no model at all."""
    if not isinstance(model, (torch.nn.Module, ExportedProgram)):
        if isinstance(model, type) or not callable(model):
            given = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
            raise InputError(
                f"model must be a torch.nn.Module, a function or an ExportedProgram, got {given}"
            )
        model = FunctionModel(model)
    return capture(model, entries, decompositions=options.decompositions, custom=options.custom_lowerings)
