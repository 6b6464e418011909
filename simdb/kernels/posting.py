"""Post the prefixes of sets in buckets, one a symbol (MMDS 3.9.4 to 3.9.6).

Sets are given *arranged*: ``values[starts[k] : starts[k] + sizes[k]]`` are the symbols of set k in
the fixed order of symbols, as rising numbers without repetition. A **posting** says that a set has
a symbol at a position (from 1), with so many symbols after it (the suffix length). The postings of
one symbol are its **bucket**, sorted by the size of their sets.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from simdb.kernels.compiling import kernel
from simdb.kernels.ordering import first_slot, table_shift

Symbols: TypeAlias = npt.NDArray[np.uint64]
Numbers: TypeAlias = npt.NDArray[np.int64]
Column: TypeAlias = npt.NDArray[np.uint32]

_HALF = np.uint64(32)
_LOWER = np.uint64(0xFFFFFFFF)


class Sets(NamedTuple):
    """Arranged sets.

    Attributes:
        values: symbols, uint64.
        starts: where each set begins in ``values``, int64.
        sizes: symbols of each set, int64.
        prefixes: how many first symbols of each are posted, or probed, int64.
        bitmaps: for the bitmap filter of ``verify_candidates``, uint64; else of any length.
    """

    values: Symbols
    starts: Numbers
    sizes: Numbers
    prefixes: Numbers
    bitmaps: Symbols


class Postings(NamedTuple):
    """Postings in buckets; bucket k is the slice from ``starts[k]`` to ``starts[k + 1]``.

    Attributes:
        starts: int64, one more than there are buckets.
        items, positions (from 1), suffixes: uint32; within a bucket by rising size of the set,
            which is position + suffix, and sets of one size by rising item.
    """

    starts: Numbers
    items: Column
    positions: Column
    suffixes: Column


class Entries(NamedTuple):
    """Postings in the order of their sets, not yet in buckets: uint64 and uint32 columns."""

    symbols: Symbols
    items: Column
    positions: Column


@kernel
def mark_symbols(sets: Sets, marks: Symbols, shift: np.uint64, *, side: int) -> None:
    """Mark the prefix symbols of sets in a table of two bits a slot, without keeping them.

    Both bits of a symbol's slot are set if the symbol may be worth a bucket, and possibly if not:
    slots are shared.

    Args:
        sets: arranged sets.
        marks: 32 slots an element, zeros at first.
        shift: see ``first_slot``.
        side: 0 sets the first bit on first sight and the second on second sight; 1 and 2 set the
            first and the second.
    """
    for item in range(sets.starts.size):
        start = sets.starts[item]
        for symbol in sets.values[start : start + sets.prefixes[item]]:
            slot = first_slot(symbol, shift)
            place = np.uint64((slot & 31) << 1)
            bits = np.uint64(side)
            if side == 0:
                bits = np.uint64(1) + ((marks[slot >> 5] >> place & np.uint64(1)) << np.uint64(1))
            marks[slot >> 5] |= bits << place


@kernel
def marked_entries(sets: Sets, marks: Symbols, shift: np.uint64) -> Entries:
    """List the postings of the prefix symbols that have both marks."""
    values, prefixes = sets.values, sets.prefixes
    size = prefixes.sum()
    symbols = np.empty(size, np.uint64)
    items = np.empty(size, np.uint32)
    positions = np.empty(size, np.uint32)
    count = 0
    for item in range(sets.starts.size):
        start = sets.starts[item]
        for place in range(prefixes[item]):
            symbol = values[start + place]
            slot = first_slot(symbol, shift)
            if marks[slot >> 5] >> np.uint64((slot & 31) << 1) & np.uint64(3) == np.uint64(3):
                symbols[count] = symbol
                items[count] = item
                positions[count] = place + 1
                count += 1
    return Entries(symbols[:count], items[:count], positions[:count])


@kernel
def count_slots(
    symbols: Symbols, table: Symbols, shift: np.uint64, *, side: int
) -> npt.NDArray[np.int32]:
    """Look up the slot of every symbol, and count the symbols by slot and side.

    Args:
        symbols: symbols of the postings of one side.
        table: shape (slots, 2): the symbol of each slot, and beside it, so that one fetch from
            memory brings both, its postings on side 0 (lower 32 bits) and on side 1 (upper). A slot
            is free while there are none.
        shift: see ``first_slot``.
        side: 0 takes a free slot for a symbol that has none; 1 answers -1 for it.
    """
    slots = np.empty(symbols.size, np.int32)
    mask = table.shape[0] - 1
    one = np.uint64(1) << np.uint64(32 * side)
    for place in range(symbols.size):
        symbol = symbols[place]
        slot = first_slot(symbol, shift)
        while table[slot, 1] > 0 and table[slot, 0] != symbol:
            slot = (slot + 1) & mask
        if side == 0:
            table[slot, 0] = symbol
        if side == 0 or table[slot, 1] > 0:
            table[slot, 1] += one
            slots[place] = slot
        else:
            slots[place] = -1
    return slots


@kernel
def number_buckets(table: Symbols, least: int) -> tuple[npt.NDArray[np.int32], Numbers]:
    """Number the slots that have postings on the left and at least ``least`` on the right.

    Returns:
        the bucket of each slot (-1 for none), and the starts of the buckets on both
        sides, shape (2, buckets + 1).
    """
    buckets = np.full(table.shape[0], -1, np.int32)
    starts = np.zeros((2, table.shape[0] + 1), np.int64)
    bucket = 0
    for slot in range(table.shape[0]):
        on_left = np.int64(table[slot, 1] & _LOWER)
        on_right = np.int64(table[slot, 1] >> _HALF)
        if on_left > 0 and on_right >= least:
            buckets[slot] = bucket
            starts[0, bucket + 1] = starts[0, bucket] + on_left
            starts[1, bucket + 1] = starts[1, bucket] + on_right
            bucket += 1
    return buckets, starts[:, : bucket + 1].copy()


@kernel
def fill_buckets(
    sets: Sets,
    entries: Entries,
    slots: npt.NDArray[np.int32],
    buckets: npt.NDArray[np.int32],
    starts: Numbers,
) -> Postings:
    """Put postings into their buckets, each bucket in the order of the sets."""
    _, entry_items, entry_positions = entries
    sizes = sets.sizes
    fill = starts.copy()
    items = np.empty(starts[-1], np.uint32)
    positions = np.empty(starts[-1], np.uint32)
    suffixes = np.empty(starts[-1], np.uint32)
    for place in range(slots.size):
        slot = slots[place]
        if slot >= 0 and buckets[slot] >= 0:
            target = fill[buckets[slot]]
            fill[buckets[slot]] += 1
            items[target] = entry_items[place]
            positions[target] = entry_positions[place]
            suffixes[target] = sizes[entry_items[place]] - entry_positions[place]
    return Postings(starts, items, positions, suffixes)


def prefix_buckets(left: Sets, right: Sets, *, same: bool) -> tuple[Postings, Postings]:
    """Post the prefixes of the sets of both sides in common buckets.

    Only symbols that occur in prefixes of both sides have a bucket; with ``same``, where both are
    the same sets, only those that occur in two. Most symbols occur once: two bits each in a table
    that fits into a cache keep them from being entered at all.

    Args:
        left: sets by rising size.
        right: sets by rising size.
        same: both sides are the same sets, the prefixes on the left within those on the right.
    """
    shift = table_shift(2 * int(right.prefixes.sum() + (0 if same else left.prefixes.sum())))
    marks = np.zeros(max(1, (1 << (64 - int(shift))) >> 5), np.uint64)
    if same:
        mark_symbols(right, marks, shift, side=0)
    else:
        mark_symbols(left, marks, shift, side=1)
        mark_symbols(right, marks, shift, side=2)
    right_entries = marked_entries(right, marks, shift)
    if same:
        shorter = right_entries.positions <= left.prefixes[right_entries.items]
        left_entries = Entries(*(column[shorter] for column in right_entries))
    else:
        left_entries = marked_entries(left, marks, shift)
    shift = table_shift(left_entries.symbols.size)
    table = np.zeros((1 << (64 - int(shift)), 2), np.uint64)
    left_slots = count_slots(left_entries.symbols, table, shift, side=0)
    right_slots = count_slots(right_entries.symbols, table, shift, side=1)
    buckets, starts = number_buckets(table, 2 if same else 1)
    return (
        fill_buckets(left, left_entries, left_slots, buckets, starts[0]),
        fill_buckets(right, right_entries, right_slots, buckets, starts[1]),
    )
