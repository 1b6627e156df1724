"""Object files for CPU kernels (ELF, 64 bit): which functions they define and need, and renaming those.

IREE links the objects of all kernels of a program into one library and takes the first of several definitions
of a name, in silence. So every name that an object defines gets a suffix made from its content.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64"}
_SYMTAB = 2
_LOCAL = 0
_FUNCTION = 2
# The address table that position-independent code refers to is the linker's own.
_LINKER = {"_GLOBAL_OFFSET_TABLE_"}


class ObjectError(ValueError):
    """Not an object file that can be linked into an executable."""


@dataclass(frozen=True)
class _Symbol:
    place: int
    name: str
    binding: int
    type: int
    section: int


class ElfObject:
    """A relocatable ELF object. Raises ObjectError for bytes that are none.

    machine: ``x86_64``, ``aarch64``, ``riscv64``.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        try:
            self._read()
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise ObjectError(f"the object file is damaged ({error})") from error

    def _read(self) -> None:
        if len(self._content) < _HEADER.size or self._content[:6] != b"\x7fELF\x02\x01":
            raise ObjectError("not a 64-bit little-endian ELF object file")
        header = _HEADER.unpack_from(self._content)
        kind, machine, sections, count = header[1], header[2], header[6], header[12]
        if kind != 1:
            raise ObjectError("an ELF file, but no object file that can be linked (compile with -c)")
        self.machine = _MACHINES.get(machine, f"ELF machine {machine}")
        tables = [
            (number, _SECTION.unpack_from(self._content, sections + number * _SECTION.size))
            for number in range(count)
        ]
        table = next((fields for _, fields in tables if fields[1] == _SYMTAB), None)
        if table is None:
            raise ObjectError("the object file has no symbol table (was it stripped?)")
        self._names_section = sections + table[6] * _SECTION.size
        names = tables[table[6]][1]
        self._names = self._content[names[4] : names[4] + names[5]]
        self._symbols = list(self._read_symbols(table[4], table[5]))

    def _read_symbols(self, start: int, size: int) -> Iterator[_Symbol]:
        for place in range(start, start + size, _SYMBOL.size):
            name, info, _, section, _, _ = _SYMBOL.unpack_from(self._content, place)
            text = self._names[name : self._names.index(b"\0", name)].decode()
            yield _Symbol(place, text, info >> 4, info & 15, section)

    @property
    def functions(self) -> list[str]:
        """The functions that it defines for others."""
        return sorted(s.name for s in self._defined() if s.type == _FUNCTION)

    @property
    def undefined(self) -> list[str]:
        """The names that it takes from elsewhere, where nothing is."""
        return sorted(s.name for s in self._symbols if s.name and s.section == 0 and s.name not in _LINKER)

    def _defined(self) -> list[_Symbol]:
        return [s for s in self._symbols if s.name and s.section != 0 and s.binding != _LOCAL]

    @property
    def suffix(self) -> str:
        """What `renamed` appends to every name."""
        return "_" + hashlib.sha256(self._content).hexdigest()[:12]

    def renamed(self) -> bytes:
        """The same object with `suffix` on the names of all that it defines for others."""
        names = bytearray(self._names)
        content = bytearray(self._content)
        for symbol in self._defined():
            struct.pack_into("<I", content, symbol.place, len(names))
            names += (symbol.name + self.suffix).encode() + b"\0"
        # The longer table of names goes to the end of the file: nothing else moves.
        section = list(_SECTION.unpack_from(content, self._names_section))
        section[4], section[5] = len(content), len(names)
        _SECTION.pack_into(content, self._names_section, *section)
        return bytes(content + names)
