"""Which sets contain most of which others, in memory: by the first symbols of the contained ones.

A set of s symbols of which at least m lie in another has one of its first s - m + 1 symbols there,
in whatever order (MMDS 3.9.4); where the order is that of rising frequency, few others have it too.
So those are posted, all symbols of the containing sets are looked up, and what is found is
compared in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from simdb import kernels
from simdb.arrays import Int64s, UInt64s
from simdb.exact.order import ArrangedSets
from simdb.exact.thresholds import Threshold

MET_AT_ONCE = 2**21  # postings; more only where one containing set meets more
_MARK_BITS = 22
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Contained(NamedTuple):
    """Containing sets and contained ones, their common symbols, and the postings met for them."""

    outer: Int64s
    inner: Int64s
    overlaps: Int64s
    met: int


class ContainedSets:
    """Sets that are looked for in others, in which at least a share of them must lie."""

    def __init__(self, sets: ArrangedSets, threshold: Threshold) -> None:
        self._sets = sets
        self._needed = np.maximum(1, threshold.minimum_sizes(sets.sizes))
        lengths = np.where(sets.sizes > 0, sets.sizes - self._needed + 1, 0)
        posted = sets.first(lengths)
        order = np.argsort(posted.values, kind="stable")
        self._keys = posted.values[order]
        self._owners = np.repeat(np.arange(len(sets)), lengths)[order]
        # Most symbols of most sets are posted nowhere, which a small table tells of nearly all.
        self._marks = np.zeros(2**_MARK_BITS, np.bool_)
        self._marks[_slots(self._keys)] = True

    def found_in(self, others: ArrangedSets) -> Iterator[Contained]:
        """Yield each pair of a set of ``others``, in the same order, with one contained in it."""
        marked = np.flatnonzero(self._marks[_slots(others.values)])
        starts, counts = np.zeros((2, others.values.size), np.int64)
        starts[marked] = np.searchsorted(self._keys, others.values[marked])
        stops = np.searchsorted(self._keys, others.values[marked], side="right")
        counts[marked] = stops - starts[marked]
        met = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])[others.offsets]
        begin = 0
        while begin < len(others):
            most = met[begin] + MET_AT_ONCE
            end = max(begin + 1, int(np.searchsorted(met, most, side="right")) - 1)
            some = slice(others.offsets[begin], others.offsets[end])
            rows = np.repeat(np.arange(begin, end), np.diff(met[begin : end + 1]))
            places = np.repeat(starts[some] - np.cumsum(counts[some]) + counts[some], counts[some])
            owners = self._owners[places + np.arange(rows.size)]
            pairs = np.unique(rows * len(self._sets) + owners)
            outer, inner = np.divmod(pairs, max(1, len(self._sets)))
            large = others.sizes[outer] >= self._needed[inner]
            yield self._compared(others, outer[large], inner[large], rows.size)
            begin = end

    def _compared(self, others: ArrangedSets, outer: Int64s, inner: Int64s, met: int) -> Contained:
        left, left_places = np.unique(outer, return_inverse=True)
        right, right_places = np.unique(inner, return_inverse=True)
        both = ArrangedSets.concatenated([others.select(left), self._sets.select(right)])
        overlaps, _, _ = kernels.overlaps.pair_overlaps(
            both.values, both.offsets, left_places, right_places + left.size
        )
        enough = overlaps >= self._needed[inner]
        return Contained(outer[enough], inner[enough], overlaps[enough], met)


def _slots(symbols: UInt64s) -> UInt64s:
    return (symbols * _SPREAD) >> np.uint64(64 - _MARK_BITS)
