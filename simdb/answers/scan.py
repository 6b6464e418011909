"""Exact answers without an index: the probe is compared with every stored item.

The time is that of reading all items, once a search, or once a slice of them for pairs. Items of
one width lie in blocks of their own and are compared in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from simdb.answers.buckets.groups import Forest
from simdb.answers.buckets.search import Similar, best_of
from simdb.answers.compare import ComparedStored
from simdb.exact.thresholds import Bound
from simdb.kinds import Compared
from simdb.opened.signer import Signer
from simdb.results import Effort, PairBatch
from simdb.storage.collection.reader import CollectionReader, cut_rows, live_items

READ_AT_ONCE = 2_000  # items


def search(
    signer: Signer, collection: CollectionReader, item: bytes, bound: Bound, limit: int | None
) -> Similar:
    """Find the stored items that are similar to one item, by comparing it with all of them."""
    within = signer.measure.finder(signer.features([item]), bound)
    found: list[ComparedStored] = []
    total = 0
    for numbers, features in slices(signer, collection):
        places, compared = within(features)
        total += numbers.size
        if places.size:
            found.append(ComparedStored(numbers[places], compared, None))
    if not found:
        return Similar([], [], total)
    everything = ComparedStored(
        np.concatenate([part.numbers for part in found]),
        Compared(
            np.concatenate([part.compared.numerators for part in found]),
            np.concatenate([part.compared.denominators for part in found]),
        ),
        None,
    )
    return best_of(collection, everything, bound, limit)._replace(candidates=total)


def pairs(
    signer: Signer, collection: CollectionReader, bound: Bound, effort: Effort, *, since: int = 0
) -> Iterator[PairBatch]:
    """Yield all pairs of live items within a bound: each item is compared with every later one.

    Exact, each pair once, by the slices that items are read in. The time is quadratic.

    Args:
        signer, collection: what is compared.
        bound: what is similar enough.
        effort: added to: every pair is looked at.
        since: only pairs with an item of this number or a higher one.
    """
    for numbers, items, _ in item_slices(signer, collection, with_features=False):
        start = max(since, int(numbers[0]))
        for stored in slices(signer, collection, start):
            earlier = np.searchsorted(stored[0], numbers, side="right")
            effort.spend(int((stored[0].size - earlier).sum()))
            yield from _cross(signer, bound, (numbers, items), stored, ordered=True)


def group(
    signer: Signer, collection: CollectionReader, bound: Bound, effort: Effort
) -> list[npt.NDArray[np.uint32]]:
    """Return the groups of items connected by pairs within a bound. Exact; quadratic."""
    forest = Forest(collection.manifest.next_number)
    for batch in pairs(signer, collection, bound, effort):
        forest.connect(batch.left, batch.right)
    return forest.groups()


def cross(
    signer: Signer,
    left: CollectionReader,
    right: CollectionReader,
    bound: Bound,
    effort: Effort,
) -> Iterator[PairBatch]:
    """Yield all pairs of an item of one collection and one of another, within a bound.

    Exact, each pair once. The time is the product of their sizes.
    """
    for numbers, items, _ in item_slices(signer, left, with_features=False):
        for stored in slices(signer, right):
            effort.spend(numbers.size * stored[0].size)
            yield from _cross(signer, bound, (numbers, items), stored)


def _cross(
    signer: Signer,
    bound: Bound,
    probes: tuple[npt.NDArray[np.uint32], list[bytes]],
    stored: tuple[npt.NDArray[np.uint32], Any],
    *,
    ordered: bool = False,
) -> Iterator[PairBatch]:
    lefts, rights, values = [], [], []
    other_numbers, features = stored
    for number, item in zip(probes[0].tolist(), probes[1], strict=True):
        places, compared = signer.measure.finder(signer.features([item]), bound)(features)
        similarities = compared.values()
        if ordered:
            later = other_numbers[places] > number
            places, similarities = places[later], similarities[later]
        if places.size:
            lefts.append(np.full(places.size, number, np.uint32))
            rights.append(other_numbers[places])
            values.append(similarities)
    if lefts:
        yield PairBatch.of(
            np.concatenate(lefts),
            np.concatenate(rights),
            np.concatenate(values),
            is_distance=signer.is_distance,
        )


def slices(
    signer: Signer, collection: CollectionReader, start: int = 0
) -> Iterator[tuple[npt.NDArray[np.uint32], Any]]:
    """Yield the numbers and the features of all live items, in slices of bounded size."""
    if collection.items is None:
        for numbers, items in _document_slices(collection, start):
            yield numbers, signer.features(items)
        return
    for numbers, rows in _row_slices(collection, start):
        yield numbers, signer.features_of_rows(rows)


def item_slices(
    signer: Signer, collection: CollectionReader, start: int = 0, *, with_features: bool = True
) -> Iterator[tuple[npt.NDArray[np.uint32], list[bytes], Any]]:
    """Yield numbers, items and, if wanted, features of all live items, in bounded slices."""
    if collection.items is None:
        for numbers, items in _document_slices(collection, start):
            yield numbers, items, signer.features(items) if with_features else None
        return
    for numbers, rows in _row_slices(collection, start):
        features = signer.features_of_rows(rows) if with_features else None
        yield numbers, cut_rows(rows), features


def _row_slices(
    collection: CollectionReader, start: int
) -> Iterator[tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint8]]]:
    for numbers, rows in collection.item_blocks() or ():
        collection.transaction.require_open()
        if not (start or collection.manifest.tombstones):
            yield numbers, rows
            continue
        kept = collection.alive(numbers)
        if start:
            kept &= numbers >= start
        if kept.all():
            yield numbers, rows
        elif kept.any():
            yield numbers[kept], rows[kept]


def _document_slices(
    collection: CollectionReader, start: int
) -> Iterator[tuple[npt.NDArray[np.uint32], list[bytes]]]:
    numbers: list[npt.NDArray[np.uint32]] = []
    items: list[bytes] = []
    for part in live_items(collection, start):
        numbers.append(part.numbers)
        items += part.items
        if len(items) >= READ_AT_ONCE:
            yield np.concatenate(numbers), items
            numbers, items = [], []
    if items:
        yield np.concatenate(numbers), items
