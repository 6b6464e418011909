"""Exact pairs of items whose measure finds them quicker than by comparing all: bit vectors.

Items are read in slabs that memory allows, as rows of one width, and each slab is joined with
itself and with the later ones by the measure (for Hamming distance see ``exact.pigeonhole``). One
item is searched for by comparing it with all, which takes as long as reading them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from simdb.answers.method import Batches
from simdb.answers.scan import Scan, live_features
from simdb.arrays import Float64s, UInt32s, UInt64s
from simdb.exact.pigeonhole import Near
from simdb.exact.thresholds import Bound
from simdb.opened.opened import Opened
from simdb.results import PairBatch
from simdb.work import Work

SHARE_OF_MEMORY = 8  # for two slabs, sorted copies of them, and what they are sorted by
BYTES_BESIDE = 64  # of a row, for its number, its places and its keys


@runtime_checkable
class FindsNearPairs(Protocol):
    """A measure of features that are rows of words, which finds the near pairs of two batches."""

    def near_pairs(
        self, ones: UInt64s, others: UInt64s | None, bound: Bound, work: Work
    ) -> Iterator[Near]:
        """Find every pair within a bound, each once; of ``ones`` with later ones if no others."""


class Slab(NamedTuple):
    """Live items of ascending numbers, and their features."""

    numbers: UInt32s
    rows: UInt64s


class Pigeonhole(Scan):
    """Answers by what the measure knows. None is missed."""

    def pairs(self, opened: Opened, *, since: int = 0, resume: str | None = None) -> Batches:
        """Join each slab with itself and with all later ones, of new items if ``since`` says so."""
        assert resume is None
        begin = 0
        while (left := next(_slabs(opened, begin), None)) is not None:
            for right in _slabs(opened, max(begin, since)):
                # Slabs of one beginning are one: each of its pairs is looked at from one side only.
                is_own = right.numbers[0] == left.numbers[0]
                for ones, others, distances in _near(
                    self.bound, opened, opened.work, left, None if is_own else right
                ):
                    earlier = ones < others
                    columns = ones[earlier], others[earlier], distances[earlier]
                    if earlier.any():
                        yield PairBatch.of(*columns, is_distance=True), None
            begin = int(left.numbers[-1]) + 1

    def join(self, left: Opened, right: Opened, *, resume: str | None = None) -> Batches:
        """Join each slab of the left collection with each of the right one."""
        assert resume is None
        for ones in _slabs(left):
            for others in _slabs(right):
                for columns in _near(self.bound, right, left.work, ones, others):
                    yield PairBatch.of(*columns, is_distance=True), None


def _near(
    bound: Bound, opened: Opened, work: Work, left: Slab, right: Slab | None
) -> Iterator[tuple[UInt32s, UInt32s, Float64s]]:
    """Yield the near pairs of two slabs, or of the left one, by their item numbers."""
    measure = opened.signer.measure
    assert isinstance(measure, FindsNearPairs)
    others = right or left
    for found in measure.near_pairs(left.rows, None if right is None else right.rows, bound, work):
        opened.resources.require_open()
        work.compared += found.left.size
        work.found += found.left.size
        one, other = left.numbers[found.left], others.numbers[found.right]
        if right is None:  # rows that are sorted by a chunk come in any order
            one, other = np.minimum(one, other), np.maximum(one, other)
        if one.size:
            yield one, other, found.distances.astype(np.float64)


def _slabs(opened: Opened, start: int = 0) -> Iterator[Slab]:
    """Yield the live items from a number on, at most about so many at a time as memory allows."""
    width = max(1, opened.reader.manifest.item_width)
    room = max(1, opened.resources.memory // SHARE_OF_MEMORY // (width + BYTES_BESIDE))
    numbers: list[UInt32s] = []
    rows: list[UInt64s] = []
    size = 0
    for some, features in live_features(opened, start):
        for begin in range(0, some.size, room):
            numbers.append(some[begin : begin + room])
            rows.append(features[begin : begin + room])
            size += numbers[-1].size
            if size >= room:
                yield Slab(np.concatenate(numbers), np.concatenate(rows))
                numbers, rows, size = [], [], 0
    if numbers:
        yield Slab(np.concatenate(numbers), np.concatenate(rows))
