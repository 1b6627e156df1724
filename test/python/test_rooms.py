"""The rooms of the house: imports go down only, the runtime is free of the compiler, commands start without torch."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# What each room may import of the others, and the packages that it must never import (anywhere, or at import time).
ROOMS = {
    "pipeline": {"dialect_passes", "shape_lib", "runtime"},
    "dialect_passes": {"shape_lib"},
    "shape_lib": set(),
    "runtime": set(),
    "tools": {"pipeline", "dialect_passes", "shape_lib", "runtime"},
}
NEVER = {
    "runtime": {"torch_mlir", "iree.compiler", "transformers"},
    "shape_lib": {"transformers"},
}
NOT_AT_IMPORT_TIME = {
    "runtime": {"torch"},
    "shape_lib": {"torch"},
    "dialect_passes": {"torch"},
}


def files(room: str) -> list[Path]:
    """The Python files of a room; those of the rooms linked into pipeline/ belong to their own."""
    links = {path.name for path in ROOT.joinpath("pipeline").iterdir() if path.is_symlink()}
    found = sorted(ROOT.joinpath(room).rglob("*.py"))
    return [p for p in found if room != "pipeline" or p.relative_to(ROOT / room).parts[0] not in links]


def imports(room: str, path: Path, *, at_import_time: bool = False) -> Iterator[str]:
    """The absolute names of all modules that a file imports."""
    tree = ast.parse(path.read_text())
    for node in _at_import_time(tree) if at_import_time else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = ["pipeline", *(() if room == "pipeline" else (room,))]
                package += path.relative_to(ROOT / room).parent.parts
                base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
            yield base
            # `from . import x` and `from iree import compiler` import submodules.
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _at_import_time(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when a module is imported: no function bodies, no TYPE_CHECKING blocks."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        yield from _at_import_time(node)


def room_of(module: str) -> str | None:
    """The room that a module belongs to: ``pipeline.runtime.dims`` to runtime, ``pipeline.api`` to pipeline."""
    parts = module.split(".")
    if parts[0] != "pipeline":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else "pipeline"


def within(module: str, packages: set[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def in_torch_terms(path: Path) -> bool:
    """Operator entries and custom operators are written in torch's terms; only what needs torch loads them."""
    return path.parent.name in ("operators", "custom_operators")


@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_down(room: str) -> None:
    wrong = []
    assert files(room)
    for path in files(room):
        for module in imports(room, path):
            other = room_of(module)
            # `pipeline` itself is every room's parent package: importing a room runs its __init__ alone.
            if other not in (None, room, *ROOMS[room]) and module != "pipeline":
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
            if within(module, {"test", *ROOMS, *NEVER.get(room, ())} - {"pipeline"}):
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert wrong == []


@pytest.mark.parametrize("room", NOT_AT_IMPORT_TIME)
def test_torch_loads_late(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in files(room)
        if not in_torch_terms(path)
        for module in imports(room, path, at_import_time=True)
        if within(module, NOT_AT_IMPORT_TIME[room])
    ]
    assert wrong == []


def loaded_after(code: str, cwd: Path) -> set[str]:
    """The modules that a fresh Python has loaded after `code`."""
    report = "import json, sys; print('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


RUN_HELP = """
import sys
from {module} import main
sys.argv = ['x', '--help']
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
HEAVY = {"torch", "torch_mlir", "iree.compiler", "transformers", "sympy"}


def test_the_runtime_loads_nothing_of_the_compiler(tmp_path: Path) -> None:
    loaded = loaded_after("import pipeline.runtime, pipeline.run_command, pipeline.inspect_command", tmp_path)
    assert not [name for name in loaded if within(name, HEAVY)]
    ours = {name for name in loaded if name.startswith("pipeline.")}
    assert {name for name in ours if room_of(name) != "runtime"} == {
        "pipeline.run_command",
        "pipeline.inspect_command",
    }


@pytest.mark.parametrize("module", ["pipeline.cli", "pipeline.tools.pipeline_opt"])
def test_help_starts_without_torch(module: str, tmp_path: Path) -> None:
    loaded = loaded_after(RUN_HELP.format(module=module), tmp_path)
    assert not [name for name in loaded if within(name, {"torch", "transformers", "sympy"})]


def test_from_a_folder_with_rooms_of_its_own(tmp_path: Path) -> None:
    """A user's own runtime.py and tools/ beside the script are not ours, and ours are not shadowed by them."""
    for name in ("runtime", "shape_lib", "dialect_passes"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the user own module')\n")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").write_text("raise SystemExit('the user own package')\n")
    code = "import pipeline, pipeline.api, pipeline.dialect_passes, pipeline.tools; assert pipeline.load"
    loaded = loaded_after(code, tmp_path)
    assert not loaded & {"runtime", "shape_lib", "dialect_passes", "tools"}
