"""Who takes part: each makes of a workload a call that can be timed.

One whose package is not installed raises ModuleNotFoundError, which is a row of the table and no error.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pipeline.api import capture_checked, compile_options
from pipeline.compiler import Options, compile_program
from pipeline.entry_points import EntrySpec
from pipeline.errors import InternalError
from pipeline.importer import LiteralHooks
from pipeline.runtime import Executable
from pipeline.tools_path import iree_compile

from .workload import Workload, tensors_of

OURS = "pipeline"


@dataclass(frozen=True)
class Ready:
    """call: what is timed. tensors: of its result, to be compared with eager's. note: what was chosen on the way."""

    call: Callable[[], Any]
    tensors: Callable[[Any], list[Tensor]] = tensors_of
    note: str = ""


def eager(work: Workload) -> Ready:
    """PyTorch as it is."""
    return Ready(without_gradients(work.call))


def inductor(work: Workload) -> Ready:
    """``torch.compile``."""
    compiled = torch.compile(getattr(work.model, work.method))
    return Ready(without_gradients(lambda: work.call(compiled)))


def onnx_runtime(work: Workload) -> Ready:
    """torch.onnx's exporter, then ONNX Runtime at its own optimization level, the highest."""
    import onnxruntime  # pyright: ignore[reportMissingImports]

    flat, tensors = work.flat()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = work.threads
    options.inter_op_num_threads = 1
    with tempfile.TemporaryDirectory(prefix="pipeline-") as folder, torch.no_grad():
        path = str(Path(folder) / "model.onnx")
        torch.onnx.export(flat, tensors, path, dynamo=True)
        session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    arrays = [tensor.detach().numpy() for tensor in tensors]
    feeds = {item.name: array for item, array in zip(session.get_inputs(), arrays, strict=True)}
    return Ready(lambda: session.run(None, feeds), _from_numpy)


def openvino(work: Workload) -> Ready:
    """OpenVINO, from the exported program; in float32, where on some CPUs it would take bfloat16 by itself."""
    import openvino  # pyright: ignore[reportMissingImports]

    flat, tensors = work.flat()
    with torch.no_grad():
        model = openvino.convert_model(torch.export.export(flat, tensors))
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": work.threads,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    arrays = dict(enumerate(tensor.detach().numpy() for tensor in tensors))
    return Ready(
        lambda: request.infer(arrays, share_inputs=True, share_outputs=True),
        lambda result: _from_numpy([result[i] for i in range(len(result))]),
    )


def stock(work: Workload) -> Ready:
    """torch-mlir's importer and lowering, then IREE at its defaults, which are -O0 and a generic CPU.

    Two things are not stock and change nothing in the program: weights are read from memory and not as lists of
    Python numbers, which takes minutes, and all buffers are persistent, since the importer knows no others.
    """
    import iree.runtime as iree
    from torch_mlir import fx

    flat, tensors = work.flat()
    for module in flat.modules():
        module._non_persistent_buffers_set.clear()
    with torch.no_grad():
        imported = fx.export_and_import(
            flat, *tensors, output_type="linalg-on-tensors", func_name="main", hooks=LiteralHooks()
        )
    config = iree.Config(device=iree.get_device(_device(work.threads)))
    with tempfile.TemporaryDirectory(prefix="pipeline-") as folder:
        source, artifact = Path(folder) / "model.mlirbc", Path(folder) / "model.vmfb"
        with source.open("wb") as file:
            imported.operation.write_bytecode(file)
        del imported
        _iree_compile(source, artifact)
        main = iree.load_vm_module(iree.VmModule.mmap(config.vm_instance, str(artifact)), config).main
    arrays = [tensor.detach().numpy() for tensor in tensors]
    return Ready(lambda: main(*arrays), _from_iree)


def _iree_compile(source: Path, artifact: Path) -> None:
    command = [iree_compile(), str(source), "-o", str(artifact), "--iree-hal-target-device=local"]
    command.append("--iree-hal-local-target-device-backends=llvm-cpu")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error:" in line] or ["iree-compile failed"]
        raise InternalError(lines[0][:200])


def ours(work: Workload) -> Ready:
    """`pipeline.compile`, without its cache."""
    options = our_options(work.options)
    entry = EntrySpec(work.args, work.kwargs, method=work.method)
    artifact = compile_program(capture_checked(work.model, {"main": entry}, options), options)
    executable = Executable(artifact, device=our_device(options, work.threads))
    call, args, kwargs = executable.entry_point("main"), work.args, work.kwargs
    # Not the workload, which would keep the model in memory.
    return Ready(lambda: call(*args, **kwargs), note=rung(executable))


def our_options(options: Any) -> Options:
    """Without the cache: the time it takes to compile is part of the table."""
    given = {**options, "cache": False}
    return compile_options(given.pop("target", "cpu"), **given)


def our_device(options: Options, threads: int) -> str | None:
    """Where to load what was compiled: on the CPU with this many threads, or on the first target."""
    return _device(threads) if options.targets[0].device == "cpu" else None


def rung(executable: Executable) -> str:
    """The option set that the compiler ended with."""
    return str(executable.manifest.targets[0]["rung"])


def _device(threads: int) -> str:
    """IREE's CPU device; the number of its threads is a setting of the process."""
    from iree.runtime import flags

    if threads == 1:
        return "local-sync"
    flags.parse_flags(f"--task_topology_group_count={threads}")
    return "local-task"


def without_gradients(call: Callable[[], Any]) -> Callable[[], Any]:
    """The same call, of which autograd records nothing."""
    return torch.no_grad()(call)


def _from_numpy(arrays: list[np.ndarray]) -> list[Tensor]:
    return [torch.from_numpy(np.array(array)) for array in arrays]


def _from_iree(result: Any) -> list[Tensor]:
    results = result if isinstance(result, (tuple, list)) else [result]
    return _from_numpy([item.to_host() for item in results])


COMPETITORS: dict[str, Callable[[Workload], Ready]] = {
    OURS: ours,
    "eager": eager,
    "inductor": inductor,
    "onnxruntime": onnx_runtime,
    "openvino": openvino,
    "torch-mlir + iree": stock,
}
"""Name -> what makes the call."""
