"""Removal of Torch dialect operations whose results nothing uses: MLIR's canonicalization leaves them."""

from __future__ import annotations

from torch_mlir import ir

from pipeline.shape_lib.refinement.operations import every_operation

_PURE = (
    "torch.aten.",
    "torch.prims.",
    "torch.quantized_decomposed.",
    "torch.constant.",
    "torch.vtensor.literal",
    "torch.prim.ListConstruct",
    "torch.prim.ListUnpack",
    "torch.prim.TupleConstruct",
    "torch.prim.NumToTensor.Scalar",
    "torch.prim.dtype",
    "torch.copy.to_vtensor",
    "torch.derefine",
    "torch.tensor_static_info_cast",
)
_CHANGES_LISTS = ("torch.aten.append.t", "torch.aten._set_item.t")


def erase_dead(module: ir.Module) -> None:
    """Erases, in all functions of `module`, what has no effect and no use."""
    for op in reversed(list(every_operation(module))):
        if is_removable(op):
            op.erase()


def is_removable(op: ir.Operation) -> bool:
    """Whether nothing uses the results of `op`, and it does nothing but give them."""
    if not op.name.startswith(_PURE) or op.name in _CHANGES_LISTS or _works_in_place(op.name):
        return False
    # Without results it is there for something else: a check, say.
    return len(op.results) > 0 and not any(True for result in op.results for _ in result.uses)


def _works_in_place(name: str) -> bool:
    """Whether `name` is one of an operator that changes its argument: ``aten.add_.Tensor``, ``aten.add.out``."""
    operator, _, overload = name.removeprefix("torch.").partition(".")[2].partition(".")
    return (operator.endswith("_") and not operator.endswith("__")) or overload.endswith("out")
