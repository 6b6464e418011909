"""Exact joins of a collection that does not fit into memory, by sweeping its postings.

The runs of postings are swept once in the order of keys, in slices of whole buckets. In each slice
pairs are proposed from the postings alone; what passes the bounds and the bitmaps is read and
verified in the bucket of its first common symbol, so that it comes out exactly once. Identical
items take part once, and are written out at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.engine.exact_arranging import Epoch
from simdb.engine.exact_classes import ItemClasses, stored_sets
from simdb.engine.signing import Signer
from simdb.exact.joins import Counters
from simdb.exact.order import ArrangedSets
from simdb.exact.thresholds import Threshold
from simdb.storage.epochs import COLUMNS, ITEM, POSITION, SIZE, open_postings
from simdb.storage.tables import CollectionReader

if TYPE_CHECKING:
    from simdb.kernels.joining import Candidates
    from simdb.kernels.posting import Postings, Sets

SLICE_SHARE = 2  # a slice takes half of the memory setting
BYTES_AN_ENTRY = 72  # a posting of a slice and all that is made of it
BYTES_A_SET_SYMBOL = 96  # of the setting, so that sets verified together take a quarter of it
LEAST_ROOM = 4_096
SWEPT_AT_ONCE = 2**20  # postings, before those that do not matter are left out
CANDIDATES_AT_ONCE = 262_144
CANDIDATES_A_POSTING = 1  # of a slice, where the candidates of all slices are held at once

_KeysAndColumns: TypeAlias = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]


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
    return max(LEAST_ROOM, memory // SLICE_SHARE // BYTES_AN_ENTRY)


class PostingSlices:
    """The postings of the current epoch that matter, in slices of whole buckets.

    Those within the prefix that the threshold asks for, in buckets of two or more. They can be
    asked for repeatedly; if there is only one slice it is kept.

    Args:
        collection: the snapshot.
        threshold: at or above the floor of the index.
        room: postings of a slice; more only where one bucket has more. The candidates depend on it,
            and on nothing else of the memory setting, so that a join can be resumed under another.
    """

    def __init__(self, collection: CollectionReader, threshold: Threshold, room: int) -> None:
        self._collection = collection
        self._threshold = threshold
        self.room = room
        self._only: _KeysAndColumns | None = None

    @cached_property
    def is_whole(self) -> bool:
        """Whether there is only one slice."""
        postings, last = next(self._sweep())
        if last:
            self._only = postings
        return last

    def __iter__(self) -> Iterator[_KeysAndColumns]:
        """Yield the keys and the columns of slice after slice."""
        if self.is_whole:
            assert self._only is not None
            yield self._only
        else:
            for postings, _ in self._sweep():
                yield postings

    def _sweep(self) -> Iterator[tuple[_KeysAndColumns, bool]]:
        """Yield each slice, and whether it is the last one."""
        exact = self._collection.state.index.exact
        assert exact is not None
        view = open_postings(self._collection.transaction, exact.current)
        parts: list[_KeysAndColumns] = []
        filled = 0
        room = max(1, min(self.room, SWEPT_AT_ONCE, exact.current.postings.entries + 1))
        for keys, columns in view.sweep(self._collection.marks, item_column=ITEM, room=room):
            part = self._mattering(*_shared(keys, columns))
            if filled and filled + part[0].size > self.room:
                yield _joined(parts), False
                parts, filled = [], 0
            parts.append(part)
            filled += part[0].size
        yield _joined(parts), True

    def _mattering(
        self, keys: npt.NDArray[np.uint64], columns: npt.NDArray[np.uint32]
    ) -> _KeysAndColumns:
        lengths = self._threshold.prefix_lengths(columns[SIZE])
        within = np.flatnonzero(columns[POSITION] <= lengths)
        return _shared(keys[within], columns[:, within])


class Sweep:
    """A sweep over the postings of the current epoch of a collection.

    Args:
        signer, collection, epoch: what is joined.
        classes: of its items.
        threshold: at or above the floor of the index.
        postings: of its current epoch.
        counters: where to count what was done.

    Attributes:
        epoch: whose postings are swept.
    """

    def __init__(
        self,
        signer: Signer,
        collection: CollectionReader,
        epoch: Epoch,
        classes: ItemClasses,
        threshold: Threshold,
        *,
        postings: PostingSlices,
        counters: Counters,
    ) -> None:
        self._signer = signer
        self._collection = collection
        self.epoch = epoch
        self._classes = classes
        self._threshold = threshold
        self._postings = postings
        self._most_symbols = postings.room * SLICE_SHARE * BYTES_AN_ENTRY // BYTES_A_SET_SYMBOL
        self._most_candidates = max(CANDIDATES_AT_ONCE, postings.room * CANDIDATES_A_POSTING)
        self._counters = counters
        largest = int(classes.sizes.max(initial=0))
        self._needed = threshold.needed_overlap_table(2 * largest)
        sizes = np.arange(largest + 1)
        self._minimum = threshold.minimum_sizes(sizes)
        self._prefixes = threshold.prefix_lengths(sizes)
        self._short_prefixes = threshold.posted_prefix_lengths(sizes)

    def pairs(self, first_slice: int = 0) -> Iterator[ClassPairs]:
        """Yield the similar pairs of representatives.

        If few enough pairs are met they are all counted as of slice 0, else slice by slice.
        """
        counted = self._counted_candidates()
        if counted is not None:
            if first_slice == 0:
                for part in self._parts(counted):
                    yield ClassPairs(0, *self._verified(part))
            return
        for number, (keys, columns) in enumerate(self._postings):
            buckets = self._slice(keys, columns) if number >= first_slice else None
            if buckets is not None:
                for candidates in self._proposals(buckets):
                    for part in self._parts(candidates):
                        yield ClassPairs(number, *self._verified(part))

    def _counted_candidates(self) -> Candidates | None:
        """Propose pairs by all slices, and keep those that can be similar; None if too many.

        When all common symbols within both prefixes of a pair are known, the bound of 3.9.6 on the
        first of them and the bound on their number hold for good.
        """
        joining = kernels.joining
        parts: list[Candidates] = []
        left_over = self._most_candidates
        for keys, columns in self._postings:
            buckets = self._slice(keys, columns)
            if buckets is None:
                continue
            # The whole prefix on both sides: more common symbols are counted, so fewer pairs stay.
            buckets = buckets._replace(left=buckets.right)
            state = joining.bucket_state(buckets.left, buckets.right)
            found, count = self._propose(buckets, state, joining.LENGTH, left_over)
            if state[0] < buckets.left.starts.size - 1:
                return None
            parts.append(_by_number(buckets, found, np.arange(count)))
            left_over -= count
        every = _concatenated(parts)
        _, first, hits = np.unique(_packed(every), return_index=True, return_counts=True)
        candidates = joining.Candidates(*(column[first] for column in every))
        left, right = self._classes.sizes[candidates.left], self._classes.sizes[candidates.right]
        needed = self._needed[left + right]
        suffixes = np.minimum(left - candidates.left_positions, right - candidates.right_positions)
        rests = np.maximum(left - self._prefixes[left], right - self._prefixes[right])
        kept = np.flatnonzero((suffixes + 1 >= needed) & (hits + rests >= needed))
        return joining.Candidates(*(column[kept] for column in candidates))

    def _slice(
        self, keys: npt.NDArray[np.uint64], columns: npt.NDArray[np.uint32]
    ) -> _Slice | None:
        """Choose the postings that matter; None if no bucket has two."""
        items = columns[ITEM]
        is_copy = self._classes.representatives[items] != items
        if is_copy.any():
            keys, columns = _shared(keys[~is_copy], columns[:, ~is_copy])
        if not keys.size:
            return None
        items, positions = columns[ITEM], columns[POSITION]
        sizes = columns[SIZE].astype(np.int64)
        numbers, ranks = self._ranked(items)
        begins = np.append(True, keys[1:] != keys[:-1])
        starts = np.append(np.flatnonzero(begins), keys.size)
        suffixes = (sizes - positions).astype(np.uint32)
        short = positions <= self._short_prefixes[sizes]
        short_starts = np.append(0, np.cumsum(short))[starts]
        postings = kernels.posting.Postings
        left = postings(short_starts, ranks[short], positions[short], suffixes[short])
        self._counters.postings += items.size + left.items.size
        return _Slice(numbers, left, postings(starts, ranks, positions, suffixes))

    def _ranked(
        self, items: npt.NDArray[np.uint32]
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Return the distinct items by rising size, then number, and the place there of each."""
        ranks = np.zeros(self._classes.sizes.size, np.uint32)
        ranks[items] = 1
        numbers = np.flatnonzero(ranks).astype(np.uint32)
        numbers = numbers[np.argsort(self._classes.sizes[numbers], kind="stable")]
        ranks[numbers] = np.arange(numbers.size, dtype=np.uint32)
        return numbers, ranks[items]

    def _proposals(self, buckets: _Slice) -> Iterator[Candidates]:
        """Propose pairs, some at a time."""
        joining = kernels.joining
        state = joining.bucket_state(buckets.left, buckets.right)
        stop = buckets.left.starts.size - 1
        while state[0] < stop:
            filters = joining.LENGTH + joining.SUFFIX
            found, count = self._propose(buckets, state, filters, CANDIDATES_AT_ONCE)
            yield self._promising(buckets, found, count)

    def _propose(
        self, buckets: _Slice, state: npt.NDArray[np.int64], filters: int, room: int
    ) -> tuple[Candidates, int]:
        joining = kernels.joining
        found = joining.Candidates(*(np.empty(room, np.uint32) for _ in range(4)))
        counts = np.zeros(4, np.int64)
        count = joining.bucket_candidates(
            buckets.left,
            buckets.right,
            needed=self._needed,
            minimum=self._minimum,
            filters=filters,
            same=True,
            stop=buckets.left.starts.size - 1,
            state=state,
            found=found,
            counters=counts,
        )
        self._counters.scanned += int(counts[joining.SCANNED])
        return found, count

    def _promising(self, buckets: _Slice, found: Candidates, count: int) -> Candidates:
        """Drop candidates by their bitmaps, and later proposals of one pair.

        The first common symbol of a pair is not that of a later bucket in which it is proposed.
        """
        candidates = _by_number(buckets, found, np.arange(count))
        one, other = candidates.left, candidates.right
        totals = self._classes.sizes[one] + self._classes.sizes[other]
        different = np.bitwise_count(self._classes.bitmaps[one] ^ self._classes.bitmaps[other])
        near = np.flatnonzero(different <= totals - 2 * self._needed[totals])
        candidates = type(found)(*(column[near] for column in candidates))
        _, first = np.unique(_packed(candidates), return_index=True)
        return type(found)(*(column[first] for column in candidates))

    def _parts(self, candidates: Candidates) -> Iterator[Candidates]:
        """Cut candidates, sorted by left, into parts whose sets fit into a share of memory."""
        if not candidates.left.size:
            return
        left, right = self._classes.sizes[candidates.left], self._classes.sizes[candidates.right]
        new = np.append(True, candidates.left[1:] != candidates.left[:-1])
        part = np.cumsum(np.where(new, left, 0) + right) // max(1, self._most_symbols)
        cuts = np.flatnonzero(np.diff(part)) + 1
        for places in np.split(np.arange(part.size), cuts):
            yield type(candidates)(*(column[places] for column in candidates))

    def _verified(
        self, candidates: Candidates
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Keep the similar pairs that are proposed in the bucket of their first common symbol."""
        joining = kernels.joining
        numbers, places = np.unique(
            np.concatenate([candidates.left, candidates.right]), return_inverse=True
        )
        sets = stored_sets(self._signer, self._collection, self.epoch, numbers)
        count = candidates.left.size
        local = joining.Candidates(
            places[:count].astype(np.uint32),
            places[count:].astype(np.uint32),
            candidates.left_positions,
            candidates.right_positions,
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


def _by_number(buckets: _Slice, found: Candidates, rows: npt.NDArray[np.int64]) -> Candidates:
    """Return some candidates with item numbers in place of ranks."""
    return type(found)(
        buckets.numbers[found.left[rows]],
        buckets.numbers[found.right[rows]],
        found.left_positions[rows],
        found.right_positions[rows],
    )


def _concatenated(parts: list[Candidates]) -> Candidates:
    columns = [
        np.concatenate([np.empty(0, np.uint32), *(part[column] for part in parts)])
        for column in range(4)
    ]
    return kernels.joining.Candidates(*columns)


def _packed(candidates: Candidates) -> npt.NDArray[np.uint64]:
    """Return a number for each pair, rising with left, then right."""
    return (candidates.left.astype(np.uint64) << np.uint64(32)) | candidates.right


def _joined(parts: list[_KeysAndColumns]) -> _KeysAndColumns:
    if len(parts) == 1:
        return parts[0]
    return (
        np.concatenate([np.empty(0, np.uint64), *(keys for keys, _ in parts)]),
        np.concatenate(
            [np.empty((COLUMNS, 0), np.uint32), *(columns for _, columns in parts)], axis=1
        ),
    )


def _shared(
    keys: npt.NDArray[np.uint64], columns: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """Return the postings whose key another one has."""
    same = keys[1:] == keys[:-1]
    shared = np.flatnonzero(np.append(same, False) | np.append(False, same))
    return keys[shared], columns[:, shared]
