"""Exact joins of a collection that does not fit into memory, by sweeping its postings.

The runs of postings are swept once in the order of keys, in slices of whole buckets. In each slice
pairs are proposed from the postings alone; what passes the bounds and the bitmaps is read and
verified in the bucket of its first common symbol, so that it comes out exactly once. Identical
items take part once, and are written out at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.engine.exact_arranging import Epoch
from simdb.engine.exact_classes import ItemClasses, stored_sets
from simdb.engine.signing import Signer
from simdb.exact.joins import Counters
from simdb.exact.order import ArrangedSets
from simdb.exact.thresholds import Threshold
from simdb.storage.epochs import ITEM, POSITION, SIZE, open_postings
from simdb.storage.tables import CollectionReader

if TYPE_CHECKING:
    from simdb.kernels.joining import Candidates
    from simdb.kernels.posting import Postings, Sets

SHARE_OF_MEMORY = 4
BYTES_AN_ENTRY = 96  # a posting of a slice and all that is made of it
BYTES_A_SYMBOL = 24
LEAST_ROOM = 4_096
CANDIDATES_AT_ONCE = 262_144


class ClassPairs(NamedTuple):
    """Similar pairs of representatives: item numbers and overlaps, and the slice they are of."""

    slice: int
    left: npt.NDArray[np.uint32]
    right: npt.NDArray[np.uint32]
    overlaps: npt.NDArray[np.int64]


class _Slice(NamedTuple):
    """Buckets of two postings or more, their items numbered by rising size.

    Attributes:
        numbers: uint32, item numbers by rank.
        left, right: postings as ``kernels.joining`` reads them.
    """

    numbers: npt.NDArray[np.uint32]
    left: Postings
    right: Postings


def room_of(memory: int) -> int:
    """Return how many postings a slice has."""
    return max(LEAST_ROOM, memory // SHARE_OF_MEMORY // BYTES_AN_ENTRY)


class Sweep:
    """A sweep over the postings of the current epoch of a collection.

    Args:
        signer, collection, epoch: what is joined.
        classes: of its items.
        threshold: at or above the floor of the index.
        room: postings of a slice.
        memory: bytes; a share of them is taken by the sets that are verified.
        counters: where to count what was done.
    """

    def __init__(
        self,
        signer: Signer,
        collection: CollectionReader,
        epoch: Epoch,
        classes: ItemClasses,
        threshold: Threshold,
        *,
        room: int,
        memory: int,
        counters: Counters,
    ) -> None:
        self._signer = signer
        self._collection = collection
        self._epoch = epoch
        self._classes = classes
        self._threshold = threshold
        self._room = room
        self._most_symbols = memory // SHARE_OF_MEMORY // BYTES_A_SYMBOL
        self._counters = counters
        largest = int(classes.sizes.max(initial=0))
        self._needed = threshold.needed_overlap_table(2 * largest)
        self._minimum = threshold.minimum_sizes(np.arange(largest + 1))

    def pairs(self, first_slice: int = 0) -> Iterator[ClassPairs]:
        """Yield the similar pairs of representatives, slice by slice."""
        exact = self._collection.state.index.exact
        assert exact is not None
        view = open_postings(self._collection.transaction, exact.current)
        postings = view.sweep(self._collection.marks, item_column=ITEM, room=self._room)
        for number, (keys, columns) in enumerate(postings):
            buckets = self._slice(keys, columns) if number >= first_slice else None
            if buckets is not None:
                for left, right, overlaps in self._slice_pairs(buckets):
                    yield ClassPairs(number, left, right, overlaps)

    def _slice(
        self, keys: npt.NDArray[np.uint64], columns: npt.NDArray[np.uint32]
    ) -> _Slice | None:
        """Choose the postings that matter; None if no bucket has two."""
        items = columns[ITEM]
        matters = self._classes.representatives[items] == items
        lengths = self._threshold.prefix_lengths(columns[SIZE].astype(np.int64))
        matters &= columns[POSITION] <= lengths
        keys, columns = keys[matters], columns[:, matters]
        same = keys[1:] == keys[:-1]
        shared = np.append(same, False) | np.append(False, same)
        if not shared.any():
            return None
        keys, columns = keys[shared], columns[:, shared]
        items, positions = columns[ITEM], columns[POSITION]
        sizes = columns[SIZE].astype(np.int64)
        by_size = np.lexsort((items, sizes))
        ordered = items[by_size]
        new = np.append(True, ordered[1:] != ordered[:-1])
        ranks = np.empty(items.size, np.uint32)
        ranks[by_size] = np.cumsum(new) - 1
        begins = np.append(True, keys[1:] != keys[:-1])
        bucket = np.cumsum(begins) - 1
        buckets = int(bucket[-1]) + 1
        suffixes = (sizes - positions).astype(np.uint32)
        every = _postings(bucket, buckets, ranks, positions, suffixes)
        short = np.flatnonzero(positions <= self._threshold.posted_prefix_lengths(sizes))
        left = _postings(bucket[short], buckets, ranks[short], positions[short], suffixes[short])
        self._counters.postings += every.items.size + left.items.size
        return _Slice(ordered[new], left, every)

    def _slice_pairs(
        self, buckets: _Slice
    ) -> Iterator[tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.int64]]]:
        joining = kernels.joining
        found = joining.Candidates(*(np.empty(CANDIDATES_AT_ONCE, np.uint32) for _ in range(4)))
        counts = np.zeros(4, np.int64)
        state = joining.bucket_state(buckets.left, buckets.right)
        stop = buckets.left.starts.size - 1
        while state[0] < stop:
            count = joining.bucket_candidates(
                buckets.left,
                buckets.right,
                needed=self._needed,
                minimum=self._minimum,
                filters=joining.LENGTH + joining.SUFFIX,
                same=True,
                stop=stop,
                state=state,
                found=found,
                counters=counts,
            )
            self._counters.scanned += int(counts[joining.SCANNED])
            counts[:] = 0
            candidates = self._promising(buckets, found, count)
            for part in self._parts(buckets, candidates):
                yield self._verified(buckets, part)

    def _promising(self, buckets: _Slice, found: Candidates, count: int) -> Candidates:
        """Drop candidates by their bitmaps, and later proposals of one pair.

        The first common symbol of a pair is not that of a later bucket in which it is proposed.
        """
        left, right = found.left[:count], found.right[:count]
        one, other = buckets.numbers[left], buckets.numbers[right]
        totals = self._classes.sizes[one] + self._classes.sizes[other]
        different = np.bitwise_count(self._classes.bitmaps[one] ^ self._classes.bitmaps[other])
        near = np.flatnonzero(different <= totals - 2 * self._needed[totals])
        packed = (left[near].astype(np.uint64) << np.uint64(32)) | right[near]
        _, first = np.unique(packed, return_index=True)
        kept = near[first]
        return type(found)(*(column[kept] for column in found))

    def _parts(self, buckets: _Slice, candidates: Candidates) -> Iterator[Candidates]:
        """Cut candidates, sorted by left, into parts whose sets fit into a share of memory."""
        if not candidates.left.size:
            return
        left, right = (
            self._classes.sizes[buckets.numbers[side]]
            for side in (candidates.left, candidates.right)
        )
        new = np.append(True, candidates.left[1:] != candidates.left[:-1])
        part = np.cumsum(np.where(new, left, 0) + right) // max(1, self._most_symbols)
        cuts = np.flatnonzero(np.diff(part)) + 1
        for places in np.split(np.arange(part.size), cuts):
            yield type(candidates)(*(column[places] for column in candidates))

    def _verified(
        self, buckets: _Slice, candidates: Candidates
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Keep the similar pairs that are proposed in the bucket of their first common symbol."""
        joining = kernels.joining
        ranks, places = np.unique(
            np.concatenate([candidates.left, candidates.right]), return_inverse=True
        )
        numbers = np.sort(buckets.numbers[ranks])
        sets = stored_sets(self._signer, self._collection, self._epoch, numbers)
        here = np.searchsorted(numbers, buckets.numbers[ranks])[places].astype(np.uint32)
        count = candidates.left.size
        local = joining.Candidates(
            here[:count], here[count:], candidates.left_positions, candidates.right_positions
        )
        overlaps = np.empty(count, np.int64)
        counts = np.zeros(4, np.int64)
        arranged = self._kernel_sets(sets, numbers)
        kept = joining.verify_candidates(
            arranged,
            arranged,
            needed=self._needed,
            filters=joining.COUNT,
            count=count,
            found=local,
            overlaps=overlaps,
            counters=counts,
        )
        self._counters.candidates += int(counts[joining.CANDIDATES])
        self._counters.verified += int(counts[joining.VERIFIED])
        self._counters.pairs += kept
        return numbers[local.left[:kept]], numbers[local.right[:kept]], overlaps[:kept]

    def _kernel_sets(self, sets: ArrangedSets, numbers: npt.NDArray[np.uint32]) -> Sets:
        return kernels.posting.Sets(
            sets.values,
            sets.offsets[:-1],
            sets.sizes,
            self._threshold.prefix_lengths(sets.sizes),
            self._classes.bitmaps[numbers],
        )


def _postings(
    bucket: npt.NDArray[np.int64],
    buckets: int,
    ranks: npt.NDArray[np.uint32],
    positions: npt.NDArray[np.uint32],
    suffixes: npt.NDArray[np.uint32],
) -> Postings:
    starts = np.searchsorted(bucket, np.arange(buckets + 1)).astype(np.int64)
    return kernels.posting.Postings(starts, ranks, positions, suffixes)
