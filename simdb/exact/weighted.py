"""All pairs of weighted sets that are similar enough, by weighted prefixes (MMDS 3.9.4, weighted).

Symbols have one order, rare ones first, and the *prefix* of a set is the least number of its first
symbols after which less than t of its weight follows. Let x be the first symbol that two sets have
in common. What they share weighs no more than either of them from x on; if x is not in the prefix
of one, that is less than t of its weight, and the similarity, shared / weight of the union, below
t. So similar sets meet in a symbol of both prefixes. What weighs less than t of the other, or can
share too little from there on, is dropped as well (Xiao and others, WWW 2008, for weights).

Sums in float64 are off by less than the slack by which candidates may be less similar; the measure
decides about each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from simdb import kernels
from simdb.arrays import Int64s, UInt64s
from simdb.ragged import WeightedSets
from simdb.work import Work

if TYPE_CHECKING:
    from simdb.kernels.weighted import Weighed

ROOM = 65_536  # candidates found at a time
STEPS_AT_ONCE = 2**22  # of the kernel, however few it finds: a tenth of a second or two
_SLACK = 1 - 2.0**-20  # sums of a few million floats are off by less than 2^-30


class PostedSets:
    """Weighted sets with the postings of all their symbols, or of their prefixes for a bound."""

    def __init__(self, sets: WeightedSets, least: float | None = None) -> None:
        self.sets = sets
        symbols, inverse, counts = np.unique(sets.values, return_inverse=True, return_counts=True)
        order = np.lexsort((symbols, counts))
        self._symbols = symbols
        self._ranks = np.empty(symbols.size, np.int64)
        self._ranks[order] = np.arange(symbols.size)
        self.weighed = _weighed(sets, self._ranks[inverse])
        places = np.arange(sets.values.size)
        if least is not None:
            self.ends = _prefix_ends(self.weighed, least)
            owners = np.repeat(np.arange(len(sets)), sets.sizes)
            places = np.flatnonzero(places < self.ends[owners])
        by_rank = places[np.argsort(self.weighed.ranks[places], kind="stable")]
        posted_ranks = self.weighed.ranks[by_rank]
        self._posted = kernels.weighted.Posted(
            np.searchsorted(posted_ranks, np.arange(symbols.size + 1)),
            np.searchsorted(sets.offsets, by_rank, side="right") - 1,
            by_rank,
        )

    def candidates(
        self, probes: WeightedSets | None, least: float, work: Work
    ) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield which probes and which of these sets may be so similar; of their own, each once.

        Some at a time, in the order of the probes, and none where none are found for long.
        Without probes, of each pair the later set comes first.
        """
        if probes is None:
            weighed = self.weighed
        else:
            weighed = _weighed(probes, self._ranks_of(probes.values))
        ends = _prefix_ends(weighed, least)
        state, seen = np.zeros(4, np.int64), np.full(len(self.sets), -1)
        left, right = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
        while state[0] < ends.size:
            count = kernels.weighted.near_candidates(
                weighed,
                ends,
                self._posted,
                self.weighed,
                least * _SLACK,
                probes is None,
                STEPS_AT_ONCE,
                state,
                seen,
                left,
                right,
            )
            met, state[3] = int(state[3]), 0
            work.note(met)
            yield left[:count].copy(), right[:count].copy()

    def _ranks_of(self, symbols: UInt64s) -> Int64s:
        """Return the ranks of symbols; -1, before all others, of those that no set has."""
        if not self._symbols.size:
            return np.full(symbols.size, -1)
        places = np.minimum(np.searchsorted(self._symbols, symbols), self._symbols.size - 1)
        return np.where(self._symbols[places] == symbols, self._ranks[places], -1)


def _weighed(sets: WeightedSets, ranks: Int64s) -> Weighed:
    """Sort the symbols of each set by rank."""
    owners = np.repeat(np.arange(len(sets)), sets.sizes)
    order = np.lexsort((ranks, owners))
    weights = sets.weights[order]
    tails = kernels.weighted.tails(weights, sets.offsets)
    return kernels.weighted.Weighed(ranks[order], weights, tails, sets.offsets)


def _prefix_ends(weighed: Weighed, least: float) -> Int64s:
    return kernels.weighted.prefix_ends(weighed.tails, weighed.offsets, least * _SLACK)
