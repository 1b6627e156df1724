"""Operators that treat both parts alike: those that move elements, sums, and the making of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .rules import Call, Pair, pair_of, real_of, rule

if TYPE_CHECKING:
    from torch import Tensor

_LINEAR = (
    "view _unsafe_view reshape permute transpose t expand slice select unsqueeze squeeze clone alias detach index "
    "gather index_select flip roll unbind split split_with_sizes chunk as_strided repeat flatten unflatten copy "
    "lift_fresh lift_fresh_copy diagonal unfold movedim swapaxes sum mean cumsum neg tril triu diag_embed view_copy "
    "masked_select take diff trace fft_fftshift fft_ifftshift resolve_conj resolve_neg positive _neg_view expand_copy "
    "slice_backward select_backward unfold_backward as_strided_copy permute_copy transpose_copy unsqueeze_copy "
    "squeeze_copy rot90 nansum pixel_shuffle pixel_unshuffle contiguous reflection_pad1d reflection_pad2d "
    "reflection_pad3d replication_pad1d replication_pad2d replication_pad3d reflection_pad1d_backward diagonal_backward"
)


@rule(
    *(f"aten.{name}" for name in _LINEAR.split()),
    "prims.clone",
    "prims.device_put",
    "prims.squeeze",
    "prims.view_of",
)
def linear(call: Call, *args: Any, **kwargs: Any) -> Any:
    """The same on both parts."""
    return _both(call, args, kwargs)


def _both(call: Call, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    from torch.utils._pytree import tree_map

    def run(part: str) -> Any:
        def choose(value: Any) -> Any:
            return _part(value, part)

        return call.target(*tree_map(choose, tuple(args)), **tree_map(choose, kwargs))

    re, im = run("re"), run("im")
    if isinstance(re, (tuple, list)):
        return [Pair(a, b) for a, b in zip(re, im, strict=True)]
    return Pair(re, im)


def _part(value: Any, part: str) -> Any:
    import torch

    if isinstance(value, Pair):
        return getattr(value, part)
    if isinstance(value, complex):
        return value.real if part == "re" else value.imag
    return real_of(value) or value if isinstance(value, torch.dtype) else value


# Where operators take what must become complex, if it is not: tensors, numbers or lists of them.
_DATA = {
    "aten.where": (1, 2),
    "aten.cat": (0,),
    "aten.stack": (0,),
    "aten.index_put": (0, 2),
    "aten._unsafe_index_put": (0, 2),
    "aten.scatter": (0, 3),
    "aten.scatter_add": (0, 3),
    "aten.index_add": (0, 3),
    "aten.index_copy": (0, 3),
    "aten.index_fill": (0, 3),
    "aten.slice_scatter": (0, 1),
    "aten.select_scatter": (0, 1),
    "aten.diagonal_scatter": (0, 1),
    "aten.as_strided_scatter": (0, 1),
    "aten.masked_fill": (0, 2),
    "aten.masked_scatter": (0, 2),
    "aten.constant_pad_nd": (0, 2),
    "aten.put": (0, 2),
    "aten.fill": (0, 1),
}


@rule(*_DATA)
def with_data(call: Call, *args: Any, **kwargs: Any) -> Any:
    """The same on both parts, where also real values may be written among complex ones."""
    places = _DATA[".".join(str(call.target).split(".")[:2])]
    return _both(call, [_data(x, call) if i in places else x for i, x in enumerate(args)], kwargs)


def _data(value: Any, call: Call) -> Any:
    if isinstance(value, (list, tuple)):
        return [_data(item, call) for item in value]
    if isinstance(value, (int, float, complex)):
        return complex(value)
    return pair_of(value, call)


@rule("aten.full", "aten.full_like", "aten.new_full", "aten.scalar_tensor")
def filled(call: Call, *args: Any, **kwargs: Any) -> Pair:
    """A constant."""
    place = 0 if "scalar_tensor" in str(call.target) else 2 if "new_full" in str(call.target) else 1
    values = [complex(x) if i == place else x for i, x in enumerate(args)]
    return _both(call, values, {**kwargs, "dtype": call.dtype})


@rule("aten.ones", "aten.ones_like", "aten.new_ones", "aten.eye")
def ones(call: Call, *args: Any, **kwargs: Any) -> Pair:
    """Ones are real."""
    import torch

    re = call.target(*[_part(x, "re") for x in args], **{**kwargs, "dtype": call.dtype})
    return Pair(re, torch.zeros_like(re))


_UNSET = (
    "zeros zeros_like new_zeros empty empty_like new_empty empty_strided new_empty_strided empty_permuted"
)


@rule(*(f"aten.{name}" for name in _UNSET.split()))
def zeros(call: Call, *args: Any, **kwargs: Any) -> Any:
    """Zeros, and what has no values yet; of a complex tensor may also be made a real one."""
    dtype = kwargs.get("dtype") if call.dtype is None else call.dtype
    re = call.target(*[_part(x, "re") for x in args], **{**kwargs, "dtype": dtype})
    return re if call.dtype is None else Pair(re, re.clone())


@rule("prims.convert_element_type", "aten._to_copy", "aten.to", "aten.type_as")
def convert(call: Call, value: Any, *args: Any, **kwargs: Any) -> Any:
    """To another type: real values get an imaginary zero, complex ones lose their imaginary part."""
    if call.dtype is not None:
        return pair_of(value, call)
    kwargs = {key: item for key, item in kwargs.items() if key == "dtype"}
    return call.target(value.re, *args, **kwargs)


@rule("aten.repeat_interleave")
def repeat_interleave(call: Call, z: Any, *args: Any, **kwargs: Any) -> Any:
    """The same on both parts."""
    return _both(call, (z, *args), kwargs)


@rule("aten.dist")
def dist(call: Call, a: Any, b: Any, p: Any = 2) -> Tensor:
    """The norm of the difference."""
    import torch

    from .arithmetic import length

    parts = [x if isinstance(x, Pair) else Pair(x, torch.zeros_like(x)) for x in (a, b)]
    difference = Pair(parts[0].re - parts[1].re, parts[0].im - parts[1].im)
    return torch.linalg.vector_norm(length(difference), p)


@rule("aten.linalg_vector_norm", "aten.norm")
def norm(call: Call, z: Pair, *args: Any, **kwargs: Any) -> Tensor:
    """Of the lengths."""
    from .arithmetic import length

    args = tuple(_part(value, "re") for value in args)
    return call.target(length(z), *args, **{key: _part(value, "re") for key, value in kwargs.items()})
