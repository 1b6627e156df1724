"""`op`: one Python function declares an operator: its schema, its meaning, its shapes and its gradient."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from . import backward, composition, fakes, gradient, library_functions, registry
from .analysis import Analyses
from .errors import DeclarationError
from .hints import infer_schema
from .report import Report
from .saving import SavedGraphs
from .schema import Schema, check_name, check_parameters


def op(
    name: str, *, mutates_args: Iterable[str] = (), gradient: str = "recompute"
) -> Callable[[Callable[..., Any]], CustomOp]:
    """Declares the decorated function as the operator `name`, with the function as its meaning.

        @pipeline.op("mylib::swiglu")
        def swiglu(x: Tensor, gate: Tensor, limit: float = 7.0) -> Tensor:
            return x * torch.sigmoid(gate.clamp(max=limit))

    The type hints give the schema. Shapes, dtypes and the gradient come from the function unless given to the
    operator it becomes (`CustomOp`). Its results are contiguous and never share memory with its arguments. It
    computes in the types of its arguments: torch.autocast does not reach into it (`torch.library.register_autocast`
    makes it cast them).

    name: a namespace of your own and a name.
    mutates_args: the names of the arguments that the function changes in place.
    gradient: "recompute" saves the arguments only and differentiates a second run of the function in backward;
        "save" runs the function in forward and lets torch's min-cut partitioner choose what to keep for backward
        (in eager differentiable once, and without the operator's kernels);
        "none" makes backward an error. A backward of your own is given with `@op.backward`.

    Declaring a name again from the same place (a notebook cell that runs twice) replaces the operator. Raises
    DeclarationError, naming the argument and what to write, for what cannot be an operator.
    """
    check_name(name)
    if gradient not in gradient_modes():
        raise DeclarationError(
            f"{name}: gradient={gradient!r} is unknown; choose from {', '.join(gradient_modes())}"
        )

    def declare(function: Callable[..., Any]) -> CustomOp:
        if not inspect.isfunction(function):
            raise DeclarationError(
                f"{name}: @pipeline.op declares a function, and got a {type(function).__name__}"
            )
        return CustomOp(name, function, infer_schema(name, function, mutates_args), gradient)

    return declare


def gradient_modes() -> Sequence[str]:
    """The ways to come by a gradient."""
    return gradient.MODES


class CustomOp:
    """A custom operator: call it like the function that it was declared with.

    name: ``"mylib::swiglu"``. meaning: the function. schema: its arguments and results.
    overload: torch's operator, ``torch.ops.mylib.swiglu.default``. lowerings: in the order of their declarations.
    """

    def __init__(self, name: str, function: Callable[..., Any], schema: Schema, gradient_mode: str) -> None:
        self.name = name
        self.meaning = function
        self.schema = schema
        self.gradient = gradient_mode
        self.lowerings: list[Any] = []
        self.written_backward: backward.WrittenBackward | None = None
        self.given_vmap: Callable[..., Any] | None = None
        self.given_fake: Callable[..., Any] | None = None
        self.library_functions: dict[library_functions.Kind, Callable[..., Any]] = {}
        self.analyses = Analyses()
        self.saved_graphs = SavedGraphs()
        functools.update_wrapper(self, function)
        former = registry.take_over(name, function)
        self._replaced_by: CustomOp | None = None
        if former is not None:
            former.retire(self)
        self._register()
        registry.add(self)

    def _register(self) -> None:
        """Defines the operator in torch: through `torch.library.custom_op`, with autograd and vmap of our own."""
        namespace, name = self.name.split("::")
        mutates = [argument.name for argument in self.schema.mutated]
        self._definition = torch.library.custom_op(
            self.name,
            composition.eager_kernel(self, self.meaning),
            mutates_args=mutates,
            schema=self.schema.text,
        )
        self._definition.register_fake(fakes.fake_kernel(self))
        self.overload = getattr(getattr(torch.ops, namespace), name).default
        self._library = torch.library.Library(namespace, "FRAGMENT")
        with warnings.catch_warnings():
            # The kernel that custom_op registered is replaced: torch warns of that.
            warnings.simplefilter("ignore")
            self._library.impl(
                name, gradient.autograd_kernel(self), "Autograd", with_keyset=True, allow_override=True
            )
        self._library.impl(name, gradient.batching_kernel(self), "FuncTorchBatched")

    def retire(self, successor: CustomOp) -> None:
        """Takes the operator out of torch; calls of this object reach its successor from now on."""
        self._replaced_by = successor
        self._library._destroy()
        library_functions.forget(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the operator as PyTorch calls any."""
        if self._replaced_by is not None:
            return self._replaced_by(*args, **kwargs)
        return self.overload(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<operator {self.name}{self.schema.text}>"

    def __reduce__(self) -> Any:
        # Models that hold an operator are copied and pickled: there is one operator of a name.
        return _by_name, (self.name,)

    def backward(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Gives the operator a backward written by hand, in place of the derived one.

            @swiglu.backward
            def _(grad, x, gate):
                ...
                return grad_x, grad_gate

        The first parameter gets the gradient of the result (a tuple for several, zeros where there is none); the
        others get the operator's arguments of their names, and ``output`` what forward returned. Only tensors that
        it names are saved. It returns a gradient per argument that holds tensors, in order, None where there is
        none and a list for a list; or a dict of those by argument. It must consist of torch operations to be
        differentiated again. Forward-mode derivatives still come from the meaning. Raises DeclarationError for
        parameters that do not fit.
        """
        self.written_backward = backward.written(self, function)
        return function

    def fake(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Gives the operator a fake kernel: it takes the arguments, without data, and returns results likewise.

        By default the meaning is run on fake tensors. Raises DeclarationError for parameters that do not fit.
        """
        check_parameters(f"{self.name}: the fake kernel", function, self.schema.names, variadic=True)
        self.given_fake = function
        return function

    def shape(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Gives the operator a shape function, which refines its results' types in the IR.

            @swiglu.shape
            def _(x: list[int], gate: list[int], limit: float) -> list[int]:
                return broadcast(x, gate)

        It takes the arguments in order, a ``list[int]`` for every Tensor, and returns the sizes of each result; see
        `library_functions`. Raises DeclarationError for parameters that do not fit.
        """
        library_functions.register(self, "shape", function)
        self.library_functions["shape"] = function
        return function

    def dtype(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Gives the operator a dtype function, as `shape`: ``(rank, dtype)`` pairs ``x_rank_dtype`` in, dtypes out."""
        library_functions.register(self, "dtype", function)
        self.library_functions["dtype"] = function
        return function

    def vmap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Gives the operator a rule for torch.vmap, as `torch.library.register_vmap` takes it.

        By default the meaning is run on batched tensors, without the operator's kernels.
        """
        self.given_vmap = function
        return function

    def eager(self, *devices: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Gives the operator an implementation of its own for eager calls on these devices (``"cuda"``).

        It takes the operator's arguments and returns its results; `check` compares it with the meaning. Raises
        DeclarationError for parameters that do not fit.
        """
        if not devices or not all(isinstance(device, str) for device in devices):
            raise DeclarationError(f'{self.name}: eager names the devices it is for: @op.eager("cuda")')

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            check_parameters(f"{self.name}: the implementation", function, self.schema.names, variadic=True)
            self._definition.register_kernel(list(devices))(composition.eager_kernel(self, function))
            return function

        return register

    def call_problem(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """Where the given fake kernel, shape or dtype function contradicts the meaning for this call, or None.

        Only the types of the tensors matter, which may be fake.
        """
        return fakes.call_problem(self, args, kwargs)

    def check(
        self,
        samples: Iterable[Any],
        targets: Sequence[str] = ("cpu",),
        *,
        rtol: float | None = None,
        atol: float | None = None,
        strict: bool = True,
    ) -> Report:
        """Compares all that was declared with the meaning, on each sample, and reports it.

            print(swiglu.check([(x, gate), (x, gate, 0.5)], targets=("cpu", "vulkan")))

        Compared are eager calls; the given fake kernel, shape and dtype functions; `torch.library.opcheck`; the
        gradient in float64 with the composition's and with finite differences; and, on each target, the compiled
        operator with each of its lowerings in turn and with its meaning. What cannot be compared here is in the
        report as skipped, with the reason.

        samples: tuples of arguments, dicts of them by name, or pairs of both.
        rtol, atol: as `torch.testing.assert_close` takes them, for results (not gradients).
        strict: raises CheckError, whose message is the report, if anything is wrong; with False it is only returned.
        Raises SampleError for a sample that does not fit.
        """
        from . import checking

        tolerances = checking.Tolerances(rtol, atol)
        return checking.check(self, samples, targets, tolerances, strict=strict)

    def kernel(self, target: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Gives the operator a kernel for a target; see `kernels.kernel_decorator`."""
        from . import kernels

        return kernels.kernel_decorator(self, target, **options)

    def lowering(self, *targets: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Gives the operator a lowering: a function that builds IR; see `written.lowering_decorator`."""
        from . import written

        return written.lowering_decorator(self, *targets, **options)


def _by_name(name: str) -> CustomOp:
    found = registry.find(name)
    if found is None:
        raise DeclarationError(
            f"{name} is not declared in this process; import the module that declares it first"
        )
    return found
