"""True similarities and distances, computed on the items themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct

from simdb.arrays import Float64s, Int64s, UInt8s, UInt32s
from simdb.batches.compare import COMPARED_BYTES, compare_items
from simdb.batches.signer import Signer
from simdb.errors import CorruptionError
from simdb.exact.thresholds import Bound
from simdb.kinds import Compared, Items
from simdb.opened.opened import Opened
from simdb.ragged import ByteStrings, slices_of, some_of
from simdb.storage.collection.reader import (
    CollectionReader,
    chosen_items,
    live_batches,
    read_items,
)
from simdb.storage.tables.layout import Document

PAIRS_COMPARED = 131_072  # at once
FEW_DOCUMENTS = 64  # that a probe is compared with one by one


class Ranked(Struct, frozen=True, eq=False):
    """Stored items that a probe was compared with."""

    numbers: UInt32s
    values: Float64s  # similarities or distances
    met: Int64s  # places of those within the bound
    documents: list[Document] | None  # if they had to be read

    @classmethod
    def nothing(cls) -> Ranked:
        """What is found where nothing is within the bound."""
        return cls(np.empty(0, np.uint32), np.empty(0), np.empty(0, np.int64), None)


def compare_probe_with_stored(opened: Opened, probe: Any, numbers: UInt32s, bound: Bound) -> Ranked:
    """Compare the features of an item with stored items, of ascending numbers, that still exist."""
    signer, reader = opened.signer, opened.reader
    documents = None
    if reader.items is not None:
        positions, rows = reader.item_rows(numbers)
        numbers = numbers[positions]
        compared = signer.measure.compare_probe(probe, signer.features_of_rows(rows))
    else:
        numbers, compared, documents = compare_probe_with_documents(opened, probe, numbers)
    met = bound.meets_many(compared.numerators, compared.denominators).nonzero()[0]
    return Ranked(numbers, compared.values(), met, documents)


def compare_probe_with_documents(
    opened: Opened, probe: Any, numbers: UInt32s
) -> tuple[UInt32s, Compared, list[Document] | None]:
    """Compare as ``compare_probe_with_stored`` does, where items are in documents.

    Returns the numbers of those that exist, what came out, and their documents if they are few,
    which matches are made of: an object for each of many would take longer than to compare them.
    """
    signer, reader = opened.signer, opened.reader
    compare = signer.measure.compare_probe
    if numbers.size <= FEW_DOCUMENTS:
        documents = [document for _, document in reader.documents_of(numbers)]
        if len(documents) < numbers.size:
            numbers = np.array([document.number for document in documents], np.uint32)
        items = [document.item for document in documents]
        parts = [slice(None)]
        # Else not even all that are stored weigh so much.
        if signer.items.expands or reader.manifest.item_bytes > COMPARED_BYTES:
            parts = [*slices_of(signer.items.weights(items), COMPARED_BYTES)]
        told = [compare(probe, signer.features(items[part])) for part in parts]
        return numbers, Compared.together(told), documents
    positions = [np.empty(0, np.int64)]
    compared = []
    for places, part in items_in_parts(reader, numbers, signer.items):
        positions.append(places)
        compared.append(compare(probe, signer.features(part)))
    return numbers[np.concatenate(positions)], Compared.together(compared), None


class Comparison(Struct, frozen=True, eq=False):
    """Given items and stored ones that are held at once, to be compared in any thread."""

    signer: Signer
    items: Sequence[bytes | memoryview]
    features: Any  # of the given items, where they are slow to prepare
    stored: ByteStrings
    places: Int64s  # of the pairs among all
    left: Int64s  # of each pair, the given item
    right: Int64s  # and the stored one

    def result(self) -> tuple[Int64s, Compared]:
        """Compare them; return the places of the pairs, and what came out."""
        signer, left, right = self.signer, self.left, self.right
        if self.features is None:
            used, left = np.unique(left, return_inverse=True)
            own = ByteStrings.of(some_of(self.items, used))
            both = ByteStrings.concatenated([own, self.stored])
            return self.places, compare_items(signer, both, left, right + used.size)
        others, between = signer.features(self.stored), signer.measure.compare_between
        parts = [
            between(self.features, others, left[begin:end], right[begin:end])
            for begin, end in pairwise([*range(0, left.size, PAIRS_COMPARED), left.size])
        ]
        return self.places, Compared.together(parts)


def comparisons(
    opened: Opened,
    items: Sequence[bytes | memoryview],
    rows: Int64s,
    numbers: UInt32s,
    *,
    features: Any = None,
) -> Iterator[Comparison]:
    """Yield what compares given items with stored ones: ``items[rows[i]]`` with ``numbers[i]``.

    Of no pairs it is one that compares nothing. All pairs are in one of them but those of items
    that another process has deleted for good.
    ``features`` of the given items are had already where they are slow to prepare.
    """
    nothing = np.empty(0, np.int64), np.empty(0, np.int64), ByteStrings.of([])
    found = stored_of_pairs(opened.reader, numbers, opened.signer.items)
    for pairs, others, stored in found if numbers.size else [nothing]:
        yield Comparison(opened.signer, items, features, stored, pairs, rows[pairs], others)


def stored_of_pairs(
    collection: CollectionReader, numbers: UInt32s, forms: Items
) -> Iterator[tuple[Int64s, Int64s, ByteStrings]]:
    """Yield the stored items of pairs, given the number of each pair's, some at a time.

    The pairs, by their places, which of the items each of these has, and the items; all pairs but
    those whose item is not stored.
    """
    distinct, places = np.unique(numbers, return_inverse=True)
    for positions, items in items_in_parts(collection, distinct, forms):
        place_of = np.full(distinct.size, -1, np.int64)
        place_of[positions] = np.arange(positions.size)
        others = place_of[places]
        pairs = np.flatnonzero(others >= 0)
        yield pairs, others[pairs], items


def compare_batch_with_stored(
    opened: Opened, items: Sequence[bytes | memoryview], rows: Int64s, numbers: UInt32s
) -> Compared:
    """Compare given items with stored ones: ``items[rows[i]]`` with item ``numbers[i]``."""
    parts = [one.result() for one in comparisons(opened, items, rows, numbers)]
    compared = Compared.together([part for _, part in parts])
    order = np.argsort(np.concatenate([np.empty(0, np.int64), *(places for places, _ in parts)]))
    return Compared(compared.numerators[order], compared.denominators[order])


def compare_stored(opened: Opened, left: UInt32s, right: UInt32s) -> Compared:
    """Compare stored items ``left[i]`` and ``right[i]``, both item numbers.

    The fewer times the better, since an item may be in many of the pairs, and is read once.
    """
    numbers, places = np.unique(np.concatenate([left, right]), return_inverse=True)
    manifest = opened.reader.manifest
    weight = numbers.size * manifest.item_bytes // max(1, manifest.live)
    if left.size > 1 and weight > COMPARED_BYTES:
        half = left.size // 2
        halves = slice(half), slice(half, None)
        return Compared.together([compare_stored(opened, left[one], right[one]) for one in halves])
    positions, items = read_items(opened.reader, numbers)
    if positions.size < numbers.size:
        raise CorruptionError("an item that the index refers to is missing; run 'simdb check'")
    return compare_items(opened.signer, items, places[: left.size], places[left.size :])


def items_in_parts(
    collection: CollectionReader, numbers: UInt32s, forms: Items
) -> Iterator[tuple[Int64s, ByteStrings]]:
    """Yield positions and items of stored items whose features may be held at once."""
    for positions, items in chosen_items(collection, numbers, COMPARED_BYTES):
        for part in slices_of(forms.weights(items), COMPARED_BYTES):
            yield positions[part], items[part]


# -- everything ---------------------------------------------------------------------------------


def live_features(opened: Opened, start: int = 0) -> Iterator[tuple[UInt32s, Any]]:
    """Yield the numbers and the features of all live items from a number on, in bounded slices."""
    if opened.reader.items is None:
        weights = opened.signer.items.weights
        for numbers, items in live_batches(opened.reader, start, weights=weights):
            yield numbers, opened.signer.features(items)
        return
    for numbers, rows in live_rows(opened.reader, start):
        yield numbers, opened.signer.features_of_rows(rows)


def live_rows(reader: CollectionReader, start: int = 0) -> Iterator[tuple[UInt32s, UInt8s]]:
    """Yield items of one width where they lie in the map, without those that are deleted."""
    for block in reader.item_blocks() or ():
        numbers, rows = block.numbers, block.rows
        reader.transaction.require_open()
        if not (start or reader.manifest.tombstones):
            yield numbers, rows
            continue
        kept = reader.alive(numbers)
        if start:
            kept &= numbers >= start
        if kept.all():
            yield numbers, rows
        elif kept.any():
            yield numbers[kept], rows[kept]
