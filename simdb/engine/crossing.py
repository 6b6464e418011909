"""Pairs of two collections by the probable index of one: the other's items are looked up in it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simdb.datatypes import PairBatch
from simdb.engine.comparing import compare_batch_with_stored
from simdb.engine.joining import JoinCounters
from simdb.engine.scanning import item_slices
from simdb.engine.searching import propose
from simdb.engine.signing import Signer
from simdb.exact.thresholds import Bound
from simdb.storage.tables import CollectionReader


def cross(
    left: CollectionReader,
    right: CollectionReader,
    right_signer: Signer,
    bound: Bound,
    counters: JoinCounters,
) -> Iterator[PairBatch]:
    """Yield the similar pairs of an item of one collection and one of another.

    Probable, as a search of the right collection; each pair once, in the order of the left one.

    Args:
        left: whose items are looked up.
        right: with a probable index.
        right_signer: of the right collection; the items of both have the same stored form.
        bound: what is similar enough.
        counters: added to.
    """
    needed = right_signer.needed_matches(bound)
    for numbers, items, _ in item_slices(right_signer, left, with_features=False):
        candidates = propose(right, right_signer.sign(items), needed)
        places, compared = compare_batch_with_stored(
            right_signer, right, items, candidates.probes, candidates.numbers
        )
        met = bound.meets_many(compared.numerators, compared.denominators)
        hits = places[met]
        counters.compared += places.size
        counters.pairs += hits.size
        if hits.size:
            yield PairBatch.of(
                numbers[candidates.probes[hits]],
                candidates.numbers[hits],
                compared.values()[np.flatnonzero(met)],
                is_distance=right_signer.is_distance,
            )
