"""Similarities of sets other than Jaccard's, turned into bounds of whole numbers on an exact index.

An index posts of a stored set of size t its first t - ceil(floor t) + 1 symbols. A search misses
nothing if that is at least t - (least overlap that a similar probe can have) + 1:

============================  ====================  ==========================  ==================
measure                       overlap must be       least overlap of a stored   so the index needs
============================  ====================  ==========================  ==================
Jaccard, J                    J (s + t) / (1 + J)   J t                         floor <= J
Dice, d                       d (s + t) / 2         d t / (2 - d)               floor <= d / (2 - d)
cosine, c                     c sqrt(s t)           c^2 t                       floor <= c^2
stored contained in probe, c  c t                   c t (probe scanned whole)   floor <= c
probe contained in stored, c  c s                   1                           all symbols posted
overlap coefficient, c        c min(s, t)           1                           all symbols posted
============================  ====================  ==========================  ==================

Dice is Jaccard at d / (2 - d): the needed overlaps are equal. For cosine, a probe of size s has
overlap <= s, so overlap^2 >= c^2 s t >= c^2 overlap t.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from simdb import kernels
from simdb.arrays import Bools, Float64s, Int64s, UInt64s
from simdb.exact.thresholds import Threshold
from simdb.late import cached_property
from simdb.ragged import Ragged

if TYPE_CHECKING:
    from simdb.kernels.postings import Bounds


class SetSimilarity(StrEnum):
    """A similarity of two sets that is decided by their sizes and their overlap."""

    JACCARD = "jaccard"
    DICE = "dice"
    COSINE = "cosine"
    STORED_IN_PROBE = "stored-in-probe"
    PROBE_IN_STORED = "probe-in-stored"
    OVERLAP = "overlap"

    def values(self, overlaps: Int64s, sizes: int | Int64s, stored_sizes: Int64s) -> Float64s:
        """Compute it for sets that are not empty, to be shown and sorted by."""
        if self is SetSimilarity.JACCARD:
            return overlaps / (sizes + stored_sizes - overlaps)
        if self is SetSimilarity.DICE:
            return 2 * overlaps / (sizes + stored_sizes)
        if self is SetSimilarity.COSINE:
            # Of equal cosines the squares are equal fractions, which a quotient rounds alike: of
            # sets of at most 2^25 symbols, as items have, all products are exact.
            squares = overlaps.astype(np.int64) ** 2 / (np.int64(sizes) * stored_sizes)
            cosines: Float64s = np.sqrt(squares)
            return cosines
        if self is SetSimilarity.OVERLAP:
            return overlaps / np.minimum(sizes, stored_sizes)
        return overlaps / (stored_sizes if self is SetSimilarity.STORED_IN_PROBE else sizes)


LARGEST_ROOTED = 2**52  # below it a float's square root is rounded up to that of a whole number


class Criterion(Struct, frozen=True, dict=True):
    """At least so much of a measure, as exact bounds of overlaps, sizes and prefixes."""

    measure: SetSimilarity
    threshold: Threshold

    @cached_property
    def floor(self) -> Threshold | None:
        """The highest floor of an index that serves it; None if all symbols must be posted."""
        if self.measure in (SetSimilarity.PROBE_IN_STORED, SetSimilarity.OVERLAP):
            return None
        if self.measure is SetSimilarity.DICE:
            dice = self.threshold.fraction
            return Threshold(dice / (2 - dice))
        if self.measure is SetSimilarity.COSINE:
            return Threshold(self.threshold.fraction**2)
        return self.threshold

    def needed_overlap(self, probe_size: int, stored_size: int) -> int:
        """Compute the smallest overlap that suffices, at least 1."""
        if self.measure is SetSimilarity.COSINE:
            square = self.threshold.fraction**2 * probe_size * stored_size
            return math.isqrt(max(math.ceil(square), 1) - 1) + 1
        if self.measure is SetSimilarity.STORED_IN_PROBE:
            return max(1, self.threshold.minimum_size(stored_size))
        if self.measure is SetSimilarity.PROBE_IN_STORED:
            return max(1, self.threshold.minimum_size(probe_size))
        if self.measure is SetSimilarity.OVERLAP:
            return max(1, self.threshold.minimum_size(min(probe_size, stored_size)))
        return self._jaccard.needed_overlap(probe_size + stored_size)

    def needed_overlaps(self, probe_size: int, stored_sizes: Int64s) -> Int64s:
        """Compute ``needed_overlap`` for every stored size."""
        if self.measure in (SetSimilarity.JACCARD, SetSimilarity.DICE):
            return self._jaccard.needed_overlaps(probe_size + stored_sizes)
        if self.measure is SetSimilarity.STORED_IN_PROBE:
            return np.maximum(1, self.threshold.minimum_sizes(stored_sizes))
        if self.measure is SetSimilarity.OVERLAP:
            smaller = np.minimum(probe_size, stored_sizes)
            return np.maximum(1, self.threshold.minimum_sizes(smaller))
        if self.measure is SetSimilarity.PROBE_IN_STORED:
            return np.full(stored_sizes.size, self.needed_overlap(probe_size, 1))
        if probe_size * int(stored_sizes.max(initial=0)) < LARGEST_ROOTED:
            squares = self._jaccard.minimum_sizes(probe_size * stored_sizes)
            return np.ceil(np.sqrt(np.maximum(1, squares))).astype(np.int64)
        exact = [self.needed_overlap(probe_size, size) for size in stored_sizes.tolist()]
        return np.array(exact, np.int64)

    def are_met(self, overlaps: Int64s, ones: Int64s, others: Int64s) -> Bools:
        """Tell which pairs of sets of these sizes, all at the floor or above, meet it.

        The floor of Dice similarity is the criterion itself, d / (2 - d). That of cosine similarity
        is c^2, which a pair meets at less than c: here the overlap's square is compared.
        """
        if self.measure is not SetSimilarity.COSINE:
            return np.ones(overlaps.size, np.bool_)
        return self._jaccard.meets_many(overlaps.astype(np.int64) ** 2, ones * others)

    def met_by(self, probe: UInt64s, sets: Ragged) -> tuple[Int64s, Float64s]:
        """Compare a set of symbols with many: the places of those that meet it, their values."""
        shared, sizes, size = kernels.overlaps.probe_overlaps(probe, sets.values, sets.offsets)
        met = np.flatnonzero(shared >= self.needed_overlaps(size, sizes))
        return met, self.measure.values(shared[met], size, sizes[met])

    def smallest_size(self, probe_size: int) -> int:
        """Compute the size of the smallest stored set that can be similar enough."""
        if self.measure in (SetSimilarity.STORED_IN_PROBE, SetSimilarity.OVERLAP):
            return 1
        return max(1, self._jaccard.minimum_size(probe_size))

    def largest_size(self, probe_size: int) -> int | None:
        """Compute the size of the largest stored set that can be similar enough, None if any."""
        floor = self.floor
        return None if floor is None else floor.maximum_size(probe_size)

    def probe_prefix(self, probe_size: int) -> int:
        """Compute how many first symbols of the probe must be looked up."""
        if self.measure in (SetSimilarity.STORED_IN_PROBE, SetSimilarity.OVERLAP):
            return probe_size
        return self._jaccard.prefix_length(probe_size)

    def stored_prefixes(self, stored_sizes: Int64s) -> Int64s:
        """Compute how many first symbols of stored sets must be posted."""
        floor = self.floor
        return stored_sizes if floor is None else floor.prefix_lengths(stored_sizes)

    def bounds(self, probe_size: int, largest_stored: int) -> Bounds:
        """Tabulate for ``kernels.postings`` what stored sets of each size must have."""
        smallest = self.smallest_size(probe_size)
        largest = self.largest_size(probe_size)
        largest = largest_stored if largest is None else min(largest, largest_stored)
        sizes = np.arange(smallest, max(smallest, largest + 1), dtype=np.int64)
        return kernels.postings.Bounds(
            smallest,
            self.needed_overlaps(probe_size, sizes),
            self.stored_prefixes(sizes),
            probe_size,
            self.probe_prefix(probe_size),
        )

    @property
    def _jaccard(self) -> Threshold:
        """The floor, or the threshold of a measure without one."""
        return self.floor or self.threshold
