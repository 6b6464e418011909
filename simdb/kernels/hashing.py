"""Keyed hashing: polynomials modulo the Mersenne prime 2^61 - 1 and a 64-bit finaliser.

A polynomial with a secret base is universal: two different strings of at most n values collide
with probability at most n / 2^58, whoever chose them (Carter and Wegman 1979). The values count
from 1, so that strings of different length are different polynomials.

The state of a polynomial is kept unreduced, below 2^64, which takes the reduction off the path
from one character to the next. With a base below 2^59 and an addend below 3 * 2^61 a state below
2^64 gives a next one below 2^59 * 2^64 / 2^61 + 2^61 + 3 * 2^61 = 3 * 2^62.
"""

from __future__ import annotations

import numba
import numpy as np

from simdb.kernels.compiling import inlined

MODULUS = np.uint64((1 << 61) - 1)
_MODULUS_BITS = np.uint64(61)
_HIGH_SHIFT = np.uint64(3)  # the high word of a product weighs 2^64 = 2^3 * 2^61

if numba.config.DISABLE_JIT:

    def high_product(left: np.uint64, right: np.uint64) -> np.uint64:
        """Return the high 64 bits of the 128-bit product."""
        return np.uint64((int(left) * int(right)) >> 64)

else:
    from llvmlite import ir

    @numba.extending.intrinsic
    def high_product(_typing: object, _left: object, _right: object) -> tuple[object, object]:
        """Return the high 64 bits of the 128-bit product."""

        def generate(
            _context: object, builder: ir.IRBuilder, _signature: object, arguments: list[ir.Value]
        ) -> ir.Value:
            wide = ir.IntType(128)
            left, right = (builder.zext(argument, wide) for argument in arguments)
            product = builder.mul(left, right)
            return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

        return numba.types.uint64(numba.types.uint64, numba.types.uint64), generate


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
