"""Which items are connected: trees whose items point to an earlier one, the first to itself."""

from __future__ import annotations

import numpy as np

from simdb.arrays import UInt32s
from simdb.kernels.compiler import inlined, kernel


@inlined
def _root(parents: UInt32s, item: int) -> int:
    """Find the first of a tree, and halve the way to it."""
    while parents[item] != item:
        parents[item] = parents[parents[item]]
        item = parents[item]
    return item


@kernel
def connect(parents: UInt32s, left: UInt32s, right: UInt32s) -> None:
    """Make one tree of those of each two items."""
    for pair in range(left.size):
        one, other = _root(parents, left[pair]), _root(parents, right[pair])
        if one < other:
            parents[other] = one
        else:
            parents[one] = other


@kernel
def roots(parents: UInt32s, items: UInt32s) -> UInt32s:
    """Find the smallest item that each of some is connected to."""
    found = np.empty_like(items)
    for place in range(items.size):
        found[place] = _root(parents, items[place])
    return found
