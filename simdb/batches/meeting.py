"""Which items of a batch of buckets are candidates: each pair once, in its own bucket (MMDS 3.4.3).

A pair is taken only in the bucket of its *first* shared band, which its two signatures tell, or of
the smallest key that both have; so it comes out once, whoever has the other buckets, and no set of
seen pairs is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from simdb import kernels
from simdb.arrays import Bools, Int32s, Int64s, UInt16s, UInt64s
from simdb.batches.signer import Agreement, Signed, Signer
from simdb.errors import CorruptionError
from simdb.forest import Forest
from simdb.lsh.family import BucketKeys, polynomial_base
from simdb.ragged import distinct_pairs, offsets_of
from simdb.work import Work

if TYPE_CHECKING:
    from simdb.kernels.buckets import BucketItems, BucketMembers

LARGE_BUCKET = 64  # entries
# Pairs that are visited between two looks at the budget, and for Ctrl-C, however few of them are
# candidates: of large buckets nearly none may be, and their pairs are a square of the members. A
# tenth of a second or two.
VISITED_AT_ONCE = 2**20
# Base of a polynomial and a final word; signatures are keyed by the secret of the store already.
_CLASS_HASH = np.uint64(polynomial_base(0x9E3779B97F4A7C15)), np.uint64(0xBF58476D1CE4E5B9)

IntArray: TypeAlias = npt.NDArray[Any]  # of item numbers, uint32 in a store


class BucketSlice(Struct, frozen=True, eq=False):
    """The buckets of a range of keys that have two members or more."""

    numbers: IntArray  # item numbers, ascending; members are places in them
    buckets: BucketMembers  # the members of each by class, or else ascending
    items: BucketItems


def are_shared(keys: UInt64s) -> Bools:
    """Tell of sorted keys which are there more than once."""
    same = keys[1:] == keys[:-1]
    shared = np.zeros(keys.size, np.bool_)
    shared[1:] = same
    shared[:-1] |= same
    return shared


def slice_of(
    signer: Signer, numbers: IntArray, signatures: UInt16s, keys: UInt64s, members: Int64s
) -> BucketSlice:
    """Make a slice of entries: rising bucket keys, each of which is there twice at least.

    ``members`` are the places of their items in ``numbers``, which rise, and in ``signatures``;
    those of one bucket rise, too.
    """
    kernel = kernels.buckets
    begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    bands = np.zeros(begins.size, np.int32)
    own = BucketKeys.none(0)
    if signer.band_words:
        bands = _bands_of(signer, keys[begins], signatures[members[begins]])
    else:
        own = signer.bucket_keys(signatures).sorted_within()
    groups = np.zeros(own.values.size, np.uint8) if own.groups is None else own.groups
    return BucketSlice(
        numbers,
        kernel.BucketMembers(
            np.append(begins, keys.size), members, np.arange(1, keys.size + 1), keys[begins], bands
        ),
        kernel.BucketItems(
            signatures, signer.band_words, own.values, own.offsets, groups, own.every_group
        ),
    )


def slice_of_batch(signer: Signer, signed: Signed) -> BucketSlice | None:
    """Make a slice of all buckets of a batch, whose items are numbered by their places in it."""
    order, keys = signed.order, signed.buckets
    rising = keys.values[order]
    shared = are_shared(rising)
    if not shared.any():
        return None
    owners = keys.owners(order[shared])
    numbers, members = np.unique(owners, return_inverse=True)
    return slice_of(signer, numbers, signed.signatures[numbers], rising[shared], members)


def with_later(part: BucketSlice, begin: int, end: int) -> BucketSlice | None:
    """Leave of a slice the pairs whose later member is one of a range of places in ``numbers``."""
    buckets = part.buckets
    count = buckets.keys.size
    bucket_of = np.repeat(np.arange(count), np.diff(buckets.starts))
    members = buckets.members
    used = np.bincount(bucket_of[(members >= begin) & (members < end)], minlength=count) > 0
    if not used.any():
        return None
    kept = (members < end) & used[bucket_of]
    members, bucket_of = members[kept], bucket_of[kept]
    sizes = np.bincount(bucket_of, minlength=count)[used]
    starts = offsets_of(sizes)
    # A member before the range is paired with those in the range only.
    firsts = starts[:-1] + np.bincount(bucket_of[members < begin], minlength=count)[used]
    ends = np.maximum(np.arange(1, members.size + 1), np.repeat(firsts, sizes))
    own = buckets._replace(starts=starts, members=members, ends=ends)
    return replace(part, buckets=own._replace(keys=buckets.keys[used], bands=buckets.bands[used]))


def _bands_of(signer: Signer, keys: UInt64s, signatures: UInt16s) -> Int32s:
    """Tell of each bucket which band of its first member it is of."""
    of_first = signer.bucket_keys(signatures)
    if of_first.values.size == keys.size * signer.settings.bands:
        is_band = of_first.values.reshape(keys.size, -1) == keys[:, np.newaxis]
        if is_band.any(axis=1).all():
            bands: Int32s = is_band.argmax(axis=1).astype(np.int32)
            return bands
    raise CorruptionError(
        "buckets and signatures contradict each other; run 'simdb check', then rebuild"
    )


def candidate_pairs(
    part: BucketSlice, needed: Agreement, work: Work, *, only_first: bool = False, at_once: int
) -> Iterator[tuple[IntArray, IntArray]]:
    """List the candidates of a slice, ``at_once`` at a time, by their item numbers.

    Pairs within a class are left out, and those whose signatures do not agree as is needed.
    ``only_first`` lists the pairs of the first member of each bucket, in every bucket they share.
    """
    buckets, signatures = part.buckets, part.items.signatures
    if only_first:  # no band is before the first one: no pair is left to an earlier band's bucket
        buckets = buckets._replace(bands=np.zeros_like(buckets.bands))
    cursor = np.full(3, -1, np.int64)
    written = at_once
    while written == at_once:
        left, right = np.empty(at_once, np.int64), np.empty(at_once, np.int64)
        written = 0
        while written < at_once and cursor[0] < buckets.starts.size - 1:
            counts = np.zeros(2, np.int64)
            room = left[written:], right[written:]
            written += kernels.buckets.bucket_pairs(
                buckets,
                part.items,
                needed.words,
                only_first,
                VISITED_AT_ONCE,
                cursor,
                *room,
                counts,
            )
            work.note(int(counts[0]))
            work.too_unlike += int(counts[1])
        left, right = left[:written], right[:written]
        if needed.family is not None:
            agreeing = needed.holds(signatures[left], signatures[right])
            left, right = left[agreeing], right[agreeing]
        work.too_unlike += written - left.size
        yield part.numbers[left], part.numbers[right]


def by_class(
    buckets: BucketMembers, classes: Int64s, *, in_first_band: bool = False
) -> BucketMembers:
    """Sort the members of each bucket by class, so that pairs within a class are left out.

    Those in buckets of the first band are not left out if ``in_first_band`` says so.
    """
    sizes = np.diff(buckets.starts)
    bucket_of = np.repeat(np.arange(sizes.size), sizes)
    members = buckets.members[np.lexsort((classes[buckets.members], bucket_of))]
    own = classes[members]
    last = np.append((bucket_of[1:] != bucket_of[:-1]) | (own[1:] != own[:-1]), members.size > 0)
    if in_first_band:
        last |= np.repeat(buckets.bands == 0, sizes)
    ends = np.flatnonzero(last) + 1
    return buckets._replace(members=members, ends=np.repeat(ends, np.diff(ends, prepend=0)))


def by_signature(part: BucketSlice) -> BucketSlice:
    """Take items of equal signatures as classes if a bucket is large.

    Their pairs are all of the first band, so that buckets of later bands need not look at each:
    equal items would be met in every band. Different signatures are one class with a probability
    below 2^-50, as different bands are one bucket.
    """
    if not part.items.band_words or int(np.diff(part.buckets.starts).max()) <= LARGE_BUCKET:
        return part
    hashed = kernels.sketches.bucket_keys(part.items.signatures, 1, *_CLASS_HASH)
    classes = np.unique(hashed[:, 0], return_inverse=True)[1]
    return replace(part, buckets=by_class(part.buckets, classes, in_first_band=True))


def connect_similar(
    part: BucketSlice,
    forest: Forest,
    needed: Agreement,
    work: Work,
    similar: Callable[[IntArray, IntArray], Bools],
    *,
    at_once: int,
) -> None:
    """Connect similar items of a slice without comparing those that are connected already.

    First every member is compared with the first of its bucket, then only members that are still
    in different groups with each other: a bucket of equal items costs one comparison an item.
    ``similar`` tells of pairs of item numbers which are similar enough.
    """
    for only_first in (True, False):
        by_group = by_class(part.buckets, forest.roots(part.numbers).astype(np.int64))
        for one, other in candidate_pairs(
            replace(part, buckets=by_group), needed, work, only_first=only_first, at_once=at_once
        ):
            apart = forest.roots(one) != forest.roots(other)
            # Near copies are met in most of the buckets that each is in.
            left, right = distinct_pairs(one[apart], other[apart])
            if left.size:
                met = similar(left, right)
                if met.any():
                    forest.connect(left[met], right[met])
