"""The best of what is found for several probes, as it is found."""

from __future__ import annotations

import numpy as np

from simdb.arrays import Float64s, Int64s, UInt32s
from simdb.exact.thresholds import Bound
from simdb.opened.where import Chosen

_MOST = 2**32  # items that there can be
_PENDING = 2**18  # matches that are ranked together at least


class Ranking:
    """What is found of several probes, or the best of it, whatever the order it is found in.

    With a limit it holds no more than twice as many matches as there are in the end, or 2^18.

    Args:
        bound: says which values are better.
        probes: how many there are.
        limit: how many matches of each are wanted; None for all.
        only: the items that may be among them, if not all.
    """

    def __init__(self, bound: Bound, probes: int, limit: int | None, only: Chosen | None) -> None:
        self._bound, self._probes, self._only = bound, probes, only
        self._limit = None if limit is None else min(limit, _MOST)
        self._parts: list[tuple[Int64s, UInt32s, Float64s]] = []
        self._count = 0
        self._last = np.full(probes, np.inf)  # of each probe, the sort key of the last that counts
        self._most = max(_PENDING, 2 * probes * (self._limit or 0))

    def add(self, probes: Int64s, numbers: UInt32s, values: Float64s) -> None:
        """Take matches, given by the position of the probe, their number and their value."""
        if self._limit is not None:
            near = ~(self._bound.order(values) > self._last[probes])
            if not near.all():
                probes, numbers, values = probes[near], numbers[near], values[near]
        if self._only is not None:
            accepted = self._only.among(numbers)
            probes, numbers, values = probes[accepted], numbers[accepted], values[accepted]
        self._parts.append((probes, numbers, values))
        self._count += probes.size
        if self._limit is not None and self._count > self._most:
            self.ranked()

    def ranked(self) -> tuple[Int64s, UInt32s, Float64s]:
        """Return the matches in the order of the probes, the best first, equal ones by number.

        That they are the position of the probe, the number and the value.
        """
        nothing = np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0)
        probes, numbers, values = map(np.concatenate, zip(nothing, *self._parts, strict=True))
        order = self._bound.order(values)
        places = np.lexsort((numbers, order, probes))
        if self._limit is not None:
            sizes = np.bincount(probes, minlength=self._probes)
            begins = np.cumsum(sizes) - sizes
            rank = np.arange(places.size) - np.repeat(begins, sizes)
            full = np.flatnonzero(sizes >= self._limit)
            if self._limit:
                self._last[full] = order[places[begins[full] + self._limit - 1]]
            places = places[rank < self._limit]
        found = probes[places], numbers[places], values[places]
        self._parts, self._count = [found], places.size
        return found
