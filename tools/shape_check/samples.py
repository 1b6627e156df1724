"""Running torch's own samples (OpInfo), so that the operators behind them are called."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

from pipeline.dialect_passes.operators.registry import samples_of
from pipeline.training.generator import declare_threefry

from .calls import Calls, Recorder, seeded

# So many samples of an OpInfo must reach one of our operators, or it is left.
_PROBES = 5
_GENERATED = 100

# Samples beyond these sizes take seconds each and show nothing new.
_LARGEST = 5_000


class Driver:
    """Runs samples and records the calls of operators in `calls`.

    decompositions: the table that capture applies.
    """

    def __init__(self, calls: Calls, decompositions: Mapping[Any, Callable[..., Any]], samples: int) -> None:
        declare_threefry()
        self._calls = calls
        self._decompositions = decompositions
        self._samples = samples
        self._composite = _composite_overloads(calls.operators)

    def run(self, info: Any, dtypes: Collection[torch.dtype] | None = None) -> None:
        """All samples of an OpInfo: as they are, functionalized and decomposed, differentiated; and error inputs."""
        supported = info.supported_dtypes("cpu")
        wanted = supported if dtypes is None else supported & set(dtypes)
        reached = True
        for dtype in sorted(wanted, key=lambda dtype: (dtype is not torch.float32, str(dtype))):
            # Most of torch's operators are made of others than ours: what one dtype shows, one sample of each
            # other confirms.
            reached = self._dtype(info, dtype, _PROBES if reached else 1)
        self._errors(info)

    def _dtype(self, info: Any, dtype: torch.dtype, probes: int) -> bool:
        """Runs the samples of a dtype, no more than `probes` if those reach none of our operators; whether they did."""
        before = self._calls.seen
        for i, sample in enumerate(self._of(info, dtype, probes)):
            if i == probes and self._calls.seen == before:
                break
            self._run(info, sample)
            if info.supports_autograd and dtype in (torch.float32, torch.complex64):
                self._differentiate(info, sample)
        return self._calls.seen > before

    def run_own(self, name: str) -> None:
        """The samples beside an operator's entry."""
        namespace, packet, overload = name.split(".")
        operator = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
        for args, kwargs in samples_of(name):
            _attempt(lambda a=args, k=kwargs: self._calls.run(operator, a, k))

    def _of(self, info: Any, dtype: torch.dtype, probes: int) -> Iterator[Any]:
        """Samples evenly over the first hundred, the first few of which are often alike."""
        with _quiet():
            try:
                samples = info.sample_inputs("cpu", dtype, requires_grad=False)
                samples = list(itertools.islice(samples, 1 if probes == 1 else _GENERATED))
            except NotImplementedError:
                # The generator of the samples itself computes something that the CPU has no kernel for.
                return
            step = max(1, len(samples) // self._samples)
            samples = samples[::step][: self._samples]
        for sample in samples:
            leaves = tree_leaves((sample.input, sample.args, sample.kwargs))
            if sum(leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor)) <= _LARGEST:
                yield sample

    def _run(self, info: Any, sample: Any) -> None:
        for overload in self._composite.get(info.aten_name.replace(".", "_"), ()):
            _attempt(lambda o=overload: self._bound(o, sample))
        _attempt(lambda: self._call(info, sample, Recorder(self._calls)))
        _attempt(lambda: self._functionalized(info, sample))

    def _bound(self, overload: Any, sample: Any) -> None:
        """The sample as a direct call of an operator that would otherwise vanish into those it is made of."""
        args = [sample.input, *sample.args]
        if len(args) <= len(overload._schema.arguments):
            self._calls.run(overload, args, sample.kwargs)

    def _call(self, info: Any, sample: Any, mode: Any) -> Any:
        with mode:
            return info(sample.input, *sample.args, **sample.kwargs)

    def _functionalized(self, info: Any, sample: Any) -> None:
        def call(given: Any, args: Any, kwargs: Any) -> Any:
            return info(given, *args, **kwargs)

        with Recorder(self._calls, self._decompositions):
            torch.func.functionalize(call)(sample.input, sample.args, sample.kwargs)

    def _differentiate(self, info: Any, sample: Any) -> None:
        def differentiable(value: Any) -> Any:
            floats = isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
            return value.detach().clone().requires_grad_() if floats else value

        def gradients() -> None:
            given, args, kwargs = tree_map(differentiable, (sample.input, sample.args, sample.kwargs))
            with Recorder(self._calls, self._decompositions), torch.enable_grad():
                results = [r for r in tree_leaves(info(given, *args, **kwargs)) if _has_gradient(r)]
                inputs = [x for x in tree_leaves((given, args, kwargs)) if _has_gradient(x)]
                torch.autograd.grad(
                    results, inputs, [torch.ones_like(result) for result in results], allow_unused=True
                )

        _attempt(gradients)

    def _errors(self, info: Any) -> None:
        if info.error_inputs_func is None:
            return
        with _quiet():
            errors = list(info.error_inputs("cpu"))
        for error in errors:
            sample = error.sample_input
            for overload in self._composite.get(info.aten_name.replace(".", "_"), ()):
                _attempt(lambda o=overload, s=sample: self._bound(o, s))
            _attempt(lambda s=sample: self._call(info, s, Recorder(self._calls)))


def infos() -> list[Any]:
    """The OpInfos that run on a CPU."""
    return [info for info in op_db if "jiterator" not in info.name]


def _has_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _composite_overloads(operators: Collection[str]) -> dict[str, list[Any]]:
    """Operators that the dispatcher takes apart before any mode sees them, by packet name."""
    found: dict[str, list[Any]] = {}
    for name in operators:
        namespace, packet, overload = name.split(".")
        operator = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
        if torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd"):
            found.setdefault(packet, []).append(operator)
    return found


def _attempt(run: Callable[[], Any]) -> None:
    """Runs a sample. What it raises is recorded where a recorded operator raised it, and is no concern otherwise."""
    with _quiet(), suppress(Exception):
        run()


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings, and random numbers from a fixed seed."""
    with warnings.catch_warnings(), seeded():
        warnings.simplefilter("ignore")
        yield
