"""Dimensions of a batch that differ from step to step: read from the user, and traced as symbols.

The step is traced twice, by AOTAutograd for its gradients and by torch.export as a whole, each with symbols of its
own. What the first trace settles about them, such as a count that a loss fixes to the example's, is checked here: the
second one would no longer see it.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import nn
from torch._export.non_strict_utils import make_fake_inputs, produce_guards_and_solve_constraints
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.backends import mkldnn, nnpack
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

from pipeline.errors import InputError

from .loss import named

Shapes = tuple[Any, ...]
"""torch.export's specification of each argument of a batch."""


def read_shapes(dynamic_shapes: Any, names: Sequence[str]) -> Shapes | None:
    """One specification for each of the batch's arguments `names`; None where all sizes are fixed.

    Raises InputError for a name that no argument has, and for another number of specifications than arguments.
    """
    if dynamic_shapes is None:
        return None
    if isinstance(dynamic_shapes, Mapping):
        unknown = [name for name in dynamic_shapes if name not in names]
        if unknown:
            raise InputError(f"dynamic_shapes names {unknown}; the batch's arguments are {', '.join(names)}")
        return tuple(dynamic_shapes.get(name) for name in names)
    if not isinstance(dynamic_shapes, (tuple, list)) or len(dynamic_shapes) != len(names):
        raise InputError(
            f"dynamic_shapes must be a dict by argument, or a tuple with one item for each of {', '.join(names)}; "
            f"got {dynamic_shapes!r}"
        )
    return tuple(dynamic_shapes)


class BatchTrace:
    """The arguments to trace a loss with. args: fake tensors with symbolic sizes, or the batch."""

    def __init__(
        self, loss: nn.Module, batch: tuple[Any, ...], shapes: Shapes | None, names: Sequence[str]
    ) -> None:
        self.args = batch
        self._mode: FakeTensorMode = FakeTensorMode(allow_non_fake_inputs=True)
        self._equalities: tuple[Any, ...] | None = None
        if shapes is None:
            return
        forward = named(loss.forward, names)
        with _forward_as(loss, forward):
            try:
                made = make_fake_inputs(loss, batch, {}, dict(zip(names, shapes, strict=True)))
            except Exception as error:
                raise InputError(f"dynamic_shapes do not fit the batch: {error}") from error
        self._mode, self.args, _, *self._equalities = made

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        """Tensors that are no part of the model, such as class weights that the loss holds, become constants."""
        kernels = contextlib.nullcontext() if self._equalities is None else _one_convolution_kernel()
        with tracing(TracingContext(self._mode)), kernels:
            yield

    def check(self, module: GraphModule) -> None:
        """Raises InputError, in torch.export's words, where the gradients hold for some of the declared sizes only."""
        if self._equalities is None:
            return
        equalities, signature, shapes = self._equalities
        try:
            produce_guards_and_solve_constraints(self._mode, module, shapes, equalities, signature)
        except ConstraintViolationError as error:
            raise InputError(
                f"the training step does not take the sizes of dynamic_shapes:\n{error}"
            ) from error


@contextlib.contextmanager
def _one_convolution_kernel() -> Iterator[None]:
    """Eager's libraries for convolutions are off: they are chosen by the size of the batch (below 16 or not).

    A trace that asks for the choice would hold on one side of it only.
    """
    with warnings.catch_warnings(action="ignore"), mkldnn.flags(enabled=False), nnpack.flags(enabled=False):
        yield


@contextlib.contextmanager
def _forward_as(module: nn.Module, function: Any) -> Iterator[None]:
    module.forward = function
    try:
        yield
    finally:
        del module.forward
