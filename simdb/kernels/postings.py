"""Exact joins and searches of sets by the postings of their prefixes (MMDS 3.9.3 to 3.9.6).

Sets are given *arranged*: ``values[starts[k] : starts[k] + sizes[k]]`` are the symbols of set k in
the fixed order of symbols, as rising numbers without repetition. A **posting** says that a set has
a symbol at a position (from 1), with so many symbols after it (the suffix length). The postings of
one symbol are its **bucket**, sorted by the size of their sets.

A join runs in two steps that can be repeated bucket by bucket, in any division of the buckets:
``bucket_candidates`` proposes pairs from postings alone, and ``verify_candidates`` reads the sets
themselves. A pair is kept only in the bucket of its first common symbol, so it comes out exactly
once over all buckets and no set of seen pairs is needed. A search looks up the postings of the
symbols of one probe (``probe_candidates``). All bounds are looked up in tables of whole numbers
made by ``simdb.exact.thresholds``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simdb.arrays import Int32s, Int64s, UInt32s, UInt64s
from simdb.kernels.compiler import inlined, kernel, set_bit_count
from simdb.kernels.hashes import first_slot, table_shift, table_slots

# What a join counts, by place in the array of counters.
SCANNED, CANDIDATES, VERIFIED, PAIRS = range(4)

_MARKS = 32  # slots of two bits in a word
_HALF = np.uint64(32)
_LOWER = np.uint64(0xFFFFFFFF)


class Sets(NamedTuple):
    """Arranged sets, by where each begins in ``values`` and how many symbols it has.

    Attributes:
        prefixes: how many first symbols of each are posted, or probed.
        bitmaps: for the bitmap filter of ``verify_candidates``; empty for no filter.
    """

    values: UInt64s
    starts: Int64s
    sizes: Int64s
    prefixes: Int64s
    bitmaps: UInt64s


class Postings(NamedTuple):
    """Postings in buckets; bucket k is the slice from ``starts[k]`` to ``starts[k + 1]``.

    Within a bucket by rising size of the set, which is position (from 1) + suffix, and sets of one
    size by rising item.
    """

    starts: Int64s
    items: UInt32s
    positions: UInt32s
    suffixes: UInt32s


class Entries(NamedTuple):
    """Postings in the order of their sets, not yet in buckets: uint64 and uint32 columns."""

    symbols: UInt64s
    items: UInt32s
    positions: UInt32s


@kernel
def mark_symbols(sets: Sets, marks: UInt64s, *, side: int) -> None:
    """Mark the prefix symbols of sets in a table of two bits a slot, without keeping them.

    Both bits of a symbol's slot are set if the symbol may be worth a bucket, and possibly if not:
    slots are shared.

    Args:
        sets: arranged sets.
        marks: 32 slots an element, zeros at first.
        side: 0 sets the first bit on first sight and the second on second sight; 1 and 2 set the
            first and the second.
    """
    shift = table_shift(marks.size * _MARKS)
    for item in range(sets.starts.size):
        start = sets.starts[item]
        for symbol in sets.values[start : start + sets.prefixes[item]]:
            slot = first_slot(symbol, shift)
            place = np.uint64((slot & 31) << 1)
            bits = np.uint64(side)
            # Of one side the second bit is "seen before"; of two each side has its own.
            if side == 0:
                bits = np.uint64(1) + ((marks[slot >> 5] >> place & np.uint64(1)) << np.uint64(1))
            marks[slot >> 5] |= bits << place


@kernel
def marked_entries(sets: Sets, marks: UInt64s) -> Entries:
    """List the postings of the prefix symbols that have both marks."""
    values, prefixes = sets.values, sets.prefixes
    size = prefixes.sum()
    shift = table_shift(marks.size * _MARKS)
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
def count_slots(symbols: UInt64s, table: UInt64s, *, side: int) -> Int32s:
    """Look up the slot of every posted symbol of one side, and count them by slot and side.

    Args:
        symbols: of the postings.
        table: (slots, 2): the symbol of each slot, and beside it, so that one fetch from memory
            brings both, its postings on side 0 (lower 32 bits) and on side 1 (upper). A slot is
            free while there are none.
        side: 0 takes a free slot for a symbol that has none; 1 answers -1 for it.
    """
    slots = np.empty(symbols.size, np.int32)
    mask, shift = table.shape[0] - 1, table_shift(table.shape[0])
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
def number_buckets(table: UInt64s, least: int) -> tuple[Int32s, Int64s]:
    """Number the slots that have postings on the left and at least ``least`` on the right.

    Returns:
        the bucket of each slot (-1 for none); the starts on both sides, (2, buckets + 1).
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
    sets: Sets, entries: Entries, slots: Int32s, buckets: Int32s, starts: Int64s
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


def _power_of_two(least: int) -> int:
    """Compute the first power of two from ``least`` on, and from 2."""
    return 1 << max(1, (least - 1).bit_length())


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
    symbols = int(right.prefixes.sum() + (0 if same else left.prefixes.sum()))
    marks = np.zeros(max(1, _power_of_two(4 * symbols) // _MARKS), np.uint64)
    if same:
        mark_symbols(right, marks, side=0)
    else:
        mark_symbols(left, marks, side=1)
        mark_symbols(right, marks, side=2)
    right_entries = marked_entries(right, marks)
    if same:
        shorter = right_entries.positions <= left.prefixes[right_entries.items]
        left_entries = Entries(*(column[shorter] for column in right_entries))
    else:
        left_entries = marked_entries(left, marks)
    # The exact table comes last and holds the left side alone: marks have taken out nearly all that
    # has no partner, and the right side only looks up.
    table = np.zeros((_power_of_two(2 * left_entries.symbols.size), 2), np.uint64)
    left_slots = count_slots(left_entries.symbols, table, side=0)
    right_slots = count_slots(right_entries.symbols, table, side=1)
    buckets, starts = number_buckets(table, 2 if same else 1)
    return (
        fill_buckets(left, left_entries, left_slots, buckets, starts[0]),
        fill_buckets(right, right_entries, right_slots, buckets, starts[1]),
    )


# -- joins ---------------------------------------------------------------------------------------


class Candidates(NamedTuple):
    """Room for pairs: the items, and where both have the symbol of the bucket; uint32 columns."""

    left: UInt32s
    right: UInt32s
    left_positions: UInt32s
    right_positions: UInt32s


def bucket_state(left: Postings, right: Postings, first: int = 0) -> Int64s:
    """Make the state in which ``bucket_candidates`` begins at bucket ``first``."""
    start = left.starts[first]
    return np.array([first, right.starts[first], start, start], np.int64)


@kernel
def bucket_candidates(
    left: Postings,
    right: Postings,
    *,
    needed: Int64s,
    minimum: Int64s,
    same: bool,
    bounded: bool,
    stop: int,
    most: int,
    state: Int64s,
    found: Candidates,
    counters: Int64s,
) -> int:
    """Propose pairs from the postings of the same buckets, until the room is full or all is done.

    Or until so many pairs are scanned, and those of the last posting, however few are proposed.
    Every pair of sets that is similar enough is proposed in the bucket of its first common symbol,
    and possibly in others; in all if nothing bounds it.

    Args:
        left, right: postings of both sides.
        needed: needed overlap by total size, up to the sum of the largest sizes.
        minimum: size of the smallest set that is similar enough, by size.
        same: both sides are the same sets, numbered by rising size: left before right only.
        bounded: leave out pairs that cannot be similar if the bucket's symbol is their first common
            one (3.9.6); else only those of sizes too different are left out (3.9.3).
        stop: bucket to stop before.
        most: pairs after which this call scans no further posting of the right side.
        state: where to go on, from ``bucket_state``; ``state[0] == stop`` when all is done.
        found: room, filled from the front; the number of candidates is returned.
        counters: SCANNED is added to.
    """
    # Fields are taken out before the loops: each access to one counts references.
    left_starts, left_items, left_positions, left_suffixes = left
    right_starts, right_items, right_positions, right_suffixes = right
    found_left, found_right, found_left_positions, found_right_positions = found
    bucket, entry, other, window = state[0], state[1], state[2], state[3]
    count = scanned = 0
    # One flat loop: handing the postings on to a helper costs more than the work on most buckets.
    while bucket < stop:
        left_stop = left_starts[bucket + 1]
        while entry < right_starts[bucket + 1]:
            if scanned >= most:
                state[0], state[1], state[2], state[3] = bucket, entry, other, window
                counters[SCANNED] += scanned
                return count
            item = right_items[entry]
            position, suffix = np.int64(right_positions[entry]), np.int64(right_suffixes[entry])
            size = position + suffix
            # Buckets are sorted by size, so left sets that are too small for this right set are too
            # small for all that follow: the window only moves forward (3.9.3).
            while window < left_stop and (
                np.int64(left_positions[window]) + np.int64(left_suffixes[window]) < minimum[size]
            ):
                window += 1
            other = max(other, window)
            while other < left_stop and not (same and left_items[other] >= item):
                left_position = np.int64(left_positions[other])
                left_suffix = np.int64(left_suffixes[other])
                left_size = left_position + left_suffix
                if minimum[left_size] > size:
                    break  # and so are all larger ones
                if count == found_left.size:
                    state[0], state[1], state[2], state[3] = bucket, entry, other, window
                    counters[SCANNED] += scanned
                    return count
                # If this is the first common symbol, the overlap is it and at most the shorter
                # suffix (3.9.6). If it is not, the pair is proposed in the bucket of the first.
                if not bounded or min(suffix, left_suffix) + 1 >= needed[size + left_size]:
                    found_left[count] = left_items[other]
                    found_right[count] = item
                    found_left_positions[count] = left_position
                    found_right_positions[count] = position
                    count += 1
                scanned += 1
                other += 1
            entry += 1
            other = window
        bucket += 1
        other = window = left_stop
    state[0], state[1], state[2], state[3] = bucket, entry, other, window
    counters[SCANNED] += scanned
    return count


@inlined
def _have_common(
    left: UInt64s, left_range: tuple[int, int], right: UInt64s, right_range: tuple[int, int]
) -> bool:
    """Tell whether two rising slices have a common symbol, looking from their ends.

    From the ends, since before a late common symbol of two similar sets there is another one.
    """
    left_start, left_stop = left_range
    right_start, right_stop = right_range
    one = left_stop - 1
    other = right_stop - 1
    common = False
    while one >= left_start and other >= right_start and not common:
        if left[one] > right[other]:
            one -= 1
        elif left[one] < right[other]:
            other -= 1
        else:
            common = True
    return common


@kernel
def count_common(
    left: UInt64s,
    left_range: tuple[int, int, int],
    right: UInt64s,
    right_range: tuple[int, int, int],
    progress: tuple[int, int],
) -> tuple[int, int, int]:
    """Count common symbols of two rising sequences while the needed overlap can be reached.

    Args:
        left, right: symbols of both sides.
        left_range, right_range: where to begin, where to stop, and where the set ends.
        progress: common symbols found before, and the overlap to reach.

    Returns:
        where counting ended on both sides, and the overlap or -1 when it cannot be reached.
    """
    overlap, need = progress
    one, one_stop, one_end = left_range
    other, other_stop, other_end = right_range
    while one < one_stop and other < other_stop:
        left_symbol = left[one]
        right_symbol = right[other]
        if left_symbol == right_symbol:
            overlap += 1
            one += 1
            other += 1
        elif left_symbol < right_symbol:
            one += 1
            # Only here, where a symbol was lost: after a common one nothing has become harder.
            if overlap + one_end - one < need:
                return one, other, -1
        else:
            other += 1
            if overlap + other_end - other < need:
                return one, other, -1
    return one, other, overlap


@kernel
def verify_candidates(
    left: Sets,
    right: Sets,
    *,
    needed: Int64s,
    count: int,
    found: Candidates,
    overlaps: Int64s,
    counters: Int64s,
) -> int:
    """Keep the candidates proposed in the bucket of their first common symbol that are similar.

    A pair is dropped at once if its bitmaps tell of too many symbols that only one of the sets has:
    a bit is the parity of the symbols that fall on it, so that every bit in which the two differ
    stands for such a symbol at least (after Sandes and others, 2017). Of the others a candidate is
    verified only if its h common symbols within both prefixes, and as many as the longer of the two
    rests, can reach the needed overlap.

    Args:
        left, right: sets of both sides.
        needed: needed overlap by total size.
        count: how many candidates are in ``found``.
        found: the candidates; those kept, whose number is returned, are moved to the front.
        overlaps: room for the true overlaps of those kept.
        counters: CANDIDATES, VERIFIED and PAIRS are added to.
    """
    left_values, left_starts, left_sizes, left_prefixes, left_bitmaps = left
    right_values, right_starts, right_sizes, right_prefixes, right_bitmaps = right
    found_left, found_right, found_left_positions, found_right_positions = found
    has_bitmaps = left_bitmaps.size > 0 and right_bitmaps.size > 0
    kept = 0
    for row in range(count):
        one, other = found_left[row], found_right[row]
        total = left_sizes[one] + right_sizes[other]
        need = needed[total]
        # First what needs no symbol of either set, since to read one waits for memory.
        if has_bitmaps and (
            set_bit_count(left_bitmaps[one] ^ right_bitmaps[other]) > total - 2 * need
        ):
            continue
        start, right_start = left_starts[one], right_starts[other]
        here = start + np.int64(found_left_positions[row])
        there = right_start + np.int64(found_right_positions[row])
        # In any other bucket than that of their first common symbol the pair has come already, or
        # will: this is what makes it come once.
        if _have_common(left_values, (start, here - 1), right_values, (right_start, there - 1)):
            continue
        counters[CANDIDATES] += 1
        end, right_end = start + left_sizes[one], right_start + right_sizes[other]
        prefix_end = start + left_prefixes[one]
        right_prefix_end = right_start + right_prefixes[other]
        here, there, overlap = count_common(
            left_values,
            (here, prefix_end, end),
            right_values,
            (there, right_prefix_end, right_end),
            (1, need),
        )
        if overlap < 0 or overlap + max(end - prefix_end, right_end - right_prefix_end) < need:
            continue
        counters[VERIFIED] += 1
        here, there, overlap = count_common(
            left_values,
            (here, end, end),
            right_values,
            (there, right_end, right_end),
            (overlap, need),
        )
        if overlap >= need:
            # Never ahead of the row that is read, so that room and candidates may be one.
            found_left[kept] = one
            found_right[kept] = other
            overlaps[kept] = overlap
            kept += 1
    counters[PAIRS] += kept
    return kept


@kernel
def overlaps_reached(
    ones: UInt64s,
    one_offsets: Int64s,
    others: UInt64s,
    other_offsets: Int64s,
    left: Int64s,
    right: Int64s,
    needed: Int64s,
) -> Int64s:
    """Count what arranged sets have in common, as far as that can reach what is needed.

    Args:
        ones, one_offsets, others, other_offsets: arranged sets of both sides, in one order.
        left, right: the set of each side that a pair is of.
        needed: overlap that a pair has to reach.

    Returns:
        the overlap of each pair, -1 where it is less than needed.
    """
    overlaps = np.empty(left.size, np.int64)
    for pair in range(left.size):
        start, stop = one_offsets[left[pair]], one_offsets[left[pair] + 1]
        begin, end = other_offsets[right[pair]], other_offsets[right[pair] + 1]
        need = needed[pair]
        _, _, overlap = count_common(
            ones, (start, stop, stop), others, (begin, end, end), (0, need)
        )
        overlaps[pair] = overlap if overlap >= need else -1
    return overlaps


# -- searches ------------------------------------------------------------------------------------


class Hits(NamedTuple):
    """Postings found for the prefix symbols of a probe, in any order within a symbol.

    Those of the symbol at position i + 1 of the probe are the slice from ``offsets[i]`` to
    ``offsets[i + 1]``; positions count from 1.
    """

    offsets: Int64s
    items: UInt32s
    positions: UInt32s
    suffixes: UInt32s


class Bounds(NamedTuple):
    """What a stored set must have to be similar to a probe of a given size.

    Attributes:
        smallest: size of the smallest stored set that can be similar.
        needed: needed overlap by stored size, from ``smallest`` on; int64.
        prefixes: how many first symbols of a stored set matter, by the same sizes; int64.
        size: symbols of the probe.
        prefix: how many first symbols of the probe were looked up.
    """

    smallest: int
    needed: Int64s
    prefixes: Int64s
    size: int
    prefix: int


@kernel
def probe_candidates(hits: Hits, bounds: Bounds) -> tuple[UInt32s, Int64s]:
    """Choose the items that can be similar to the probe, from the postings of its prefix.

    No similar item is missing. The k-th hit of an item is the k-th common symbol of the two sets:
    an earlier one would stand in both prefixes and be a hit. So the overlap is at most k and the
    shorter of the two suffixes, and after the last hit at most the longer of the two rests.

    Returns:
        the candidates in order of their first hit, and the number of hits of each.
    """
    table = np.full(table_slots(hits.items.size), -1, np.int64)
    mask, shift = table.size - 1, table_shift(table.size)
    items = np.empty(hits.items.size, np.uint32)
    counts = np.zeros(hits.items.size, np.int64)
    # Hits that a candidate must have in the end; -1 once a bound has ruled it out.
    awaited = np.zeros(hits.items.size, np.int64)
    found = 0
    for place in range(hits.offsets.size - 1):
        rest = bounds.size - place - 1
        for entry in range(hits.offsets[place], hits.offsets[place + 1]):
            position, suffix = np.int64(hits.positions[entry]), np.int64(hits.suffixes[entry])
            row = position + suffix - bounds.smallest
            # An index may post more than this threshold needs: symbols behind the prefix that
            # matters here are no hits, or the k-th hit would not be the k-th common symbol.
            if not 0 <= row < bounds.needed.size or position > bounds.prefixes[row]:
                continue
            item = hits.items[entry]
            slot = first_slot(np.uint64(item), shift)
            while table[slot] >= 0 and items[table[slot]] != item:
                slot = (slot + 1) & mask
            if table[slot] < 0:
                table[slot] = found
                items[found] = item
                found += 1
            candidate = table[slot]
            counts[candidate] += 1
            if awaited[candidate] < 0:
                continue
            if counts[candidate] + min(rest, suffix) < bounds.needed[row]:
                awaited[candidate] = -1
            else:
                # Further common symbols lie behind one of the prefixes: at most the longer rest.
                longer = max(bounds.size - bounds.prefix, position + suffix - bounds.prefixes[row])
                missing = bounds.needed[row] - min(longer, rest, suffix)
                awaited[candidate] = max(0, missing)
    kept = 0
    for candidate in range(found):
        if 0 <= awaited[candidate] <= counts[candidate]:
            items[kept] = items[candidate]
            counts[kept] = counts[candidate]
            kept += 1
    return items[:kept].copy(), counts[:kept].copy()
