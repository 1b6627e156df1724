"""Random bits of a place in a sequence: Threefry-2x32 with 20 rounds, Salmon et al., Parallel random numbers, 2011."""

from __future__ import annotations

from .values import Scalar

# Of the eight rounds that repeat.
_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_ROUNDS = 20
_PARITY = 0x1BD11BDA


def threefry(first: Scalar, second: Scalar, low: Scalar, high: Scalar) -> tuple[Scalar, Scalar]:
    """The two words of a counter (first, second) under a key (low, high), all of 32 bits."""
    keys = (low, high, low ^ high ^ _PARITY)
    first, second = first + keys[0], second + keys[1]
    for number in range(_ROUNDS):
        first = first + second
        second = _rotated(second, _ROTATIONS[number % len(_ROTATIONS)]) ^ first
        if number % 4 == 3:
            turn = number // 4 + 1
            first = first + keys[turn % 3]
            second = second + keys[(turn + 1) % 3] + turn
    return first, second


def _rotated(word: Scalar, bits: int) -> Scalar:
    return (word << bits) | (word >> (32 - bits))
