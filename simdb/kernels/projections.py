"""Projections of vectors onto random directions, as the words of signatures (MMDS 3.7.2, 3.7.4).

The projection of a vector onto a direction *is* the sum that ``product`` computes: float64, in one
fixed order. A matrix product of a library is only near it, and nearer or farther by the number of
items in the batch, so a signature must not depend on it. It is used where it is sure: every kernel
is given a bound of its error, and computes ``product`` where the bound leaves a doubt. So equal
vectors have equal signatures, in every batch and on every machine.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simdb.kernels.compiling import inlined, kernel

LANES = 32
# One below 2^16: buckets are taken modulo this and moved by one, so that no word is zero.
WORD_VALUES = 65_535
_WORD_BITS = 16
_LARGEST_BUCKET = 2.0**52
_ROUNDING = 2.0**-50

_ONE = np.uint64(1)
_SIDE, _DOUBT = np.uint8(1), np.uint8(2)
_SIDES = np.uint64(0x0101010101010101)
_DOUBTS = np.uint64(0x0202020202020202)
# Times eight bytes of 0 or 1 this has them as the bits of its highest byte.
_GATHER = np.uint64(0x0102040810204080)
_HIGHEST_BYTE = np.uint64(56)
_LAST_BIT = np.uint64(63)


@kernel
def product(
    left: npt.NDArray[np.float32], right: npt.NDArray[np.float32], sums: npt.NDArray[np.float64]
) -> np.float64:
    """Return the dot product of two float32 vectors of one size, in float64.

    Products of two float32 are exact. Of the sums, 32 of them, each takes every 32nd product, as
    far as 32 fit; they are added in pairs that lie 16, 8, 4, 2 and 1 apart, and then the rest one
    by one.
    """
    sums[:] = 0.0
    whole = left.size - left.size % LANES
    for start in range(0, whole, LANES):
        one, other = left[start : start + LANES], right[start : start + LANES]
        for lane in range(LANES):
            sums[lane] += np.float64(one[lane]) * np.float64(other[lane])
    apart = LANES // 2
    while apart:
        for lane in range(apart):
            sums[lane] += sums[lane + apart]
        apart //= 2
    total = sums[0]
    for place in range(whole, left.size):
        total += np.float64(left[place]) * np.float64(right[place])
    return total


@inlined
def _bits_from(packed: npt.NDArray[np.uint64], first: np.uint64) -> np.uint64:
    """Return 64 bits of packed words, beginning at one of them."""
    word, shift = first >> np.uint64(6), first & _LAST_BIT
    # A shift by 64 bits is not defined, so the next word is shifted twice.
    following = (packed[word + _ONE] << _ONE) << (_LAST_BIT - shift)
    return (packed[word] >> shift) | following


@kernel
def sign_words(
    projections: npt.NDArray[np.floating],
    errors: npt.NDArray[np.floating],
    vectors: npt.NDArray[np.float32],
    directions: npt.NDArray[np.float32],
    bands: int,
) -> npt.NDArray[np.uint16]:
    """Return on which side of each hyperplane the vectors lie, a bit each (MMDS 3.7.2).

    Args:
        projections: (n, bands * rows), of the vectors onto the directions, about.
        errors: (n,), how far a projection of each vector can be from ``product``.
        vectors: float32 (n, d), contiguous.
        directions: float32 (bands * rows, d), contiguous: the normals of the hyperplanes.
        bands: into how many equal parts the directions fall.

    Returns:
        uint16 (n, bands * (rows // 16 + 1)): bit j of a band is bit j % 16 of its word j // 16, 1
        where the projection is at least 0; the bit after its last is set, so that no band is zero.
    """
    functions = directions.shape[0]
    rows = functions // bands
    width = rows // _WORD_BITS + 1
    signatures = np.empty((vectors.shape[0], bands * width), np.uint16)
    sides = np.zeros(functions // 64 * 64 + 128, np.uint8)
    sides_by_eight = sides.view(np.uint64)
    packed = np.empty(sides.size // 64, np.uint64)
    sums = np.empty(LANES, np.float64)
    for item in range(vectors.shape[0]):
        error = errors[item]
        projected = projections[item]
        for function in range(functions):
            size = abs(projected[function])
            sure = (size > error) & (size < np.inf)
            sides[function] = np.uint8(projected[function] >= 0) | (np.uint8(not sure) << _SIDE)
        doubts = np.uint64(0)
        for word in range(packed.size):
            gathered = np.uint64(0)
            for byte in range(8):
                eight = sides_by_eight[8 * word + byte]
                doubts |= eight & _DOUBTS
                bits = ((eight & _SIDES) * _GATHER) >> _HIGHEST_BYTE
                gathered |= bits << np.uint64(8 * byte)
            packed[word] = gathered
        if doubts:
            for function in range(functions):
                if sides[function] & _DOUBT:
                    place = np.uint64(function & 63)
                    packed[function >> 6] &= ~(_ONE << place)
                    side = np.uint64(product(vectors[item], directions[function], sums) >= 0)
                    packed[function >> 6] |= side << place
        for band in range(bands):
            for word in range(width):
                first = np.uint64(band * rows + word * _WORD_BITS)
                marker = _ONE << np.uint64(min(rows - word * _WORD_BITS, _WORD_BITS))
                bits = (_bits_from(packed, first) & (marker - _ONE)) | marker
                signatures[item, band * width + word] = np.uint16(bits & np.uint64(0xFFFF))
    return signatures


@inlined
def _word_of(bucket: np.float64) -> np.uint16:
    """Return the bucket modulo 65,535, plus 1; 1 from 2^52 on, where buckets have no number.

    The division may round up to the next whole number, which the remainder shows.
    """
    remainder = bucket - np.floor(bucket * (1.0 / WORD_VALUES)) * WORD_VALUES
    remainder += WORD_VALUES * np.int64(remainder < 0)
    remainder -= WORD_VALUES * np.int64(remainder >= WORD_VALUES)
    known = abs(bucket) < _LARGEST_BUCKET
    return np.uint16(np.int64(remainder if known else 0.0) + 1)


@kernel
def line_words(
    projections: npt.NDArray[np.floating],
    errors: npt.NDArray[np.floating],
    vectors: npt.NDArray[np.float32],
    directions: npt.NDArray[np.float32],
    shifts: npt.NDArray[np.float64],
    bucket_width: float,
) -> npt.NDArray[np.uint16]:
    """Return in which bucket of each line the vectors lie, a word each (MMDS 3.7.4).

    The bucket of a projection p is floor((p + shift) / bucket_width). Its word is the bucket modulo
    65,535, plus 1: equal words are equal buckets, but for buckets a multiple of 65,535 apart, or
    from 2^52 on; and none is zero.

    Args:
        projections: (n, functions), of the vectors onto the directions, about.
        errors: (n,), how far a projection of each vector can be from ``product``.
        vectors: float32 (n, d), contiguous.
        directions: float32 (functions, d), contiguous.
        shifts: float64 (functions,), from 0 to the bucket width.
        bucket_width: above 0.
    """
    signatures = np.empty((vectors.shape[0], shifts.size), np.uint16)
    unsure = np.empty(shifts.size, np.bool_)
    sums = np.empty(LANES, np.float64)
    inverse = 1.0 / bucket_width
    for item in range(vectors.shape[0]):
        error = np.float64(errors[item]) * inverse
        doubts = 0
        for function in range(shifts.size):
            quotient = (np.float64(projections[item, function]) + shifts[function]) * inverse
            bucket = np.floor(quotient)
            within = quotient - bucket
            # Beside the error of the projection those of the sum and of the quotient.
            margin = error + _ROUNDING * (abs(quotient) + 1.0)
            doubt = not ((within > margin) & (within < 1.0 - margin))
            unsure[function] = doubt
            doubts += np.int64(doubt)
            signatures[item, function] = _word_of(bucket)
        if doubts:
            for function in range(shifts.size):
                if unsure[function]:
                    exact = product(vectors[item], directions[function], sums) + shifts[function]
                    signatures[item, function] = _word_of(np.floor(exact / bucket_width))
    return signatures
