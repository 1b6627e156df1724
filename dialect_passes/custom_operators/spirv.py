"""Reading SPIR-V: what a compute shader is passed, and what it needs of a device."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

_MAGIC = 0x07230203
_CAPABILITY, _ENTRY_POINT = 17, 15
_INT, _FLOAT, _RUNTIME_ARRAY, _ARRAY, _STRUCT, _POINTER, _VARIABLE = 21, 22, 29, 28, 30, 32, 59
_DECORATE, _MEMBER_DECORATE = 71, 72
_BINDING, _SET, _OFFSET = 33, 34, 35
_GL_COMPUTE, _PUSH_CONSTANT = 5, 9

_FEATURES = {
    9: "shaderFloat16",
    10: "shaderFloat64",
    11: "shaderInt64",
    22: "shaderInt16",
    39: "shaderInt8",
    4433: "storageBuffer16BitAccess",
    4448: "storageBuffer8BitAccess",
}

Scalar = tuple[str, int]
"""Kind ("int" or "float") and bits."""


class SpirvError(ValueError):
    """Not a SPIR-V module."""


@dataclass
class SpirvModule:
    """entry_points: names of its compute shaders. bindings: (set, binding) -> the scalar that its buffer is an
    array of, or None for another layout. constants: offset and scalar of each push constant, None when it
    declares none. features: Vulkan's names of what it needs.
    """

    entry_points: list[str] = field(default_factory=list)
    bindings: dict[tuple[int, int], Scalar | None] = field(default_factory=dict)
    constants: list[tuple[int, Scalar | None]] | None = None
    features: tuple[str, ...] = ()


def read(content: bytes) -> SpirvModule:
    """The module in these bytes. Raises SpirvError for bytes that are none."""
    if len(content) < 20 or len(content) % 4 or struct.unpack_from("<I", content)[0] != _MAGIC:
        raise SpirvError("not a SPIR-V module (little-endian)")
    reader = _Reader()
    for code, operands in _instructions(content):
        reader.take(code, operands)
    return reader.module()


def _instructions(content: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    words = struct.unpack(f"<{len(content) // 4}I", content)
    place = 5
    while place < len(words):
        length = words[place] >> 16
        if length == 0 or place + length > len(words):
            raise SpirvError("the SPIR-V module is damaged")
        yield words[place] & 0xFFFF, words[place + 1 : place + length]
        place += length


class _Reader:
    def __init__(self) -> None:
        self._entry_points: list[str] = []
        self._capabilities: set[int] = set()
        self._types: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._variables: dict[int, tuple[int, int]] = {}
        self._decorations: dict[tuple[int, int], int] = {}
        self._offsets: dict[tuple[int, int], int] = {}

    def take(self, code: int, operands: tuple[int, ...]) -> None:
        """Notes one instruction."""
        if code == _CAPABILITY:
            self._capabilities.add(operands[0])
        elif code == _ENTRY_POINT and operands[0] == _GL_COMPUTE:
            raw = struct.pack(f"<{len(operands) - 2}I", *operands[2:])
            self._entry_points.append(raw[: raw.index(b"\0")].decode())
        elif code in (_INT, _FLOAT, _RUNTIME_ARRAY, _ARRAY, _STRUCT, _POINTER):
            self._types[operands[0]] = (code, operands[1:])
        elif code == _VARIABLE:
            self._variables[operands[1]] = (operands[0], operands[2])
        elif code == _DECORATE and operands[1] in (_BINDING, _SET):
            self._decorations[operands[0], operands[1]] = operands[2]
        elif code == _MEMBER_DECORATE and operands[2] == _OFFSET:
            self._offsets[operands[0], operands[1]] = operands[3]

    def module(self) -> SpirvModule:
        """What all instructions together say."""
        found = SpirvModule(self._entry_points)
        found.features = tuple(sorted(name for code, name in _FEATURES.items() if code in self._capabilities))
        for variable, (pointer, storage) in self._variables.items():
            members = self._members(pointer)
            if storage == _PUSH_CONSTANT:
                found.constants = self._constants(pointer, members)
            elif (variable, _BINDING) in self._decorations:
                place = (self._decorations.get((variable, _SET), 0), self._decorations[variable, _BINDING])
                found.bindings[place] = self._element(members[-1]) if members else None
        return found

    def _struct(self, pointer: int) -> int:
        return self._types[pointer][1][1]

    def _members(self, pointer: int) -> tuple[int, ...]:
        code, operands = self._types.get(self._struct(pointer), (0, ()))
        return operands if code == _STRUCT else ()

    def _constants(self, pointer: int, members: tuple[int, ...]) -> list[tuple[int, Scalar | None]]:
        block = self._struct(pointer)
        return [(self._offsets.get((block, i), -1), self._scalar(member)) for i, member in enumerate(members)]

    def _element(self, type_: int) -> Scalar | None:
        code, operands = self._types.get(type_, (0, ()))
        return self._scalar(operands[0]) if code in (_RUNTIME_ARRAY, _ARRAY) else None

    def _scalar(self, type_: int) -> Scalar | None:
        code, operands = self._types.get(type_, (0, ()))
        return ("int" if code == _INT else "float", operands[0]) if code in (_INT, _FLOAT) else None
