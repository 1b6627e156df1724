"""Registration of decompositions by operator name, and the table they make together with torch-mlir's."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable
from typing import Any

from .once_rounded import as_eager_rounds
from .recurrent import repair_dropout

_FAMILIES = (
    "activations",
    "attention",
    "attention_backward",
    "average_pooling",
    "batch_norm_training",
    "bessel",
    "bitwise",
    "complex",
    "convolution",
    "convolution_backward",
    "copies",
    "creation",
    "distance",
    "division",
    "elementwise",
    "embedding",
    "embedding_bags",
    "encoder_layers",
    "error_functions",
    "fourier",
    "fourier_transforms",
    "gamma",
    "grid_sampling",
    "indexing",
    "interpolation",
    "least_squares",
    "linalg",
    "linear",
    "linear_systems",
    "loss_gradients",
    "losses",
    "masks",
    "max_pooling",
    "normalization",
    "ordering",
    "orthogonal_polynomials",
    "padding",
    "pairwise_distances",
    "pooling",
    "powers",
    "products",
    "quantization",
    "random",
    "reduction",
    "reflections",
    "resampling",
    "rolling",
    "scans",
    "searching",
    "segments",
    "selection",
    "short_time_fourier",
    "signs",
    "solvers",
    "special",
    "spectra",
    "statistics",
    "trigonometry",
    "variance",
    "views",
    "wide_functions",
    "writes",
)

_DECOMPOSITIONS: dict[str, Callable[..., Any]] = {}
_TRACED: dict[str, Callable[..., Any]] = {}

Sample = tuple[list[Any], dict[str, Any]]
"""Positional and named arguments of a call."""

_SAMPLES: dict[str, Callable[[], Iterable[Sample]]] = {}

# torch's decompositions of these lose what the lowering needs: a scatter written as `where` over a whole
# tensor copies a KV cache to write one row of it.
_KEEP_WHOLE = {"aten.select_scatter.default", "aten.slice_scatter.default"}


def decomposes(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the function as the decomposition of the operators `names` (``aten.maximum.default``)."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            assert name not in _DECOMPOSITIONS, f"{name} is registered twice"
            _DECOMPOSITIONS[name] = function
        return function

    return register


def traced_by_decomposition(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """As `decomposes`, for an operator that torch.export cannot trace (its own results depend on values), or traces by
    a decomposition of its own.

    What the decomposition makes of fake tensors is then what export takes for the results.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _TRACED[name] = function
        return decomposes(name)(function)

    return register


def make_traceable() -> None:
    """Tells torch.export the results of `traced_by_decomposition`, and where torch's own are wrong. Imports torch."""
    from torch._C import DispatchKey
    from torch._subclasses.fake_impls import op_implementations_dict

    load_families()
    repair_dropout()
    for name, function in _TRACED.items():
        overload, key = _overload(name), DispatchKey.CompositeImplicitAutograd
        if overload.has_kernel_for_dispatch_key(key):
            # PyTorch has both for some: the one under Autograd is found first.
            keys = {key, DispatchKey.Autograd} & {key, *overload.py_kernels}
            overload.py_kernels.update(dict.fromkeys(keys, function))
        else:
            op_implementations_dict[overload] = functools.partial(_trace, function)


def _trace(function: Callable[..., Any], mode: Any, overload: Any, *args: Any, **kwargs: Any) -> Any:
    with mode:
        return function(*args, **kwargs)


def keeps(*names: str) -> None:
    """Keeps the operators `names` whole: torch's own decompositions of them are left out."""
    _KEEP_WHOLE.update(names)


def call_samples(*names: str) -> Callable[[Callable[[], Iterable[Sample]]], Callable[[], Iterable[Sample]]]:
    """Registers the function as the source of sample calls of the operators `names`.

    For operators that torch's own database of samples (OpInfo) never reaches; `check_shape_library` uses them.
    """

    def register(function: Callable[[], Iterable[Sample]]) -> Callable[[], Iterable[Sample]]:
        for name in names:
            _SAMPLES[name] = function
        return function

    return register


def samples_of(name: str) -> list[Sample]:
    """The sample calls of an operator. Imports torch."""
    return list(_SAMPLES[name]()) if name in _SAMPLES else []


def family_of(name: str) -> str | None:
    """The family that has a decomposition of the operator `name` ("sort": any overload of it), or None."""
    load_families()
    for full, function in _DECOMPOSITIONS.items():
        if full.split(".")[1] == name.replace(".", "_"):
            written: Any = getattr(function, "func", function)  # of a functools.partial
            return written.__module__.rpartition(".")[2]
    return None


def load_families() -> None:
    """Imports the families, which registers their decompositions and their shape and dtype functions."""
    for family in _FAMILIES:
        importlib.import_module(f"{__package__}.{family}")


def decomposition_table() -> dict[Any, Callable[..., Any]]:
    """Operator overload -> decomposition: torch-mlir's table, with ours before it. Imports torch.

    Given float16 and bfloat16 they round where eager does (`once_rounded`).
    """
    from torch_mlir.extras.fx_decomp_util import get_decomposition_table

    load_families()
    table = dict(get_decomposition_table())
    for name in _KEEP_WHOLE:
        table.pop(_overload(name), None)
    table.update({_overload(name): function for name, function in _DECOMPOSITIONS.items() if _exists(name)})
    return {op: as_eager_rounds(op, function) for op, function in table.items()}


def _exists(name: str) -> bool:
    """Whether PyTorch has the operator: those of quantized models only once their library is imported."""
    import torch

    namespace, packet, _ = name.split(".")
    return namespace == "aten" or hasattr(getattr(torch.ops, namespace), packet)


def _overload(name: str) -> Any:
    import torch

    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)
