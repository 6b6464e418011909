"""Exact overlaps of symbol sets by open-addressing hash tables, without sorting.

A table is two arrays: the symbol in each slot, and the tick at which the slot was last used. Ticks
only grow, so that a table is emptied by moving to the next tick. The set that is compared with many
stands in the *probe* table: a slot is occupied if its tick is at least the one it was built at, and
its symbol was met in the present item if it equals the present tick. The symbols of the present
item that the probe lacks stand in a second table, occupied at exactly the present tick.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simdb.arrays import Int32s, Int64s, UInt64s
from simdb.kernels.compiler import inlined, kernel
from simdb.kernels.hashes import SPREAD

_ONE = np.uint64(1)
_WORD_BITS = 64


class Table(NamedTuple):
    """An open table: the symbol in each slot, and the tick at which it was last used."""

    slots: UInt64s
    ticks: Int32s


@inlined
def _bits_for(count: int) -> int:
    """Return the exponent of the table size that leaves half of the slots empty."""
    bits = 4
    while 1 << bits < 2 * count:
        bits += 1
    return bits


@kernel
def _build(values: UInt64s, tick: int, bits: int, table: Table) -> int:
    """Put the symbols into an emptied probe table; return how many are distinct."""
    slots, ticks = table
    shift = np.uint64(_WORD_BITS - bits)
    mask = (_ONE << np.uint64(bits)) - _ONE
    distinct = 0
    for symbol in values:
        slot = (symbol * SPREAD) >> shift
        while ticks[slot] == tick and slots[slot] != symbol:
            slot = (slot + _ONE) & mask
        if ticks[slot] != tick:
            ticks[slot] = tick
            slots[slot] = symbol
            distinct += 1
    return distinct


@kernel
def _measure(
    values: UInt64s, built: int, tick: int, bits: int, table: Table, own: Table
) -> tuple[int, int]:
    """Count the distinct symbols that the item shares with the probe, and those that it has."""
    slots, ticks = table
    own_slots, own_ticks = own
    shift = np.uint64(_WORD_BITS - bits)
    mask = (_ONE << np.uint64(bits)) - _ONE
    own_bits = _bits_for(values.size)
    own_shift = np.uint64(_WORD_BITS - own_bits)
    own_mask = (_ONE << np.uint64(own_bits)) - _ONE
    shared = 0
    lacking = 0
    for symbol in values:
        # The tick in the slot says that this item has met the symbol: a repeat adds nothing.
        spread = symbol * SPREAD
        slot = spread >> shift
        while ticks[slot] >= built and slots[slot] != symbol:
            slot = (slot + _ONE) & mask
        if ticks[slot] >= built:
            shared += 1 if ticks[slot] != tick else 0
            ticks[slot] = tick
        else:
            slot = spread >> own_shift
            while own_ticks[slot] == tick and own_slots[slot] != symbol:
                slot = (slot + _ONE) & own_mask
            if own_ticks[slot] != tick:
                own_ticks[slot] = tick
                own_slots[slot] = symbol
                lacking += 1
    return shared, shared + lacking


@kernel
def probe_overlaps(
    probe_values: UInt64s, values: UInt64s, offsets: Int64s
) -> tuple[Int64s, Int64s, int]:
    """Compare one set of symbols with fewer than 2^31 - 2, exactly; repeats count once.

    Returns:
        distinct symbols that each item shares with the probe; those of each item; of the probe.
    """
    items = offsets.size - 1
    longest = 0
    for item in range(items):
        longest = max(longest, offsets[item + 1] - offsets[item])
    bits = _bits_for(probe_values.size)
    own_bits = _bits_for(longest)
    table = Table(np.empty(1 << bits, np.uint64), np.zeros(1 << bits, np.int32))
    own = Table(np.empty(1 << own_bits, np.uint64), np.zeros(1 << own_bits, np.int32))
    overlaps = np.zeros(items, np.int64)
    sizes = np.zeros(items, np.int64)
    probe_size = _build(probe_values, 1, bits, table)
    for item in range(items):
        symbols = values[offsets[item] : offsets[item + 1]]
        overlaps[item], sizes[item] = _measure(symbols, 1, item + 2, bits, table, own)
    return overlaps, sizes, probe_size


@kernel
def pair_overlaps(
    values: UInt64s, offsets: Int64s, left: Int64s, right: Int64s
) -> tuple[Int64s, Int64s, Int64s]:
    """Compare the items at positions left[i] and right[i] of one ``SymbolSets``, exactly.

    Any order of the pairs is correct; a run of pairs with equal ``left`` builds its table once.
    Fewer than 2^30 pairs.

    Returns:
        distinct symbols shared, distinct symbols of left[i], and of right[i].
    """
    longest = 0
    for item in range(offsets.size - 1):
        longest = max(longest, offsets[item + 1] - offsets[item])
    capacity = 1 << _bits_for(longest)
    table = Table(np.empty(capacity, np.uint64), np.zeros(capacity, np.int32))
    own = Table(np.empty(capacity, np.uint64), np.zeros(capacity, np.int32))
    overlaps = np.zeros(left.size, np.int64)
    left_sizes = np.zeros(left.size, np.int64)
    right_sizes = np.zeros(left.size, np.int64)
    tick, built, bits, left_size = 0, 0, 0, 0
    for pair in range(left.size):
        # Pairs come sorted by their left item as a rule: its table serves the whole run.
        if pair == 0 or left[pair] != left[pair - 1]:
            symbols = values[offsets[left[pair]] : offsets[left[pair] + 1]]
            tick += 1
            built = tick
            bits = _bits_for(symbols.size)
            left_size = _build(symbols, built, bits, table)
        tick += 1
        left_sizes[pair] = left_size
        symbols = values[offsets[right[pair]] : offsets[right[pair] + 1]]
        overlaps[pair], right_sizes[pair] = _measure(symbols, built, tick, bits, table, own)
    return overlaps, left_sizes, right_sizes
