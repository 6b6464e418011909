"""Which sets contain most of which others, in memory: by the first symbols of the contained ones.

A set of s symbols of which at least m lie in another has one of its first s - m + 1 symbols there,
in whatever order (MMDS 3.9.4); where the order is that of rising frequency, few others have it too.
So those are posted, all symbols of the containing sets are looked up, and what is found is
compared in full.

``in_kept`` leaves of sets those that no longer one contains. Sets are taken by falling size, those
of one size in their order, and each is kept unless enough of it is in one set kept before it.
``in_kept_before`` takes them in any sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from simdb import kernels
from simdb.arrays import Bools, Int64s, UInt64s
from simdb.exact.order import ArrangedSets
from simdb.exact.thresholds import Threshold
from simdb.ragged import offsets_of

if TYPE_CHECKING:
    from simdb.kernels.postings import Postings

MET_AT_ONCE = 2**21  # postings; more only where one containing set meets more
TAKEN_AT_ONCE = 256  # sets of a sequence, among which some may be left out for others
_MARK_BITS = 22
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Contained(Struct, frozen=True, eq=False):
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
            count = int(met[end] - met[begin])
            if count > MET_AT_ONCE:  # of one set, which may meet any number
                inner = self._met_in(starts[some], counts[some])
                outer = np.full(inner.size, begin)
            else:
                rows = np.repeat(np.arange(begin, end), np.diff(met[begin : end + 1]))
                firsts = starts[some] - np.cumsum(counts[some]) + counts[some]
                owners = self._owners[np.repeat(firsts, counts[some]) + np.arange(count)]
                pairs = np.unique(rows * len(self._sets) + owners)
                outer, inner = np.divmod(pairs, max(1, len(self._sets)))
            large = others.sizes[outer] >= self._needed[inner]
            yield self._compared(others, outer[large], inner[large], count)
            begin = end

    def _met_in(self, starts: Int64s, counts: Int64s) -> Int64s:
        """Return the sets that have postings in some ranges, without a list of the postings."""
        is_met = np.zeros(len(self._sets), np.bool_)
        for begin, count in zip(starts.tolist(), counts.tolist(), strict=True):
            is_met[self._owners[begin : begin + count]] = True
        return np.flatnonzero(is_met)

    def _compared(self, others: ArrangedSets, outer: Int64s, inner: Int64s, met: int) -> Contained:
        overlaps = _overlaps(self._sets, others, inner, outer, self._needed[inner])
        enough = overlaps >= 0
        return Contained(outer[enough], inner[enough], overlaps[enough], met)


def in_kept(sets: ArrangedSets, threshold: Threshold) -> Iterator[Contained]:
    """Yield each set of which at least a share is in a kept one, once, with the first such one.

    Exact. What a kept set contains is compared with nothing afterwards, so that many sets of which
    nearly all are alike cost little more than one look at each.
    """
    count, sizes = len(sets), sets.sizes
    # What may contain a set comes after it.
    order = np.lexsort((-np.arange(count), sizes))
    needed = np.maximum(1, threshold.minimum_sizes(sizes[order]))
    found = _Found.of(sets, order, needed)
    is_kept = np.ones(count, np.bool_)
    end = count
    while end:
        if not is_kept[end - 1]:
            end -= 1
            continue
        begin = found.begin_of(end)
        outer, inner = found.candidates(begin, end, is_kept)
        overlaps = _overlaps(sets, sets, order[inner], order[outer], needed[inner])
        enough = np.flatnonzero(overlaps >= 0)
        places = [np.empty(0, np.int64)]
        cuts = np.flatnonzero(np.diff(outer[enough], prepend=count)).tolist()
        for first, stop in pairwise([*cuts, enough.size]):
            if is_kept[outer[enough[first]]]:
                own = enough[first:stop]
                places.append(own[is_kept[inner[own]]])
                is_kept[inner[own]] = False
        some = np.concatenate(places)
        met = found.met_between(begin, end)
        yield Contained(order[outer[some]], order[inner[some]], overlaps[some], met)
        end = begin


def in_kept_before(
    sets: ArrangedSets, threshold: Threshold, sequence: Int64s, similar: Threshold | None = None
) -> Iterator[Contained]:
    """Do as ``in_kept``, but take the sets in a sequence: of their numbers, the first first.

    With ``similar`` a set is left out also if its Jaccard similarity to one kept before it is that.
    Exact.
    """
    place = np.empty(len(sets), np.int64)
    place[sequence] = np.arange(len(sets))
    is_kept = np.ones(len(sets), np.bool_)
    least = threshold if similar is None else min(threshold, similar)
    contained = ContainedSets(sets, least)
    for begin in range(0, len(sets), TAKEN_AT_ONCE):
        some = sequence[begin : begin + TAKEN_AT_ONCE]
        some = some[is_kept[some]]
        for found in contained.found_in(sets.select(some)):
            outer, inner = some[found.outer], found.inner
            enough = place[inner] > place[outer]
            if similar is not None:
                own, other = sets.sizes[inner], sets.sizes[outer]
                alike = similar.meets_many(found.overlaps, own + other - found.overlaps)
                enough &= threshold.meets_many(found.overlaps, own) | alike
            outer, inner, overlaps = outer[enough], inner[enough], found.overlaps[enough]
            taken = np.zeros(outer.size, np.bool_)
            order = np.argsort(place[outer], kind="stable")
            cuts = np.flatnonzero(np.diff(outer[order], prepend=-1)).tolist()
            for first, stop in pairwise([*cuts, outer.size]):
                own = order[first:stop]
                if is_kept[outer[own[0]]]:
                    own = own[is_kept[inner[own]]]
                    taken[own], is_kept[inner[own]] = True, False
            yield Contained(outer[taken], inner[taken], overlaps[taken], found.met)


class _Found(Struct, frozen=True, eq=False):
    """Sets by rising size, and the buckets of the symbols by which they may contain others."""

    posted: Postings  # the first symbols of each set
    starts: Int64s  # of each set, where its buckets begin
    buckets: Int64s
    met: Int64s  # how many postings are in the buckets of all sets before one

    @classmethod
    def of(cls, sets: ArrangedSets, order: Int64s, needed: Int64s) -> _Found:
        """Post what at least so many symbols of each set need."""
        sizes = sets.sizes[order]
        prefixes = np.where(sizes > 0, sizes - needed + 1, 0)
        bitmaps = np.empty(0, np.uint64)
        whole = kernels.postings.Sets(sets.values, sets.offsets[order], sizes, sizes, bitmaps)
        posted, all_symbols = kernels.postings.prefix_buckets(
            whole._replace(prefixes=prefixes), whole, same=True
        )
        by_set = np.argsort(all_symbols.items, kind="stable")
        counts = np.diff(all_symbols.starts)
        buckets = np.repeat(np.arange(counts.size), counts)[by_set]
        starts = offsets_of(np.bincount(all_symbols.items, minlength=len(sets)))
        return cls(posted, starts, buckets, offsets_of(np.diff(posted.starts)[buckets])[starts])

    def begin_of(self, end: int) -> int:
        """Return where the sets before ``end`` begin that are looked up at once."""
        least = int(np.searchsorted(self.met, self.met[end] - MET_AT_ONCE))
        return min(least, end - 1)

    def met_between(self, begin: int, end: int) -> int:
        """Count the postings that some sets meet."""
        return int(self.met[end] - self.met[begin])

    def candidates(self, begin: int, end: int, is_kept: Bools) -> tuple[Int64s, Int64s]:
        """Pair the kept ones of some sets with smaller kept ones, by falling size of the first."""
        buckets = self.buckets[self.starts[begin] : self.starts[end]]
        if end - begin == 1:  # which may meet any number of postings
            fits = np.zeros(is_kept.size, np.bool_)
            for bucket in buckets.tolist():
                fits[self.posted.items[slice(*self.posted.starts[bucket : bucket + 2])]] = True
            inner = np.flatnonzero((fits & is_kept)[:begin])
            return np.full(inner.size, begin), inner
        outer = np.repeat(np.arange(begin, end), np.diff(self.starts[begin : end + 1]))
        buckets, outer = buckets[is_kept[outer]], outer[is_kept[outer]]
        firsts = self.posted.starts[buckets]
        counts = self.posted.starts[buckets + 1] - firsts
        ends = np.cumsum(counts)
        places = np.repeat(firsts - ends + counts, counts) + np.arange(counts.sum())
        inner = self.posted.items[places].astype(np.int64)
        outer = np.repeat(outer, counts)
        fits = (inner < outer) & is_kept[inner]
        pairs = np.unique(outer[fits] * is_kept.size + inner[fits])[::-1]
        return np.divmod(pairs, is_kept.size)


def _overlaps(
    ones: ArrangedSets, others: ArrangedSets, left: Int64s, right: Int64s, needed: Int64s
) -> Int64s:
    """Count common symbols, -1 for less than needed."""
    return kernels.postings.overlaps_reached(
        ones.values, ones.offsets, others.values, others.offsets, left, right, needed
    )


def _slots(symbols: UInt64s) -> UInt64s:
    return (symbols * _SPREAD) >> np.uint64(64 - _MARK_BITS)
