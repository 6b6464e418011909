"""Groups: the connected components of the similar pairs of a collection.

Pairs that are connected already need not be compared, so buckets of many equal items cost one
comparison an item, not one a pair: first every member is compared with the first of its bucket,
then only members that are still in different groups with each other. The components are the same
as those of all pairs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from simdb.answers.buckets.pairs import (
    BucketSlice,
    JoinCounters,
    bucket_slices,
    candidate_pairs,
    compare_stored,
)
from simdb.exact.thresholds import Bound
from simdb.opened.signer import Signer
from simdb.results import Progress
from simdb.storage.collection.reader import CollectionReader


class Forest:
    """Which items are connected: every item points to one nearer the smallest of its group."""

    def __init__(self, items: int) -> None:
        self._parents = np.arange(items, dtype=np.uint32)

    def roots(self, numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Return the smallest item number connected to each."""
        roots = self._parents[numbers]
        while True:
            above = self._parents[roots]
            if np.array_equal(above, roots):
                self._parents[numbers] = roots
                return roots
            roots = above

    def connect(self, left: npt.NDArray[np.uint32], right: npt.NDArray[np.uint32]) -> None:
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

    def groups(self) -> list[npt.NDArray[np.uint32]]:
        """Return the groups of two items or more, each ascending, by their smallest item."""
        roots = self.roots(np.arange(self._parents.size, dtype=np.uint32))
        sizes = np.bincount(roots, minlength=roots.size) if roots.size else roots
        members = np.flatnonzero(sizes[roots] > 1).astype(np.uint32)
        members = members[np.argsort(roots[members], kind="stable")]
        cuts = np.flatnonzero(np.diff(roots[members])) + 1
        return np.split(members, cuts) if members.size else []


def group(
    signer: Signer,
    collection: CollectionReader,
    bound: Bound,
    memory: int,
    counters: JoinCounters,
    *,
    progress: Callable[[Progress], None] | None = None,
) -> list[npt.NDArray[np.uint32]]:
    """Return the groups of items connected by pairs within a bound.

    Probable, as the pairs are. Memory: four bytes for every item number beside the setting.
    """
    forest = Forest(collection.manifest.next_number)
    for buckets in bucket_slices(signer, collection, memory):
        for only_first in (True, False):
            _connect(
                signer,
                collection,
                bound,
                buckets=buckets,
                forest=forest,
                counters=counters,
                only_first=only_first,
            )
        if progress is not None:
            progress(Progress("comparing candidates", counters.compared, None))
    return forest.groups()


def _connect(
    signer: Signer,
    collection: CollectionReader,
    bound: Bound,
    *,
    buckets: BucketSlice,
    forest: Forest,
    counters: JoinCounters,
    only_first: bool,
) -> None:
    needed = signer.needed_matches(bound)
    classes = forest.roots(buckets.numbers).astype(np.int64)
    for left, right in candidate_pairs(
        buckets, signer, needed, counters, classes=classes, only_first=only_first
    ):
        left_numbers, right_numbers = buckets.numbers[left], buckets.numbers[right]
        apart = forest.roots(left_numbers) != forest.roots(right_numbers)
        left_numbers, right_numbers = left_numbers[apart], right_numbers[apart]
        if not left_numbers.size:
            continue
        compared = compare_stored(signer, collection, left_numbers, right_numbers)
        met = bound.meets_many(compared.numerators, compared.denominators)
        counters.compared += left_numbers.size
        counters.pairs += int(np.count_nonzero(met))
        if met.any():
            forest.connect(left_numbers[met], right_numbers[met])
