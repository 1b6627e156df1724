"""`NativeKernel`: a kernel in C, GLSL or CUDA C (or compiled from them), for one target."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import cpu_kernels, extern_kernels, kernel_call, mlir_text, signatures, spirv, toolchain
from .call_types import CallTypes
from .declared import Declared
from .elf_objects import ElfObject, ObjectError
from .kernel_call import KernelCall, LaunchFunction
from .lowering import Form, Lowering, LoweringError, Refused, TargetLike
from .mlir_text import FunctionBody
from .toolchain import ToolError

DtypeRules = Mapping[str, frozenset[str]]
"""torch's names of the dtypes a kernel takes, by parameter; "" stands for all others."""

_LANGUAGES = {"cpu": "C", "vulkan": "GLSL", "cuda": "CUDA C"}
_OBJECTS = {"cpu": "object file", "vulkan": "SPIR-V", "cuda": "PTX"}


@dataclass(frozen=True)
class Source:
    """Where a kernel comes from. path: its file, None for text given as code. compiled: whether it is an object
    file, SPIR-V or PTX already. folder: where its includes lie.
    """

    path: Path | None
    code: str | None
    folder: Path
    compiled: bool

    def content(self) -> bytes:
        """The text of the source, or the compiled kernel. Raises LoweringError for a file that is gone."""
        if self.path is None:
            return (self.code or "").encode()
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise LoweringError(f"the kernel {self.path} cannot be read: {error}") from error

    def prebuilt(self, device: str) -> Path | None:
        """What CMake made of this very text, if it is installed beside it."""
        if self.path is None:
            return None
        path = self.path.parent / "prebuilt" / prebuilt_name(self.path, device)
        return path if path.is_file() else None


def prebuilt_name(source: Path, device: str) -> str:
    """The name that CMakeLists.txt gives to a compiled kernel: it tells the contents of source and headers."""
    headers = [*source.parent.glob("*.h"), *toolchain.INCLUDE.glob("*.h")]
    digests = [_sha256(source.read_bytes()), *sorted(_sha256(header.read_bytes()) for header in headers)]
    machine = f"-{toolchain.machine()}" if device == "cpu" else ""
    return f"{source.stem}-{_sha256(''.join(digests).encode())[:16]}{machine}{toolchain.SUFFIXES[device]}"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class NativeKernel(Lowering):
    """A kernel for one target. function: its name in the source; launch: how to run it for a call."""

    form: Form = "native"

    def __init__(
        self,
        target: str,
        source: Source,
        function: str,
        launch: LaunchFunction,
        where: Declared,
        dtypes: DtypeRules | None,
        workgroup_size: tuple[int, int, int] | None,
    ) -> None:
        self.targets = (target,)
        self.title = _title(target, source, function, where)
        self._device = target
        self._source = source
        self._function = function
        self._launch = launch
        self.declared = where
        self._dtypes = dtypes
        self.identity = (target, function, where.function, str(dtypes))
        self._workgroup_size = workgroup_size

    def refuses(self, call: CallTypes) -> str | None:
        """Dtypes, a missing compiler, sizes beyond the device's limits, or what the launch function refuses."""
        if reason := self._refused_dtype(call) or self._no_compiler():
            return reason
        try:
            planned = self._plan(call)
        except Refused as refused:
            return str(refused)
        return _beyond_limits(planned, self._device)

    def define(self, symbol: str, call: CallTypes, target: TargetLike | None, folder: Path | None) -> str:
        """The dispatch of the kernel; its object goes into `folder`."""
        assert target is not None and folder is not None
        try:
            planned = self._plan(call)
        except Refused as refused:
            raise LoweringError(f"{self.title} refuses this call: {refused}") from refused
        if kernel_call.has_no_elements(planned.results):
            return _empty_results(symbol, planned)
        if self._device == "cpu":
            return self._define_cpu(symbol, planned, target, folder)
        content = self._gpu_code(planned, target)
        suffix = toolchain.SUFFIXES[self._device]
        name = f"{self._function}_{_sha256(content)[:12]}{suffix}"
        (folder / name).write_bytes(content)
        return extern_kernels.define(
            symbol, planned, self._device, self._function, name, self._workgroup_size
        )

    def features(self, call: CallTypes) -> tuple[str, ...]:
        """The Vulkan features that the shader's own capabilities ask for."""
        if self._device != "vulkan" or self.refuses(call) is not None:
            return ()
        return spirv.read(self._object("", "portable")).features

    def _define_cpu(self, symbol: str, planned: KernelCall, target: TargetLike, folder: Path) -> str:
        wanted = cpu_kernels.signature(self._function, planned)
        try:
            kernel = ElfObject(self._object(wanted, target.architecture))
        except ObjectError as error:
            raise self._wrong(str(error)) from error
        if problem := signatures.check_object(kernel, self._function, toolchain.machine()):
            raise self._wrong(problem)
        name = f"{self._function}{kernel.suffix}.o"
        (folder / name).write_bytes(kernel.renamed())
        return cpu_kernels.define(symbol, planned, self._function + kernel.suffix, name, toolchain.machine())

    def _gpu_code(self, planned: KernelCall, target: TargetLike) -> bytes:
        if self._device == "cuda":
            content = self._object(
                signatures.cuda_declaration(self._function, planned) or "", target.architecture
            )
            text = content.decode(errors="replace")
            problem = signatures.check_ptx(text, self._function, target.architecture, planned)
        else:
            content = self._object("", target.architecture)
            try:
                problem = signatures.check_spirv(spirv.read(content), self._function, planned)
            except spirv.SpirvError as error:
                problem = str(error)
        if problem:
            raise self._wrong(problem)
        return content

    def _object(self, declaration: str, architecture: str) -> bytes:
        """The compiled kernel. declaration: appended to the source, so that its compiler checks the signature."""
        content = self._source.content()
        if self._source.compiled:
            return content
        compiler = toolchain.find(toolchain.LANGUAGES[self._device])
        if compiler is None:
            prebuilt = self._source.prebuilt(self._device)
            assert prebuilt is not None, "refuses() says so"
            return prebuilt.read_bytes()
        text = _unit(content.decode(errors="replace"), self._name(), declaration, self._device)
        try:
            return toolchain.compile_source(compiler, text, self._source.folder, architecture)
        except ToolError as error:
            called = f"\nThe call needs: {declaration}" if declaration else ""
            raise LoweringError(
                f"{self.title} ({self.declared}) does not compile:{called}\n{error}"
            ) from error

    def _name(self) -> str:
        return str(self._source.path) if self._source.path else f"code of {self._function}"

    def _wrong(self, problem: str) -> LoweringError:
        return LoweringError(f"{self.title} ({self.declared}): {problem}")

    def _plan(self, call: CallTypes) -> KernelCall:
        return kernel_call.plan(self._launch, self.declared, call, self._device)

    def _no_compiler(self) -> str | None:
        machine = toolchain.machine()
        if self._device == "cpu" and (sys.platform != "linux" or machine not in cpu_kernels.MACHINES):
            return f"kernels for the CPU need Linux on {', '.join(cpu_kernels.MACHINES)}"
        kind = toolchain.LANGUAGES[self._device]
        if self._source.compiled or toolchain.find(kind) or self._source.prebuilt(self._device):
            return None
        return f"there is no compiler for {_LANGUAGES[self._device]} here: install {toolchain.needed(kind)}"

    def _refused_dtype(self, call: CallTypes) -> str | None:
        tensors = [*call.tensors(), *((f"result {i}", t) for i, t in enumerate(call.results))]
        for name, tensor in tensors:
            if tensor.dtype not in cpu_kernels.C_TYPES:
                return f"{name} is {tensor.dtype}, which no kernel takes"
        if self._dtypes is None:
            return None
        for name, tensor in call.tensors():
            # An item of a list goes by the list's name.
            allowed = self._dtypes.get(
                name, self._dtypes.get(re.sub(r"_\d+$", "", name), self._dtypes.get(""))
            )
            if allowed is not None and tensor.dtype not in allowed:
                return f"{name} is {tensor.dtype}; it takes {', '.join(sorted(allowed))}"
        return None


def _title(target: str, source: Source, function: str, where: Declared) -> str:
    """Such as ``C kernel swiglu.c:swiglu_f32``; by the launch function for a shader without a file."""
    kind = (_OBJECTS if source.compiled else _LANGUAGES)[target]
    file = source.path.name if source.path else ""
    if target == "vulkan":
        return f"{kind} kernel {file or where.function}"
    return f"{kind} kernel {file}{':' if file else ''}{function}"


def _beyond_limits(planned: KernelCall, device: str) -> str | None:
    for axis, count, limit in zip(
        "xyz", planned.workgroups, extern_kernels.MAX_WORKGROUPS[device], strict=False
    ):
        if isinstance(count, int) and count > limit:
            return f"it needs {count} workgroups along {axis}; a {device} device is sure to take {limit}"
    empty = [name for name, tensor in planned.operands if 0 in tensor.shape]
    if device != "cpu" and empty and not kernel_call.has_no_elements(planned.results):
        return f"{empty[0]} has no elements; {device} devices do not bind empty tensors"
    return None


def _empty_results(symbol: str, planned: KernelCall) -> str:
    """A function whose results have no elements: there is nothing to run."""
    body = FunctionBody(planned.operand_types)
    values = []
    for result, sizes in zip(planned.results, planned.result_sizes, strict=True):
        dynamic = ", ".join(body.size(sizes[dim]) for dim in result.dynamic_dims)
        values.append(body.add(f"tensor.empty({dynamic}) : {result.builtin}"))
    types = ", ".join(result.builtin for result in planned.results)
    lines = [*body.lines, f"return {', '.join(values)} : {types}"]
    return mlir_text.function_text(symbol, planned.operand_types, planned.results, lines)


def _unit(text: str, name: str, declaration: str, device: str) -> str:
    """What is compiled: the source under its own name and line numbers, then the declaration it must agree with."""
    if device == "vulkan":
        return text
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    headers = "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n" if device == "cpu" else ""
    return (
        f'{headers}#line 1 "{quoted}"\n{text}\n#line 1 "the signature that the call needs"\n{declaration}\n'
    )
