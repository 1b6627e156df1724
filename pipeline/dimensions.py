"""Names and bounds of dynamic dimensions: torch.export's symbols under the names that users gave them."""

from __future__ import annotations

import re
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.utils._sympy.printers import PythonPrinter

from pipeline.runtime.dims import Bounds, Dim, symbols
from pipeline.runtime.manifest import TensorSpec

from .errors import UnsupportedError

_UNBOUNDED = 2**62


class DimensionNames:
    """Renames one exported program's symbols (``s77``) to the user's (``batch``).

    labels: (placeholder name, axis) -> the user's name. A symbol without one is called after the input
    and axis where it first occurs, so that messages still say where to look.
    """

    def __init__(self, ep: ExportedProgram, labels: dict[tuple[str, int], str]) -> None:
        self._ranges = ep.range_constraints
        self._names: dict[sympy.Symbol, str] = {}
        fallback: dict[sympy.Symbol, str] = {}
        for node in ep.graph.nodes:
            value = node.meta.get("val")
            if node.op == "placeholder" and isinstance(value, torch.Tensor):
                self._learn(node.name, value, labels, fallback)
            elif node.op == "placeholder" and isinstance(value, torch.SymInt):
                fallback.setdefault(value.node.expr, node.name)
        for symbol, name in fallback.items():
            if symbol not in self._names and isinstance(symbol, sympy.Symbol):
                self._names[symbol] = self._unused(name)

    def _learn(
        self,
        name: str,
        value: torch.Tensor,
        labels: dict[tuple[str, int], str],
        fallback: dict[sympy.Symbol, str],
    ) -> None:
        for axis, size in enumerate(value.shape):
            if (name, axis) in labels and isinstance(self.dim(size), int):
                raise UnsupportedError(
                    f"dimension {axis} of '{name}' was declared dynamic ('{labels[name, axis]}'), but tracing the "
                    f"model fixes it to {self.dim(size)}; leave it out of dynamic_shapes"
                )
            if not isinstance(size, torch.SymInt):
                continue
            found = sorted(size.node.expr.free_symbols, key=str)
            if len(found) == 1 and (name, axis) in labels and found[0] not in self._names:
                self._names[found[0]] = self._unused(labels[name, axis])
            for symbol in found:
                fallback.setdefault(symbol, f"{name}_{axis}")

    def _unused(self, name: str) -> str:
        name = re.sub(r"\W", "_", name)
        taken = set(self._names.values())
        while name in taken:
            name += "_"
        return name

    def dim(self, size: int | torch.SymInt) -> Dim:
        """A dimension for the manifest: an int, or an expression over the user's names."""
        if isinstance(size, int):
            return size
        expr = sympy.sympify(size.node.expr)
        if expr.is_Integer:
            return int(expr)
        renamed = expr.xreplace(
            {symbol: sympy.Symbol(name, integer=True) for symbol, name in self._names.items()}
        )
        text = PythonPrinter().doprint(renamed).replace("max(", "Max(").replace("min(", "Min(")
        return text if _evaluable(text) else "unknown_" + re.sub(r"\W+", "_", text)

    def bounds(self) -> dict[str, Bounds]:
        """Bounds of every named symbol, as torch.export settled them."""
        return {
            name: _bounds(self._ranges[symbol])
            for symbol, name in self._names.items()
            if symbol in self._ranges
        }


def _evaluable(text: str) -> bool:
    try:
        symbols(text)
    except SyntaxError:
        return False
    return re.fullmatch(r"(?:[\w\s+*/%(),-]|Max|Min)+", text) is not None and not re.search(
        r"\b(?!Max\b|Min\b)\w+\(", text
    )


def _bounds(value_range: Any) -> Bounds:
    # Symbols of Dynamo's may have no bounds; torch's infinite integers are finite to sympy.
    low, high = value_range.lower, value_range.upper
    return Bounds(int(low) if low > 0 else 0, int(high) if high < _UNBOUNDED else None)


def tensor_spec(value: torch.Tensor, dims: DimensionNames) -> TensorSpec:
    """The manifest's type of a (fake) tensor."""
    return TensorSpec(str(value.dtype).removeprefix("torch."), tuple(dims.dim(size) for size in value.shape))


def dimension_labels(
    ep: ExportedProgram, model: torch.nn.Module, args: Any, kwargs: Any, shapes: Any
) -> dict[tuple[str, int], str]:
    """(placeholder name, axis) -> name of the `torch.export.Dim` the user put there."""
    if shapes is None:
        return {}
    from torch.export.dynamic_shapes import _combine_args, _tree_map_with_path

    found: list[dict[int, str]] = []

    def note(_path: Any, _value: Any, shape: Any) -> None:
        items = shape.items() if isinstance(shape, dict) else enumerate(shape or ())
        found.append({axis: name for axis, dim in items if (name := _dim_name(dim))})

    combined = _combine_args(model, args, kwargs)
    if isinstance(shapes, (tuple, list)):
        combined = type(shapes)(combined.values())
    _tree_map_with_path(note, combined, shapes, tree_name="inputs")
    users = ep.graph_signature.input_specs[-len(found) :] if found else []
    return {
        (spec.arg.name, axis): name
        for spec, labels in zip(users, found, strict=True)
        for axis, name in labels.items()
    }


def _dim_name(dim: Any) -> str | None:
    root = getattr(dim, "root", dim)
    return getattr(root, "__name__", None)
