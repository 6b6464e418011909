"""Symbols of the elements of stored sets: keyed 64-bit hashes, straight from the stored bytes.

A stored set is empty, or one byte that says how wide its numbers are and of what they are:

======  ==========================================================================================
byte    what follows
======  ==========================================================================================
1 2 4   integers, unsigned and little-endian, of so many bytes each
8       integers, signed and little-endian, of eight bytes each
17 18   strings: their count in four bytes, their lengths in one or two bytes each, and then the
20      UTF-8 of all (20: lengths in four bytes), all unsigned and little-endian
======  ==========================================================================================

An integer's symbol is a keyed bijection of its 64 bits, so that different integers never share one.
A string's symbol is a keyed polynomial of its bytes: two strings of at most n bytes share one with
probability at most n / 2^58.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simdb.kernels.compiling import inlined, kernel
from simdb.kernels.hashing import mixed, multiply_add, reduced

STRINGS = 16  # the bit of the first byte that strings have
COUNT_BYTES = 4  # of the number of strings
_EIGHT = np.uint64(8)
_ONE = np.uint64(1)


@inlined
def _number(data: npt.NDArray[np.uint8], start: int, width: int) -> np.uint64:
    """Return the little-endian number of ``width`` bytes at ``start``."""
    number = np.uint64(0)
    for place in range(start + width - 1, start - 1, -1):
        number = (number << _EIGHT) | np.uint64(data[place])
    return number


@kernel
def _count(data: npt.NDArray[np.uint8], start: int, end: int) -> np.int64:
    """Return how many elements the stored set in ``data[start:end]`` has, -1 if it is none."""
    size = end - start
    if size == 0:
        return np.int64(0)
    width = np.int64(data[start]) & (STRINGS - 1)
    strings = np.int64(data[start]) & STRINGS
    known = width in (1, 2, 4) or (width == 8 and strings == 0)
    if not known or data[start] > STRINGS + width:
        return np.int64(-1)
    if strings == 0:
        return np.int64((size - 1) // width) if (size - 1) % width == 0 else np.int64(-1)
    if size < 1 + COUNT_BYTES:
        return np.int64(-1)
    count = np.int64(_number(data, start + 1, COUNT_BYTES))
    begin = start + 1 + COUNT_BYTES + count * width
    if begin > end:
        return np.int64(-1)
    for place in range(start + 1 + COUNT_BYTES, begin, width):
        begin += np.int64(_number(data, place, width))
    return count if begin == end else np.int64(-1)


@kernel
def element_symbols(
    data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], keys: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Hash every element of stored sets, in the order in which they are stored.

    Args:
        data: uint8, the stored sets, one after the other.
        ends: int64 (n,), where each of them ends.
        keys: uint64 (3,): secret of integers; base of the polynomial; secret of strings.

    Returns:
        uint64, the symbols; int64 (n + 1,), where those of each set begin, of which the first is
        -1 - i instead of 0 if set i, the first such, is damaged.
    """
    offsets = np.zeros(ends.size + 1, np.int64)
    for item in range(ends.size):
        count = _count(data, ends[item - 1] if item else 0, ends[item])
        if count < 0:
            offsets[0] = -1 - item
            return np.empty(0, np.uint64), offsets
        offsets[item + 1] = offsets[item] + count
    values = np.empty(offsets[ends.size], np.uint64)
    integer_secret, base, string_secret = keys[0], keys[1], keys[2]
    for item in range(ends.size):
        start = ends[item - 1] if item else 0
        if start == ends[item]:
            continue
        width = np.int64(data[start]) & (STRINGS - 1)
        place = start + 1
        if data[start] < STRINGS:
            for position in range(offsets[item], offsets[item + 1]):
                values[position] = mixed(_number(data, place, width), integer_secret)
                place += width
            continue
        place += COUNT_BYTES
        letter = place + (offsets[item + 1] - offsets[item]) * width
        for position in range(offsets[item], offsets[item + 1]):
            string_end = letter + np.int64(_number(data, place, width))
            state = np.uint64(0)
            while letter < string_end:
                state = multiply_add(state, base, np.uint64(data[letter]) + _ONE)
                letter += 1
            values[position] = mixed(reduced(state), string_secret)
            place += width
    return values, offsets
