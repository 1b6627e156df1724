"""What a CPU's vector unit has."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class VectorUnit:
    """lanes: float32 numbers in a register. registers: how many there are."""

    lanes: int
    registers: int

    @classmethod
    def of(cls, features: Collection[str]) -> VectorUnit | None:
        """The widest that a CPU with these features has, with a fused multiply-add; None where kernels do not pay."""
        if "avx512f" in features:
            return cls(16, 32)
        return cls(8, 16) if {"avx2", "fma"} <= set(features) else None


@dataclass(frozen=True)
class Tile:
    """The part of a product whose sums are in registers: `rows` times `vectors` of them."""

    rows: int
    vectors: int

    @classmethod
    def for_columns(cls, columns: int, unit: VectorUnit) -> Tile:
        """The tile that wastes least of its last panel; of equal ones the one that reads least."""

        def waste(vectors: int) -> int:
            width = vectors * unit.lanes
            return -(-columns // width) * width

        return cls.of_vectors(min((2, 3, 4, 1) if unit.registers == 32 else (2, 1), key=waste), unit)

    @classmethod
    def of_vectors(cls, vectors: int, unit: VectorUnit) -> Tile:
        """The tallest: one register holds an element of the left factor, `vectors` hold those of the right one."""
        return cls((unit.registers - 1 - vectors) // vectors, vectors)
