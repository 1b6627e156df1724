"""One rounding per operator in float16 and bfloat16, as eager's kernels do: they compute in float32.

Before:  y: bf16 = gelu(x: bf16), as a decomposition of several bf16 operations
After:   y: bf16 = convert(gelu(convert(x, f32)), bf16), with that decomposition in f32

What eager itself composes of other operators rounds between them, and is left alone; so is what moves or
compares elements only, and products, whose lowering sums in float32.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

# These move, choose or compare elements, so that nothing is rounded; add to elements one at a time, rounding each
# sum as eager does; or make tensors of a number.
_EXACT = frozenset(
    "_unsafe_view reshape clone cat stack block_diag _chunk_cat index _unsafe_index _unsafe_masked_index gather "
    "index_select take flip roll rot90 slice_scatter select_scatter diagonal_scatter as_strided_scatter unsafe_split "
    "unsafe_split_with_sizes repeat diag_embed tril triu constant_pad_nd reflection_pad1d reflection_pad2d "
    "reflection_pad3d replication_pad1d replication_pad2d replication_pad3d pixel_shuffle pixel_unshuffle "
    "channel_shuffle im2col embedding copy _to_copy lift_fresh_copy convert_element_type resize_as masked_select "
    "masked_fill masked_scatter where fill index_fill index_copy put select_backward slice_backward diagonal_backward "
    "nan_to_num abs neg sgn sign relu clamp clamp_min clamp_max hardtanh threshold threshold_backward maximum minimum "
    "fmax fmin max min amax amin aminmax argmax argmin sort topk kthvalue median nanmedian mode cummax cummin "
    "searchsorted bucketize isin eq ne lt le gt ge isnan isinf isposinf isneginf signbit copysign floor ceil trunc "
    "frac heaviside nextafter logical_and logical_or logical_not logical_xor any all nonzero nonzero_static "
    "count_nonzero unique_consecutive unique_dim _unique2 histc equal _local_scalar_dense max_pool2d_with_indices "
    "max_pool3d_with_indices adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d "
    "max_unpool2d max_unpool3d upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d "
    "_upsample_nearest_exact2d _upsample_nearest_exact3d index_put _unsafe_index_put "
    "_unsafe_masked_index_put_accumulate index_add index_reduce scatter scatter_add scatter_reduce "
    "embedding_dense_backward col2im unfold_backward masked_scatter_backward embedding_renorm empty empty_like "
    "empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like new_zeros ones ones_like new_ones full "
    "full_like new_full scalar_tensor zero".split()
)

# In these the time goes into products, which are faster in the narrow type.
_PRODUCTS = frozenset(
    "mm bmm addmm baddbmm mv addmv dot vdot addr matmul convolution convolution_backward "
    "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward".split()
)


# Eager's kernels of these compute in the narrow type themselves, and round at each step, or our decompositions of them
# know where eager does.
_STEPWISE = frozenset(
    "linspace linalg_cross linalg_matrix_exp prod pow logit logit_backward xlogy special_xlog1py special_entr ldexp "
    "mvlgamma logsumexp dist renorm grid_sampler_2d grid_sampler_3d grid_sampler_2d_backward grid_sampler_3d_backward "
    "mse_loss mse_loss_backward binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits "
    "soft_margin_loss soft_margin_loss_backward huber_loss_backward glu_backward _log_softmax "
    "fmod remainder floor_divide _native_batch_norm_legit _native_batch_norm_legit_functional "
    "_native_multi_head_attention _transformer_encoder_layer_fwd".split()
)

# Of these eager rounds the numbers, too.
_NUMBERS_ROUNDED = frozenset("add sub rsub hardshrink".split())

_NARROW = ("torch.float16", "torch.bfloat16")


def as_eager_rounds(op: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, a decomposition of the operator `op`, with float16 and bfloat16 rounded where eager rounds."""
    if rounds_once(op):
        return once_rounded(op, function)
    return _stepwise(function) if getattr(op, "_opname", None) in _STEPWISE else function


def _stepwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Without the conversions that torch's decompositions wrap around themselves."""

    @functools.wraps(function)
    def in_steps(*args: Any, **kwargs: Any) -> Any:
        return (inspect.unwrap(function) if takes_narrow((args, kwargs)) else function)(*args, **kwargs)

    return in_steps


def once_rounded(op: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which does what the operator `op` does, computing in float32 where it is given narrower types."""

    @functools.wraps(function)
    def in_float32(*args: Any, **kwargs: Any) -> Any:
        from torch.utils._pytree import tree_leaves, tree_map

        if not takes_narrow((args, kwargs)):
            return function(*args, **kwargs)
        wide_args, wide_kwargs = tree_map(_widen, _common_type(op, args, kwargs))
        found = function(*wide_args, **wide_kwargs)
        if found is NotImplemented:
            return found
        wanted = iter(tree_leaves(_untraced(op, args, kwargs)))
        return tree_map(lambda value: _as_type_of(value, next(wanted)), found)

    return in_float32


@functools.cache
def rounds_once(op: Any) -> bool:
    """Whether eager computes `op` in one kernel, with one rounding of each element."""
    import torch

    if not isinstance(op, torch._ops.OpOverload) or op.namespace not in ("aten", "prims"):
        return False
    if op.is_view or op._schema.is_mutable or torch.Tag.nondeterministic_seeded in op.tags:
        return False
    if op._opname in _EXACT | _PRODUCTS | _STEPWISE or str(op) in (
        "aten.div.Tensor_mode",
        "aten.div.Scalar_mode",
    ):
        return False
    has_kernel = functools.partial(torch._C._dispatch_has_kernel_for_dispatch_key, op.name())
    return has_kernel("CPU") or not has_kernel("CompositeImplicitAutograd")


def takes_narrow(values: Any) -> bool:
    """Whether a float16 or bfloat16 tensor, or one of these types, is among `values`."""
    from torch.utils._pytree import tree_leaves

    return any(map(_is_narrow, tree_leaves(values)))


def rounded_number(number: float, dtype: Any) -> float:
    """`number` in the type `dtype`."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        return torch.tensor(number, dtype=dtype).item()


def _is_narrow(value: Any) -> bool:
    return str(getattr(value, "dtype", value)) in _NARROW


def _widen(value: Any) -> Any:
    import torch

    if not _is_narrow(value):
        return value
    return _convert(value, torch.float32) if isinstance(value, torch.Tensor) else torch.float32


def _common_type(op: Any, args: Any, kwargs: Any) -> Any:
    """The arguments, with whole tensors, and numbers where eager does it, rounded to the type of the result."""
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    if torch.Tag.pointwise not in op.tags and op._opname not in _NUMBERS_ROUNDED:
        return args, kwargs
    tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    common = functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors))

    def rounded(value: Any) -> Any:
        if isinstance(value, float) and op._opname in _NUMBERS_ROUNDED:
            return rounded_number(value, common)
        if not isinstance(value, torch.Tensor) or value.is_floating_point() or value.dtype == torch.bool:
            return value
        return _convert(value, common)

    return tree_map(rounded, (args, kwargs)) if _is_narrow(common) else (args, kwargs)


def _as_type_of(value: Any, wanted: Any) -> Any:
    import torch

    if not isinstance(value, torch.Tensor) or value.dtype == wanted.dtype:
        return value
    return _convert(value, wanted.dtype)


def _convert(tensor: Tensor, dtype: Any) -> Tensor:
    import torch

    return torch.ops.prims.convert_element_type.default(tensor, dtype)


def _untraced(op: Any, args: Any, kwargs: Any) -> Any:
    """The results of `op` itself, for their types; nothing of it enters the graph being traced."""
    from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

    with disable_proxy_modes_tracing():
        return op(*args, **kwargs)
