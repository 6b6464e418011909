"""Exact joins of sets by the postings of their prefixes (MMDS 3.9.3 to 3.9.6).

A join runs in two steps that can be repeated bucket by bucket, in any division of the buckets:
``bucket_candidates`` proposes pairs from postings alone, and ``verify_candidates`` reads the sets
themselves. A pair is kept only in the bucket of its first common symbol, so it comes out exactly
once over all buckets and no set of seen pairs is needed. All bounds are looked up in tables of
whole numbers made by ``simdb.exact.thresholds``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simdb.kernels.compiling import inlined, kernel
from simdb.kernels.posting import Column, Numbers, Postings, Sets, Symbols

# Filters, added up. The prefix filter is not among them: it is in which symbols are posted.
LENGTH = 1
POSITION = 2
SUFFIX = 4
COUNT = 8
BITMAP = 16

# Counters, by place in the array of counters.
SCANNED = 0
CANDIDATES = 1
VERIFIED = 2
PAIRS = 3


_BITS_1, _BITS_2, _BITS_4, _BITS_56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
_PAIRS = np.uint64(0x5555555555555555)
_QUADS = np.uint64(0x3333333333333333)
_OCTETS = np.uint64(0x0F0F0F0F0F0F0F0F)
_SUM = np.uint64(0x0101010101010101)


class Candidates(NamedTuple):
    """Room for pairs: the items, and where both have the symbol of the bucket; uint32 columns."""

    left: Column
    right: Column
    left_positions: Column
    right_positions: Column


def bucket_state(left: Postings, right: Postings, first: int = 0) -> Numbers:
    """Make the state in which ``bucket_candidates`` begins at bucket ``first``."""
    start = left.starts[first]
    return np.array([first, right.starts[first], start, start], np.int64)


@inlined
def _may_meet(
    needed: Numbers, filters: int, place: tuple[int, int], left_place: tuple[int, int]
) -> bool:
    """Apply the bound of 3.9.6 or of 3.9.5 to two (position, suffix length) of one symbol."""
    total = place[0] + place[1] + left_place[0] + left_place[1]
    passed = True
    if filters & SUFFIX:
        passed = min(place[1], left_place[1]) + 1 >= needed[total]
    elif filters & POSITION:
        passed = place[1] + 1 >= needed[total + place[1] - left_place[1]]
    return passed


@kernel
def bucket_candidates(
    left: Postings,
    right: Postings,
    *,
    needed: Numbers,
    minimum: Numbers,
    filters: int,
    same: bool,
    stop: int,
    state: Numbers,
    found: Candidates,
    counters: Numbers,
) -> int:
    """Propose pairs from the postings of the same buckets, until the room is full or all is done.

    Every pair of sets that is similar enough is proposed in the bucket of its first common symbol,
    and possibly in others.

    Args:
        left: postings of one side.
        right: postings of the other side.
        needed: needed overlap by total size; up to the sum of the largest sizes, and for the
            position filter alone up to twice the right plus the left.
        minimum: size of the smallest set that is similar enough, by size.
        filters: LENGTH, and SUFFIX (the bound of 3.9.6) or POSITION (the bound of 3.9.5).
        same: both sides are the same sets, numbered by rising size: left before right only.
        stop: bucket to stop before.
        state: where to go on, from ``bucket_state``; ``state[0] == stop`` when all is done.
        found: room, filled from the front.
        counters: SCANNED is added to.

    Returns:
        how many candidates are in ``found``.
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
            item = right_items[entry]
            place = np.int64(right_positions[entry]), np.int64(right_suffixes[entry])
            size = place[0] + place[1]
            while (
                filters & LENGTH
                and window < left_stop
                and (
                    np.int64(left_positions[window]) + np.int64(left_suffixes[window])
                    < minimum[size]
                )
            ):
                window += 1
            other = max(other, window)
            while other < left_stop and not (same and left_items[other] >= item):
                left_place = np.int64(left_positions[other]), np.int64(left_suffixes[other])
                if filters & LENGTH and minimum[left_place[0] + left_place[1]] > size:
                    break
                if count == found_left.size:
                    state[0], state[1], state[2], state[3] = bucket, entry, other, window
                    counters[SCANNED] += scanned
                    return count
                if _may_meet(needed, filters, place, left_place):
                    found_left[count] = left_items[other]
                    found_right[count] = item
                    found_left_positions[count] = left_place[0]
                    found_right_positions[count] = place[0]
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
    left: Symbols, left_range: tuple[int, int], right: Symbols, right_range: tuple[int, int]
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


@inlined
def _count_bits(word: np.uint64) -> np.int64:
    """Count the bits that are set (Knuth, volume 4A, 7.1.3, formula 62)."""
    word -= (word >> _BITS_1) & _PAIRS
    word = (word & _QUADS) + ((word >> _BITS_2) & _QUADS)
    word = (word + (word >> _BITS_4)) & _OCTETS
    return np.int64((word * _SUM) >> _BITS_56)


@kernel
def count_common(
    left: Symbols,
    left_range: tuple[int, int, int],
    right: Symbols,
    right_range: tuple[int, int, int],
    progress: tuple[int, int],
) -> tuple[int, int, int]:
    """Count common symbols of two rising sequences while the needed overlap can be reached.

    Args:
        left: symbols of one side.
        left_range: where to begin, where to stop, and where the set ends.
        right: symbols of the other side.
        right_range: the same there.
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
    needed: Numbers,
    filters: int,
    count: int,
    found: Candidates,
    overlaps: Numbers,
    counters: Numbers,
) -> int:
    """Keep the candidates proposed in the bucket of their first common symbol that are similar.

    With BITMAP, a pair is dropped at once if its bitmaps tell of too many symbols that only one of
    the sets has: a bit is the parity of the symbols that fall on it, so that every bit in which the
    two differ stands for such a symbol at least (after Sandes and others, 2017). With COUNT, a
    candidate is verified only if its h common symbols within both prefixes, and as many as the
    longer of the two rests, can reach the needed overlap.

    Args:
        left: sets of one side.
        right: sets of the other side.
        needed: needed overlap by total size.
        filters: BITMAP and COUNT, added up.
        count: how many candidates are in ``found``.
        found: the candidates; those kept are moved to the front.
        overlaps: room for the true overlaps of those kept.
        counters: CANDIDATES, VERIFIED and PAIRS are added to.

    Returns:
        how many are kept.
    """
    left_values, left_starts, left_sizes, left_prefixes, left_bitmaps = left
    right_values, right_starts, right_sizes, right_prefixes, right_bitmaps = right
    found_left, found_right, found_left_positions, found_right_positions = found
    kept = 0
    for row in range(count):
        one, other = found_left[row], found_right[row]
        total = left_sizes[one] + right_sizes[other]
        need = needed[total]
        if filters & BITMAP and (
            _count_bits(left_bitmaps[one] ^ right_bitmaps[other]) > total - 2 * need
        ):
            continue
        start, right_start = left_starts[one], right_starts[other]
        here = start + np.int64(found_left_positions[row])
        there = right_start + np.int64(found_right_positions[row])
        if _have_common(left_values, (start, here - 1), right_values, (right_start, there - 1)):
            continue
        counters[CANDIDATES] += 1
        end, right_end = start + left_sizes[one], right_start + right_sizes[other]
        overlap = 1
        if filters & COUNT:
            prefix_end = start + left_prefixes[one]
            right_prefix_end = right_start + right_prefixes[other]
            here, there, overlap = count_common(
                left_values,
                (here, prefix_end, end),
                right_values,
                (there, right_prefix_end, right_end),
                (overlap, need),
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
            found_left[kept] = one
            found_right[kept] = other
            overlaps[kept] = overlap
            kept += 1
    counters[PAIRS] += kept
    return kept
