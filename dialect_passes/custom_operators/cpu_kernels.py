"""CPU kernels: a C function that gets plain pointers, linked into IREE's executable.

void f(const float *x, ..., float *out, ..., int64_t constant, ..., size_t workgroup_x, ...);
"""

from __future__ import annotations

from collections.abc import Sequence

from . import mlir_text
from .call_types import TensorType
from .kernel_call import KernelCall
from .mlir_text import FunctionBody, sizes_text

C_TYPES = {
    "float64": "double",
    "float32": "float",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
    "complex64": "float",
    "complex128": "double",
}
"""What a pointer to a tensor's elements points to; float16 and bfloat16 are bits, a complex number two floats."""

_CONSTANTS = {"i32": "int32_t", "i64": "int64_t", "f32": "float", "f64": "double"}
MACHINES = {"x86_64": "x86_64", "aarch64": "arm_64", "riscv64": "riscv_64"}
"""Architectures, and IREE's names for them."""


def signature(function: str, call: KernelCall) -> str:
    """The C declaration of the function that a call needs."""
    # The names are comments: an argument may well be called "default".
    parameters = [f"const {C_TYPES[tensor.dtype]} */*{name}*/" for name, tensor in call.operands]
    parameters += [f"{C_TYPES[tensor.dtype]} */*{name}*/" for name, tensor in call.named_results()]
    parameters += [f"{_CONSTANTS[c.type]} /*constant {i}*/" for i, c in enumerate(call.constants)]
    parameters += [f"size_t /*workgroup {axis}*/" for axis in "xyz"[: len(call.workgroups)]]
    return f"void {function}({', '.join(parameters)});"


def define(symbol: str, call: KernelCall, function: str, object_name: str, machine: str) -> str:
    """MLIR text: the executable that calls `function` of the object file, and the function that dispatches it."""
    body = FunctionBody(call.operand_types)
    body.require_constants(call.constants)
    counts = body.workload(call.workgroups)
    constants = [body.constant(constant) for constant in call.constants]
    inputs = [
        f"{tensor.builtin}{sizes_text(body, tensor, sizes)}"
        for tensor, sizes in zip(call.operand_types, call.operand_sizes, strict=True)
    ]
    results = [
        f"{tensor.builtin}{sizes_text(body, tensor, sizes)}"
        for tensor, sizes in zip(call.results, call.result_sizes, strict=True)
    ]
    operands = ", ".join([*(f"%a{i}" for i in range(len(inputs))), *constants])
    types = ", ".join([*inputs, *(constant.type for constant in call.constants)])
    names = [f"%r{i}" for i in range(len(results))]
    lines = [
        *body.lines,
        f"{', '.join(names)} = flow.dispatch @{symbol}_kernel::@{symbol}_entry[{', '.join(counts)}]({operands})"
        f" : ({types}) -> ({', '.join(results)})",
        f"return {', '.join(names)} : {', '.join(tensor.builtin for tensor in call.results)}",
    ]
    executable = _executable(symbol, call, function, object_name, MACHINES[machine])
    return executable + mlir_text.function_text(symbol, call.operand_types, call.results, lines)


def _executable(symbol: str, call: KernelCall, function: str, object_name: str, architecture: str) -> str:
    counts = [f"%w{i}" for i in range(len(call.workgroups))]
    padded = [*counts, *["%one"] * (3 - len(counts))]
    return (
        f"stream.executable private @{symbol}_kernel attributes {{hal.executable.objects = #hal.executable.objects<{{\n"
        f'  #hal.executable.target<"llvm-cpu", "embedded-elf-{architecture}"> = '
        f'[#hal.executable.object<{{path = "{object_name}"}}>]}}>}} {{\n'
        f"  stream.executable.export public @{symbol}_entry workgroups({', '.join(f'{c}: index' for c in counts)})"
        " -> (index, index, index) {\n"
        "    %one = arith.constant 1 : index\n"
        f"    stream.return {', '.join(padded)} : index, index, index\n  }}\n"
        f"  builtin.module {{\n{_entry(symbol, call, function)}  }}\n}}\n"
    )


def _entry(symbol: str, call: KernelCall, function: str) -> str:
    """The function of the executable that turns bindings into pointers and calls the kernel.

    Bindings are read as bytes, whatever the tensors hold: the kernel knows their types. Its name must be unique in
    the program, all of whose executables are linked into one.
    """
    tensors: Sequence[TensorType] = [*call.operand_types, *call.results]
    lines = ["%zero = arith.constant 0 : index", "%one = arith.constant 1 : index"]
    for i in range(len(tensors)):
        lines += [
            f"%m{i} = stream.binding.subspan %b{i}[%zero] : !stream.binding -> memref<?xi8>{{%one}}",
            f"%p{i}, %o{i}, %s{i}, %t{i} = iree_codegen.extract_strided_metadata %m{i}"
            " : memref<?xi8> -> memref<i8>, index, index, index",
            f"%base{i} = memref.extract_aligned_pointer_as_index %p{i} : memref<i8> -> index",
            f"%address{i} = arith.addi %base{i}, %o{i} : index",
            f"%integer{i} = arith.index_cast %address{i} : index to i64",
            f"%pointer{i} = llvm.inttoptr %integer{i} : i64 to !llvm.ptr",
        ]
    ids = []
    for axis in range(len(call.workgroups)):
        lines.append(f"%id{axis} = stream.dispatch.workgroup.id[{axis}] : index")
        lines.append(f"%workgroup{axis} = arith.index_cast %id{axis} : index to i64")
        ids.append(f"%workgroup{axis}")
    values = [
        *(f"%pointer{i}" for i in range(len(tensors))),
        *(f"%c{i}" for i in range(len(call.constants))),
        *ids,
    ]
    constants = [constant.type for constant in call.constants]
    types = ", ".join(["!llvm.ptr"] * len(tensors) + constants + ["i64"] * len(ids))
    arguments = [
        *(f"%b{i}: !stream.binding" for i in range(len(tensors))),
        *(f"%c{i}: {type_}" for i, type_ in enumerate(constants)),
    ]
    lines += [f"func.call @{function}({', '.join(values)}) : ({types}) -> ()", "return"]
    inside = "".join(f"      {line}\n" for line in lines)
    return (
        f"    func.func private @{function}({types}) attributes {{hal.import.static}}\n"
        f"    func.func @{symbol}_entry({', '.join(arguments)}) {{\n{inside}    }}\n"
    )
