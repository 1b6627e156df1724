"""The stages from a captured program to an artifact, as data, and the drive through them."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pipeline.dialect_passes.custom_operators.errors import CustomOperatorError
from pipeline.runtime import Artifact, examples, weights
from pipeline.runtime.artifact import read_manifest
from pipeline.runtime.manifest import EntryPoint, Manifest, TensorSpec, WeightsInfo
from pipeline.runtime.tensors import to_numpy

from . import child, iree_command, reproducer, shape_libraries
from .cache import Cache
from .custom_calls import CustomLowerings, lowering_notes
from .errors import InputError, InternalError, UnsupportedError
from .importer import import_program
from .iree_command import Repairs
from .just_in_time import counts
from .open_size_failures import advice, refuse_open_sizes
from .probe import find_unsupported, has_unknown
from .program import Program
from .program_key import program_key
from .refinement_errors import from_refinement
from .stages import CPU_KERNELS, OFFERED, STAGE_NAMES, passes_between
from .targets.resolve import describe, fit
from .targets.target import Step, Target, combined_ladder
from .tools_path import iree_compile
from .user_decompositions import UserDecompositions

# Weights up to this many bytes travel inside the .vmfb with --weights auto.
INLINE_BYTES = 4 << 20

_LOWERING_SECONDS = 300.0


@dataclass(frozen=True)
class Options:
    """How to compile; the same for Python and the command line.

    weights: "auto", "inline", "external", or "bound": whoever loads the artifact gives them, so that their values
        are not part of it. iree_args: appended to every iree-compile, last word.
    lowerings: custom operator -> the lowering it must get, by its title, or "meaning".
    decompositions: the user's. shape_libraries: the user's shape and dtype functions, as texts of the Torch dialect.
    print_before: passes before which to print the IR. print_after: stages or passes after which to print it.
    dump_dir: folder for the IR after every pass. disable_passes: passes of ours to leave out.
    locations: whether IREE's compiler sees source lines, as what it prints may then show; the artifact holds none.
    cache: where to look for the compiled program, and to put it; what prints or dumps the IR is compiled always.
    """

    targets: tuple[Target, ...]
    weights: str = "auto"
    iree_args: tuple[str, ...] = ()
    lowerings: Mapping[str, str] = field(default_factory=dict)
    decompositions: UserDecompositions = field(default_factory=UserDecompositions)
    shape_libraries: tuple[str, ...] = ()
    print_before: tuple[str, ...] = ()
    print_after: tuple[str, ...] = ()
    dump_dir: Path | None = None
    disable_passes: tuple[str, ...] = OFFERED
    limits: child.Limits = field(default_factory=child.Limits)
    locations: bool = False
    cache: Cache | None = None
    on_stage: Callable[[str, float | None], None] = lambda name, seconds: None
    on_print: Callable[[str, str], None] = lambda name, text: None

    @property
    def custom_lowerings(self) -> CustomLowerings:
        """What capture must know to lower custom operators."""
        return CustomLowerings(tuple(target.device for target in self.targets), self.lowerings)


def compile_program(program: Program, options: Options) -> Artifact:
    """All stages; the artifact lives in a temporary folder until it is saved.

    Raises UnsupportedError listing every operator that cannot be compiled, and InternalError with a
    reproducer folder when a compiler fails.
    """
    build = _Build(program, options)
    with build.failing_leaves_reproducer():
        build.run_until("torch")
        cached = build.from_cache()
        if cached is not None:
            return cached
        build.run_on_until("iree")
        return build.finish()


def lower(program: Program, options: Options) -> None:
    """The stages up to linalg and nothing more, for what only wants to know whether, or how fast, it works."""
    build = _Build(program, options)
    with build.failing_leaves_reproducer():
        build.run_until("linalg")


def emit(program: Program, options: Options, stage: str, *, locations: bool = False) -> str:
    """The readable IR after `stage` ("torch", "refined", "linalg" or "iree"); weights are names in it."""
    build = _Build(program, options)
    with build.failing_leaves_reproducer():
        build.run_until(stage)
        return build.text(stage, locations)


class _Build:
    """One compilation in its temporary folder."""

    def __init__(self, program: Program, options: Options) -> None:
        self._program = program
        self._options = options
        self._owner = tempfile.TemporaryDirectory(prefix="pipeline-")
        self._folder = Path(self._owner.name)
        self._ladder = combined_ladder(options.targets)
        self._command: list[str] = []
        self._module: Any = None
        self._key: str | None = None
        self._repairs = Repairs()

    @property
    def _lowering_limits(self) -> child.Limits:
        """Lowering takes seconds even for big models: a hang need not cost as long as iree-compile may take."""
        limits = self._options.limits
        return replace(limits, timeout=min(limits.timeout, _LOWERING_SECONDS))

    @contextlib.contextmanager
    def failing_leaves_reproducer(self) -> Iterator[None]:
        """An InternalError leaves the folder of this build behind, with a note of how to run it again."""
        try:
            yield
        except (InputError, UnsupportedError, CustomOperatorError):
            raise
        except InternalError as error:
            where = reproducer.keep(self._folder, str(error), self._command)
            raise InternalError(str(error), str(where)) from error
        except Exception as error:
            where = reproducer.keep(self._folder, traceback.format_exc(), self._command)
            raise InternalError(f"{type(error).__name__}: {error}", str(where)) from error

    def run_until(self, last: str) -> None:
        """Runs the stages up to `last` (at most "iree")."""
        with self._timed("torch"):
            self._module = import_program(self._program)
            with (self._folder / "torch.mlirbc").open("wb") as file:
                self._module.operation.write_bytecode(file)
        self._print_stage("torch")
        if last != "torch":
            self.run_on_until(last)

    def run_on_until(self, last: str) -> None:
        """Runs the stages behind "torch", which has run, up to `last`."""
        if has_unknown(self._module):
            self._raise_unsupported()
        shape_libraries.write(self._folder, self._options.shape_libraries)
        libraries = shape_libraries.written(self._folder)
        self._lower(passes_between("torch", last, libraries, self._options.disable_passes))
        if last == "iree":
            self._make_iree_module(self._ladder[0])
            self._print_stage("iree")

    def from_cache(self) -> Artifact | None:
        """The artifact with a compiled program from the cache; None where there is none."""
        options = self._options
        looks = options.print_before or options.print_after or options.dump_dir
        # Definitions are made of kernels' sources and what compiles them.
        if options.cache is None or looks or self._program.definitions:
            return None
        self._key = program_key(
            self._module, self._program, options, self._storage(), self._entries(), _versions()
        )
        if self._key is None:
            return None
        manifest = options.cache.fetch(self._key, self._folder / "module.vmfb")
        counts.count("cache_misses" if manifest is None else "cache_hits")
        if manifest is None:
            return None
        archive = self._write_archive() if manifest.weights.storage == "external" else None
        return Artifact(self._folder / "module.vmfb", archive, manifest, self._owner)

    def _lower(self, stages: list[tuple[str, str]]) -> None:
        job = {
            "task": "lower",
            "input": "torch.mlirbc",
            "stages": stages,
            "print_before": list(self._options.print_before),
            "print_after": list(self._options.print_after),
            "dump_dir": str(self._options.dump_dir.resolve()) if self._options.dump_dir else None,
        }
        for name, _ in stages:
            self._options.on_stage(name, None)
        result = child.run_job(self._folder, job, self._lowering_limits)
        if isinstance(result, child.Outcome):
            self._explain_death(job, result)
        elif "failed" in result:
            self._explain_failure(job, result)
        else:
            self._fit_targets(result["element_types"])
            for name, seconds in result["seconds"].items():
                self._options.on_stage(name, seconds)
            for item, text in result["printed"]:
                self._options.on_print(item, text)
            self._refuse_unknown_prints(result["ran"])
            for name, _ in stages:
                self._print_stage(name)

    def _refuse_unknown_prints(self, ran: list[str]) -> None:
        for name in self._options.print_before:
            if name not in ran:
                raise InputError(f"--print-before: no pass '{name}'; passes: {', '.join(ran)}")
        for name in self._options.print_after:
            if name not in STAGE_NAMES and name not in ran:
                raise InputError(
                    f"--print-after: no stage or pass '{name}'; stages: {', '.join(STAGE_NAMES)}; "
                    f"passes: {', '.join(ran)}"
                )

    def _fit_targets(self, element_types: list[str]) -> None:
        """Now that the program is known: what it needs of each device. Raises UnsupportedError."""
        limits = self._options.limits
        fitted = [fit(target, element_types, iree_compile(), limits) for target in self._options.targets]
        self._ladder = combined_ladder(fitted)

    def _explain_failure(self, job: dict[str, Any], result: dict[str, Any]) -> None:
        """A pass failed: name everything unsupported, else it is our or torch-mlir's fault."""
        if "refinement" in result:
            raise from_refinement(result["refinement"])
        self._raise_unsupported()
        self._keep_before(job)
        raise InternalError(
            f"the pass {result['pass']} failed in stage {result['failed']}:\n{result['diagnostics']}"
        )

    def _explain_death(self, job: dict[str, Any], outcome: child.Outcome) -> None:
        """The child died: name the operator that kills it, else keep the IR before the pass for the reproducer."""
        running = _read(self._folder / "progress")
        self._raise_unsupported()
        self._keep_before(job)
        at = f" in the pass {running}" if running else ""
        raise InternalError(f"torch-mlir failed{at}: {outcome.problem}\n{_tail(outcome.output)}")

    def _keep_before(self, job: dict[str, Any]) -> None:
        """Runs the job again for the IR before the pass that fails, which the reproducer holds."""
        child.run_job(self._folder, {**job, "keep_before": True}, self._lowering_limits)

    def _raise_unsupported(self) -> None:
        unsupported = find_unsupported(self._folder, self._lowering_limits)
        if unsupported:
            raise UnsupportedError("the model uses operators that cannot be compiled:", unsupported)

    def _make_iree_module(self, step: Step) -> None:
        manifest = self._manifest(step)
        job = {
            "task": "iree",
            "manifest": manifest.to_json(),
            "definitions": self._definitions(step),
            "for_shaders": iree_command.is_for_vulkan(step),
            "threads_apart": self._repairs.threads_apart,
            "cpu_features": list(manifest.targets[0]["features"]) if self._uses_kernels(step) else None,
            "locations": self._options.locations,
        }
        with self._timed("iree"):
            result = child.run_job(self._folder, job, self._options.limits)
            if isinstance(result, child.Outcome):
                raise InternalError(
                    f"making the IREE module failed: {result.problem}\n{_tail(result.output)}"
                )
            if "refused" in result:
                raise InputError(result["refused"])
            self._repairs = replace(self._repairs, **result["repairs"])

    def _uses_kernels(self, step: Step) -> bool:
        return step.kernels and CPU_KERNELS not in self._options.disable_passes

    def _definitions(self, step: Step) -> list[dict[str, str]]:
        """What defines the functions that custom operators became, for the targets of `step`."""
        target = step.targets[0]
        return [
            {"symbol": item.symbol, "of": item.title, "text": item.in_linalg(target, self._folder)}
            for item in self._program.definitions.values()
            if item.lowering.form != "torch"
        ]

    def _manifest(self, step: Step) -> Manifest:
        limits = self._options.limits
        targets = [
            {**describe(self._with_kernels(target), iree_compile(), limits)}
            | {"rung": step.name, "options": list(step.options)}
            for target in step.targets
        ]
        notes = [
            *self._program.notes,
            *lowering_notes(self._program.choices),
            *(target.note for target in self._options.targets if target.note),
        ]
        return Manifest(
            versions=_versions(),
            targets=tuple(targets),
            dimensions=self._program.dimensions,
            weights=WeightsInfo(self._storage(), self._weights_table()),
            state=_specs(self._program.state),
            entry_points=self._entries(),
            notes=tuple(notes),
            training=self._program.training,
        )

    def _entries(self) -> dict[str, EntryPoint]:
        return {
            name: replace(entry.signature, example=_example(self._program.examples[name]))
            for name, entry in self._program.entries.items()
        }

    def _with_kernels(self, target: Target) -> Target:
        """The target with what the kernels in this artifact ask of its device beside."""
        wanted = {
            feature for item in self._program.definitions.values() for feature in item.features(target.device)
        }
        return replace(target, features=tuple(sorted({*target.features, *wanted})))

    def _tensors(self) -> dict[str, Any]:
        return {**self._program.weights, **self._program.state}

    def _weights_table(self) -> dict[str, TensorSpec]:
        return {name: spec for name, spec in _specs(self._tensors()).items() if 0 not in spec.shape}

    def _storage(self) -> str:
        tensors = self._tensors().values()
        nbytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        if nbytes == 0:
            return "none"
        if self._options.weights == "auto":
            return "inline" if nbytes <= INLINE_BYTES else "external"
        return self._options.weights

    def finish(self) -> Artifact:
        """The last stage: writes the weights and runs iree-compile up the ladder."""
        storage = self._storage()
        archive = self._write_archive()
        self._options.on_stage("vmfb", None)
        start = time.perf_counter()
        inline = archive if storage == "inline" else None
        self._climb(inline)
        if self._shared_threads():
            self._keep_threads_apart(inline)
        self._options.on_stage("vmfb", time.perf_counter() - start)
        vmfb = self._folder / "module.vmfb"
        if self._key is not None and self._options.cache is not None:
            self._options.cache.store(self._key, vmfb)
        return Artifact(vmfb, archive if storage == "external" else None, read_manifest(vmfb), self._owner)

    def _write_archive(self) -> Path:
        """The weights file, where the program reads one at compile time or at load."""
        archive = self._folder / "module.irpa"
        if self._storage() in ("inline", "external"):
            table = self._weights_table()
            weights.write(archive, {name: t for name, t in self._tensors().items() if name in table})
        return archive

    def _climb(self, inline: Path | None) -> None:
        """Tries the steps in order; the first that compiles is the artifact's."""
        failures = []
        for i, step in enumerate(self._ladder):
            if i:
                self._make_iree_module(step)
            shutil.rmtree(self._folder / iree_command.DISPATCHES, ignore_errors=True)
            self._command = self._iree_command(step, inline)
            outcome = child.run(self._command, self._folder, self._options.limits)
            if outcome.problem is None and not iree_command.complains(outcome.output):
                return
            if outcome.problem is None:
                raise InputError(f"iree-compile ignored an option: {_tail(outcome.output)}")
            failures.append(f"{step.name}: {outcome.problem}\n{_tail(outcome.output)}")
            if outcome.timed_out:
                raise InternalError("iree-compile did not end:\n" + failures[-1])
            if iree_command.refuses_options(outcome.output):
                raise InputError(f"iree-compile refuses an option: {_tail(outcome.output)}")
        text = "iree-compile failed with every option set:\n" + "\n".join(failures)
        error = InternalError(text + advice(self._program))
        raise refuse_open_sizes(self._program, self._diagnosis) or error from error

    def _diagnosis(self) -> str:
        """What IREE says of the program as it is now, with source lines, where it does not compile."""
        options = replace(
            self._options, locations=True, cache=None, print_before=(), print_after=(), dump_dir=None
        )
        build = _Build(self._program, options)
        build.run_until("iree")
        archive = build._write_archive()
        command = build._iree_command(build._ladder[0], archive if build._storage() == "inline" else None)
        return child.run(command, build._folder, options.limits).output

    def _keep_threads_apart(self, inline: Path | None) -> None:
        """Compiles again what came out with threads that read each other's results."""
        self._repairs = replace(self._repairs, threads_apart=True)
        self._make_iree_module(self._ladder[0])
        self._climb(inline)
        found = self._shared_threads()
        if found:
            raise InternalError(
                "IREE's shaders would compute wrong results, since threads in them read what others write:\n"
                + "\n".join(found)
            )

    def _shared_threads(self) -> list[str]:
        """What threads of Vulkan shaders read of each other in the program that was compiled last."""
        if not (self._folder / iree_command.DISPATCHES).exists():
            return []
        job = {"task": "shared_threads", "dispatches": iree_command.DISPATCHES}
        result = child.run_job(self._folder, job, self._options.limits)
        if isinstance(result, child.Outcome):
            raise InternalError(f"checking the shaders failed: {result.problem}\n{_tail(result.output)}")
        return result["found"]

    def _iree_command(self, step: Step, inline: Path | None) -> list[str]:
        return [*iree_command.command(step, self._repairs, inline), *self._options.iree_args]

    def text(self, stage: str, locations: bool) -> str:
        """The module after `stage` as text."""
        job = {"task": "print", "stage": stage, "locations": locations}
        result = child.run_job(self._folder, job, self._options.limits)
        if isinstance(result, child.Outcome):
            raise InternalError(
                f"printing the {stage} stage failed: {result.problem}\n{_tail(result.output)}"
            )
        return result["text"]

    def _print_stage(self, stage: str) -> None:
        if stage in self._options.print_after:
            self._options.on_print(stage, self.text(stage, False))

    @contextlib.contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        self._options.on_stage(stage, None)
        start = time.perf_counter()
        yield
        self._options.on_stage(stage, time.perf_counter() - start)


def _specs(tensors: dict[str, Any]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
        for name, tensor in tensors.items()
    }


def _versions() -> dict[str, str]:
    packages = {
        "pipeline": "pipeline",
        "torch": "torch",
        "torch-mlir": "torch-mlir",
        "iree": "iree-base-compiler",
    }
    return {name: version(package) for name, package in packages.items()}


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _tail(text: str, lines: int = 12) -> str:
    kept: Sequence[str] = [line[:400] for line in text.strip().splitlines()]
    return "\n".join(kept[:lines])


def _example(values: list[Any]) -> dict[str, Any]:
    flat = [value if isinstance(value, int) else to_numpy(value) for value in values]
    return {"inputs": [examples.encode(value, i) for i, value in enumerate(flat)]}
