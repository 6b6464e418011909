"""Sets written down in a fixed order of symbols, rarest first, and the classes of identical ones.

A **key** is a symbol's place in the order, as a uint64: sets are joined by their keys (MMDS 3.9.2
and its box). The mapping from symbols to keys is one to one on all 2^64 values, so that equal keys
mean equal symbols:

- the m frequent symbols get the m largest keys, by rank;
- any other symbol keeps its value, and so comes before them, by value;
- the few others that *have* one of the m largest values get, in order, the values that the
  frequent symbols left behind (the holes).

Arranged sets that are identical are found by digest and comparison (MMDS 3.9.1), so that a join
handles each class once, and the pairs of its members are written out at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simdb.arrays import Bools, Int32s, Int64s, UInt64s
from simdb.kernels.compiler import kernel
from simdb.kernels.hashes import first_slot, table_shift, table_slots

# Up to here an insertion sort beats everything else.
_SHORT = 24
# A set whose values crowd together so much is left to a sort that no values can slow down.
_CROWDED = 48
_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)  # of the digests of sets
_HALF = np.uint64(32)
_ONE = np.uint64(1)
_LOW = np.uint64(63)


class Ranks(NamedTuple):
    """The frequent symbols by rank, to be looked up.

    Attributes:
        table: rank in each slot of an open table, -1 where free.
        moved: the frequent symbols whose values are among the largest, rising.
        holes: the values of the other frequent symbols, rising.
    """

    frequent: UInt64s
    table: Int32s
    moved: UInt64s
    holes: UInt64s


@kernel
def fill_ranks(ranks: Ranks) -> bool:
    """Enter the frequent symbols into the table; False if one of them is given twice."""
    mask, shift = ranks.table.size - 1, table_shift(ranks.table.size)
    for rank in range(ranks.frequent.size):
        slot = first_slot(ranks.frequent[rank], shift)
        while ranks.table[slot] >= 0:
            if ranks.frequent[ranks.table[slot]] == ranks.frequent[rank]:
                return False
            slot = (slot + 1) & mask
        ranks.table[slot] = rank
    return True


@kernel
def symbol_keys(symbols: UInt64s, ranks: Ranks) -> UInt64s:
    """Map symbols, any values, to keys, one to one."""
    # Fields are taken out before the loop: each access to one counts references.
    frequent, table = ranks.frequent, ranks.table
    keys = np.empty_like(symbols)
    mask, shift = table.size - 1, table_shift(table.size)
    count = frequent.size
    # The key of rank 0: 2^64 - count, written so that it wraps to 0 only where there are no ranks.
    lowest = np.uint64(0xFFFFFFFFFFFFFFFF) - np.uint64(count) + np.uint64(1 if count else 0)
    for place in range(symbols.size):
        symbol = symbols[place]
        slot = first_slot(symbol, shift)
        rank = table[slot]
        while rank >= 0 and frequent[rank] != symbol:
            slot = (slot + 1) & mask
            rank = table[slot]
        # Three cases that never meet: the largest values are ranks, so a symbol that has one of
        # them without being ranked takes a hole, which no symbol can have as its own value.
        if rank >= 0:
            keys[place] = lowest + np.uint64(rank)
        elif count and symbol >= lowest:
            below = np.searchsorted(ranks.moved, symbol)
            keys[place] = ranks.holes[np.int64(symbol - lowest) - below]
        else:
            keys[place] = symbol
    return keys


@kernel
def _insert(keys: UInt64s, start: int, stop: int) -> None:
    """Sort a slice in place, quickly if it is short or nearly sorted."""
    for place in range(start + 1, stop):
        key = keys[place]
        target = place
        while target > start and keys[target - 1] > key:
            keys[target] = keys[target - 1]
            target -= 1
        keys[target] = key


@kernel
def _distribute(keys: UInt64s, start: int, stop: int, room: UInt64s, fills: Int64s) -> bool:
    """Nearly sort a slice in place, by distributing it over as many buckets as it has values.

    Plain loops, since slices and array functions take the compiler several times as long.

    Returns:
        False, and the slice in its former order, if the values crowd in few buckets.
    """
    size = stop - start
    lowest = highest = keys[start]
    for place in range(start, stop):
        lowest = min(lowest, keys[place])
        highest = max(highest, keys[place])
    shift = np.uint64(0)
    while ((highest - lowest) >> shift) >= np.uint64(size):
        shift += _ONE
    for bucket in range(size + 1):
        fills[bucket] = 0
    for place in range(start, stop):
        fills[np.int64((keys[place] - lowest) >> shift) + 1] += 1
    # Before anything is moved: with many values in one bucket insertion would be quadratic, and
    # whoever chose the symbols could make it so.
    for bucket in range(size):
        if fills[bucket + 1] > _CROWDED:
            return False
        fills[bucket + 1] += fills[bucket]
    for place in range(start, stop):
        bucket = np.int64((keys[place] - lowest) >> shift)
        room[fills[bucket]] = keys[place]
        fills[bucket] += 1
    for place in range(size):
        keys[start + place] = room[place]
    return True


@kernel
def sort_sets(keys: UInt64s, offsets: Int64s, lowest_rank: np.uint64) -> Bools:
    """Sort the keys of each set in place; tell which are left, since their values crowd together.

    The keys of frequent symbols, from ``lowest_rank`` on, lie close together and the others are
    spread over all values, so the two kinds are distributed apart.
    """
    longest = 0
    for item in range(offsets.size - 1):
        longest = max(longest, offsets[item + 1] - offsets[item])
    room = np.empty(longest, np.uint64)
    fills = np.empty(longest + 1, np.int64)
    crowded = np.zeros(offsets.size - 1, np.bool_)
    for item in range(offsets.size - 1):
        start, stop = offsets[item], offsets[item + 1]
        if stop - start > _SHORT:
            middle = start
            # Together their range would be that of all 64 bits, and the ranks in one bucket.
            for place in range(start, stop):
                if keys[place] < lowest_rank:
                    keys[place], keys[middle] = keys[middle], keys[place]
                    middle += 1
            for part in ((start, middle), (middle, stop)):
                if part[1] - part[0] > _SHORT and not _distribute(
                    keys, part[0], part[1], room, fills
                ):
                    crowded[item] = True
        if not crowded[item]:
            _insert(keys, start, stop)
    return crowded


@kernel
def drop_repeats(keys: UInt64s, offsets: Int64s) -> Int64s:
    """Keep one of each run of equal keys of every sorted set, moved to the front; new offsets."""
    new_offsets = np.zeros_like(offsets)
    count = 0
    for item in range(offsets.size - 1):
        for place in range(offsets[item], offsets[item + 1]):
            if place == offsets[item] or keys[place] != keys[count - 1]:
                keys[count] = keys[place]
                count += 1
        new_offsets[item + 1] = count
    return new_offsets


class Classes(NamedTuple):
    """Items in classes: class k is ``members[starts[k] : starts[k + 1]]``, rising; int64."""

    starts: Int64s
    members: Int64s


@kernel
def identical_representatives(values: UInt64s, offsets: Int64s) -> tuple[Int64s, UInt64s]:
    """Find the first arranged set that is identical to each, itself if it is the first.

    Exact: a digest only decides which sets are compared symbol by symbol.

    Returns:
        these first sets, and a bitmap of each set: bit b is the parity of the number of symbols
        that are b modulo 64.
    """
    count = offsets.size - 1
    table = np.full(table_slots(count), -1, np.int64)
    shift = table_shift(table.size)
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
            # Digests can be made to collide on purpose; they only spare most comparisons.
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
    pairs: tuple[Int64s, Int64s],
    left: Classes,
    right: Classes,
    *,
    same: bool,
    state: Int64s,
    found: tuple[Int64s, Int64s, Int64s],
) -> int:
    """Write out the pairs of members of pairs of classes, until the room is full or all is done.

    Args:
        pairs: left classes and right classes.
        left, right: members of the classes on both sides.
        same: both sides are the same; a class paired with itself gives each of its pairs once.
        state: where to go on: pair of classes, place on the left, place on the right; zeros at
            first, and the number of pairs of classes first when all is done.
        found: room for the row in ``pairs``, the left member and the right member of each pair,
            whose number is returned.
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
                other = max(other, one + 1)  # above the diagonal
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
