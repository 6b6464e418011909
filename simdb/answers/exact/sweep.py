"""Exact joins by sweeping the postings: of what does not fit into memory, and of texts.

The runs of postings are swept in the order of keys, in slices of whole buckets. If the pairs met in
all buckets can be held, all common symbols of each within the prefixes are counted before anything
is read; else pairs are proposed slice by slice. What is left is read and verified in the bucket of
its first common symbol, so that it comes out exactly once. Of identical items one takes part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.answers.exact.arrange import Epoch, arrange
from simdb.answers.exact.candidates import by_number, concatenated, packed
from simdb.answers.exact.classes import ItemClasses
from simdb.answers.exact.slices import BYTES_AN_ENTRY, SLICE_SHARE, PostingSlices, shared_only
from simdb.exact.joins import ALONE, Counters, Workers, in_order
from simdb.exact.order import ArrangedSets
from simdb.exact.thresholds import Threshold
from simdb.opened.signer import Signer
from simdb.storage.collection.manifest import ITEM, POSITION, SIZE
from simdb.storage.collection.reader import CollectionReader

if TYPE_CHECKING:
    from simdb.kernels.postings import Candidates, Postings, Sets

BYTES_A_SET_SYMBOL = 96  # of the setting, so that sets verified together take a quarter of it
PART_SYMBOLS = 2**18  # of the sets verified together, at most; threads verify several parts
PART_CANDIDATES = 262_144
CANDIDATES_AT_ONCE = 262_144
CANDIDATES_A_POSTING = 1  # of a slice, where the candidates of all slices are held at once


class ClassPairs(NamedTuple):
    """Similar pairs of representatives: item numbers and overlaps, and the range they are of."""

    range: int
    left: npt.NDArray[np.uint32]
    right: npt.NDArray[np.uint32]
    overlaps: npt.NDArray[np.int64]


class _Slice(NamedTuple):
    """Buckets of two postings or more, their items numbered by rising size.

    Attributes:
        numbers: uint32, item numbers by rank.
        left, right: postings as ``kernels.postings`` reads them.
    """

    numbers: npt.NDArray[np.uint32]
    left: Postings
    right: Postings


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
        counted: see ``pairs``; known when it has given the first ones.
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
        room = postings.room * SLICE_SHARE * BYTES_AN_ENTRY // BYTES_A_SET_SYMBOL
        self._most_symbols = max(1, min(room, PART_SYMBOLS))
        self._most_candidates = max(CANDIDATES_AT_ONCE, postings.room * CANDIDATES_A_POSTING)
        self._counters = counters
        self.counted = False
        self._every: list[Candidates | None] = []
        largest = int(classes.sizes.max(initial=0))
        self._needed = threshold.needed_overlap_table(2 * largest)
        sizes = np.arange(largest + 1)
        self._minimum = threshold.minimum_sizes(sizes)
        self._prefixes = threshold.prefix_lengths(sizes)
        self._short_prefixes = threshold.posted_prefix_lengths(sizes)

    def pairs(
        self, workers: Workers = ALONE, first: int = 0, *, counted: bool | None = None
    ) -> Iterator[ClassPairs]:
        """Yield the similar pairs of representatives, in an order that no thread changes.

        If few enough pairs are met they are all counted before any is verified: ``counted`` is
        true then, and a range is a part of them. Else a range is a slice of the postings.

        Args:
            workers: who verifies; candidates are found and items read in the caller's thread.
            first: the ranges before it are left out: their items are neither read nor compared.
            counted: what it was when the ranges before ``first`` were done.
        """
        self.counted = (counted or not first) and self.count()
        every = self._every.pop() if self.counted else None
        parts = self._sliced_parts(first) if every is None else self._counted_parts(every, first)
        for pairs, counts in in_order(parts, workers):
            joining = kernels.postings
            self._counters.candidates += int(counts[joining.CANDIDATES])
            self._counters.verified += int(counts[joining.VERIFIED])
            self._counters.pairs += int(counts[joining.PAIRS])
            yield pairs

    def count(self) -> bool:
        """Count the common symbols of all pairs met, if few enough are; return whether they are.

        What is found is kept for ``pairs``.
        """
        if not self._every:
            self._every.append(self._counted_candidates())
        return self._every[0] is not None

    def _counted_parts(self, every: Candidates, first: int) -> Iterator[_Part]:
        for number, part in enumerate(self._parts(every)):
            if number >= first:
                yield self._read(number, part)

    def _sliced_parts(self, first: int) -> Iterator[_Part]:
        for number, (keys, columns) in enumerate(self._postings):
            buckets = self._slice(keys, columns) if number >= first else None
            if buckets is not None:
                for candidates in self._proposals(buckets):
                    for part in self._parts(candidates):
                        yield self._read(number, part)

    def _counted_candidates(self) -> Candidates | None:
        """Propose pairs by all slices, and keep those that can be similar; None if too many.

        When all common symbols within both prefixes of a pair are known, the bound of 3.9.6 on the
        first of them and the bound on their number hold for good.
        """
        joining = kernels.postings
        parts: list[Candidates] = []
        left_over = self._most_candidates
        for keys, columns in self._postings:
            buckets = self._slice(keys, columns)
            if buckets is None:
                continue
            # The whole prefix on both sides: more common symbols are counted, so fewer pairs stay.
            buckets = buckets._replace(left=buckets.right)
            state = joining.bucket_state(buckets.left, buckets.right)
            found, count = self._propose(buckets, state, left_over, bounded=False)
            if state[0] < buckets.left.starts.size - 1:
                return None
            parts.append(by_number(buckets.numbers, found, np.arange(count)))
            left_over -= count
        every = concatenated(parts)
        return self._possible(every)

    def _possible(self, every: Candidates) -> Candidates:
        """Keep of all common symbols within both prefixes the first one of each possible pair.

        After the last of h of them the overlap is at most h and the shorter of the two suffixes,
        and also at most h and the longer of the two rests.
        """
        of_pair = packed(every)
        order = np.argsort(of_pair, kind="stable")
        begins = np.flatnonzero(np.append(of_pair.size > 0, np.diff(of_pair[order]) != 0))
        hits = np.diff(np.append(begins, of_pair.size))
        first, last = order[begins], order[begins + hits - 1]
        sizes = self._classes.sizes[every.left[first]], self._classes.sizes[every.right[first]]
        needed = self._needed[sizes[0] + sizes[1]]
        possible = np.ones(first.size, np.bool_)
        for place, found in ((first, 1), (last, hits)):
            left_suffixes = sizes[0] - every.left_positions[place]
            right_suffixes = sizes[1] - every.right_positions[place]
            possible &= np.minimum(left_suffixes, right_suffixes) + found >= needed
        rests = np.maximum(*(size - self._prefixes[size] for size in sizes))
        kept = first[possible & (hits + rests >= needed)]
        return kernels.postings.Candidates(*(column[kept] for column in every))

    def _slice(
        self, keys: npt.NDArray[np.uint64], columns: npt.NDArray[np.uint32]
    ) -> _Slice | None:
        """Choose the postings that matter; None if no bucket has two."""
        items = columns[ITEM]
        is_copy = self._classes.representatives[items] != items
        if is_copy.any():
            keys, columns = shared_only(keys[~is_copy], columns[:, ~is_copy])
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
        postings = kernels.postings.Postings
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
        joining = kernels.postings
        state = joining.bucket_state(buckets.left, buckets.right)
        stop = buckets.left.starts.size - 1
        while state[0] < stop:
            found, count = self._propose(buckets, state, CANDIDATES_AT_ONCE, bounded=True)
            yield self._promising(buckets, found, count)

    def _propose(
        self, buckets: _Slice, state: npt.NDArray[np.int64], room: int, *, bounded: bool
    ) -> tuple[Candidates, int]:
        joining = kernels.postings
        found = joining.Candidates(*(np.empty(room, np.uint32) for _ in range(4)))
        counts = np.zeros(4, np.int64)
        count = joining.bucket_candidates(
            buckets.left,
            buckets.right,
            needed=self._needed,
            minimum=self._minimum,
            same=True,
            bounded=bounded,
            stop=buckets.left.starts.size - 1,
            state=state,
            found=found,
            counters=counts,
        )
        self._counters.effort.note(int(counts[joining.SCANNED]))
        self._counters.scanned += int(counts[joining.SCANNED])
        return found, count

    def _promising(self, buckets: _Slice, found: Candidates, count: int) -> Candidates:
        """Drop candidates by their bitmaps, and later proposals of one pair.

        The first common symbol of a pair is not that of a later bucket in which it is proposed.
        """
        candidates = by_number(buckets.numbers, found, np.arange(count))
        one, other = candidates.left, candidates.right
        totals = self._classes.sizes[one] + self._classes.sizes[other]
        different = np.bitwise_count(self._classes.bitmaps[one] ^ self._classes.bitmaps[other])
        near = np.flatnonzero(different <= totals - 2 * self._needed[totals])
        candidates = type(found)(*(column[near] for column in candidates))
        _, first = np.unique(packed(candidates), return_index=True)
        return type(found)(*(column[first] for column in candidates))

    def _parts(self, candidates: Candidates) -> Iterator[Candidates]:
        """Cut candidates into parts whose sets fit into a share of memory."""
        total = candidates.left.size
        begins = range(0, total, PART_CANDIDATES)
        pending = [slice(begin, min(begin + PART_CANDIDATES, total)) for begin in reversed(begins)]
        while pending:
            place = pending.pop()
            part = type(candidates)(*(column[place] for column in candidates))
            count = part.left.size
            if count == 1 or self._fits(part):
                yield part
            else:
                middle = place.start + count // 2
                pending += [slice(middle, place.stop), slice(place.start, middle)]

    def _fits(self, part: Candidates) -> bool:
        """Whether the sets of candidates have few enough symbols together."""
        sizes = self._classes.sizes
        total = int(sizes[part.left].sum() + sizes[part.right].sum())
        if total > self._most_symbols:
            total = int(sizes[np.unique(np.concatenate([part.left, part.right]))].sum())
        return total <= self._most_symbols

    def _read(self, number: int, candidates: Candidates) -> _Part:
        """Read the items of candidates; copies, since a thread may outlive the snapshot."""
        numbers, places = np.unique(
            np.concatenate([candidates.left, candidates.right]), return_inverse=True
        )
        items = [bytes(document.item) for _, document in self._collection.documents_of(numbers)]
        assert len(items) == numbers.size
        return _Part(self, number, candidates, (numbers, places), items)

    def verified(
        self,
        candidates: Candidates,
        numbers: npt.NDArray[np.uint32],
        places: npt.NDArray[np.int64],
        items: list[bytes],
    ) -> tuple[
        npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.int64]
    ]:
        """Keep the similar pairs that are proposed in the bucket of their first common symbol.

        Args:
            candidates: as item numbers.
            numbers: the distinct ones.
            places: where in ``numbers`` each left item is, then each right one.
            items: of ``numbers``.

        Returns:
            left and right item numbers, overlaps, and counters as ``verify_candidates`` has them.
        """
        joining = kernels.postings
        sets = arrange(self.epoch.order, self._signer.symbols(items))
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
            count=count,
            found=local,
            overlaps=overlaps,
            counters=counts,
        )
        return numbers[local.left[:kept]], numbers[local.right[:kept]], overlaps[:kept], counts

    def _kernel_sets(self, sets: ArrangedSets, numbers: npt.NDArray[np.uint32]) -> Sets:
        return kernels.postings.Sets(
            sets.values,
            sets.offsets[:-1],
            sets.sizes,
            self._threshold.prefix_lengths(sets.sizes),
            self._classes.bitmaps[numbers],
        )


class _Part:
    """Candidates that are verified together, with their items."""

    def __init__(
        self,
        sweep: Sweep,
        number: int,
        candidates: Candidates,
        numbers: tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]],
        items: list[bytes],
    ) -> None:
        self._sweep = sweep
        self._number = number
        self._candidates = candidates
        self._numbers = numbers
        self._items = items
        self.done = False

    def advance(self, _most: int) -> tuple[ClassPairs, npt.NDArray[np.int64]]:
        """Verify them all."""
        left, right, overlaps, counts = self._sweep.verified(
            self._candidates, *self._numbers, self._items
        )
        self.done = True
        return ClassPairs(self._number, left, right, overlaps), counts
