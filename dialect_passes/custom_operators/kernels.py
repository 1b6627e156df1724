"""Declaring kernels: `CustomOp.kernel`, and all that can be found wrong with one before anything is compiled."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import kernel_call, signatures, toolchain
from .call_types import is_identifier
from .declared import Declared, declared
from .elf_objects import ElfObject, ObjectError
from .kernel_call import LaunchFunction
from .lowering import LoweringError, check_targets, register
from .native_kernel import DtypeRules, NativeKernel, Source

if TYPE_CHECKING:
    from .declaration import CustomOp

DtypeRule = Collection[Any] | Mapping[str, Collection[Any]]

_SOURCES = {"cpu": (".c",), "vulkan": (".comp", ".glsl"), "cuda": (".cu",)}


def kernel_decorator(
    op: CustomOp,
    target: str,
    *,
    source: str | Path | None = None,
    code: str | None = None,
    function: str | None = None,
    dtypes: DtypeRule | None = None,
    workgroup_size: tuple[int, int, int] | None = None,
) -> Callable[[LaunchFunction], LaunchFunction]:
    """Registers the decorated launch function, with its kernel, as a lowering of `op`.

    source: a file beside the declaring one (C ``.c`` or ``.o``, GLSL ``.comp``, ``.glsl`` or ``.spv``, CUDA C ``.cu``
        or ``.ptx``). code: the source text itself, in place of a file.
    function: the kernel's name; default: the operator's, for Vulkan ``main``.
    dtypes: that all tensors of a call must have, or those of some by parameter name.
    workgroup_size: threads of a workgroup; for CUDA only, where the source does not say it.
    Raises LoweringError for a declaration that cannot be right.
    """
    check_targets((target,), f"a kernel of {op.name}")

    def declare(launch: LaunchFunction) -> LaunchFunction:
        where = declared(launch)
        what = f"the {target} kernel of {op.name} ({where})"
        _check_launch(op, launch, what)
        size = _checked_workgroup_size(target, workgroup_size, what)
        rules = _checked_dtypes(op, dtypes, what)
        origin = _source(target, source, code, where, what)
        name = function or ("main" if target == "vulkan" else op.name.rpartition("::")[2])
        _check_function(name, target, origin, what)
        register(op, NativeKernel(target, origin, name, launch, where, rules, size))
        return launch

    return declare


def _check_launch(op: CustomOp, launch: LaunchFunction, what: str) -> None:
    known = [argument.name for argument in op.schema.arguments]
    if op.schema.mutated:
        names = ", ".join(argument.name for argument in op.schema.mutated)
        raise LoweringError(
            f"{what}: the operator changes {names} in place, which kernels cannot; use a lowering"
        )
    unknown = [
        name for name in kernel_call.parameters_of(launch) if name not in (*known, kernel_call.RESULTS)
    ]
    if unknown:
        raise LoweringError(
            f"{what}: its parameter '{unknown[0]}' is no argument of the operator; choose from "
            f"{', '.join(known)} and {kernel_call.RESULTS}"
        )


def _checked_workgroup_size(
    target: str, size: tuple[int, int, int] | None, what: str
) -> tuple[int, int, int] | None:
    if target != "cuda":
        if size is not None:
            says = (
                "layout(local_size_x = ...) in the shader" if target == "vulkan" else "the C function itself"
            )
            raise LoweringError(f"{what}: workgroup_size is for CUDA; here it is up to {says}")
        return None
    if size is None:
        raise LoweringError(
            f"{what}: give workgroup_size=(threads, 1, 1), the block that it is launched with"
        )
    right = len(size) == 3 and all(isinstance(n, int) and n >= 1 for n in size)
    if not right or math.prod(size) > 1024:
        raise LoweringError(
            f"{what}: workgroup_size must be three numbers whose product is at most 1024, not {size!r}"
        )
    return size


def _checked_dtypes(op: CustomOp, rule: DtypeRule | None, what: str) -> DtypeRules | None:
    if rule is None:
        return None
    tensors = [argument.name for argument in op.schema.arguments if argument.holds_tensors]
    unknown = [name for name in rule if name not in tensors] if isinstance(rule, Mapping) else []
    if unknown:
        raise LoweringError(
            f"{what}: dtypes names '{unknown[0]}', which is no tensor; choose from {', '.join(tensors)}"
        )
    rules = rule if isinstance(rule, Mapping) else {"": rule}
    return {name: _dtype_names(allowed, what) for name, allowed in rules.items()}


def _dtype_names(allowed: Collection[Any], what: str) -> frozenset[str]:
    import torch

    dtypes = [allowed] if isinstance(allowed, (str, torch.dtype)) else list(allowed)
    wrong = [dtype for dtype in dtypes if not isinstance(dtype, torch.dtype)]
    if wrong or not dtypes:
        raise LoweringError(f"{what}: dtypes holds torch dtypes, such as [torch.float32], not {allowed!r}")
    return frozenset(str(dtype).removeprefix("torch.") for dtype in dtypes)


def _source(target: str, source: str | Path | None, code: str | None, where: Declared, what: str) -> Source:
    if (source is None) == (code is None):
        raise LoweringError(f"{what}: give either source= (a file) or code= (text)")
    if code is not None:
        ptx = target == "cuda" and re.search(r"^\s*\.version\s+\d", code, re.MULTILINE) is not None
        return Source(None, code, where.folder, compiled=ptx)
    path = where.folder / str(source)
    compiled = path.suffix == toolchain.SUFFIXES[target]
    if not compiled and path.suffix not in _SOURCES[target]:
        choices = ", ".join((*_SOURCES[target], toolchain.SUFFIXES[target]))
        raise LoweringError(f"{what}: source '{source}' is none of {choices}")
    if not path.is_file():
        raise LoweringError(f"{what}: there is no file {path}; source is relative to {where.folder}")
    return Source(path, None, path.parent, compiled)


def _check_function(name: str, target: str, source: Source, what: str) -> None:
    if not is_identifier(name):
        raise LoweringError(f"{what}: function '{name}' is no name of a function")
    if target == "vulkan" and name != "main" and not source.compiled:
        raise LoweringError(f"{what}: a GLSL shader's function is main, not '{name}'; leave function out")
    if target == "cpu" and source.compiled:
        _check_prebuilt(name, source, what)


def _check_prebuilt(name: str, source: Source, what: str) -> None:
    try:
        problem = signatures.check_object(ElfObject(source.content()), name, toolchain.machine())
    except ObjectError as error:
        problem = str(error)
    if problem:
        raise LoweringError(f"{what}: {source.path}: {problem}")
