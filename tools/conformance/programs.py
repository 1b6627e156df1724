"""A sample as a module whose forward takes tensors and returns tensors and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from pipeline.dialect_passes.operators.registry import make_traceable
from pipeline.value_checks import without_value_checks


class OperatorModule(torch.nn.Module):
    """The operator with a sample's other arguments compiled in; what it returns is flat.

    raw: the result before the sample's own processing, which takes away what is free, such as signs.
    """

    def __init__(self, operator: Any, sample: Any, *, raw: bool = False) -> None:
        super().__init__()
        self._operator = operator
        self._process = sample.output_process_fn_grad
        self._raw = raw
        leaves, self._structure = tree_flatten((sample.input, list(sample.args), dict(sample.kwargs)))
        self.tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        self._leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self._places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def forward(self, *tensors: torch.Tensor) -> tuple[Any, ...]:
        """The operator's results, processed as the sample asks."""
        leaves = list(self._leaves)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        given, args, kwargs = tree_unflatten(leaves, self._structure)
        result = self._operator(given, *args, **kwargs)
        processed = tuple(_results(self._process(result)))
        return (*processed, *_results(result)) if self._raw else processed


def _results(value: Any) -> list[Any]:
    """torch's named tuples are leaves to pytree in some versions; plain tuples never are."""
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _results(item)]
    return tree_leaves(value)


def fresh(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous copy outside autograd, so that nothing a run writes reaches the next."""
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        return tensor
    return tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, not contiguous where that is possible."""
    from torch.testing._internal.common_utils import noncontiguous_like

    return noncontiguous_like(fresh(tensor)) if tensor.layout is torch.strided else tensor


def gradient_program(
    module: OperatorModule, tensors: list[torch.Tensor]
) -> tuple[Any, list[torch.Tensor]] | None:
    """Forward and backward as one graph over (tensors, cotangents), and these; None without gradients.

    The graph is traced below autograd, as AOTAutograd does, so that it holds the operators of the formulas.
    """
    wanted = differentiable(module, tensors)
    cotangents = _cotangents(module, tensors, wanted)
    if not cotangents:
        return None
    step = _step(module, wanted, len(tensors))
    make_traceable()
    # Without the dispatcher composites trace as C++, which looks at values.
    with without_value_checks(), enable_python_dispatcher():
        graph = make_fx(step, tracing_mode="fake")(*map(fresh, tensors), *cotangents)
    return graph, cotangents


def cotangents(module: OperatorModule, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """One for each result that has a gradient, always the same ones."""
    return _cotangents(module, tensors, differentiable(module, tensors))


def _cotangents(
    module: OperatorModule, tensors: list[torch.Tensor], wanted: list[bool]
) -> list[torch.Tensor]:
    with torch.enable_grad():
        outputs = _with_gradient(module(*_leaves(tensors, wanted)))
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(output.shape, dtype=output.dtype, generator=generator) for output in outputs]


def gradients(
    module: OperatorModule,
    tensors: list[torch.Tensor],
    cotangents: list[torch.Tensor],
    called: Callable[..., Any] | None = None,
) -> list[Any]:
    """What the gradient program must give, in eager. called: what runs in place of the module."""
    wanted = differentiable(module, tensors)
    return list(
        _step(module if called is None else called, wanted, len(tensors))(*map(fresh, tensors), *cotangents)
    )


def _step(module: Callable[..., Any], wanted: list[bool], count: int) -> Any:
    def step(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        leaves = _leaves(values[:count], wanted)
        with torch.enable_grad():
            results = [value for value in module(*leaves) if isinstance(value, torch.Tensor)]
            sources = [leaf for leaf in leaves if leaf.requires_grad]
            found = torch.autograd.grad(
                _with_gradient(results), sources, values[count:], allow_unused=True, materialize_grads=True
            )
        return (*(result.detach() for result in results), *found)

    return step


def _leaves(tensors: Any, wanted: list[bool]) -> list[torch.Tensor]:
    return [tensor.detach().requires_grad_(take) for tensor, take in zip(tensors, wanted, strict=True)]


def differentiable(module: OperatorModule, tensors: list[torch.Tensor]) -> list[bool]:
    """Which arguments take a gradient: floats, but running statistics, targets and class weights often refuse."""
    floats = [tensor.is_floating_point() or tensor.is_complex() for tensor in tensors]
    if _differentiates(module, tensors, floats):
        return floats
    return [
        is_float and _differentiates(module, tensors, [i == k for i in range(len(tensors))])
        for k, is_float in enumerate(floats)
    ]


def _differentiates(module: OperatorModule, tensors: list[torch.Tensor], wanted: list[bool]) -> bool:
    leaves = _leaves(list(map(fresh, tensors)), wanted)
    try:
        with torch.enable_grad():
            outputs = _with_gradient(module(*leaves))
            if outputs:
                ones = [torch.ones_like(output) for output in outputs]
                torch.autograd.grad(outputs, [x for x in leaves if x.requires_grad], ones, allow_unused=True)
    except RuntimeError as error:
        if (
            "not differentiable" in str(error)
            or "does not require grad" in str(error)
            or "derivative" in str(error)
        ):
            return False
        raise
    return True


def _with_gradient(values: Any) -> list[torch.Tensor]:
    return [value for value in values if isinstance(value, torch.Tensor) and value.requires_grad]
