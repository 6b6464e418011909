"""Many-many: all similar pairs of a collection, streamed.

The bucket runs are swept once in the order of bucket keys, so that each bucket is seen whole. A
pair of items is taken only in the bucket of its *first* shared band, which its two signatures
tell, so it comes out once and no set of seen pairs is kept. Memory is bounded by the setting, not
by the corpus or by the number of pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.answers.buckets.search import propose, stored_signatures
from simdb.answers.compare import (
    COMPARED_BYTES,
    PAIRS_COMPARED,
    ComparesBatches,
    compare_items,
    read_items,
)
from simdb.errors import CorruptionError
from simdb.exact.thresholds import Bound
from simdb.kinds import Compared
from simdb.lsh.family import BucketKeys
from simdb.lsh.symbols import polynomial_base
from simdb.opened.signer import Signed, Signer
from simdb.results import Effort, PairBatch
from simdb.storage.collection.reader import CollectionReader

SHARE_OF_MEMORY = 4_096  # bytes of the memory setting for one entry of a slice and all it needs
PAIRS_AT_ONCE = 8_192
NEW_SHARE = 32  # new items are looked up if at most this part of all is new
PROBED_AT_ONCE = 1_024  # new items
LARGE_BUCKET = 64  # entries
# Base of a polynomial and a final word; signatures are keyed by the secret of the store already.
_CLASS_HASH = np.uint64(polynomial_base(0x9E3779B97F4A7C15)), np.uint64(0xBF58476D1CE4E5B9)

NumberPairs: TypeAlias = tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]


@dataclass(slots=True)
class JoinCounters:
    """What a join did.

    Attributes:
        effort: limits the pairs visited.
        visited: pairs met in buckets, once for every bucket they share.
        too_unlike: of these, dropped for too few equal signature rows.
        compared: candidates compared in full.
        pairs: those that were similar enough.
    """

    effort: Effort = field(default_factory=Effort)
    visited: int = 0
    too_unlike: int = 0
    compared: int = 0
    pairs: int = 0


@dataclass(slots=True)
class BucketSlice:
    """The buckets of a range of keys that have two members or more.

    Attributes:
        numbers: uint32 (items,), item numbers, ascending.
        signatures: uint16 (items, words).
        starts: int64, first member of each bucket, and one past the last.
        members: int64, positions in ``numbers``, ascending within each bucket.
        keys: uint64, the key of each bucket.
        bands: int32, the band of each bucket; zeros where signatures have no bands.
        item_keys: all keys of the items, ascending within each; None where signatures have bands.
    """

    numbers: npt.NDArray[np.uint32]
    signatures: npt.NDArray[np.uint16]
    starts: npt.NDArray[np.int64]
    members: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint64]
    bands: npt.NDArray[np.int32]
    item_keys: BucketKeys | None


def bucket_slices(
    signer: Signer, collection: CollectionReader, memory: int
) -> Iterator[BucketSlice]:
    """Sweep the buckets of all live items in the order of their keys."""
    room = max(4_096, memory // SHARE_OF_MEMORY)
    for keys, columns in collection.bands.sweep(collection.tombstones, room=room):
        shared = np.empty(keys.size, np.uint8)
        if kernels.buckets.shared_buckets(keys, shared):
            in_buckets = shared.astype(np.bool_)
            yield _slice(signer, collection, keys[in_buckets], columns[0][in_buckets])


def _slice(
    signer: Signer,
    collection: CollectionReader,
    keys: npt.NDArray[np.uint64],
    items: npt.NDArray[np.uint32],
) -> BucketSlice:
    numbers, members = np.unique(items, return_inverse=True)
    signatures, _ = stored_signatures(collection, numbers)
    begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    bands, item_keys = np.zeros(begins.size, np.int32), None
    if signer.band_words:
        bands = _bands_of(signer, keys[begins], signatures[members[begins]])
    else:
        item_keys = signer.bucket_keys(signatures).sorted_within()
    return BucketSlice(
        numbers,
        signatures,
        np.append(begins, keys.size).astype(np.int64),
        members.astype(np.int64),
        keys[begins],
        bands,
        item_keys,
    )


def _bands_of(
    signer: Signer, keys: npt.NDArray[np.uint64], signatures: npt.NDArray[np.uint16]
) -> npt.NDArray[np.int32]:
    """Return which band of its first member each bucket is of."""
    of_first = signer.bucket_keys(signatures)
    if of_first.values.size != keys.size * signer.settings.bands:
        raise _contradiction()
    is_band = of_first.values.reshape(keys.size, -1) == keys[:, np.newaxis]
    if not is_band.any(axis=1).all():
        raise _contradiction()
    bands: npt.NDArray[np.int32] = is_band.argmax(axis=1).astype(np.int32)
    return bands


def _contradiction() -> CorruptionError:
    return CorruptionError(
        "buckets and signatures contradict each other; run 'simdb check', then rebuild"
    )


def candidate_pairs(
    buckets: BucketSlice,
    signer: Signer,
    needed: int,
    counters: JoinCounters,
    *,
    classes: npt.NDArray[np.int64] | None = None,
    in_first_band: bool = False,
    only_first: bool = False,
    at_once: int | None = None,
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """List the candidates of a slice, some at a time, as positions in it.

    Args:
        buckets: the slice.
        signer: of the collection.
        needed: equal words of signature below which a pair is dropped.
        counters: added to.
        classes: int64 (items,); pairs of items of one class are left out.
        in_first_band: they are not left out in buckets of the first band.
        only_first: list only the pairs of the first member of each bucket; a pair comes in every
            bucket that it shares.
        at_once: how many; ``PAIRS_AT_ONCE`` by default.
    """
    room = at_once or PAIRS_AT_ONCE
    members, ends = _classified(buckets, classes)
    if classes is not None and in_first_band:
        kept = np.repeat(buckets.bands == 0, np.diff(buckets.starts))
        ends[kept] = np.flatnonzero(kept) + 1
    # No band is before the first one, so that no pair is left to an earlier band's bucket.
    bands = np.zeros_like(buckets.bands) if only_first else buckets.bands
    cursor = np.full(3, -1, np.int64)
    counts = np.zeros(2, np.int64)
    while True:
        left = np.empty(room, np.int64)
        right = np.empty(room, np.int64)
        place = (only_first, cursor, left, right, counts)
        if buckets.item_keys is None:
            written = kernels.buckets.bucket_pairs(
                buckets.starts,
                members,
                ends,
                bands,
                buckets.signatures,
                signer.band_words,
                needed,
                *place,
            )
        else:
            values, offsets, groups, _ = buckets.item_keys
            if groups is None:
                groups = np.zeros(values.size, np.uint8)
            written = kernels.buckets.keyed_bucket_pairs(
                buckets.starts,
                members,
                ends,
                buckets.keys,
                values,
                offsets,
                groups,
                buckets.item_keys.every_group,
                *place,
            )
        counters.effort.note(int(counts[0]))
        counters.visited += int(counts[0])
        counters.too_unlike += int(counts[1])
        counts[:] = 0
        yield left[:written], right[:written]
        if written < room:
            break


def _classified(
    buckets: BucketSlice, classes: npt.NDArray[np.int64] | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the members of each bucket sorted by class, and where each one's class ends."""
    members = buckets.members
    if classes is None:
        return members, np.arange(1, members.size + 1)
    bucket_of = np.repeat(np.arange(buckets.bands.size), np.diff(buckets.starts))
    members = members[np.lexsort((members, classes[members], bucket_of))]
    ends = np.empty(members.size, np.int64)
    kernels.buckets.class_ends(buckets.starts, classes[members], ends)
    return members, ends


def compare_stored(
    signer: Signer,
    collection: CollectionReader,
    left: npt.NDArray[np.uint32],
    right: npt.NDArray[np.uint32],
) -> Compared:
    """Compare stored items ``left[i]`` and ``right[i]``, both item numbers."""
    numbers, places = np.unique(np.concatenate([left, right]), return_inverse=True)
    positions, items = read_items(collection, numbers)
    if positions.size < numbers.size:
        raise CorruptionError("an item that the index names is missing; run 'simdb check'")
    return compare_items(signer, items, places[: left.size], places[left.size :])


def join(
    signer: Signer,
    collection: CollectionReader,
    bound: Bound,
    memory: int,
    counters: JoinCounters,
    *,
    since: int = 0,
) -> Iterator[PairBatch]:
    """Yield all pairs of live items within a bound.

    Probable: the S-curve of the collection's plan says how probable at which similarity. Each
    pair comes once, similarities are exact; the order is that of the buckets, or of the new items
    where these are looked up.

    Args:
        signer, collection: what is joined.
        bound: what is similar enough.
        memory: bytes.
        counters: added to.
        since: only pairs with an item of this number or a higher one. Such items are looked up in
            their buckets if they are few.
    """
    if are_few(collection, since):
        candidates = _candidates_of_new(signer, collection, bound, since, counters.effort)
    else:
        candidates = _candidates_of_all(signer, collection, bound, memory, counters)
    for left, right in candidates:
        new = right >= since
        left_numbers, right_numbers = left[new], right[new]
        compared = compare_stored(signer, collection, left_numbers, right_numbers)
        met = bound.meets_many(compared.numerators, compared.denominators)
        counters.compared += left_numbers.size
        counters.pairs += int(np.count_nonzero(met))
        if met.any():
            yield PairBatch.of(
                left_numbers[met],
                right_numbers[met],
                compared.values()[met],
                is_distance=signer.is_distance,
            )


def are_few(collection: CollectionReader, since: int) -> bool:
    """Whether so few items are new that it is quicker to look each up."""
    return (collection.manifest.next_number - since) * NEW_SHARE <= collection.manifest.live


def _candidates_of_all(
    signer: Signer,
    collection: CollectionReader,
    bound: Bound,
    memory: int,
    counters: JoinCounters,
) -> Iterator[NumberPairs]:
    needed = signer.needed_matches(bound)
    at_once = _pairs_at_once(signer, collection)
    for buckets in bucket_slices(signer, collection, memory):
        for left, right in candidate_pairs(
            buckets,
            signer,
            needed,
            counters,
            classes=_signature_classes(buckets),
            in_first_band=True,
            at_once=at_once,
        ):
            one, other = buckets.numbers[left], buckets.numbers[right]
            yield np.minimum(one, other), np.maximum(one, other)


def _signature_classes(buckets: BucketSlice) -> npt.NDArray[np.int64] | None:
    """Return classes of items with equal signatures if a bucket is large; None if none is.

    Their pairs are all of the first band, so that buckets of later bands need not look at each:
    equal items would be met in every band. Different signatures are one class with a probability
    below 2^-50, as different bands are one bucket.
    """
    sizes = np.diff(buckets.starts)
    if buckets.item_keys is not None or not sizes.size or int(sizes.max()) <= LARGE_BUCKET:
        return None
    hashed = kernels.sketches.bucket_keys(buckets.signatures, 1, *_CLASS_HASH)
    return np.unique(hashed[:, 0], return_inverse=True)[1].astype(np.int64)


def _pairs_at_once(signer: Signer, collection: CollectionReader) -> int:
    """Return how many candidates are compared in one go.

    Where preparing an item costs more than comparing a pair, many, as far as the items that they
    may name take little memory.
    """
    if not isinstance(signer.measure, ComparesBatches):
        return PAIRS_AT_ONCE
    average = collection.manifest.item_bytes // max(1, collection.manifest.live)
    return min(max(PAIRS_AT_ONCE, COMPARED_BYTES // max(1, average)), PAIRS_COMPARED)


def _candidates_of_new(
    signer: Signer, collection: CollectionReader, bound: Bound, since: int, effort: Effort
) -> Iterator[NumberPairs]:
    """Look new items up in the buckets, and pair each with those before it.

    Items in a large bucket are looked up one by one, so that memory holds one item's candidates.
    """
    needed = signer.needed_matches(bound)
    for numbers in _live_numbers(collection, since):
        signatures, present = stored_signatures(collection, numbers)
        signed = Signed(signatures, signer.bucket_keys(signatures), present)
        found = propose(collection, signed, needed, limit=LARGE_BUCKET)
        small = ~found.cut[found.probes]
        effort.spend(int(np.count_nonzero(small)))
        yield from _earlier(found.numbers[small], numbers[found.probes[small]])
        for probe in np.flatnonzero(found.cut).tolist():
            own = np.array([probe])
            one = Signed(signatures[own], signed.buckets.select(own), present[own])
            similar = propose(collection, one, needed).numbers
            effort.spend(similar.size)
            yield from _earlier(similar, np.full(similar.size, numbers[probe]))


def _earlier(left: npt.NDArray[np.uint32], right: npt.NDArray[np.uint32]) -> Iterator[NumberPairs]:
    before = left < right
    left, right = left[before], right[before]
    for begin in range(0, left.size, PAIRS_AT_ONCE):
        yield left[begin : begin + PAIRS_AT_ONCE], right[begin : begin + PAIRS_AT_ONCE]


def _live_numbers(collection: CollectionReader, since: int) -> Iterator[npt.NDArray[np.uint32]]:
    for block in collection.documents.scan(since):
        numbers = block.numbers[block.numbers >= since]
        numbers = numbers[collection.alive(numbers)]
        for begin in range(0, numbers.size, PROBED_AT_ONCE):
            yield numbers[begin : begin + PROBED_AT_ONCE]
