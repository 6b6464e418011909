"""Buckets of equal keys: pairs within them, and the next earlier member to be compared with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simdb.arrays import Bools, Int32s, Int64s, UInt8s, UInt16s, UInt64s
from simdb.kernels.compiler import inlined, kernel
from simdb.kernels.sketches import equal_words

UNDECIDED = 0
KEPT = 1
DROPPED = 2

NONE_LEFT = -1
MUST_WAIT = -2


@inlined
def _undropped(
    members: Int64s, place: int, status: UInt8s, next_places: Int64s, row: int, band: int
) -> int:
    """Return the first member from a place on that is not dropped, at the latest the row itself.

    The place is kept for good: what was dropped or compared once never comes up again, so that all
    rounds together pass over each member of a bucket once.
    """
    while status[members[place]] == DROPPED:
        place += 1
    next_places[row, band] = place
    return int(members[place])


@kernel
def next_earlier(
    undecided: Int64s,
    members: Int64s,
    own_places: Int64s,
    next_places: Int64s,
    last_compared: Int64s,
    similar_to: Int64s,
    status: UInt8s,
    signatures: UInt16s,
    needed: int,
    earlier: Int64s,
) -> None:
    """Find for each undecided row the next earlier rows that it must be compared with.

    They may be undecided too: to a row that is not similar it does not matter what becomes of them.
    A row that is similar to one waits for its fate; where that is known, or no row is left, the
    row is decided here.

    Args:
        undecided: rows, ascending.
        members: rows of all buckets, bucket by bucket, ascending within each.
        own_places: (rows, bands), where each row stands in ``members``.
        next_places: (rows, bands), where to go on looking; moved forward. It begins at the
            first member of the bucket.
        last_compared: the last row that each row was compared with; moved forward, also past rows
            that agree in fewer than ``needed`` signature rows.
        similar_to: the first row not known to be dropped that each row is similar to, or -1; it
            becomes -1 where that row has been dropped.
        status: of each row; dropped rows are passed over for good.
        signatures: (rows, signature rows).
        needed: equal signature rows below which rows are not compared.
        earlier: output, (undecided, most); in each line the rows to compare with, ascending, the
            rest ``NONE_LEFT``; or ``MUST_WAIT`` first while the row waits.
    """
    bands = own_places.shape[1]
    heads = np.empty(bands, np.int32)  # the next earlier row of each bucket; the row itself at last
    for position in range(undecided.size):
        row = undecided[position]
        earlier[position, :] = NONE_LEFT
        origin = similar_to[row]
        if origin >= 0:
            if status[origin] == UNDECIDED:
                earlier[position, 0] = MUST_WAIT
                continue
            if status[origin] == KEPT:
                status[row] = DROPPED
                continue
            similar_to[row] = -1
        for band in range(bands):
            heads[band] = row
            place = next_places[row, band]
            if place < own_places[row, band]:
                while place < own_places[row, band] and members[place] <= last_compared[row]:
                    place += 1
                heads[band] = _undropped(members, place, status, next_places, row, band)
        found = 0
        while found < earlier.shape[1]:
            best = row
            for band in range(bands):
                best = min(best, heads[band])
            if best == row:
                break
            for band in range(bands):
                if heads[band] == best:
                    place = next_places[row, band] + 1
                    heads[band] = _undropped(members, place, status, next_places, row, band)
            # The smallest of the next members of all bands: no other row before it is left.
            last_compared[row] = best
            if equal_words(signatures[row], signatures[best]) >= needed:
                earlier[position, found] = best
                found += 1
        if found == 0:
            status[row] = KEPT


class BucketMembers(NamedTuple):
    """Buckets of two items or more; bucket k is ``members[starts[k] : starts[k + 1]]``.

    Attributes:
        starts: one more than there are buckets.
        members: places of items.
        ends: for each member where the run of members of its class ends, within its bucket; pairs
            within a class are left out.
        keys: the key of each bucket.
        bands: the band of each; any where items have no bands.
    """

    starts: Int64s
    members: Int64s
    ends: Int64s
    keys: UInt64s
    bands: Int32s


class BucketItems(NamedTuple):
    """The items of buckets, by what it is told in which bucket a pair of them is its own.

    Attributes:
        signatures: of shape (items, words).
        band_words: words of a band, where each band is a bucket key of an item; 0 where items have
            any number of keys, which then are:
        values: the keys of all items, ascending within each.
        offsets: where the keys of each item begin, and one past the last.
        groups: the group of each key.
        every_group: a bit for each group; a pair must share a key of each (MMDS 3.8.5).
    """

    signatures: UInt16s
    band_words: int
    values: UInt64s
    offsets: Int64s
    groups: UInt8s
    every_group: int


@inlined
def _following(
    bucket: int, first: int, starts: Int64s, ends: Int64s, only_first: bool
) -> tuple[int, int, int]:
    """Return bucket, first and second member of the pairs after those of a first member."""
    first += 1
    if only_first or first >= starts[bucket + 1]:
        bucket += 1
        first = starts[bucket]
    # Members of one class stand together, and their pairs are left out: it goes on behind them.
    second = ends[first] if bucket < starts.size - 1 else first
    return bucket, first, second


@inlined
def _agree_earlier(one: UInt16s, other: UInt16s, rows: int, band: int) -> bool:
    """Whether two signatures agree in all of a band before this one, which is the pair's own."""
    earlier = False
    for begin in range(0, band * rows, rows):
        row = begin
        while row < begin + rows and one[row] == other[row]:
            row += 1
        if row == begin + rows:
            earlier = True
            break
    return earlier


@inlined
def _next_shared(
    values: UInt64s, one: int, one_end: int, other: int, other_end: int
) -> tuple[int, int]:
    """Return where the next key stands that two items share; at the end of one if none does."""
    while one < one_end and other < other_end and values[one] != values[other]:
        if values[one] < values[other]:
            one += 1
        else:
            other += 1
    return one, other


@inlined
def _shares_every_group(
    values: UInt64s,
    groups: UInt8s,
    one: int,
    one_end: int,
    other: int,
    other_end: int,
    every_group: int,
) -> bool:
    """Whether two items share a key of every group, from these keys on."""
    found = 0  # keys are hashes, so groups come in any order: a bit for each that was met
    while found != every_group:
        one, other = _next_shared(values, one, one_end, other, other_end)
        if one == one_end or other == other_end:
            break
        found |= 1 << groups[one]
        one += 1
        other += 1
    return found == every_group


@kernel
def share_every_group(
    values: UInt64s, offsets: Int64s, groups: UInt8s, every_group: int, left: Int64s, right: Int64s
) -> Bools:
    """Return for each pair of items whether it shares a key of every group.

    Args:
        values, offsets, groups, every_group: as in ``BucketItems``.
        left, right: the items of each pair.
    """
    shared = np.zeros(left.size, np.bool_)
    for pair in range(left.size):
        one, one_end = offsets[left[pair]], offsets[left[pair] + 1]
        other, other_end = offsets[right[pair]], offsets[right[pair] + 1]
        shared[pair] = _shares_every_group(
            values, groups, one, one_end, other, other_end, every_group
        )
    return shared


@kernel
def bucket_pairs(
    buckets: BucketMembers,
    items: BucketItems,
    needed: int,
    only_first: bool,
    most: int,
    cursor: Int64s,
    left: Int64s,
    right: Int64s,
    counters: Int64s,
) -> int:
    """List the pairs of each bucket that is the pair's own, until the room is full or all is done.

    Or until so many pairs are visited, however few are listed.

    Its own is the bucket of the first band in which two items agree, or of the smallest key that
    both have: it follows from the items alone. So each pair comes out once over all buckets, in
    whatever order and slices these are gone through, and no pair need be remembered.

    Args:
        buckets: all with both members at hand.
        items: what the members are places in.
        needed: equal words of signatures of bands, below which a pair is dropped.
        only_first: list only the pairs of the first member of each bucket; of items without bands,
            in every bucket that they share.
        most: pairs that are visited by this call.
        cursor: bucket, first and second member where to go on; moved forward. Begins at -1; all is
            done when the bucket is one past the last.
        left, right: room for places of items.
        counters: added to: visited pairs; those that agree in too few words, in each bucket that
            they share; or, without bands, lack a group or come in another bucket.

    Returns:
        How many pairs were written.
    """
    # Fields are taken out before the loop: each access to one counts references.
    starts, members, ends, keys, bands = buckets
    signatures, band_words, values, offsets, groups, every_group = items
    written = visited = 0
    bucket, first, second = cursor[0], cursor[1], cursor[2]
    if bucket < 0:
        bucket, first, second = _following(bucket, starts[0], starts, ends, only_first)
    # The room is looked at before a pair is, so that the cursor never stands past an unwritten one.
    while bucket < starts.size - 1 and written < left.size and visited < most:
        if second >= starts[bucket + 1]:
            bucket, first, second = _following(bucket, first, starts, ends, only_first)
            continue
        visited += 1
        one, other = members[first], members[second]
        second += 1
        # Nearly all pairs of large buckets agree in too few words, which is told quickest; any
        # number of keys are merged, up to the first that both have.
        if band_words > 0:
            if equal_words(signatures[one], signatures[other]) < needed:
                counters[1] += 1
                continue
            if _agree_earlier(signatures[one], signatures[other], band_words, bands[bucket]):
                continue
        elif every_group > 1 or not only_first:
            start, stop = offsets[one], offsets[one + 1]
            begin, end = offsets[other], offsets[other + 1]
            if not only_first:  # the first key that both have is this one; it may not be there
                start, begin = _next_shared(values, start, stop, begin, end)
            own = only_first or (start < stop and begin < end and values[start] == keys[bucket])
            if not own or not _shares_every_group(
                values, groups, start, stop, begin, end, every_group
            ):
                counters[1] += 1
                continue
        left[written] = one
        right[written] = other
        written += 1
    cursor[0], cursor[1], cursor[2] = bucket, first, second
    counters[0] += visited
    return written
