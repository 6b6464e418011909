"""Which items are connected by similar pairs."""

from __future__ import annotations

import numpy as np

from simdb import kernels
from simdb.arrays import Int64s, UInt32s


class Forest:
    """Which items are connected: every item points to one nearer the smallest of its group."""

    def __init__(self, items: int) -> None:
        self._parents = np.arange(items, dtype=np.uint32)

    def roots(self, numbers: UInt32s | Int64s) -> UInt32s:
        """Find the smallest item number connected to each."""
        return kernels.forest.roots(self._parents, np.ascontiguousarray(numbers, np.uint32))

    def connect(self, left: UInt32s | Int64s, right: UInt32s | Int64s) -> None:
        """Join the groups of each two items."""
        one, other = (np.ascontiguousarray(side, np.uint32) for side in (left, right))
        kernels.forest.connect(self._parents, one, other)

    def smallest(self) -> UInt32s:
        """Tell of every item the smallest that it is connected to."""
        return self.roots(np.arange(self._parents.size, dtype=np.uint32))

    def labels(self) -> Int64s:
        """Tell of every item the number of its group, of those of one item too, by the smallest."""
        return np.unique(self.smallest(), return_inverse=True)[1].astype(np.int64, copy=False)

    def groups(self) -> list[UInt32s]:
        """List the groups of two items or more, each ascending, by their smallest item."""
        roots = self.smallest()
        sizes = np.bincount(roots, minlength=roots.size) if roots.size else roots
        members = np.flatnonzero(sizes[roots] > 1).astype(np.uint32)
        members = members[np.argsort(roots[members], kind="stable")]
        cuts = np.flatnonzero(np.diff(roots[members])) + 1
        return np.split(members, cuts) if members.size else []
