"""Random numbers drawn inside of a step, from a counter-based generator and a key that is drawn for each call.

The numbers are a function of the key, of which draw of the step it is, and of the place in the tensor. So none of them
cross the border, backward can compute them again, and a key that is drawn again gives the same ones.

Before:  %mask = aten.bernoulli.p(%empty, 0.9)
After:   %words = pipeline.threefry(%places, number of the draw, %key[0], %key[1])
         %mask = (top 24 bits of %words[0]) * 2^-24 < 0.9
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch._aot_autograd.descriptors import AOTInput
from torch.fx import GraphModule, Node

from pipeline.draws import drawn_by
from pipeline.errors import InputError
from pipeline.inlining import Inliner

from .recomputation import MARKS

GENERATORS = ("arguments", "in-graph")

# Places are counted in int32.
_MOST_ELEMENTS = 2**31


@dataclass(frozen=True)
class KeyInput(AOTInput):
    """The descriptor of the key: two int32."""

    def expr(self) -> str:
        """For PyTorch's messages."""
        return "key"


def draw_key() -> torch.Tensor:
    """What becomes the only draw that is left to whoever calls the step."""
    return torch.randint(-(2**31), 2**31, (2,), dtype=torch.int32)


def check_generator(generator: str) -> None:
    """Raises InputError for a generator that does not exist."""
    if generator not in GENERATORS:
        raise InputError(f"generator '{generator}' is unknown; choose from {', '.join(GENERATORS)}")


def draw_inside(joint: GraphModule) -> None:
    """Draws uniform, normal and Bernoulli numbers inside of the graph, which gets one more argument: `KeyInput`.

    Other draws stay what they are.
    """
    found = [(node, call) for node in joint.graph.nodes if (call := _call(node)) is not None]
    if not found:
        return
    declare_threefry()
    key = _add_key(joint, found[0][0])
    inliner = Inliner(joint, {})
    for number, (node, (method, arguments)) in enumerate(found):
        value = node.meta["val"]
        node.args = (key, number, method, tuple(arguments), tuple(value.shape), value.dtype)
        node.kwargs = {}
        marks = {name: mark for name, mark in node.meta.items() if name in MARKS}
        for made in inliner.inline(node, _drawn):
            made.meta.update(marks)
    inliner.finish()


def _call(node: Node) -> tuple[str, Sequence[Any]] | None:
    found = drawn_by(node) if node.op == "call_function" else None
    if found is None or found[0] not in _METHODS or not node.meta["val"].is_floating_point():
        return None
    return found if node.meta["val"].numel() < _MOST_ELEMENTS else None


def _add_key(joint: GraphModule, like: Node) -> Node:
    last = joint.graph.find_nodes(op="placeholder")[-1]
    with joint.graph.inserting_after(last):
        key = joint.graph.placeholder("primals_key")
    with like.meta["val"].fake_mode:
        key.meta = {"val": torch.empty(2, dtype=torch.int32), "desc": KeyInput()}
    return key


def _drawn(
    key: torch.Tensor,
    number: int,
    method: str,
    arguments: Sequence[float],
    shape: Sequence[int],
    dtype: torch.dtype,
) -> torch.Tensor:
    places = torch.zeros(shape, dtype=torch.int32)
    for axis, size in enumerate(shape):
        stride = math.prod(shape[axis + 1 :])
        steps = torch.arange(size, dtype=torch.int32) * stride
        places = places + steps.reshape([-1] + [1] * (len(shape) - axis - 1))
    words = torch.ops.pipeline.threefry(
        places, torch.full_like(places, number), key[0].expand(shape), key[1].expand(shape)
    )
    return _METHODS[method](words, dtype, *arguments)


def _bernoulli(words: Sequence[torch.Tensor], dtype: torch.dtype, p: float) -> torch.Tensor:
    return (_unit(words[0], 24) < p).to(dtype)


def _uniform(words: Sequence[torch.Tensor], dtype: torch.dtype, low: float, high: float) -> torch.Tensor:
    """As many bits as the type has exactly, so that nothing is rounded up to the end."""
    bits = {torch.float16: 11, torch.bfloat16: 8}.get(dtype, 24)
    unit = _unit(words[0], bits).to(dtype)
    if dtype == torch.float64:
        unit = (unit + _unit(words[1], 24).double() * 2.0**-24).to(dtype)
    return unit * (high - low) + low


def _normal(words: Sequence[torch.Tensor], dtype: torch.dtype, mean: float, std: float) -> torch.Tensor:
    """By Box and Muller, from 24 bits each: up to 5.8 deviations."""
    radius = torch.sqrt(-2 * torch.log(_unit(words[0], 24) + 2.0**-24))
    found = radius * torch.cos(_unit(words[1], 24) * (2 * math.pi))
    return (found * std + mean).to(dtype)


def _unit(word: torch.Tensor, bits: int) -> torch.Tensor:
    """From 0 to below 1, float32: the word's topmost bits."""
    top = torch.bitwise_and(torch.bitwise_right_shift(word, 32 - bits), 2**bits - 1)
    return top.float() * 2.0**-bits


_METHODS: dict[str, Callable[..., torch.Tensor]] = {
    "bernoulli_": _bernoulli,
    "uniform_": _uniform,
    "normal_": _normal,
}


@functools.cache
def declare_threefry() -> torch.library.Library:
    """Declares ``pipeline::threefry`` in torch; it is kept as long as it is here."""
    library = torch.library.Library("pipeline", "FRAGMENT")
    library.define("threefry(Tensor first, Tensor second, Tensor low, Tensor high) -> (Tensor, Tensor)")
    library.impl("threefry", _threefry, "CPU")
    torch.library.register_fake("pipeline::threefry", _like_counters, lib=library)
    return library


def _like_counters(first: torch.Tensor, *_: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(first), torch.empty_like(first)


def _threefry(*words: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """In eager, by the text that becomes a loop's body when it is compiled."""
    from pipeline.dialect_passes.scalars.threefry import threefry

    found = threefry(*(_Word(word.long()) for word in words))  # type: ignore[arg-type]
    return tuple(word.value.to(torch.int32) for word in found)  # type: ignore[attr-defined]


class _Word:
    """Numbers of 32 bits without a sign, in int64."""

    def __init__(self, value: Any) -> None:
        self.value = value & 0xFFFFFFFF

    def _with(self, function: Callable[[Any, Any], Any], other: Any) -> _Word:
        return _Word(function(self.value, other.value if isinstance(other, _Word) else other))

    def __add__(self, other: Any) -> _Word:
        return self._with(operator.add, other)

    def __xor__(self, other: Any) -> _Word:
        return self._with(operator.xor, other)

    def __or__(self, other: Any) -> _Word:
        return self._with(operator.or_, other)

    def __lshift__(self, bits: int) -> _Word:
        return self._with(operator.lshift, bits)

    def __rshift__(self, bits: int) -> _Word:
        return self._with(operator.rshift, bits)
