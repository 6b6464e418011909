"""Symbols of stored sets and bags: keyed 64-bit hashes, straight from the stored bytes.

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

A stored bag is empty, or

1. one byte: how many bytes each count takes: 1, 2 or 4; 0 if every count is one;
2. its distinct elements as a stored set;
3. unless the first byte is 0, the counts in the order of the elements, unsigned, little-endian.

A bag has a symbol for every occurrence of every element. That of the k-th occurrence, k from 1, is
a keyed bijection of the element's own symbol xor k. The occurrences of one element never share a
symbol; those of two elements do so only if the elements' symbols agree in all but the low bits that
k has, and so with a probability of at most 2^20 / 2^58 for counts up to a million, whoever chose
the elements.
"""

from __future__ import annotations

import numpy as np

from simdb.arrays import Int64s, UInt8s, UInt64s
from simdb.kernels.compiler import inlined, kernel
from simdb.kernels.hashes import mixed, multiply_add, reduced

STRINGS = 16  # the bit of the first byte that strings have
COUNT_BYTES = 4  # of the number of strings
_SET_HEAD = 1 + COUNT_BYTES  # bytes before the lengths of strings
_EIGHT = np.uint64(8)
_ONE = np.uint64(1)


@inlined
def _number(data: UInt8s, start: int, width: int) -> np.uint64:
    """Return the little-endian number of ``width`` bytes at ``start``."""
    number = np.uint64(0)
    for place in range(start + width - 1, start - 1, -1):
        number = (number << _EIGHT) | np.uint64(data[place])
    return number


@kernel
def _count(data: UInt8s, start: int, end: int) -> np.int64:
    """Count the elements of the stored set in ``data[start:end]``, -1 if it is none."""
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
    if size < _SET_HEAD:
        return np.int64(-1)
    count = np.int64(_number(data, start + 1, COUNT_BYTES))
    begin = start + _SET_HEAD + count * width
    if begin > end:
        return np.int64(-1)
    for place in range(start + _SET_HEAD, begin, width):
        begin += np.int64(_number(data, place, width))
    return count if begin == end else np.int64(-1)


@kernel
def element_symbols(data: UInt8s, ends: Int64s, keys: UInt64s) -> tuple[UInt64s, Int64s]:
    """Hash every element of stored sets, in the order in which they are stored.

    Args:
        data: the stored sets, one after the other.
        ends: where each of them ends.
        keys: secret of integers; base of the polynomial; secret of strings.

    Returns:
        the symbols; the offsets of sets, of which the first is -1 - i instead of 0 if set i, the
        first such, is damaged.
    """
    offsets = np.zeros(ends.size + 1, np.int64)
    # All lengths are checked before anything is read by them: stored bytes may be damaged.
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


@kernel
def _element_count(data: UInt8s, start: int, end: int) -> int:
    """The number of elements that the bag in ``data[start:end]`` claims, -1 if damaged."""
    if end - start < 2 or data[start] not in (0, 1, 2, 4):
        return -1
    width = int(data[start])
    form = int(data[start + 1])
    if form < STRINGS:
        each = form + width
        room = end - start - 2
        return room // each if form > 0 and room > 0 and room % each == 0 else -1
    if end - start < 1 + _SET_HEAD:
        return -1
    count = int(_number(data, start + 2, COUNT_BYTES))
    return count if count > 0 and 1 + _SET_HEAD + count * width <= end - start else -1


@kernel
def bag_parts(data: UInt8s, ends: Int64s, largest: int) -> tuple[UInt8s, Int64s, Int64s, Int64s]:
    """Take stored bags apart into stored sets and counts.

    Args:
        data, ends: as for ``element_symbols``.
        largest: occurrences that a bag may have; more are damage.

    Returns:
        the sets of their elements, one after the other; where each of them ends; the counts of all
        elements; the offsets of bags in them, of which the first is -1 - i instead of 0 if bag i is
        damaged: then the other arrays mean nothing. Whether the sets are sound is for
        ``element_symbols`` to tell.
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
                    counts[position] = np.int64(_number(data, place, width))
                    place += width
                    # A count of 0 is damage: it is made to exceed the most there may be.
                    total += counts[position] if counts[position] > 0 else largest + 1
            if total > largest:
                offsets[0] = -1 - item
                return data[:0].copy(), set_ends, np.empty(0, np.int64), offsets
        set_ends[item] = written
        start = ends[item]
    return sets[:written], set_ends, counts, offsets


@kernel
def occurrence_symbols(
    elements: UInt64s, counts: Int64s, offsets: Int64s, secret: np.uint64
) -> tuple[UInt64s, Int64s]:
    """Expand bags into the symbols of (element, 1) to (element, count), element by element.

    Args:
        elements: the symbols of the elements of all bags.
        counts: how often each occurs, at least 1.
        offsets: of bags in both.
        secret: of the bijection.

    Returns:
        the symbols, and the offsets of bags in them.
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
