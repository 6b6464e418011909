"""Exact pairs of items whose measure finds them in two batches at once: bit vectors, vectors.

Items are read in slabs that memory allows, as rows of one width, and each slab is joined with
itself and with the later ones, or with those of another collection, by the measure: for Hamming
distance see ``exact.pigeonhole``, for angles and Euclidean distance ``exact.products``.

``ChunkIndex`` looks items up in an index that misses nothing within its bound (``lsh.chunks``);
pairs of many items it leaves to ``Pigeonhole``: to sort is as quick as to sweep an index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from msgspec.structs import replace

from simdb.answers.buckets import NEW_SHARE, Buckets, are_few
from simdb.answers.compare import live_features
from simdb.answers.costs import Task
from simdb.answers.method import Batches, ProgressCallback
from simdb.answers.scan import Scan
from simdb.arrays import Float64s, Int64s, UInt32s
from simdb.exact.joins import Workers
from simdb.exact.thresholds import Bound, admits
from simdb.forest import Forest
from simdb.opened.catalogue import CollectionSettings
from simdb.opened.opened import Opened
from simdb.ragged import Ragged
from simdb.results import Guarantee, Matches, PairBatch, Progress
from simdb.storage.collection.reader import live_batches
from simdb.work import Work

WORTH_JOINING = 64  # probes that are compared with the same items
FAR_MORE = 16  # times as many items within a bound as are wanted make it a wide one
SHARE_OF_MEMORY = 8  # for two slabs, sorted copies of them, and what they are sorted by
BYTES_BESIDE = 64  # of a row, for its number, its places and its keys
RAGGED_WIDTHS = 8  # bytes of features and postings for one of an item without a fixed width
# Seconds: a row is sorted by a chunk, a pair that is equal in one is compared.
ROW_SORTED, PAIR_COMPARED = 1e-7, 5e-10
KEY_IN_ITEMS = 8  # what a key looked up in an index of chunks counts, of which there may be many


class Slab(NamedTuple):
    """Live items of ascending numbers, their features, and where the next slab begins."""

    numbers: UInt32s
    rows: Any
    end: int


class Slabs(Scan, frozen=True):
    """Answers by joining batches, as the measure knows how. None is missed."""

    def search_many(
        self, opened: Opened, items: Sequence[bytes], limit: int | None
    ) -> list[Matches]:
        """Join the items with all stored ones, if they are many and not only the nearest wanted."""
        if len(items) < WORTH_JOINING or self._scans_for_nearest(opened, items, limit):
            return super().search_many(opened, items, limit)
        measure, probes = opened.signer.measure, opened.signer.features(items)
        parts = (
            (found.left, numbers[found.right], found.distances.astype(np.float64))
            for numbers, features in live_features(opened)
            for found in measure.near_pairs(probes, features, self.bound, opened.work)
        )
        candidates = [opened.reader.manifest.live] * len(items)
        return self.matches_of_many(opened, parts, candidates, limit)

    def _scans_for_nearest(self, opened: Opened, items: Sequence[bytes], limit: int | None) -> bool:
        """Whether the bound is so wide for a few items that scans leave out more than a join."""
        most = FAR_MORE * self.nearest(opened, limit)
        if not most or opened.settings.kind.share_looked_at(self.bound.fraction) != 1:
            return False
        few = items[:: len(items) // 3][:3]
        met = sorted(found.numbers.size for found, _ in self._found(opened, few, most))
        return met[1] >= most

    def pairs(self, opened: Opened, *, since: int = 0) -> Batches:
        """Join each slab with itself and with all later ones, of new items if ``since`` says so."""
        for ones, others, distances in self._near_pairs(opened, since, None):
            is_distance = opened.signer.kind.is_distance
            yield PairBatch.of(ones, others, distances, is_distance=is_distance), None

    def groups(self, opened: Opened, progress: ProgressCallback | None = None) -> list[UInt32s]:
        """Connect equal items of a slab at once, and compare only different ones."""
        forest = Forest(opened.reader.places())
        for ones, others, _ in self._near_pairs(opened, 0, forest):
            forest.connect(ones, others)
            if progress is not None:
                progress(Progress("comparing", opened.work.looked_at, None))
        return forest.groups()

    def _near_pairs(
        self, opened: Opened, since: int, forest: Forest | None
    ) -> Iterator[tuple[UInt32s, UInt32s, Float64s]]:
        """Yield pairs by number, the smaller first; of equal items only one if a forest is given.

        The others of a slab are connected with it there.
        """
        slabs = (
            partial(slabs_of, opened)
            if forest is None
            else partial(_distinct, self.bound, opened, forest)
        )
        begin = 0
        while (left := next(slabs(begin), None)) is not None:
            for right in slabs(max(begin, since)):
                # Slabs of one beginning are one: each of its pairs is looked at from one side only.
                is_own = right.numbers[0] == left.numbers[0]
                for ones, others, distances in _near(
                    self.bound, opened, opened.work, left, None if is_own else right
                ):
                    earlier = ones < others
                    if earlier.any():
                        yield ones[earlier], others[earlier], distances[earlier]
            begin = left.end

    def join(self, left: Opened, right: Opened) -> Batches:
        """Join each slab of the left collection with each of the right one."""
        for ones in slabs_of(replace(left, signer=right.signer)):  # symbols are keyed
            for others in slabs_of(right):
                for columns in _near(self.bound, right, left.work, ones, others):
                    is_distance = right.signer.kind.is_distance
                    yield PairBatch.of(*columns, is_distance=is_distance), None

    def seconds(self, task: Task) -> float:
        """Estimate how long it takes to compare all, one probe or batches of them."""
        rates = task.rates(self.bound)
        return self.looked_at(task) * (rates.scanned if task.verb == "search" else rates.joined)


class Pigeonhole(Slabs, frozen=True):
    """Answers by comparing in full what is equal in a chunk. None is missed."""

    name: ClassVar[str] = "pigeonhole"
    sorts: ClassVar[bool] = True

    def looked_at(self, task: Task) -> float:
        """Estimate how many pairs are equal in a chunk, were all bits drawn."""
        share = task.right.settings.kind.share_looked_at(self.bound.fraction)
        return task.everything * (1.0 if share is None else share)

    def steps(self, task: Task) -> float:
        """Count the rows that are sorted too."""
        return self.looked_at(task) + self._sorted(task)

    def seconds(self, task: Task) -> float:
        """Estimate how long it takes to sort, and to compare what is equal in a chunk."""
        return self.looked_at(task) * PAIR_COMPARED + self._sorted(task) * ROW_SORTED

    def _sorted(self, task: Task) -> float:
        rows = task.probes + (task.counts.live if task.verb == "join" else 0)
        return rows * (int(self.bound.fraction) + 1.0)


class ChunkIndex(Buckets, frozen=True):
    """Answers by the stored chunks of an index that is planned for the bound. None is missed."""

    guarantee: ClassVar[Guarantee] = "exact"
    name: ClassVar[str] = "chunk index"
    sorts: ClassVar[bool] = True

    def is_served_by(self, settings: CollectionSettings) -> bool:
        """Whether the index is complete, and wide enough."""
        return settings.is_complete and admits(settings.bound, self.bound)

    @property
    def _sorting(self) -> Pigeonhole:
        return Pigeonhole(self.bound)

    def pairs(self, opened: Opened, *, since: int = 0) -> Batches:
        """Look new items up in the index if they are few; else sort all by each chunk."""
        if are_few(opened.reader, since):
            return super().pairs(opened, since=since)
        return self._sorting.pairs(opened, since=since)

    def join(self, left: Opened, right: Opened) -> Batches:
        """Look left items up in the right index if they are few; else sort both by each chunk."""
        if left.reader.manifest.live * NEW_SHARE <= right.reader.manifest.live:
            return super().join(left, right)
        return self._sorting.join(left, right)

    def groups(self, opened: Opened, progress: ProgressCallback | None = None) -> list[UInt32s]:
        """Connect all pairs, but compare equal items once."""
        return self._sorting.groups(opened, progress)

    def looked_at(self, task: Task) -> float:
        """Estimate a search by the buckets, all else as it is sorted."""
        return super().looked_at(task) if task.verb == "search" else self._sorting.looked_at(task)

    def steps(self, task: Task) -> float:
        """Count the keys of a search too, of which there may be many."""
        if task.verb == "search":
            return self.looked_at(task) + KEY_IN_ITEMS * task.counts.keys
        return self._sorting.steps(task)

    def seconds(self, task: Task) -> float:
        """Estimate a search by the buckets, all else as it is sorted."""
        return super().seconds(task) if task.verb == "search" else self._sorting.seconds(task)


# -- slabs, and their near pairs ------------------------------------------------------------------


def _near(
    bound: Bound, opened: Opened, work: Work, left: Slab, right: Slab | None
) -> Iterator[tuple[UInt32s, UInt32s, Float64s]]:
    """Yield the near pairs of two slabs, or of the left one, by their item numbers."""
    others = right or left
    workers = Workers.within(opened.resources.pool(), opened.resources.memory)
    right_rows = None if right is None else right.rows
    for found in opened.signer.measure.near_pairs(left.rows, right_rows, bound, work, workers):
        opened.resources.require_open()
        work.compared += found.left.size
        work.found += found.left.size
        one, other = left.numbers[found.left], others.numbers[found.right]
        if right is None:  # rows that are sorted by a chunk come in any order
            one, other = np.minimum(one, other), np.maximum(one, other)
        if one.size:
            yield one, other, found.distances.astype(np.float64)


def slabs_of(opened: Opened, start: int = 0) -> Iterator[Slab]:
    """Yield the live items from a number on, at most about so many at a time as memory allows."""
    if opened.reader.items is None:
        yield from _slabs_of_varied(opened, start)
        return
    width = opened.reader.manifest.item_width
    room = max(1, opened.resources.memory // SHARE_OF_MEMORY // (width + BYTES_BESIDE))
    numbers: list[UInt32s] = []
    rows: list[Any] = []
    size = 0
    for some, features in live_features(opened, start):
        for begin in range(0, some.size, room):
            numbers.append(some[begin : begin + room])
            rows.append(features[begin : begin + room])
            size += numbers[-1].size
            if size >= room:
                yield _slab(numbers, rows)
                numbers, rows, size = [], [], 0
    if numbers:
        yield _slab(numbers, rows)


def _slabs_of_varied(opened: Opened, start: int) -> Iterator[Slab]:
    room = max(1, opened.resources.memory // SHARE_OF_MEMORY)

    def weights(items: Sequence[bytes | memoryview]) -> Int64s:
        return RAGGED_WIDTHS * opened.signer.items.weights(items) + BYTES_BESIDE

    for numbers, items in live_batches(opened.reader, start, most_bytes=room, weights=weights):
        yield Slab(numbers, opened.signer.features(items), int(numbers[-1]) + 1)


def _slab(numbers: list[UInt32s], rows: list[Any]) -> Slab:
    return Slab(np.concatenate(numbers), np.concatenate(rows), int(numbers[-1][-1]) + 1)


def _taken(features: Any, places: Int64s) -> Any:
    """Take the features of items at some places."""
    return features.select(places) if isinstance(features, Ragged) else features[places]


def _distinct(bound: Bound, opened: Opened, forest: Forest, start: int = 0) -> Iterator[Slab]:
    """Yield the first of equal items of each slab, and connect the others with it.

    But for those with nothing to compare, which are similar to nothing, not to their equals either.
    """
    measure = opened.signer.measure
    for numbers, rows, end in slabs_of(opened, start):
        firsts = measure.first_equal(rows)
        own = np.arange(firsts.size)
        copies, chosen = np.flatnonzero(firsts != own), np.flatnonzero(firsts == own)
        if copies.size:
            met = bound.meets_many(*measure.compare_pairs(rows, firsts[copies], copies))
            forest.connect(numbers[firsts[copies[met]]], numbers[copies[met]])
        yield Slab(numbers[chosen], _taken(rows, chosen), end)
