"""Vulkan and CUDA kernels: SPIR-V and PTX that IREE dispatches as they are, with their own pipeline layout.

Tensors are bindings 0, 1, ... of set 0 (operands, then results), or pointer parameters in that order; constants
are 32-bit words behind them.
"""

from __future__ import annotations

from . import mlir_text
from .kernel_call import KernelCall
from .launch import Constant
from .mlir_text import FunctionBody
from .sizes import Size

_EXECUTABLES = {
    "vulkan": '#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">',
    "cuda": '#hal.executable.target<"cuda", "cuda-nvptx-fb">',
}

MAX_WORKGROUPS = {"cpu": (2**31 - 1,) * 3, "vulkan": (65535,) * 3, "cuda": (2**31 - 1, 65535, 65535)}
"""Counts that every device takes."""


def define(
    symbol: str,
    call: KernelCall,
    device: str,
    entry_point: str,
    object_name: str,
    workgroup_size: tuple[int, int, int] | None,
) -> str:
    """MLIR text of the function that dispatches `entry_point` of the object file."""
    body = FunctionBody(call.operand_types)
    _check_at_run_time(body, call, device)
    workload = body.workload(call.workgroups)
    words = [_word(body, constant) for constant in call.constants]
    inputs = [
        body.size(sizes[dim])
        for tensor, sizes in zip(call.operand_types, call.operand_sizes, strict=True)
        for dim in tensor.dynamic_dims
    ]
    outputs = [
        body.size(sizes[dim])
        for tensor, sizes in zip(call.results, call.result_sizes, strict=True)
        for dim in tensor.dynamic_dims
    ]
    operands = [*words, *(f"%a{i}" for i in range(len(call.operands)))]
    segments = [len(workload), len(operands), len(inputs), len(outputs)]
    types = ["index"] * len(workload) + ["i32"] * len(words) + [t.builtin for t in call.operand_types]
    types += ["index"] * (len(inputs) + len(outputs))
    results = ", ".join(tensor.builtin for tensor in call.results)
    count = len(call.results)
    names = ", ".join(f"%r#{i}" if count > 1 else "%r" for i in range(count))
    lines = [
        *body.lines,
        f'%r{f":{count}" if count > 1 else ""} = "hal.dispatch.extern"'
        f"({', '.join([*workload, *operands, *inputs, *outputs])}) <{{"
        f"{_properties(call, device, entry_point, object_name, workgroup_size, segments)}}}> ({{\n"
        f"{_count_region(len(workload))}  }}, {{\n  }}) : ({', '.join(types)}) -> ({results})",
        f"return {names} : {results}",
    ]
    return mlir_text.function_text(symbol, call.operand_types, call.results, lines)


def _properties(
    call: KernelCall,
    device: str,
    entry_point: str,
    object_name: str,
    workgroup_size: tuple[int, int, int] | None,
    segments: list[int],
) -> str:
    bindings = ["#hal.pipeline.binding<storage_buffer, ReadOnly>"] * len(call.operands)
    bindings += ["#hal.pipeline.binding<storage_buffer>"] * len(call.results)
    layout = f"#hal.pipeline.layout<constants = {len(call.constants)}, bindings = [{', '.join(bindings)}]>"
    size = ", ".join(f"{n} : index" for n in workgroup_size) if workgroup_size else ""
    return (
        f'export_name = "{entry_point}", layout = {layout}, '
        f"operandSegmentSizes = array<i32: {', '.join(map(str, segments))}>, "
        f'target_objects = [[#hal.executable.object<{{path = "{object_name}"}}>]], '
        + (f"workgroup_size = [{size}], " if size else "")
        + f"target_ordinals = [0 : index], targets = [{_EXECUTABLES[device]}], "
        f"tied_operands = [{', '.join(['-1 : index'] * len(call.results))}]"
    )


def _count_region(dimensions: int) -> str:
    """The workgroup counts are the workload itself."""
    counts = [f"%w{i}" for i in range(dimensions)]
    padded = ", ".join([*counts, *["%one"] * (3 - dimensions)])
    arguments = ", ".join(["%device: !hal.device", *(f"{count}: index" for count in counts)])
    return (
        f"  ^bb0({arguments}):\n    %one = arith.constant 1 : index\n"
        f"    hal.return {padded} : index, index, index\n"
    )


def _word(body: FunctionBody, constant: Constant) -> str:
    value = body.constant(constant)
    return body.add(f"arith.bitcast {value} : f32 to i32") if constant.type == "f32" else value


def _check_at_run_time(body: FunctionBody, call: KernelCall, device: str) -> None:
    """What is beyond a device's limits fails: the kernel would not run for all of it, in silence."""
    body.require_constants(call.constants)
    for count, limit in zip(call.workgroups, MAX_WORKGROUPS[device], strict=False):
        if isinstance(count, Size):
            body.require(count, limit, f"a kernel needs more than the {limit} workgroups a device takes")
