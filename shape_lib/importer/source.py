"""Source files and what names in them mean, followed through imports without executing anything."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import linecache
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType

from .errors import Problem, ShapeLibraryError


@dataclass(frozen=True)
class ImportedModule:
    """`import a.b as x`: the whole module; `import a.b` binds `a`."""

    name: str


@dataclass(frozen=True)
class ImportedName:
    """`from ..a import b`."""

    module: str
    level: int
    name: str


Binding = ast.FunctionDef | ast.ClassDef | ast.expr | ImportedModule | ImportedName


@dataclass(eq=False)
class SourceFile:
    """A parsed file; `display` is its path as the user gave it."""

    path: Path
    display: str
    tree: ast.Module
    bindings: Mapping[str, Binding]

    def problem(self, node: ast.AST, message: str) -> Problem:
        return Problem(self.display, getattr(node, "lineno", 1), getattr(node, "col_offset", 0), message)


@dataclass(frozen=True, eq=False)
class Scope:
    """Where names are looked up: enclosing functions from the inside out, the file, then a running module.

    The running module's names serve notebooks, whose cells are one module in many sources.
    """

    file: SourceFile
    enclosing: tuple[Mapping[str, Binding], ...] = ()
    running: Mapping[str, object] = field(default_factory=dict)

    def error(self, node: ast.AST, message: str) -> ShapeLibraryError:
        return ShapeLibraryError([self.file.problem(node, message)])


@dataclass(frozen=True, eq=False)
class Function:
    """A function's definition and the scope that its names are looked up in."""

    node: ast.FunctionDef
    scope: Scope

    @property
    def key(self) -> tuple[str, int, str]:
        return (str(self.scope.file.path), self.node.lineno, self.node.name)


@dataclass(frozen=True)
class Module:
    """A module by its dotted name, with its file where it has one."""

    name: str
    path: Path | None


@dataclass(frozen=True, eq=False)
class Constant:
    """A module-level assignment."""

    expression: ast.expr
    scope: Scope


Meaning = Function | Module | Constant | int | float | str | bool


class Sources:
    """Loads source files once and remembers every path it looked at, for the cache."""

    def __init__(self) -> None:
        self.files: dict[Path, SourceFile] = {}
        self.digests: dict[str, str | None] = {}

    # ---- files

    def load(self, path: Path, display: str | None = None) -> SourceFile:
        """Parse a file.

        Raises:
            ShapeLibraryError: if it is missing, unreadable or not Python.
        """
        path = path.absolute()
        if path not in self.files:
            self.files[path] = self._parse(path, display or str(path))
        return self.files[path]

    def _parse(self, path: Path, display: str) -> SourceFile:
        try:
            data = read_source(path)
            self.digests[str(path)] = digest(data)
            tree = ast.parse(data, filename=display)
        except SyntaxError as error:
            problem = Problem(display, error.lineno or 1, error.offset or 0, f"not valid Python: {error.msg}")
            raise ShapeLibraryError([problem]) from error
        except (OSError, ValueError) as error:
            raise ShapeLibraryError([Problem(display, 1, 0, f"cannot be read: {error}")]) from error
        return SourceFile(path, display, tree, _bindings(tree.body))

    def _exists(self, path: Path) -> bool:
        if path.is_file():
            return True
        self.digests[str(path)] = None
        return False

    # ---- functions that exist as objects

    def function(self, function: FunctionType) -> Function:
        """The definition of a function object, found by file and line.

        Raises:
            ShapeLibraryError: if its source is not available.
        """
        code = function.__code__
        file = self.load(Path(code.co_filename), code.co_filename)
        running = {**function.__globals__, **_closure(function)}
        for node, parents in _functions(file.tree, ()):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if node.name == function.__name__ and first == code.co_firstlineno:
                scopes = tuple(_bindings(parent.body) for parent in reversed(parents))
                return Function(node, Scope(file, scopes, running))
        message = f"the source of {function.__name__} is not here: define it with `def` in a file or a notebook cell"
        raise ShapeLibraryError([Problem(file.display, code.co_firstlineno, 0, message)])

    # ---- names

    def resolve(self, name: str, scope: Scope) -> Meaning | None:
        """What a global name means, or None."""
        for index, bindings in enumerate(scope.enclosing):
            if name in bindings:
                inner = Scope(scope.file, scope.enclosing[index:], scope.running)
                return self._meaning(bindings[name], inner)
        if name in scope.file.bindings:
            outer = Scope(scope.file, (), scope.running)
            return self._meaning(scope.file.bindings[name], outer)
        return self._from_running(scope.running.get(name))

    def attribute(self, module: Module, name: str) -> Meaning | None:
        """What `module.name` means, or None."""
        if module.path is not None:
            file = self.load(module.path)
            if name in file.bindings:
                return self.resolve(name, Scope(file))
            inside = module.path.name == "__init__.py" and self._in_folder(module.path.parent, [name])
            return Module(f"{module.name}.{name}", inside) if inside else None
        return self.module(f"{module.name}.{name}", None)

    def _meaning(self, binding: Binding, scope: Scope) -> Meaning | None:
        if isinstance(binding, ast.FunctionDef):
            return Function(binding, scope)
        if isinstance(binding, ast.expr):
            return Constant(binding, scope)
        if isinstance(binding, ImportedModule):
            return self.module(binding.name, scope.file.path.parent)
        if isinstance(binding, ImportedName):
            return self._imported(binding, scope.file.path)
        return None

    def _imported(self, binding: ImportedName, importer: Path) -> Meaning | None:
        if binding.level:
            folder = importer.parents[binding.level - 1]
            path = self._in_folder(folder, binding.module.split(".") if binding.module else [])
            path = path or _stand_in(binding.module)
            module = Module(binding.module or folder.name, path)
            if path is None and not binding.module:
                submodule = self._in_folder(folder, [binding.name])
                return Module(binding.name, submodule) if submodule else None
        else:
            found = self.module(binding.module, importer.parent)
            module = found or Module(binding.module, _stand_in(binding.module))
        return self.attribute(module, binding.name)

    def module(self, name: str, folder: Path | None) -> Module | None:
        """A module by its dotted name: beside the importing file first, as for scripts, then installed."""
        parts = name.split(".")
        if folder is not None and (path := self._in_folder(folder, parts)):
            return Module(name, path)
        for root in _package_folders(parts[0]):
            if path := self._in_folder(root, parts):
                return Module(name, path)
        return Module(name, None) if parts[0] in ("torch", "math", "typing") else None

    def _in_folder(self, folder: Path, parts: list[str]) -> Path | None:
        base = folder.joinpath(*parts)
        candidates = (
            [base / "__init__.py"] if not parts else [base.with_name(base.name + ".py"), base / "__init__.py"]
        )
        return next((path for path in candidates if self._exists(path)), None)

    def _from_running(self, value: object) -> Meaning | None:
        if isinstance(value, FunctionType):
            return self.function(value)
        if isinstance(value, ModuleType):
            path = getattr(value, "__file__", None)
            return Module(value.__name__, Path(path) if path and path.endswith(".py") else None)
        return value if isinstance(value, (bool, int, float, str)) else None


def _stand_in(module: str) -> Path | None:
    """torch-mlir's library imports its helpers from a module of its build tools; ours have the same names."""
    ours = module.endswith("library_generator")
    return Path(__file__).parents[1] / "dtypes.py" if ours else None


def read_source(path: Path) -> bytes:
    """A file's bytes; what a notebook or a debugger registered with linecache where there is no file."""
    if not path.is_file():
        lines = linecache.getlines(path.name) or linecache.getlines(str(path))
        if lines:
            return "".join(lines).encode()
    return path.read_bytes()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _package_folders(name: str) -> list[Path]:
    """The folders that a top-level package may lie in. Finding a top-level package executes nothing."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations:
        return [Path(location).parent for location in spec.submodule_search_locations]
    return [Path(spec.origin).parent] if spec.origin and spec.origin.endswith(".py") else []


def _closure(function: FunctionType) -> dict[str, object]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _functions(
    node: ast.AST, parents: tuple[ast.FunctionDef, ...]
) -> Iterator[tuple[ast.FunctionDef, tuple[ast.FunctionDef, ...]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield child, parents
            yield from _functions(child, (*parents, child))
        else:
            yield from _functions(child, parents)


def _bindings(body: list[ast.stmt]) -> dict[str, Binding]:
    """What the names of a module or function body are bound to, the last binding winning."""
    found: dict[str, Binding] = {}
    for statement in _statements(body):
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            found[statement.name] = statement
        elif isinstance(statement, ast.Import):
            found.update(_import(statement))
        elif isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                found[alias.asname or alias.name] = ImportedName(
                    statement.module or "", statement.level, alias.name
                )
        else:
            found.update(_assigned(statement))
    return found


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a body, also those under `if` (as `if TYPE_CHECKING`) and `try`."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.If, ast.Try, ast.With)):
            yield from _statements(statement.body)
        if isinstance(statement, (ast.If, ast.Try)):
            yield from _statements(statement.orelse)


def _import(statement: ast.Import) -> Iterator[tuple[str, Binding]]:
    for alias in statement.names:
        if alias.asname:
            yield alias.asname, ImportedModule(alias.name)
        else:
            top = alias.name.split(".")[0]
            yield top, ImportedModule(top)


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, Binding]]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value and isinstance(statement.target, ast.Name):
        yield statement.target.id, statement.value
