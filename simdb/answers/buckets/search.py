"""Many-one: which stored items are similar to this one?

Buckets propose candidates, signatures drop those that agree in too few words, and what is left
is compared in full (MMDS 3.4.3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.answers.compare import ComparedStored, compare_probe_with_stored
from simdb.exact.thresholds import Bound
from simdb.opened.signer import Signed, Signer
from simdb.storage.collection.reader import FEW, CollectionReader
from simdb.storage.tables.layout import Document
from simdb.storage.tables.views import NO_LIMIT


class Candidates(NamedTuple):
    """Proposed pairs of a probe and a stored item, by probe, then by item number.

    Attributes:
        probes: int64 (n,), position of the probe in its batch.
        numbers: uint32 (n,), item numbers.
        cut: bool (probes,), whether a bucket of the probe held more than the limit.
    """

    probes: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.uint32]
    cut: npt.NDArray[np.bool_]


class Similar(NamedTuple):
    """Stored items similar to a probe, the best first, equal ones by item number.

    Attributes:
        documents: the items.
        values: similarity, or distance, of each.
        candidates: how many items were compared in full.
    """

    documents: list[Document]
    values: list[float]
    candidates: int


def propose(
    collection: CollectionReader,
    signed: Signed,
    needed: int,
    *,
    limit: int = NO_LIMIT,
) -> Candidates:
    """Return the live items that share a bucket, and enough signature words, with each probe.

    Args:
        collection: where to look.
        signed: the probes.
        needed: equal words of signature below which a pair is dropped.
        limit: at most so many items a bucket, the oldest first. Of a probe with a bucket that
            holds more, the candidates end with the last item that was seen of every such bucket.
    """
    probes_count = signed.comparable.size
    usable = np.flatnonzero(signed.comparable)
    buckets = signed.buckets.select(usable)
    if buckets.groups is not None:
        limit = NO_LIMIT  # what is cut off in one group might be all that another has
    if probes_count == 1:  # most searches
        owners = np.zeros(buckets.values.size, np.int64)
    else:
        owners = np.repeat(usable, buckets.counts)
    found = collection.bands.probe(buckets.values, limit=limit)
    items = collection.bands.column(found, 0)
    # Of one probe no entry needs to be told whose it is.
    probe_of = np.zeros(items.size, np.int64) if probes_count == 1 else owners[found.queries]
    cut = np.zeros(probes_count, np.bool_)
    if limit != NO_LIMIT and found.queries.size:
        full = np.flatnonzero(np.bincount(found.queries, minlength=owners.size) >= limit)
        cut[owners[full]] = True
        last_items = np.zeros(owners.size, np.uint32)
        np.maximum.at(last_items, found.queries, items)
        horizon = np.full(cut.size, np.iinfo(np.uint32).max)
        np.minimum.at(horizon, owners[full], last_items[full])
        near = items <= horizon[probe_of]
        probe_of, items = probe_of[near], items[near]
    if buckets.groups is None:
        packed = _distinct(probe_of, items)
    else:
        groups = buckets.groups[found.queries]
        packed = _in_every_group(probe_of, items, groups, buckets.group_count)
    probes, numbers = _unpacked(packed)
    if collection.manifest.tombstones:
        alive = collection.alive(numbers)
        probes, numbers = probes[alive], numbers[alive]
    if needed:
        promising = _enough_words(collection, signed, probes, numbers, needed)
        probes, numbers = probes[promising], numbers[promising]
    return Candidates(probes, numbers, cut)


def _in_every_group(
    probes: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.uint32],
    groups: npt.NDArray[np.uint8],
    group_count: int,
) -> npt.NDArray[np.uint64]:
    """Return the pairs that share a bucket of every group, packed (MMDS 3.8.5)."""
    packed: npt.NDArray[np.uint64] | None = None
    if groups.size and probes[0] == probes[-1]:  # bitmaps are quicker, and one probe needs few
        found = kernels.fingerprints.in_every_group(
            numbers, groups, group_count, int(numbers.max()) + 1
        )
        return (np.uint64(probes[0]) << np.uint64(32)) | found.astype(np.uint64)
    for group in range(group_count):
        inside = groups == group
        pairs = _distinct(probes[inside], numbers[inside])
        packed = pairs if packed is None else np.intersect1d(packed, pairs, assume_unique=True)
    return np.empty(0, np.uint64) if packed is None else packed


def _distinct(
    probes: npt.NDArray[np.int64], numbers: npt.NDArray[np.uint32]
) -> npt.NDArray[np.uint64]:
    """Return each pair of probe and item once, packed and sorted."""
    packed = (probes.astype(np.uint64) << np.uint64(32)) | numbers
    packed.sort()
    new = np.empty(packed.size, np.bool_)
    new[:1] = True
    np.not_equal(packed[1:], packed[:-1], out=new[1:])
    return packed[new]


def _unpacked(
    packed: npt.NDArray[np.uint64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
    return (packed >> np.uint64(32)).astype(np.int64), packed.astype(np.uint32)


def _enough_words(
    collection: CollectionReader,
    signed: Signed,
    probes: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.uint32],
    needed: int,
) -> npt.NDArray[np.bool_]:
    """Return which candidates agree with their probe in enough words of signature."""
    if not numbers.size:
        return np.empty(0, np.bool_)
    places: npt.NDArray[np.int64] | slice = slice(None)
    distinct = numbers
    if signed.comparable.size > 1:  # several probes may propose one item
        distinct, places = np.unique(numbers, return_inverse=True)
    words, present = stored_signatures(collection, distinct)
    matches, _ = kernels.sketches.compare_signatures(
        signed.signatures[probes], words[places], 1, words.shape[1]
    )
    enough: npt.NDArray[np.bool_] = (matches >= needed) & present[places]
    return enough


def stored_signatures(
    collection: CollectionReader, numbers: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.bool_]]:
    """Return the signatures of ascending item numbers, uint16 (n, rows), and which there are."""
    width = collection.manifest.index.signature_width // 2
    rows = np.zeros((numbers.size, width), np.uint16)
    present = np.zeros(numbers.size, np.bool_)
    if numbers.size <= FEW:
        for position, number in enumerate(numbers.tolist()):
            block = collection.signatures.find(number)
            place = None if block is None else block.place(number)
            if block is not None and place is not None:
                rows[position] = np.frombuffer(block.record(place), np.uint16)
                present[position] = True
        return rows, present
    for block, wanted, places in collection.signatures.locate(numbers):
        rows[wanted] = block.as_rows(np.uint16)[places]
        present[wanted] = True
    return rows, present


def search(
    signer: Signer,
    collection: CollectionReader,
    item: bytes,
    bound: Bound,
    limit: int | None,
) -> Similar:
    """Find the stored items that are similar to one item.

    Probable: the S-curve of the collection's plan says how probable at which value. The values
    themselves are exact.
    """
    probe = signer.features([item])
    hashed = probe if signer.hashes_what_it_compares else signer.hashed([item])
    signed = signer.sign_hashed(hashed)
    candidates = propose(collection, signed, signer.needed_matches(bound))
    found = compare_probe_with_stored(signer, collection, probe, candidates.numbers)
    return best_of(collection, found, bound, limit)


def best_of(
    collection: CollectionReader, found: ComparedStored, bound: Bound, limit: int | None
) -> Similar:
    """Return those of the items compared that are within a bound, the best first."""
    numbers, compared, documents = found
    values = compared.values()
    met = np.flatnonzero(bound.meets_many(compared.numerators, compared.denominators))
    best = met[np.argsort(bound.order(values[met]), kind="stable")][:limit].tolist()
    if documents is None:
        read = dict(collection.documents_of(np.sort(numbers[best])))
        rank = np.argsort(np.argsort(numbers[best])).tolist()
        chosen = [read[place] for place in rank]
    else:
        chosen = [documents[place] for place in best]
    return Similar(chosen, [float(values[place]) for place in best], numbers.size)
