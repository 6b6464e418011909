"""Buckets of equal keys: pairs within them, and the next earlier member to be compared with."""

from __future__ import annotations

import numpy as np

from simdb.arrays import Bools, Int32s, Int64s, UInt8s, UInt16s, UInt64s
from simdb.kernels.compiler import inlined, kernel

UNDECIDED = 0
KEPT = 1
DROPPED = 2

NONE_LEFT = -1
MUST_WAIT = -2


@inlined
def _equal_rows(left: UInt16s, right: UInt16s) -> int:
    equal = 0
    for row in range(left.size):
        equal += 1 if left[row] == right[row] else 0
    return equal


@kernel
def next_earlier(
    undecided: Int64s,
    members: Int64s,
    own_places: Int64s,
    next_places: Int64s,
    last_compared: Int64s,
    status: UInt8s,
    signatures: UInt16s,
    needed: int,
    earlier: Int64s,
) -> None:
    """Find for each undecided row the first earlier kept row that it must be compared with.

    Args:
        undecided: rows, ascending.
        members: rows of all buckets, bucket by bucket, ascending within each.
        own_places: (rows, bands), where each row stands in ``members``.
        next_places: (rows, bands), where to go on looking; moved forward. It begins at the
            first member of the bucket.
        last_compared: the last row that each row was compared with; moved forward past rows that
            agree in fewer than ``needed`` signature rows.
        status: of each row; dropped rows are passed over for good.
        signatures: (rows, signature rows).
        needed: equal signature rows below which rows are not compared.
        earlier: output, for each undecided row the row to compare it with, ``NONE_LEFT``, or
            ``MUST_WAIT`` while that row is undecided itself.
    """
    bands = own_places.shape[1]
    for position in range(undecided.size):
        row = undecided[position]
        answer = MUST_WAIT
        while answer == MUST_WAIT:
            best = row
            for band in range(bands):
                place = next_places[row, band]
                while place < own_places[row, band] and (
                    members[place] <= last_compared[row] or status[members[place]] == DROPPED
                ):
                    place += 1
                # Kept for good: what was dropped or compared once never comes up again, so that all
                # rounds together pass over each member of a bucket once.
                next_places[row, band] = place
                if place < own_places[row, band]:
                    best = min(best, members[place])
            if best == row:
                answer = NONE_LEFT
            elif status[best] == UNDECIDED:
                break  # whether the row is dropped may depend on what becomes of this one
            elif _equal_rows(signatures[row], signatures[best]) < needed:
                last_compared[row] = best
            else:
                answer = best
        earlier[position] = answer


@kernel
def shared_buckets(keys: UInt64s, kept: UInt8s) -> int:
    """Mark the entries of buckets with two members or more; return how many.

    Args:
        keys: uint64 (n,), sorted.
        kept: uint8 (n,), output.
    """
    count = 0
    begin = 0
    while begin < keys.size:
        end = begin + 1
        while end < keys.size and keys[end] == keys[begin]:
            end += 1
        mark = 1 if end - begin > 1 else 0
        for position in range(begin, end):
            kept[position] = mark
        count += mark * (end - begin)
        begin = end
    return count


@kernel
def class_ends(starts: Int64s, classes: Int64s, ends: Int64s) -> None:
    """Find where the run of equal classes ends that each member of a bucket stands in.

    Args:
        starts: first member of each bucket, and one past the last member.
        classes: int64 (members,), sorted within each bucket.
        ends: int64 (members,), output.
    """
    for bucket in range(starts.size - 1):
        end = starts[bucket + 1]
        # From the back, where the end of a run is known before its members.
        for member in range(starts[bucket + 1] - 1, starts[bucket] - 1, -1):
            if member + 1 < starts[bucket + 1] and classes[member + 1] != classes[member]:
                end = member + 1
            ends[member] = end


@inlined
def _following(
    bucket: int, first: int, starts: Int64s, ends: Int64s, only_first: bool
) -> tuple[int, int, int]:
    """Return bucket, first and second member of the pairs after those of a first member."""
    first += 1
    if only_first or first >= starts[bucket + 1]:
        bucket += 1
        first = starts[bucket]
    second = ends[first] if bucket < starts.size - 1 else first
    return bucket, first, second


@inlined
def _equal_rows_unless_earlier(one: UInt16s, other: UInt16s, rows: int, band: int) -> int:
    """Return how many rows of two signatures agree, -1 if all of a band before this one do."""
    equal = 0
    for this_band in range(one.size // rows):
        equal_here = 0
        for row in range(this_band * rows, (this_band + 1) * rows):
            equal_here += 1 if one[row] == other[row] else 0
        equal += equal_here
        if equal_here == rows and this_band < band:
            equal = -1  # the pair came out, or will, in the bucket of that band
            break
    return equal


@kernel
def bucket_pairs(
    starts: Int64s,
    members: Int64s,
    ends: Int64s,
    bands_of_buckets: Int32s,
    signatures: UInt16s,
    rows: int,
    needed: int,
    only_first: bool,
    cursor: Int64s,
    left: Int64s,
    right: Int64s,
    counters: Int64s,
) -> int:
    """List the pairs of each bucket whose first shared band is the bucket's own.

    Each pair of items comes out once over all buckets, however many it shares.

    Args:
        starts: first member of each bucket, and one past the last member.
        members: positions in ``signatures``.
        ends: for each member the end of its class (``class_ends``); pairs within a class are
            left out.
        bands_of_buckets: the band that each bucket belongs to.
        signatures: (items, bands * rows).
        rows: rows a band.
        needed: equal signature rows below which a pair is dropped.
        only_first: list only the pairs of the first member of each bucket.
        cursor: bucket, first and second member where to go on; moved forward. Begins at -1.
        left: output, positions in ``signatures``.
        right: output, positions in ``signatures``.
        counters: visited pairs and pairs dropped for too few equal rows; added to.

    Returns:
        How many pairs were written; when it is all there is room for, there may be more.
    """
    written = 0
    bucket, first, second = cursor[0], cursor[1], cursor[2]
    if bucket < 0:
        bucket, first, second = _following(bucket, starts[0], starts, ends, only_first)
    while bucket < starts.size - 1 and written < left.size:
        if second >= starts[bucket + 1]:
            bucket, first, second = _following(bucket, first, starts, ends, only_first)
            continue
        counters[0] += 1
        one, other = members[first], members[second]
        second += 1
        equal = _equal_rows_unless_earlier(
            signatures[one], signatures[other], rows, bands_of_buckets[bucket]
        )
        if equal < needed:
            counters[1] += 1 if equal >= 0 else 0
            continue
        left[written] = one
        right[written] = other
        written += 1
    cursor[0], cursor[1], cursor[2] = bucket, first, second
    return written


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
    """Return whether two items share a key of every group, from these keys on."""
    found = 0
    while found != every_group:
        one, other = _next_shared(values, one, one_end, other, other_end)
        if one == one_end or other == other_end:
            break
        found |= 1 << groups[one]
        one += 1
        other += 1
    return found == every_group


@inlined
def _is_smallest_shared(
    key: np.uint64,
    values: UInt64s,
    groups: UInt8s,
    one: int,
    one_end: int,
    other: int,
    other_end: int,
    every_group: int,
) -> bool:
    """Return whether a key is the smallest that two items share, and they share every group."""
    one, other = _next_shared(values, one, one_end, other, other_end)
    return (
        one < one_end
        and other < other_end
        and values[one] == key
        and _shares_every_group(values, groups, one, one_end, other, other_end, every_group)
    )


@kernel
def share_every_group(
    values: UInt64s, offsets: Int64s, groups: UInt8s, every_group: int, left: Int64s, right: Int64s
) -> Bools:
    """Return for each pair of items whether it shares a key of every group.

    Args:
        values, offsets, groups, every_group: as for ``keyed_bucket_pairs``.
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
def keyed_bucket_pairs(
    starts: Int64s,
    members: Int64s,
    ends: Int64s,
    keys_of_buckets: UInt64s,
    values: UInt64s,
    offsets: Int64s,
    groups: UInt8s,
    every_group: int,
    only_first: bool,
    cursor: Int64s,
    left: Int64s,
    right: Int64s,
    counters: Int64s,
) -> int:
    """List the pairs of each bucket whose smallest shared key is the bucket's own.

    As ``bucket_pairs``, for items that have any number of keys.

    Args:
        starts, members, ends, only_first, cursor, left, right: as for ``bucket_pairs``.
        keys_of_buckets: the key of each bucket.
        values: the keys of the items, ascending within each item.
        offsets: where the keys of each item begin, and one past the last.
        groups: the group of each key.
        every_group: a bit for each group; a pair must share a key of each.
        counters: visited pairs, and those that lack a group or come in another bucket; added to.
    """
    written = 0
    bucket, first, second = cursor[0], cursor[1], cursor[2]
    if bucket < 0:
        bucket, first, second = _following(bucket, starts[0], starts, ends, only_first)
    while bucket < starts.size - 1 and written < left.size:
        if second >= starts[bucket + 1]:
            bucket, first, second = _following(bucket, first, starts, ends, only_first)
            continue
        counters[0] += 1
        one, other = members[first], members[second]
        second += 1
        if not only_first and not _is_smallest_shared(
            keys_of_buckets[bucket],
            values,
            groups,
            offsets[one],
            offsets[one + 1],
            offsets[other],
            offsets[other + 1],
            every_group,
        ):
            counters[1] += 1
            continue
        left[written] = one
        right[written] = other
        written += 1
    cursor[0], cursor[1], cursor[2] = bucket, first, second
    return written
