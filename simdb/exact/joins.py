"""Exact joins of sets in memory: every pair at or above the threshold, each once (MMDS 3.9).

Identical sets are one class: only their representatives are joined, and the pairs of their members
are written out while the answer streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.exact.order import ArrangedSets
from simdb.exact.thresholds import Threshold

if TYPE_CHECKING:
    from simdb.kernels.classes import Classes
    from simdb.kernels.posting import Postings, Sets

CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Filters:
    """Which bounds a join uses. The answer is the same with any of them.

    Attributes:
        length: sizes too different are skipped (MMDS 3.9.3).
        prefix: only the first symbols of each set are posted and probed (3.9.4).
        position: the place of the common symbol in both sets (3.9.5).
        suffix: the place and how much follows (3.9.6); includes ``position``.
        count: common symbols within the prefixes are counted before the sets are compared.
        bitmap: 64 bits of each set are compared before anything else of the sets.
    """

    length: bool = True
    prefix: bool = True
    position: bool = True
    suffix: bool = True
    count: bool = True
    bitmap: bool = True

    @property
    def flags(self) -> int:
        """The filters as the kernels take them."""
        joining = kernels.joining
        return (
            joining.LENGTH * self.length
            + joining.POSITION * self.position
            + joining.SUFFIX * self.suffix
            + joining.COUNT * self.count
            + joining.BITMAP * self.bitmap
        )


@dataclass(slots=True)
class Counters:
    """What a join had to do; grows while it runs.

    Attributes:
        postings: symbols posted on the left and on the right, in buckets that have both.
        scanned: pairs of postings that were looked at.
        candidates: pairs of sets that passed the bounds on postings and the bitmaps.
        verified: those that were compared to the end, or until the overlap was out of reach.
        pairs: those that are similar enough. All of them before classes are written out.
    """

    postings: int = 0
    scanned: int = 0
    candidates: int = 0
    verified: int = 0
    pairs: int = 0


@dataclass(frozen=True, slots=True)
class PairColumns:
    """Similar pairs as columns.

    Attributes:
        left, right: places of the sets in the input, int64; ``left < right`` in a self-join.
        overlaps: common symbols, int64.
        unions: symbols that either has, int64.
    """

    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    overlaps: npt.NDArray[np.int64]
    unions: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.left.size)

    @property
    def similarities(self) -> npt.NDArray[np.float64]:
        """The Jaccard similarities, correctly rounded."""
        return self.overlaps / self.unions


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a join: representatives by rising size, and the classes that they stand for."""

    values: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    bitmaps: npt.NDArray[np.uint64]
    classes: Classes

    @classmethod
    def of(cls, sets: ArrangedSets) -> _Side:
        """Group identical sets and sort the classes by size."""
        shift = kernels.ordering.table_shift(max(1, len(sets)))
        representatives, bitmaps = kernels.classes.identical_representatives(
            sets.values, sets.offsets, shift
        )
        first = np.flatnonzero(representatives == np.arange(len(sets)))
        sizes = sets.sizes
        order = first[np.argsort(sizes[first], kind="stable")]
        order = order[np.searchsorted(sizes[order], 1) :]
        ranks = np.full(len(sets), order.size, np.int64)
        ranks[order] = np.arange(order.size)
        ranks = ranks[representatives]
        members = np.argsort(ranks, kind="stable")
        starts = np.searchsorted(ranks[members], np.arange(order.size + 1))
        classes = kernels.classes.Classes(starts.astype(np.int64), members)
        return cls(sets.values, sets.offsets[order], sizes[order], bitmaps[order], classes)

    def sets(self, prefixes: npt.NDArray[np.int64]) -> Sets:
        """Give the representatives in the form that the kernels take."""
        return kernels.posting.Sets(self.values, self.starts, self.sizes, prefixes, self.bitmaps)

    @property
    def largest(self) -> int:
        """The size of the largest set, 0 without sets."""
        return int(self.sizes[-1]) if self.sizes.size else 0


@dataclass(slots=True)
class _Join:
    """A join under way: the buckets, the tables of bounds and the filters."""

    left: Sets
    right: Sets
    threshold: Threshold
    filters: Filters
    chunk: int
    counters: Counters
    same: bool
    left_postings: Postings = field(init=False)
    right_postings: Postings = field(init=False)

    def __post_init__(self) -> None:
        self.left_postings, self.right_postings = kernels.posting.prefix_buckets(
            self.left, self.right, same=self.same
        )
        self.counters.postings += self.left_postings.items.size + self.right_postings.items.size

    def representatives(
        self,
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Yield pairs of representatives: left, right and overlap."""
        joining = kernels.joining
        sizes = int(self.left.sizes.max(initial=0)), int(self.right.sizes.max(initial=0))
        needed = self.threshold.needed_overlap_table(sizes[0] + 2 * sizes[1])
        minimum = self.threshold.minimum_sizes(np.arange(max(sizes) + 1))
        found = joining.Candidates(*(np.empty(self.chunk, np.uint32) for _ in range(4)))
        overlaps = np.empty(self.chunk, np.int64)
        counts = np.zeros(4, np.int64)
        state = joining.bucket_state(self.left_postings, self.right_postings)
        stop = self.left_postings.starts.size - 1
        while state[0] < stop:
            count = joining.bucket_candidates(
                self.left_postings,
                self.right_postings,
                needed=needed,
                minimum=minimum,
                filters=self.filters.flags,
                same=self.same,
                stop=stop,
                state=state,
                found=found,
                counters=counts,
            )
            kept = joining.verify_candidates(
                self.left,
                self.right,
                needed=needed,
                filters=self.filters.flags,
                count=count,
                found=found,
                overlaps=overlaps,
                counters=counts,
            )
            self._count(counts)
            yield (
                found.left[:kept].astype(np.int64),
                found.right[:kept].astype(np.int64),
                overlaps[:kept].copy(),
            )

    def _count(self, counts: npt.NDArray[np.int64]) -> None:
        joining = kernels.joining
        self.counters.scanned += int(counts[joining.SCANNED])
        self.counters.candidates += int(counts[joining.CANDIDATES])
        self.counters.verified += int(counts[joining.VERIFIED])
        self.counters.pairs += int(counts[joining.PAIRS])
        counts[:] = 0


def self_join(
    sets: ArrangedSets,
    threshold: Threshold,
    *,
    filters: Filters | None = None,
    chunk: int = CHUNK,
    counters: Counters | None = None,
) -> Iterator[PairColumns]:
    """Find every pair of sets with at least the threshold of Jaccard similarity.

    Exact; each pair comes once, in no particular order. Memory is that of the prefixes and of one
    chunk, however many pairs there are. Empty sets are similar to nothing.

    Args:
        sets: arranged in one order of symbols.
        threshold: the least similarity.
        filters: which bounds to use; all by default.
        chunk: the largest number of candidates, and of pairs, at a time.
        counters: where to count what was done.

    Yields:
        columns of at most ``chunk`` pairs, never none.
    """
    filters, counters = filters or Filters(), counters or Counters()
    side = _Side.of(sets)
    prefixes = (
        (threshold.posted_prefix_lengths(side.sizes), threshold.prefix_lengths(side.sizes))
        if filters.prefix
        else (side.sizes, side.sizes)
    )
    left, right = side.sets(prefixes[0]), side.sets(prefixes[1])
    join = _Join(left, right, threshold, filters, chunk, counters, same=True)
    own = np.flatnonzero(np.diff(side.classes.starts) > 1)
    if own.size:
        yield from _expand(side, side, (own, own, side.sizes[own]), same=True, chunk=chunk)
    for pairs in join.representatives():
        yield from _expand(side, side, pairs, same=True, chunk=chunk)


def two_sided_join(
    left: ArrangedSets,
    right: ArrangedSets,
    threshold: Threshold,
    *,
    filters: Filters | None = None,
    chunk: int = CHUNK,
    counters: Counters | None = None,
) -> Iterator[PairColumns]:
    """Find every pair of a left and a right set with at least the threshold of similarity.

    As ``self_join``, of two collections arranged in the *same* order of symbols.
    """
    filters, counters = filters or Filters(), counters or Counters()
    left_side, right_side = _Side.of(left), _Side.of(right)
    sides = [
        side.sets(threshold.prefix_lengths(side.sizes) if filters.prefix else side.sizes)
        for side in (left_side, right_side)
    ]
    join = _Join(sides[0], sides[1], threshold, filters, chunk, counters, same=False)
    for pairs in join.representatives():
        yield from _expand(left_side, right_side, pairs, same=False, chunk=chunk)


def _expand(
    left: _Side,
    right: _Side,
    pairs: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]],
    *,
    same: bool,
    chunk: int,
) -> Iterator[PairColumns]:
    """Write out the pairs of members of pairs of classes, a chunk at a time."""
    classes, overlaps = pairs[:2], pairs[2]
    unions = left.sizes[classes[0]] + right.sizes[classes[1]] - overlaps
    state = np.zeros(3, np.int64)
    found = np.empty(chunk, np.int64), np.empty(chunk, np.int64), np.empty(chunk, np.int64)
    while state[0] < classes[0].size:
        count = kernels.classes.expand_pairs(
            classes, left.classes, right.classes, same=same, state=state, found=found
        )
        rows, one, other = (column[:count] for column in found)
        if same:
            one, other = np.minimum(one, other), np.maximum(one, other)
        if count:
            yield PairColumns(one.copy(), other.copy(), overlaps[rows], unions[rows])
