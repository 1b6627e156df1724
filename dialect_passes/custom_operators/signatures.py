"""Whether a compiled kernel takes what a call passes: another signature would compute nonsense, in silence."""

from __future__ import annotations

import re

from .call_types import TensorType
from .cpu_kernels import C_TYPES
from .elf_objects import ElfObject
from .kernel_call import KernelCall
from .spirv import Scalar, SpirvModule

_CUDA_CONSTANTS = {"i32": "int", "f32": "float"}
_CUDA_TYPES = C_TYPES | {
    "int64": "long long",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint8": "unsigned char",
}
_PTX_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}


def check_object(kernel: ElfObject, function: str, machine: str) -> str | None:
    """What is wrong with an object file for a CPU kernel."""
    if kernel.machine != machine:
        return f"it was compiled for {kernel.machine}, this machine is {machine}"
    if function not in kernel.functions:
        found = ", ".join(kernel.functions) or "none"
        return f"it defines no function '{function}' that is not static (functions: {found})"
    if kernel.undefined:
        return (
            f"it needs {', '.join(kernel.undefined)}, which a kernel cannot have: it is linked with no library; "
            'define them, or use pipeline_kernel.h (#include "pipeline_kernel.h": pk_expf, pk_tanhf, ...)'
        )
    return None


def check_spirv(module: SpirvModule, entry_point: str, call: KernelCall) -> str | None:
    """What is wrong with a SPIR-V module for `call`."""
    if entry_point not in module.entry_points:
        return (
            f"it has no compute shader '{entry_point}' (shaders: {', '.join(module.entry_points) or 'none'})"
        )
    tensors = [*call.operands, *call.named_results()]
    for (space, binding), element in sorted(module.bindings.items()):
        if space != 0 or binding >= len(tensors):
            return f"it uses binding {binding} of set {space}; the call passes {_places(tensors)} of set 0"
        name, tensor = tensors[binding]
        if element is not None and not _reads(element, tensor):
            kind = f"{element[1]}-bit {element[0]}s"
            return f"its binding {binding} holds {kind}, but the call passes {name}: {tensor} there"
    for binding in range(len(call.operands), len(tensors)):
        if (0, binding) not in module.bindings:
            return f"it does not write binding {binding}; the call passes {_places(tensors)}"
    return _check_constants(module, call)


def _places(tensors: list[tuple[str, TensorType]]) -> str:
    return "bindings " + ", ".join(f"{i} ({name})" for i, (name, _) in enumerate(tensors))


def _reads(element: Scalar, tensor: TensorType) -> bool:
    """Whether an array of `element` can stand for the tensor: of its kind, or words of packed bits."""
    kind, bits = element
    width = tensor.element_bytes * 8
    if tensor.dtype.startswith("complex"):
        return kind == "float" and bits == width // 2
    floating = tensor.dtype in ("float64", "float32", "float16")
    if bits == width:
        return (kind == "float") == floating or width == 16
    return kind == "int" and bits == 32 and width != 32


def _check_constants(module: SpirvModule, call: KernelCall) -> str | None:
    if module.constants is None:
        return None
    passed = [(4 * i, ("float" if c.type == "f32" else "int", 32)) for i, c in enumerate(call.constants)]
    if module.constants == passed:
        return None
    return (
        f"its push constants are ({_constants(module.constants)}), but the call passes ({_constants(passed)}); "
        "each is 32 bits, in the launch function's order"
    )


def _constants(constants: list[tuple[int, Scalar]] | list[tuple[int, Scalar | None]]) -> str:
    return ", ".join(f"{s[0]}{s[1]} at {offset}" if s else f"? at {offset}" for offset, s in constants)


def cuda_declaration(function: str, call: KernelCall) -> str | None:
    """The C++ declaration of a CUDA kernel; None for 16-bit floats, which have several types there."""
    tensors = [*call.operand_types, *call.results]
    if any(tensor.dtype in ("float16", "bfloat16") for tensor in tensors):
        return None
    types = [f"const {_CUDA_TYPES[tensor.dtype]}*" for tensor in call.operand_types]
    types += [f"{_CUDA_TYPES[tensor.dtype]}*" for tensor in call.results]
    types += [_CUDA_CONSTANTS[constant.type] for constant in call.constants]
    return f'extern "C" __global__ void {function}({", ".join(types)});'


def check_ptx(text: str, function: str, architecture: str, call: KernelCall) -> str | None:
    """What is wrong with PTX for `call`."""
    entries = dict(re.findall(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)", text))
    if function not in entries:
        found = ", ".join(entries) or "none"
        return f"it has no kernel '{function}' (kernels: {found}); in CUDA C write extern \"C\" __global__"
    made_for = re.search(r"^\s*\.target\s+sm_(\d+)", text, re.MULTILINE)
    if made_for and int(made_for[1]) > int(architecture.removeprefix("sm_")):
        return f"it is for sm_{made_for[1]} and newer, the target is {architecture}"
    types = re.findall(r"\.param\s+(?:\.align\s+\d+\s+)?\.([busf])(\d+)", entries[function])
    sizes = [_PTX_BYTES.get(bits, 0) for _, bits in types]
    wanted = [8] * (len(call.operands) + len(call.results)) + [4] * len(call.constants)
    if sizes != wanted:
        return (
            f"its parameters have {_bytes(sizes)} bytes, but the call passes {_bytes(wanted)}: "
            f"a pointer for each of {', '.join(name for name, _ in [*call.operands, *call.named_results()])}, "
            f"then {len(call.constants)} constants of 32 bits"
        )
    return None


def _bytes(sizes: list[int]) -> str:
    return "(" + ", ".join(map(str, sizes)) + ")"
