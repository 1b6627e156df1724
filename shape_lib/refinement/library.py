"""Finding the shape and dtype functions of an operator: the caller's libraries first, then torch-mlir's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from ..abstract.program import Function, read_function
from ..errors import LibraryTextError
from .operations import functions
from .stock import stock_functions

KINDS = ("shape", "dtype")

# The namespaces that torch-mlir's library knows.
_STOCK = ("aten.", "prim.", "prims.", "quantized_decomposed.")


@dataclass(frozen=True)
class Found:
    """A library function and the module in which it finds what it calls."""

    function: Function
    home: FunctionModule


class FunctionModule:
    """The functions of one library, read when they are asked for."""

    def __init__(self, module: ir.Module) -> None:
        self._module = module
        self._operations = functions(module)
        self._read: dict[str, Function] = {}

    @classmethod
    def parse(cls, text: str, context: ir.Context) -> FunctionModule:
        """Raises LibraryTextError."""
        try:
            return cls(ir.Module.parse(text, context))
        except ir.MLIRError as error:
            raise LibraryTextError(f"the shape library is no valid Torch dialect: {error}") from error

    @property
    def names(self) -> Iterable[str]:
        """The symbols of its functions."""
        return self._operations.keys()

    def function(self, name: str) -> Function:
        """The function with the symbol `name`. Raises KeyError."""
        if name not in self._read:
            self._read[name] = read_function(self._operations[name])
        return self._read[name]

    def find(self, kind: str, operator: str) -> Found | None:
        """The function for `operator` (``aten.mul.Tensor``), whichever way the library spells its name."""
        for symbol in symbols(kind, operator):
            if symbol in self._operations:
                return Found(self.function(symbol), self)
        return None


class Library:
    """Several libraries, the first of which that has a function for an operator gives it."""

    def __init__(self, texts: Sequence[str], context: ir.Context) -> None:
        self._context = context
        self._modules = [FunctionModule.parse(text, context) for text in texts]
        self._stock = FunctionModule(ir.Module.create(ir.Location.unknown(context)))
        self._asked: set[str] = set()

    def find(self, kind: str, operator: str) -> Found | None:
        """The function of one kind for an operator, None when nobody has one."""
        for module in self._modules:
            found = module.find(kind, operator)
            if found is not None:
                return found
        self.prepare([operator])
        return self._stock.find(kind, operator)

    def prepare(self, operators: Iterable[str]) -> None:
        """Gets torch-mlir's functions of all `operators` at once: each time costs what parsing its library does."""
        missing = {name for name in operators if name.startswith(_STOCK)} - self._asked
        if missing:
            self._asked.update(missing)
            wanted = sorted(self._asked)
            self._stock = FunctionModule(stock_functions(wanted, self._context))

    def knows(self, operator: str) -> bool:
        """Whether one of the caller's libraries has a function for `operator`."""
        return any(module.find(kind, operator) for module in self._modules for kind in KINDS)


def symbols(kind: str, operator: str) -> list[str]:
    """The names under which the functions of `operator` are found, the usual one first.

    In the IR an operator outside torch-mlir is ``torch.operator "torch.mylib.f"``, and torch-mlir's name for its
    function keeps the ``torch.``; an operator that torch-mlir has goes without. ``.default`` is left out in both.
    """
    bare = operator.removeprefix("torch.").removesuffix(".default")
    return [f"__torch_mlir_{kind}_fn.{name}" for name in (bare, f"torch.{bare}", f"{bare}.default")]


def duplicates(texts: Sequence[tuple[str, str]], context: ir.Context) -> list[str]:
    """For libraries (name, text): a sentence for each operator's function that two of them define.

    Raises LibraryTextError.
    """
    owners: dict[str, str] = {}
    problems = []
    for name, text in texts:
        for symbol in FunctionModule.parse(text, context).names:
            if not symbol.startswith("__torch_mlir_") or "has_value_semantics" in symbol:
                continue
            if symbol in owners:
                problems.append(f"{described(symbol)} is defined in {owners[symbol]} and in {name}")
            owners[symbol] = name
    return problems


def described(symbol: str) -> str:
    """``the shape function of aten.mul.Tensor`` for a library function's symbol."""
    kind, _, operator = symbol.removeprefix("__torch_mlir_").partition("_fn.")
    return f"the {kind} function of {operator.removeprefix('torch.')}"
