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

_ONE, _THREE, _LAST_BIT = np.uint64(1), np.uint64(3), np.uint64(7)
_BYTE = np.uint32(8)


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
    total = np.float64(sums[0])
    for place in range(whole, left.size):
        total += np.float64(left[place]) * np.float64(right[place])
    return total


@kernel
def _settle_doubts(
    projections: npt.NDArray[np.floating],
    errors: npt.NDArray[np.floating],
    vectors: npt.NDArray[np.float32],
    directions: npt.NDArray[np.float32],
    packed: npt.NDArray[np.uint8],
) -> None:
    """Set every bit whose projection is not sure to be on its side as ``product`` says.

    Bit j of an item is bit j % 8 of its byte j // 8 in ``packed``.
    """
    sums = np.empty(LANES, np.float64)
    for item in range(vectors.shape[0]):
        error = errors[item]
        projected = projections[item]
        doubts = np.int32(0)
        for function in range(projected.size):
            size = abs(projected[function])
            doubts += np.int32(not ((size > error) & (size < np.inf)))
        if doubts:
            for function in range(projected.size):
                size = abs(projected[function])
                if not ((size > error) & (size < np.inf)):
                    bit = np.uint8(1 << (function % 8))
                    byte = packed[item, function // 8] & (np.uint8(255) ^ bit)
                    if product(vectors[item], directions[function], sums) >= 0:
                        byte |= bit
                    packed[item, function // 8] = byte


@kernel
def _banded(packed: npt.NDArray[np.uint8], bands: int, rows: int) -> npt.NDArray[np.uint16]:
    """Return bits packed without gaps as words band by band; three bytes must follow the last."""
    width = rows // _WORD_BITS + 1
    signatures = np.empty((packed.shape[0], bands * width), np.uint16)
    for item in range(packed.shape[0]):
        row = packed[item]
        for band in range(bands):
            for word in range(width):
                first = np.uint64(band * rows + word * _WORD_BITS)
                byte = first >> _THREE
                bits = np.uint32(row[byte]) | (np.uint32(row[byte + _ONE]) << _BYTE)
                bits |= np.uint32(row[byte + _ONE + _ONE]) << (_BYTE + _BYTE)
                bits >>= np.uint32(first & _LAST_BIT)
                marker = np.uint32(1) << np.uint32(min(rows - word * _WORD_BITS, _WORD_BITS))
                bits = (bits & (marker - np.uint32(1))) | marker
                signatures[item, band * width + word] = np.uint16(bits & np.uint32(0xFFFF))
    return signatures


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
    packed = np.zeros((vectors.shape[0], -(-functions // 8) + 3), np.uint8)
    packed[:, :-3] = np.packbits(projections >= 0, axis=1, bitorder="little")
    _settle_doubts(projections, errors, vectors, directions, packed)
    return _banded(packed, bands, functions // bands)


@inlined
def _word_of(bucket: np.float64) -> np.uint16:
    """Return the bucket modulo 65,535, plus 1; 1 from 2^52 on, where buckets have no number.

    1 / 65,535 in float64 is off by 2^-64 of itself. So below 2^52 its product with a multiple of
    65,535 rounds to the whole number, and that with any other bucket to no whole number.
    """
    remainder = bucket - np.floor(bucket * (1.0 / WORD_VALUES)) * WORD_VALUES
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
