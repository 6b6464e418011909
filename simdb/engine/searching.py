"""Many-one: which stored items are similar to this one?

Buckets propose candidates, signatures drop those that agree in too few rows, and what is left
is compared in full (MMDS 3.4.3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.engine.comparing import compare_with_stored
from simdb.engine.signing import Signed, Signer, needed_matches
from simdb.exact.thresholds import Threshold
from simdb.storage.run_views import NO_LIMIT
from simdb.storage.tables import CollectionReader


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

    numbers: npt.NDArray[np.uint32]
    similarities: npt.NDArray[np.float64]
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
        limit: at most so many items a bucket, the oldest first.
    """
    bands = signed.bucket_keys.shape[1]
    usable = np.flatnonzero(signed.has_symbols)
    found = collection.bands.probe(signed.bucket_keys[usable].ravel(), limit=limit)
    cut = np.zeros(signed.has_symbols.size, np.bool_)
    if limit != NO_LIMIT and found.queries.size:
        full = np.flatnonzero(np.bincount(found.queries, minlength=usable.size * bands) >= limit)
        cut[usable[full // bands]] = True
    probes = usable[found.queries // bands]
    packed = np.unique(
        (probes.astype(np.uint64) << np.uint64(32)) | collection.bands.column(found, 0)
    )
    probes = (packed >> np.uint64(32)).astype(np.int64)
    numbers = (packed & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    if collection.state.marked:
        alive = collection.alive(numbers)
        probes, numbers = probes[alive], numbers[alive]
    promising = _enough_rows(collection, signed, probes, numbers, threshold)
    return Candidates(probes[promising], numbers[promising], cut)


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
    signed = signer.sign_symbols(symbols)
    candidates = propose(collection, signed, threshold)
    compared = compare_with_stored(signer, collection, symbols, candidates.numbers)
    met = compared.meets(threshold)
    numbers = candidates.numbers[met]
    similarities = compared.similarities()[met]
    best = np.lexsort((numbers, -similarities))[:limit]
    return Similar(numbers[best], similarities[best], candidates.numbers.size)
