"""Which items are connected by similar pairs."""

from __future__ import annotations

import numpy as np

from simdb import kernels
from simdb.arrays import Int64s, UInt32s
from simdb.places import Places


class Forest:
    """Which items are connected: every item points to one nearer the smallest of its group."""

    def __init__(self, items: int | Places) -> None:
        self._places = Places(items) if isinstance(items, int) else items
        self._parents = np.arange(self._places.size, dtype=np.uint32)  # by place

    def roots(self, numbers: UInt32s | Int64s) -> UInt32s:
        """Find the smallest item number connected to each."""
        return self._places.numbers(self._roots(self._placed(numbers)))

    def connect(self, left: UInt32s | Int64s, right: UInt32s | Int64s) -> None:
        """Join the groups of each two items."""
        kernels.forest.connect(self._parents, self._placed(left), self._placed(right))

    def smallest(self) -> UInt32s:
        """Tell of every item the smallest that it is connected to."""
        return self._places.numbers(self._smallest())

    def labels(self) -> Int64s:
        """Tell of every item the number of its group, of those of one item too, by the smallest."""
        return np.unique(self.smallest(), return_inverse=True)[1].astype(np.int64, copy=False)

    def groups(self) -> list[UInt32s]:
        """List the groups of two items or more, each ascending, by their smallest item."""
        roots = self._smallest()
        sizes = np.bincount(roots, minlength=roots.size) if roots.size else roots
        members = np.flatnonzero(sizes[roots] > 1).astype(np.uint32)
        members = members[np.argsort(roots[members], kind="stable")]
        cuts = np.flatnonzero(np.diff(roots[members])) + 1
        return np.split(self._places.numbers(members), cuts) if members.size else []

    def _placed(self, numbers: UInt32s | Int64s) -> UInt32s:
        return self._places.of(np.ascontiguousarray(numbers, np.uint32))

    def _roots(self, places: UInt32s) -> UInt32s:
        return kernels.forest.roots(self._parents, places)

    def _smallest(self) -> UInt32s:
        return self._roots(np.arange(self._parents.size, dtype=np.uint32))
