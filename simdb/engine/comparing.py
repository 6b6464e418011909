"""True similarities, computed on the items themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.engine.signing import Signer
from simdb.exact.thresholds import Threshold
from simdb.items.symbols import SymbolSets
from simdb.storage.tables import CollectionReader

COMPARED_BYTES = 16 * 2**20  # of items whose symbols (eight times as many bytes) are held at once


class Compared(NamedTuple):
    """Exact sizes of intersections and unions, int64 (n,) each.

    Items that could not be read, since another process has deleted them for good, have overlap 0.
    """

    overlaps: npt.NDArray[np.int64]
    unions: npt.NDArray[np.int64]

    def meets(self, threshold: Threshold) -> npt.NDArray[np.bool_]:
        """Return which similarities are at least the threshold."""
        return threshold.meets_many(self.overlaps, self.unions)

    def similarities(self) -> npt.NDArray[np.float64]:
        """Return the Jaccard similarities (MMDS 3.1.1); 0 where both sets are empty."""
        result: npt.NDArray[np.float64] = self.overlaps / np.maximum(self.unions, 1)
        return result


def compare_with_probe(
    signer: Signer, probe: SymbolSets, items: Sequence[bytes | memoryview]
) -> Compared:
    """Compare one item, whose symbols are given, with many."""
    overlaps = np.zeros(len(items), np.int64)
    unions = np.zeros(len(items), np.int64)
    for part in _parts_by_size(items):
        symbols = signer.symbols(items[part])
        shared, sizes, probe_size = kernels.overlaps.probe_overlaps(
            probe.values, symbols.values, symbols.offsets
        )
        overlaps[part] = shared
        unions[part] = sizes + probe_size - shared
    return Compared(overlaps, unions)


def _parts_by_size(items: Sequence[bytes | memoryview]) -> Iterator[slice]:
    """Cut items into slices of at most about ``COMPARED_BYTES``."""
    begin = 0
    size = 0
    for position, item in enumerate(items):
        if size and size + len(item) > COMPARED_BYTES:
            yield slice(begin, position)
            begin, size = position, 0
        size += len(item)
    if begin < len(items):
        yield slice(begin, len(items))


def compare_batch_with_stored(
    signer: Signer,
    collection: CollectionReader,
    items: Sequence[bytes | memoryview],
    rows: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.uint32],
) -> Compared:
    """Compare given items with stored ones: ``items[rows[i]]`` with item ``numbers[i]``."""
    overlaps = np.zeros(rows.size, np.int64)
    unions = np.zeros(rows.size, np.int64)
    distinct, places = np.unique(numbers, return_inverse=True)
    for positions, stored in _read_in_parts(collection, distinct):
        place_of = np.full(distinct.size, -1, np.int64)
        place_of[positions] = np.arange(positions.size)
        wanted = np.flatnonzero(place_of[places] >= 0)
        for part in _parts_by_row(items, rows, wanted):
            given, left = np.unique(rows[part], return_inverse=True)
            texts = [items[row] for row in given.tolist()]
            here, right = np.unique(place_of[places[part]], return_inverse=True)
            both = signer.symbols(texts + [stored[place] for place in here.tolist()])
            compared = _compare_positions(both, left, right + given.size)
            overlaps[part], unions[part] = compared
    return Compared(overlaps, unions)


def compare_items(
    signer: Signer,
    items: Sequence[bytes | memoryview],
    left: npt.NDArray[np.int64],
    right: npt.NDArray[np.int64],
) -> Compared:
    """Compare ``items[left[i]]`` with ``items[right[i]]``, in parts that bound the memory."""
    overlaps = np.zeros(left.size, np.int64)
    unions = np.zeros(left.size, np.int64)
    everything = np.arange(left.size)
    for part in _parts_by_row(items, left, everything, also=right):
        used, places = np.unique(np.concatenate([left[part], right[part]]), return_inverse=True)
        symbols = signer.symbols([items[position] for position in used.tolist()])
        overlaps[part], unions[part] = _compare_positions(
            symbols, places[: part.size], places[part.size :]
        )
    return Compared(overlaps, unions)


def _compare_positions(
    symbols: SymbolSets, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
) -> Compared:
    order = np.argsort(left, kind="stable")
    shared, left_sizes, right_sizes = kernels.overlaps.pair_overlaps(
        symbols.values,
        symbols.offsets,
        left[order].astype(np.int64),
        right[order].astype(np.int64),
    )
    overlaps = np.empty_like(shared)
    unions = np.empty_like(shared)
    overlaps[order] = shared
    unions[order] = left_sizes + right_sizes - shared
    return Compared(overlaps, unions)


def _read_in_parts(
    collection: CollectionReader, numbers: npt.NDArray[np.uint32]
) -> Iterator[tuple[npt.NDArray[np.int64], list[memoryview]]]:
    """Yield positions and items of stored items, at most about ``COMPARED_BYTES`` at a time."""
    positions: list[int] = []
    items: list[memoryview] = []
    size = 0
    for position, document in collection.documents_of(numbers):
        if size and size + len(document.item) > COMPARED_BYTES:
            yield np.array(positions, np.int64), items
            positions, items, size = [], [], 0
        positions.append(position)
        items.append(document.item)
        size += len(document.item)
    if positions:
        yield np.array(positions, np.int64), items


def _parts_by_row(
    items: Sequence[bytes | memoryview],
    rows: npt.NDArray[np.int64],
    wanted: npt.NDArray[np.int64],
    *,
    also: npt.NDArray[np.int64] | None = None,
) -> Iterator[npt.NDArray[np.int64]]:
    """Cut positions into parts whose items take at most about ``COMPARED_BYTES`` together."""
    if not wanted.size:
        return
    sizes = np.fromiter((len(item) for item in items), np.int64, len(items))
    cost = sizes[rows[wanted]] if also is None else sizes[rows[wanted]] + sizes[also[wanted]]
    part = np.cumsum(cost) // COMPARED_BYTES
    cuts = np.flatnonzero(np.diff(part)) + 1
    yield from np.split(wanted, cuts)
