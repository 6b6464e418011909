"""Hashes: polynomials modulo the Mersenne prime 2^61 - 1, a 64-bit finaliser, slots of tables.

A polynomial with a secret base is universal: two different strings of at most n values collide
with probability at most n / 2^58, whoever chose them (Carter and Wegman 1979). The values count
from 1, so that strings of different length are different polynomials.

The state of a polynomial is kept unreduced, below 2^64, which takes the reduction off the path
from one character to the next. With a base below 2^59 and an addend below 3 * 2^61 a state below
2^64 gives a next one below 2^59 * 2^64 / 2^61 + 2^61 + 3 * 2^61 = 3 * 2^62.
"""

from __future__ import annotations

import numpy as np

from simdb.kernels.compiler import high_product, inlined

MODULUS = np.uint64((1 << 61) - 1)
_MODULUS_BITS = np.uint64(61)
# 2^64 divided by the golden ratio: multiplying by it spreads close numbers (Knuth, volume 3, 6.4).
SPREAD = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)
_HALF = np.uint64(32)
_HIGH_SHIFT = np.uint64(3)  # the high word of a product weighs 2^64 = 2^3 * 2^61


@inlined
def multiply_add(value: np.uint64, factor: np.uint64, addend: np.uint64) -> np.uint64:
    """Return value * factor + addend modulo 2^61 - 1, unreduced (below 2^64 for small operands)."""
    low = value * factor
    high = high_product(value, factor)
    return ((low & MODULUS) + addend) + ((high << _HIGH_SHIFT) | (low >> _MODULUS_BITS))


@inlined
def reduced(value: np.uint64) -> np.uint64:
    """Return the value modulo 2^61 - 1, in [0, 2^61 - 1)."""
    folded = (value & MODULUS) + (value >> _MODULUS_BITS)
    return folded - MODULUS if folded >= MODULUS else folded


@inlined
def mixed(value: np.uint64, secret: np.uint64) -> np.uint64:
    """Return a keyed bijection of 64 bits in which every bit depends on every bit.

    The multiply and xor-shift finaliser of SplitMix64 (Steele, Lea and Flood 2014).
    """
    state = value ^ secret
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@inlined
def first_slot(symbol: np.uint64, shift: np.uint64) -> np.int64:
    """Give the slot where the search for a symbol begins, in a table of 2^(64 - shift) slots."""
    return np.int64(((symbol ^ (symbol >> _HALF)) * SPREAD) >> shift)


@inlined
def table_slots(entries: int) -> int:
    """Choose the size of an open table, a power of two, at most half full."""
    slots = 2
    while slots < 2 * entries:
        slots *= 2
    return slots


@inlined
def table_shift(slots: int) -> np.uint64:
    """Give the shift that makes a 64-bit product a slot of a table of that size."""
    shift = np.uint64(65)
    rest = np.int64(slots)
    while rest > 0:
        rest >>= 1
        shift -= _ONE
    return shift
