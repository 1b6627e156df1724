"""The child process in which torch-mlir runs: ``python -m pipeline.worker JOB``, where JOB is a folder.

The compiler aborts, crashes or hangs on some inputs; here that costs a child and not the user's process.
The protocol is files only, since LLVM prints to stdout and stderr as it likes: ``job.json`` and the input
module come in, modules, ``result.json`` and, while running, ``progress`` go out.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

_PRELOADED = (
    "torch_mlir.dialects.torch",
    "torch_mlir.passmanager",
    "torch_mlir.rewrite",
    "iree.compiler.ir",
    "pipeline.dialect_passes.pipelines",
    "pipeline.function_definitions",
    "pipeline.iree_module",
    "pipeline.shared_threads",
)


def main(folder: str) -> None:
    """Runs the job in `folder`; failures of passes are results, only crashes are not."""
    die_with_parent()
    job_folder = Path(folder)
    job = json.loads((job_folder / "job.json").read_text())
    result = _TASKS[job["task"]](job_folder, job)
    (job_folder / "result.json").write_text(json.dumps(result))


def die_with_parent() -> None:
    """A pass that hangs must not outlive a compilation that was killed: nobody would stop it any more."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def preload() -> None:
    """Loads what jobs use, for `pipeline.warm_worker`."""
    for name in _PRELOADED:
        importlib.import_module(name)


def _lower(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Runs `job["stages"]` (name -> pass pipeline) over the input, writing the module after each."""
    from pipeline.dialect_passes import pipelines
    from pipeline.element_types import element_types

    module = _read_torch_mlir(folder / job["input"])
    seconds: dict[str, float] = {}
    printed: list[list[str]] = []
    changes: dict[str, int] = {}
    watcher = _Watcher(folder, job, printed)
    for stage, pipeline in job["stages"]:
        start = time.perf_counter()
        try:
            with module.context:
                passes = pipelines.expand(pipeline)
            changes.update(pipelines.run(module, passes, before=watcher.before, after=watcher.after))
        except pipelines.PassError as error:
            return {
                "failed": stage,
                "pass": error.name,
                "diagnostics": error.diagnostics,
                "seconds": seconds,
                **_refinement(error.__cause__),
            }
        seconds[stage] = time.perf_counter() - start
        _write(folder / f"{stage}.mlirbc", module)
    return {
        "seconds": seconds,
        "printed": printed,
        "ran": sorted(watcher.ran),
        "changes": changes,
        "element_types": element_types(module),
    }


def _refinement(error: BaseException | None) -> dict[str, Any]:
    """What refinement found wrong, for `pipeline.refinement_errors`."""
    from pipeline.shape_lib.errors import FindingsError, RefinementError, UnrefinedError

    if not isinstance(error, RefinementError):
        return {}
    findings = error.findings if isinstance(error, FindingsError) else ()
    return {
        "refinement": {
            "heading": error.heading if isinstance(error, FindingsError) else str(error),
            "unsupported": isinstance(error, UnrefinedError),
            "findings": [asdict(finding) for finding in findings],
        }
    }


class _Watcher:
    """Notes the running pass, keeps the IR before it when asked, and prints around the passes asked for."""

    def __init__(self, folder: Path, job: dict[str, Any], printed: list[list[str]]) -> None:
        self._folder = folder
        self._job = job
        self._printed = printed
        self._count = 0
        self.ran: set[str] = set()

    def before(self, item: str, module: Any) -> None:
        (self._folder / "progress").write_text(item)
        if self._job.get("keep_before"):
            _write(self._folder / "before.mlirbc", module)
        if self._wanted("print_before", item):
            self._printed.append([f"before {item}", str(module)])

    def after(self, item: str, module: Any) -> None:
        from pipeline.dialect_passes import pipelines

        self._count += 1
        names = list(pipelines.names(item))
        self.ran.update(names)
        wanted = self._wanted("print_after", item)
        dump = self._job.get("dump_dir")
        if not wanted and not dump:
            return
        text = str(module)
        if wanted:
            self._printed.append([item, text])
        if dump:
            name = names[-1].replace("/", "_")
            (Path(dump) / f"{self._count:03d}-{name}.mlir").write_text(text)

    def _wanted(self, key: str, item: str) -> bool:
        from pipeline.dialect_passes import pipelines

        return not set(self._job.get(key, ())).isdisjoint(pipelines.names(item))


def _iree(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """linalg to the IREE module, with the manifest inside."""
    from iree.compiler import ir

    from pipeline.batched_broadcasts import multiplies_broadcasts
    from pipeline.function_definitions import DefinitionError
    from pipeline.iree_module import to_iree_module
    from pipeline.joined_reductions import joins_open_sizes
    from pipeline.turned_reductions import reads_turned

    start = time.perf_counter()
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse((folder / "linalg.mlirbc").read_bytes())
        try:
            forms = {key: job[key] for key in ("for_shaders", "threads_apart", "cpu_features")}
            to_iree_module(module, job["manifest"], job["definitions"], **forms)
        except DefinitionError as error:
            return {"refused": str(error)}
        module.operation.verify()
        if not job["locations"]:
            # They hold paths of this machine, and would reach the artifact.
            module = ir.Module.parse(module.operation.get_asm(enable_debug_info=False))
        _write(folder / "iree.mlirbc", module)
        repairs = {
            "fuses_wrongly": joins_open_sizes(module) or reads_turned(module),
            "multiplies_broadcasts": multiplies_broadcasts(module),
        }
    return {"repairs": repairs, "seconds": {"iree": time.perf_counter() - start}}


def _shared_threads(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """What threads read of each other in the dispatches that iree-compile wrote."""
    from iree.compiler import ir

    from pipeline.shared_threads import shared_between_threads

    found: list[str] = []
    for path in sorted((folder / job["dispatches"]).glob("configured_*.mlir")):
        with ir.Context() as context:
            context.allow_unregistered_dialects = True
            found += shared_between_threads(ir.Module.parse(path.read_bytes()))
    return {"found": found}


def _dispatches(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """What the dispatches of a module that iree-compile left compute, and for which source lines."""
    from iree.compiler import ir

    from pipeline.profiling.dispatches import read_dispatches

    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        return read_dispatches(ir.Module.parse((folder / job["input"]).read_text()))


def _print(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """The text of a stage's module."""
    locations = job["locations"]
    if job["stage"] == "iree":
        from iree.compiler import ir

        with ir.Context():
            module = ir.Module.parse((folder / "iree.mlirbc").read_bytes())
            return {"text": module.operation.get_asm(enable_debug_info=locations)}
    module = _read_torch_mlir(folder / f"{job['stage']}.mlirbc")
    return {"text": module.operation.get_asm(enable_debug_info=locations)}


def _probe(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Which operations can be lowered, each tried alone (see `pipeline.probe`)."""
    from pipeline.probe_worker import probe_module

    return probe_module(_read_torch_mlir(folder / "torch.mlirbc"), folder, job)


_TASKS = {
    "lower": _lower,
    "iree": _iree,
    "shared_threads": _shared_threads,
    "dispatches": _dispatches,
    "print": _print,
    "probe": _probe,
}


def _read_torch_mlir(path: Path) -> Any:
    from torch_mlir import ir
    from torch_mlir.dialects import torch as torch_dialect

    context = ir.Context()
    torch_dialect.register_dialect(context)
    context.allow_unregistered_dialects = True
    return ir.Module.parse(path.read_bytes(), context)


def _write(path: Path, module: Any) -> None:
    with path.open("wb") as file:
        module.operation.write_bytecode(file)


if __name__ == "__main__":
    main(sys.argv[1])
