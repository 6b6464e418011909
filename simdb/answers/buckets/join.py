"""Pairs of two collections by the probable index of one: the other's items are looked up in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from simdb.answers.buckets.pairs import LARGE_BUCKET, JoinCounters
from simdb.answers.buckets.search import Candidates, propose
from simdb.answers.compare import (
    ComparesBatches,
    compare_batch_with_stored,
    compare_features_with_stored,
)
from simdb.answers.scan import item_slices
from simdb.exact.thresholds import Bound
from simdb.opened.signer import Signed, Signer
from simdb.results import PairBatch
from simdb.storage.collection.reader import CollectionReader

PAIRS_AT_ONCE = 262_144
PROBES_AT_ONCE = 1_024


def cross(
    left: CollectionReader,
    right: CollectionReader,
    right_signer: Signer,
    bound: Bound,
    counters: JoinCounters,
) -> Iterator[PairBatch]:
    """Yield the similar pairs of an item of one collection and one of another.

    Probable, as a search of the right collection; each pair once, slice by slice of the left one.

    Args:
        left: whose items are looked up.
        right: with a probable index.
        right_signer: of the right collection; the items of both have the same stored form.
        bound: what is similar enough.
        counters: added to.
    """
    needed = right_signer.needed_matches(bound)
    for numbers, items, _ in item_slices(right_signer, left, with_features=False):
        features, signed = _signed(right_signer, items)
        for candidates in _candidates(right, signed, needed):
            probes, others = candidates.probes, candidates.numbers
            counters.effort.spend(others.size)
            if features is None:
                places, compared = compare_batch_with_stored(
                    right_signer, right, items, probes, others
                )
            else:
                places, compared = compare_features_with_stored(
                    right_signer, right, features, probes, others
                )
            met = bound.meets_many(compared.numerators, compared.denominators)
            hits = places[met]
            counters.compared += places.size
            counters.pairs += hits.size
            if hits.size:
                yield PairBatch.of(
                    numbers[probes[hits]],
                    others[hits],
                    compared.values()[np.flatnonzero(met)],
                    is_distance=right_signer.is_distance,
                )


def _signed(signer: Signer, items: Sequence[bytes | memoryview]) -> tuple[Any, Signed]:
    """Return what probes are signed as; and their features, where both need the same."""
    if signer.hashes_what_it_compares and isinstance(signer.measure, ComparesBatches):
        features = signer.hashed(items)
        return features, signer.sign_hashed(features)
    return None, signer.sign(items)


def _candidates(right: CollectionReader, signed: Signed, needed: int) -> Iterator[Candidates]:
    """Look probes up; those with a large bucket in parts of about ``PAIRS_AT_ONCE`` candidates."""
    found = propose(right, signed, needed, limit=LARGE_BUCKET)
    small = ~found.cut[found.probes]
    yield Candidates(found.probes[small], found.numbers[small], found.cut)
    remaining: npt.NDArray[np.int64] = np.flatnonzero(found.cut)
    at_once = 1
    while remaining.size:
        own, remaining = remaining[:at_once], remaining[at_once:]
        part = Signed(signed.signatures[own], signed.buckets.select(own), signed.comparable[own])
        similar = propose(right, part, needed)
        yield Candidates(own[similar.probes], similar.numbers, similar.cut)
        # Buckets of neighbours are about as large; a single one may be that of all items.
        each = max(1, similar.numbers.size // own.size)
        at_once = min(max(1, PAIRS_AT_ONCE // each), 2 * at_once, PROBES_AT_ONCE)
