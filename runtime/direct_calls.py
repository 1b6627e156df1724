"""The common call on the CPU, in a few microseconds: torch tensors that the program can use where they are.

Anything else, and whatever is wrong, is left to the general call (`calls.EntryCall`): nothing is refused here.
"""

from __future__ import annotations

import sys
from typing import Any

import iree.runtime as iree

from . import dtypes
from .device import Device
from .manifest import EntryPoint, ValueSpec
from .sharing import Span, sharers
from .tensors import ALIGNMENT, span

# IREE's DLPack knows neither bool nor complex numbers.
_WITHOUT_DLPACK = ("bool", *dtypes.PARTS)
_CPU = 1  # DLPack's number for it


class DirectCall:
    """Calls an entry point that `is_direct`. context, function: IREE's."""

    def __init__(self, entry: EntryPoint, device: Device, context: Any, function: Any) -> None:
        self._entry = entry
        self._import = device.hal.from_dlpack_capsule
        self._export = device.hal.create_dlpack_capsule
        self._invoke = context.invoke
        self._function = function
        self._inputs: list[tuple[Any, tuple[int, ...], int]] = []
        self._outputs: list[Any] = []

    def __call__(self, args: tuple[Any, ...]) -> list[Any] | None:
        """The flat results; None where the general call must be made. Raises what IREE raises."""
        torch = sys.modules.get("torch")
        if torch is None or len(args) != len(self._entry.inputs):
            return None
        plain = torch.Tensor, torch.nn.Parameter
        inputs, spans = iree.VmVariantList(len(args)), []
        for value, (dtype, shape, nbytes) in zip(args, self._expected(), strict=True):
            if type(value) not in plain or value.dtype is not dtype or value.shape != shape:
                return None
            if not (value.is_cpu and value.layout is torch.strided and value.is_contiguous()):
                return None
            first = value.data_ptr()
            if first % ALIGNMENT or value.is_neg():
                return None
            spans.append((first, first + nbytes))
            shared = value.detach() if value.requires_grad else value
            inputs.push_ref(self._import(torch._C._to_dlpack(shared)))
        types = self._outputs or self._result_types()
        outputs = iree.VmVariantList(len(types))
        self._invoke(self._function, inputs, outputs)
        return self._own([self._result(torch, outputs, i, own) for i, own in enumerate(types)], spans)

    def _expected(self) -> list[tuple[Any, tuple[int, ...], int]]:
        """torch's dtype, the shape and the bytes of each input. torch may be imported after loading."""
        if not self._inputs:
            for spec in self._entry.inputs:
                assert spec.tensor is not None
                dtype, shape = dtypes.BY_NAME[spec.tensor.dtype], spec.tensor.shape
                nbytes = dtype.itemsize
                for size in shape:
                    nbytes *= int(size)
                self._inputs.append((dtype.torch(), tuple(map(int, shape)), nbytes))
        return self._inputs

    def _result_types(self) -> list[Any]:
        """torch's dtype of each result."""
        for spec in self._entry.outputs:
            assert spec.tensor is not None
            self._outputs.append(dtypes.BY_NAME[spec.tensor.dtype].torch())
        return self._outputs

    def _result(self, torch: Any, outputs: Any, number: int, own: Any) -> Any:
        """IREE's integers have no sign: a result has that of the argument whose memory it is, or is signed."""
        view = outputs.get_variant(number).deref(iree.HalBufferView)
        result = torch._C._from_dlpack(self._export(view, _CPU, 0))
        return result if result.dtype is own else result.view(own)

    def _own(self, results: list[Any], spans: list[Span]) -> list[Any]:
        """The results, those that share memory with an argument or each other copied. spans: of the arguments."""
        if len(results) == 1:
            first = results[0].data_ptr()
            inside = any(start <= first < end for start, end in spans)
            return [results[0].clone()] if inside else results
        places = [*spans, *map(span, results)]
        for number in sharers(places):
            if number >= len(spans):
                results[number - len(spans)] = results[number - len(spans)].clone()
        return results


def is_direct(entry: EntryPoint, device: Device) -> bool:
    """Whether calls may be direct: tensors of known shape by position in, tensors out, and nothing else."""
    return (
        device.is_host
        and bool(entry.inputs)
        and all("leaf" in p.structure and p.positional for p in entry.parameters)
        and not (entry.draws or entry.mutated_inputs or entry.state_inputs or entry.state_outputs)
        and all(_has_elements(spec) for spec in [*entry.inputs, *entry.outputs])
        and all(spec.tensor is not None and spec.tensor.shape for spec in entry.inputs)
    )


def _has_elements(spec: ValueSpec) -> bool:
    """Whether it is a tensor of known shape, not empty, of a type that DLPack has."""
    tensor = spec.tensor
    return (
        tensor is not None
        and tensor.dtype not in _WITHOUT_DLPACK
        and all(isinstance(size, int) and size > 0 for size in tensor.shape)
    )
