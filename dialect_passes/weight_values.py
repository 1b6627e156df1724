"""Values of the Torch dialect that depend on weights and constants only, which IREE computes once, at load.

Weights are arguments of the entry points, ``{pipeline.weight = "conv.weight"}``: what is computed from them alone is
hoisted out of the calls. State and inputs change between calls, so nothing is folded into them.
"""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir

# Operators through which a value stays one of weights. No draws: they depend on nothing, and differ each time.
_PURE = frozenset(
    f"torch.{name}"
    for name in (
        *("aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar", "aten.rsub.Scalar"),
        *(
            "aten.mul.Tensor",
            "aten.mul.Scalar",
            "aten.div.Tensor",
            "aten.div.Scalar",
            "aten.neg",
            "aten.rsqrt",
        ),
        *("aten.sqrt", "aten.reciprocal", "aten.exp", "aten.square", "aten.abs", "aten.pow.Tensor_Scalar"),
        *("aten.view", "aten.reshape", "aten.permute", "aten.transpose.int", "aten.t", "aten.unsqueeze"),
        *("aten.squeeze.dim", "aten.squeeze", "aten.expand", "aten.broadcast_to", "aten.slice.Tensor"),
        *(
            "aten.flip",
            "aten.cat",
            "aten.clone",
            "aten.contiguous",
            "aten.to.dtype",
            "prims.convert_element_type",
        ),
        *("aten.unflatten.int", "aten.flatten.using_ints", "vtensor.literal", "prim.ListConstruct"),
    )
)


class WeightValues:
    """Tells for the values of one function whether weights alone decide them."""

    def __init__(self, function: ir.Operation, choose: Callable[[str], bool] = lambda name: True) -> None:
        """choose: says of a weight's name whether it counts."""
        self._arguments = {number for number, name in weight_names(function).items() if choose(name)}
        self._known: dict[ir.Value, bool] = {}

    def __contains__(self, value: ir.Value) -> bool:
        if value not in self._known:
            self._known[value] = self._decide(value)
        return self._known[value]

    def _decide(self, value: ir.Value) -> bool:
        if isinstance(value.owner, ir.Block):
            return ir.BlockArgument(value).arg_number in self._arguments
        op = value.owner.operation
        if op.name.startswith("torch.constant."):
            return True
        return op.name in _PURE and all(operand in self for operand in op.operands)


def weight_names(function: ir.Operation) -> dict[int, str]:
    """The names of the weights among the arguments of `function`, by argument."""
    if "arg_attrs" not in function.attributes:
        return {}
    found = {}
    for number, attribute in enumerate(ir.ArrayAttr(function.attributes["arg_attrs"])):
        attributes = ir.DictAttr(attribute)
        if "pipeline.weight" in attributes:
            found[number] = ir.StringAttr(attributes["pipeline.weight"]).value
    return found
