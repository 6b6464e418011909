"""Which items are connected by similar pairs."""

from __future__ import annotations

import numpy as np

from simdb.arrays import UInt32s


class Forest:
    """Which items are connected: every item points to one nearer the smallest of its group."""

    def __init__(self, items: int) -> None:
        self._parents = np.arange(items, dtype=np.uint32)

    def roots(self, numbers: UInt32s) -> UInt32s:
        """Find the smallest item number connected to each."""
        roots = self._parents[numbers]
        while True:
            above = self._parents[roots]
            if np.array_equal(above, roots):
                self._parents[numbers] = roots
                return roots
            roots = above

    def connect(self, left: UInt32s, right: UInt32s) -> None:
        """Join the groups of each two items."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        roots = np.concatenate([self.roots(left), self.roots(right)])
        nodes, places = np.unique(roots, return_inverse=True)
        edges = coo_array(
            (np.ones(left.size, np.int8), (places[: left.size], places[left.size :])),
            shape=(nodes.size, nodes.size),
        )
        _, labels = connected_components(edges, directed=False)
        _, firsts = np.unique(labels, return_index=True)  # nodes ascend: the first is smallest
        self._parents[nodes] = nodes[firsts[labels]]

    def groups(self) -> list[UInt32s]:
        """List the groups of two items or more, each ascending, by their smallest item."""
        roots = self.roots(np.arange(self._parents.size, dtype=np.uint32))
        sizes = np.bincount(roots, minlength=roots.size) if roots.size else roots
        members = np.flatnonzero(sizes[roots] > 1).astype(np.uint32)
        members = members[np.argsort(roots[members], kind="stable")]
        cuts = np.flatnonzero(np.diff(roots[members])) + 1
        return np.split(members, cuts) if members.size else []
