"""Classes of identical sets: found by digest and comparison, expanded pair by pair (MMDS 3.9.1)."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from simdb.kernels.compiling import kernel
from simdb.kernels.ordering import first_slot

Symbols: TypeAlias = npt.NDArray[np.uint64]
Numbers: TypeAlias = npt.NDArray[np.int64]

_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_ONE = np.uint64(1)
_LOW = np.uint64(63)


class Classes(NamedTuple):
    """Items in classes: class k is ``members[starts[k] : starts[k + 1]]``, rising; int64."""

    starts: Numbers
    members: Numbers


@kernel
def identical_representatives(
    values: Symbols, offsets: Numbers, shift: np.uint64
) -> tuple[Numbers, Symbols]:
    """Find the first set that is identical to each set, itself if it is the first.

    Exact: a digest only decides which sets are compared symbol by symbol.

    Args:
        values: arranged sets.
        offsets: set k is the slice from ``offsets[k]`` to ``offsets[k + 1]``.
        shift: ``table_shift`` of the number of sets.

    Returns:
        these first sets, and a bitmap of each set: bit b is the parity of the number of symbols
        that are b modulo 64.
    """
    count = offsets.size - 1
    table = np.full(np.int64(1) << np.int64(np.uint64(64) - shift), -1, np.int64)
    digests = np.empty(count, np.uint64)
    representatives = np.empty(count, np.int64)
    bitmaps = np.empty(count, np.uint64)
    for item in range(count):
        start, stop = offsets[item], offsets[item + 1]
        digest = np.uint64(stop - start)
        bitmap = np.uint64(0)
        for symbol in values[start:stop]:
            digest = (digest ^ symbol) * _MULTIPLIER
            digest ^= digest >> _HALF
            bitmap ^= _ONE << (symbol & _LOW)
        bitmaps[item] = bitmap
        digests[item] = digest
        slot = first_slot(digest, shift)
        while table[slot] >= 0:
            other = table[slot]
            begin, end = offsets[other], offsets[other + 1]
            if digests[other] == digest and end - begin == stop - start:
                place = 0
                while place < stop - start and values[begin + place] == values[start + place]:
                    place += 1
                if place == stop - start:
                    break
            slot = (slot + 1) & (table.size - 1)
        if table[slot] < 0:
            table[slot] = item
        representatives[item] = table[slot]
    return representatives, bitmaps


@kernel
def expand_pairs(
    pairs: tuple[Numbers, Numbers],
    left: Classes,
    right: Classes,
    *,
    same: bool,
    state: Numbers,
    found: tuple[Numbers, Numbers, Numbers],
) -> int:
    """Write out the pairs of members of pairs of classes, until the room is full or all is done.

    Args:
        pairs: left classes and right classes.
        left: members of the classes on the left.
        right: members of the classes on the right.
        same: both sides are the same; a class paired with itself gives each of its pairs once.
        state: where to go on: pair of classes, place on the left, place on the right; zeros at
            first, and the number of pairs of classes first when all is done.
        found: room for the row in ``pairs``, the left member and the right member of each pair.

    Returns:
        how many pairs were written.
    """
    row, one, other = state[0], state[1], state[2]
    rows, left_members, right_members = found
    count = 0
    while row < pairs[0].size:
        left_class, right_class = pairs[0][row], pairs[1][row]
        left_stop = left.starts[left_class + 1] - left.starts[left_class]
        right_stop = right.starts[right_class + 1] - right.starts[right_class]
        while one < left_stop:
            if same and left_class == right_class:
                other = max(other, one + 1)
            while other < right_stop and count < rows.size:
                rows[count] = row
                left_members[count] = left.members[left.starts[left_class] + one]
                right_members[count] = right.members[right.starts[right_class] + other]
                count += 1
                other += 1
            if other < right_stop:
                state[0], state[1], state[2] = row, one, other
                return count
            one += 1
            other = 0
        row += 1
        one = 0
    state[0], state[1], state[2] = row, 0, 0
    return count
