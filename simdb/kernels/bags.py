"""Symbols of stored bags: one for every occurrence of every element.

A stored bag is empty, or

1. one byte: how many bytes each count takes: 1, 2 or 4; 0 if every count is one;
2. its distinct elements as a stored set (``kernels.elements``);
3. unless the first byte is 0, the counts in the order of the elements, unsigned, little-endian.

The symbol of the k-th occurrence of an element, k from 1, is a keyed bijection of the element's own
symbol xor k. The occurrences of one element never share a symbol; those of two elements do so only
if the elements' symbols agree in all but the low bits that k has, and so with a probability of at
most 2^20 / 2^58 for counts up to a million, whoever chose the elements.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simdb.kernels.compiling import kernel
from simdb.kernels.hashing import mixed

_STRINGS = 16  # of stored sets: the bit of the first byte that strings have
_SET_HEAD = 5  # bytes before the lengths of strings: the first, and their count


@kernel
def _element_count(data: npt.NDArray[np.uint8], start: int, end: int) -> int:
    """Return how many elements the bag in ``data[start:end]`` claims to have, -1 if damaged."""
    if end - start < 2 or data[start] not in (0, 1, 2, 4):
        return -1
    width = int(data[start])
    form = int(data[start + 1])
    if form < _STRINGS:
        each = form + width
        room = end - start - 2
        return room // each if form > 0 and room > 0 and room % each == 0 else -1
    if end - start < 1 + _SET_HEAD:
        return -1
    count = 0
    for place in range(start + _SET_HEAD, start + 1, -1):
        count = count * 256 + int(data[place])
    return count if count > 0 and 1 + _SET_HEAD + count * width <= end - start else -1


@kernel
def bag_parts(
    data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], largest: int
) -> tuple[
    npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]
]:
    """Take stored bags apart into stored sets and counts.

    Args:
        data: uint8, the stored bags, one after the other.
        ends: int64 (n,), where each of them ends.
        largest: occurrences that a bag may have; more are damage.

    Returns:
        uint8, the sets of their elements, one after the other; int64 (n,), where each of them ends;
        int64, the counts of all elements; int64 (n + 1,), where those of each bag begin, of which
        the first is -1 - i instead of 0 if bag i is damaged; then the other arrays mean nothing.
        Whether the sets are sound is for ``kernels.elements.element_symbols`` to tell.
    """
    offsets = np.zeros(ends.size + 1, np.int64)
    set_ends = np.zeros(ends.size, np.int64)
    start = 0
    for item in range(ends.size):
        count = _element_count(data, start, ends[item]) if ends[item] > start else 0
        if count < 0 or count > largest:
            offsets[0] = -1 - item
            return data[:0].copy(), set_ends, np.empty(0, np.int64), offsets
        offsets[item + 1] = offsets[item] + count
        start = ends[item]
    sets = np.empty(data.size, np.uint8)
    counts = np.ones(offsets[ends.size], np.int64)
    start, written = 0, 0
    for item in range(ends.size):
        if ends[item] > start:
            width = np.int64(data[start])
            place = ends[item] - width * (offsets[item + 1] - offsets[item])
            for source in range(start + 1, place):
                sets[written] = data[source]
                written += 1
            total = offsets[item + 1] - offsets[item]
            if width > 0:
                total = 0
                for position in range(offsets[item], offsets[item + 1]):
                    counts[position] = 0
                    for byte in range(place + width - 1, place - 1, -1):
                        counts[position] = counts[position] * 256 + np.int64(data[byte])
                    place += width
                    total += counts[position] if counts[position] > 0 else largest + 1
            if total > largest:
                offsets[0] = -1 - item
                return data[:0].copy(), set_ends, np.empty(0, np.int64), offsets
        set_ends[item] = written
        start = ends[item]
    return sets[:written], set_ends, counts, offsets


@kernel
def occurrence_symbols(
    elements: npt.NDArray[np.uint64],
    counts: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    secret: np.uint64,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Expand bags into the symbols of (element, 1) to (element, count), element by element.

    Args:
        elements: uint64, the symbols of the elements of all bags.
        counts: int64, how often each occurs, at least 1.
        offsets: int64 (n + 1,), where the elements of each bag begin.
        secret: uint64.

    Returns:
        uint64, the symbols; int64 (n + 1,), where those of each bag begin.
    """
    total = 0
    for count in counts:
        total += count
    values = np.empty(total, np.uint64)
    ends = np.zeros(offsets.size, np.int64)
    written = 0
    for item in range(offsets.size - 1):
        for position in range(offsets[item], offsets[item + 1]):
            for occurrence in range(1, counts[position] + 1):
                values[written] = mixed(elements[position] ^ np.uint64(occurrence), secret)
                written += 1
        ends[item + 1] = written
    return values, ends
