"""Many-one: which stored items are similar to this one?

Buckets propose candidates, signatures drop those that agree in too few rows, and what is left
is compared in full (MMDS 3.4.3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.engine.comparing import compare_with_probe
from simdb.engine.signing import Signed, Signer, needed_matches
from simdb.exact.thresholds import Threshold
from simdb.storage.run_views import NO_LIMIT
from simdb.storage.tables import FEW, CollectionReader, Document


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
    """Stored items similar to a probe, by falling similarity, then by item number."""

    documents: list[Document]
    similarities: list[float]
    candidates: int


def propose(
    collection: CollectionReader,
    signed: Signed,
    threshold: Threshold,
    *,
    limit: int = NO_LIMIT,
) -> Candidates:
    """Return the live items that share a bucket, and enough signature rows, with each probe.

    Args:
        collection: where to look.
        signed: the probes.
        threshold: pairs at or above it are dropped with probability 1/10,000 at most.
        limit: at most so many items a bucket, the oldest first. Of a probe with a bucket that
            holds more, the candidates end with the last item that was seen of every such bucket.
    """
    bands = signed.bucket_keys.shape[1]
    usable = np.flatnonzero(signed.has_symbols)
    found = collection.bands.probe(signed.bucket_keys[usable].ravel(), limit=limit)
    items = collection.bands.column(found, 0)
    probe_of = usable[found.queries // bands]
    cut = np.zeros(signed.has_symbols.size, np.bool_)
    if limit != NO_LIMIT and found.queries.size:
        full = np.flatnonzero(np.bincount(found.queries, minlength=usable.size * bands) >= limit)
        cut[usable[full // bands]] = True
        last_items = np.zeros(usable.size * bands, np.uint32)
        np.maximum.at(last_items, found.queries, items)
        horizon = np.full(cut.size, np.iinfo(np.uint32).max)
        np.minimum.at(horizon, usable[full // bands], last_items[full])
        near = items <= horizon[probe_of]
        probe_of, items = probe_of[near], items[near]
    probes, numbers = _distinct(probe_of, items)
    if collection.state.marked:
        alive = collection.alive(numbers)
        probes, numbers = probes[alive], numbers[alive]
    promising = _enough_rows(collection, signed, probes, numbers, threshold)
    return Candidates(probes[promising], numbers[promising], cut)


def _distinct(
    probes: npt.NDArray[np.int64], numbers: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
    """Return each pair of probe and item once, sorted."""
    packed = (probes.astype(np.uint64) << np.uint64(32)) | numbers
    packed.sort()
    new = np.empty(packed.size, np.bool_)
    new[:1] = True
    np.not_equal(packed[1:], packed[:-1], out=new[1:])
    packed = packed[new]
    return (packed >> np.uint64(32)).astype(np.int64), packed.astype(np.uint32)


def _enough_rows(
    collection: CollectionReader,
    signed: Signed,
    probes: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.uint32],
    threshold: Threshold,
) -> npt.NDArray[np.bool_]:
    """Return which candidates agree with their probe in enough signature rows."""
    if not numbers.size:
        return np.empty(0, np.bool_)
    places: npt.NDArray[np.int64] | slice = slice(None)
    distinct = numbers
    if signed.has_symbols.size > 1:  # several probes may propose one item
        distinct, places = np.unique(numbers, return_inverse=True)
    rows, present = stored_signatures(collection, distinct)
    matches, _ = kernels.sketching.compare_signatures(
        signed.signatures[probes], rows[places], 1, rows.shape[1]
    )
    needed = needed_matches(threshold, rows.shape[1])
    enough: npt.NDArray[np.bool_] = (matches >= needed) & present[places]
    return enough


def stored_signatures(
    collection: CollectionReader, numbers: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.bool_]]:
    """Return the signatures of ascending item numbers, uint16 (n, rows), and which there are."""
    width = collection.state.index.signature_width // 2
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
    threshold: Threshold,
    limit: int | None,
) -> Similar:
    """Find the stored items that are similar to one item.

    Probable: the S-curve of the collection's plan says how probable at which similarity. The
    similarities are exact.
    """
    symbols = signer.symbols([item])
    candidates = propose(collection, signer.sign_symbols(symbols), threshold)
    documents = [document for _, document in collection.documents_of(candidates.numbers)]
    compared = compare_with_probe(signer, symbols, [document.item for document in documents])
    met = np.flatnonzero(compared.meets(threshold))
    similarities = compared.similarities()
    best = met[np.argsort(-similarities[met], kind="stable")][:limit].tolist()
    return Similar(
        [documents[place] for place in best],
        [float(similarities[place]) for place in best],
        len(documents),
    )
