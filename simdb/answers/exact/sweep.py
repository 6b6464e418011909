"""Exact joins of what does not fit into memory: the postings of the exact index are swept.

The runs of postings are swept in the order of keys, in slices of whole buckets. If the pairs met in
all buckets can be held, all common symbols of each within the prefixes are counted before anything
is read; else pairs are proposed slice by slice. What is left is read and verified in the bucket of
its first common symbol, so that it comes out exactly once.

Of identical items (MMDS 3.9.1) one takes part, and the pairs of the others are written out at the
end. Classes of them are found by 128-bit digests and confirmed symbol by symbol. Memory: 40 bytes
for every item.

Within, items are known by their places (``CollectionReader.places``), which rise with the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import xxhash
from msgspec import Struct
from msgspec.structs import replace

from simdb import kernels
from simdb.answers.exact.memory import AtOnce, arranged, live_sets, stored_sets
from simdb.arrays import Bools, Int64s, UInt32s, UInt64s
from simdb.batches.meeting import are_shared
from simdb.batches.signer import Epoch
from simdb.exact.joins import (
    BEGINNING,
    OWN_PAIRS,
    SCANNED_AT_ONCE,
    Place,
    Workers,
    expanded,
    in_order,
    numbered,
)
from simdb.exact.measures import Criterion, SetSimilarity
from simdb.exact.order import ArrangedSets
from simdb.exact.thresholds import Threshold
from simdb.opened.epochs import current_epoch
from simdb.opened.opened import Opened
from simdb.places import Places
from simdb.ragged import slices_of
from simdb.results import PairBatch
from simdb.storage.collection.manifest import COLUMNS, ITEM, POSITION, SIZE, open_postings
from simdb.storage.collection.reader import CollectionReader

if TYPE_CHECKING:
    from simdb.kernels.postings import Candidates, Postings

BYTES_A_SET_SYMBOL = 96  # of the setting, so that sets verified together take a quarter of it
PART_SYMBOLS = 2**18  # of the sets verified together, at most; threads verify several parts
PART_BYTES_A_SYMBOL = 8  # of items that wait for a thread
PART_CANDIDATES = 262_144
CANDIDATES_AT_ONCE = 262_144
CANDIDATES_A_POSTING = 1  # of a slice, where the candidates of all slices are held at once
SLICE_SHARE = 2  # a slice takes half of the memory setting
BYTES_AN_ENTRY = 72  # a posting of a slice and all that is made of it
LEAST_ROOM = 4_096
MOST_ROOM = 2**31  # postings: more than memory holds, however much a setting allows
SWEPT_AT_ONCE = 2**20  # postings, before those that do not matter are left out
CONFIRMED_SYMBOLS = 2**20  # compared at once
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio (Knuth 6.4)

KeysAndColumns: TypeAlias = tuple[UInt64s, UInt32s]


class ClassPairs(Struct, frozen=True, eq=False):
    """Similar pairs of representatives: places and overlaps, and the range they are of."""

    range: int
    left: UInt32s
    right: UInt32s
    overlaps: Int64s


Verification: TypeAlias = AtOnce[tuple[ClassPairs, Int64s]]  # the pairs, and what they cost


class _Held(Struct, frozen=True, eq=False):
    """Items by ascending places: the first ones arranged already, the others as stored."""

    places: UInt32s
    arranged: list[ArrangedSets]
    stored: list[bytes]


class _Slice(Struct, frozen=True, eq=False):
    """Buckets of two postings or more, their items ranked by rising size."""

    places: UInt32s
    left: Postings
    right: Postings

    def is_done(self, state: Int64s) -> bool:
        """Whether all buckets were gone through."""
        return bool(state[0] == self.left.starts.size - 1)


class Sweep:
    """A sweep over the postings of the current epoch of a collection with an exact index.

    The floor of the criterion is at or above that of the index. There is room for so many postings
    of a slice; ``counted`` is known when ``class_pairs`` has given the first ones.
    """

    def __init__(self, opened: Opened, criterion: Criterion, room: int) -> None:
        threshold = criterion.floor
        assert threshold is not None
        epoch = current_epoch(opened.reader)
        assert epoch is not None
        self._opened = opened
        self.epoch: Epoch = epoch
        self.room = room
        self._criterion = criterion
        self._threshold = threshold
        places = opened.reader.places()
        self._postings = PostingSlices(opened.reader, places, threshold, room)
        self._classes = classes = classify(opened, epoch, places, self._postings)
        most_symbols = room * SLICE_SHARE * BYTES_AN_ENTRY // BYTES_A_SET_SYMBOL
        self._most_symbols = max(1, min(most_symbols, PART_SYMBOLS))
        self._most_candidates = max(CANDIDATES_AT_ONCE, room * CANDIDATES_A_POSTING)
        self.counted = False
        self._every: list[Candidates | None] = []
        largest = int(classes.sizes.max(initial=0))
        self._needed = threshold.needed_overlap_table(2 * largest)
        sizes = np.arange(largest + 1)
        self._minimum = threshold.minimum_sizes(sizes)
        self._prefixes = threshold.prefix_lengths(sizes)
        self._short_prefixes = threshold.posted_prefix_lengths(sizes)

    def pairs(
        self, workers: Workers, start: Place = BEGINNING, *, counted: bool | None = None
    ) -> Iterator[tuple[PairBatch, Place]]:
        """Yield all pairs from a place on, those of identical items first, and where to go on."""
        return numbered(self._expanded(workers, start.range, counted=counted), start)

    def _expanded(
        self, workers: Workers, first: int, *, counted: bool | None
    ) -> Iterator[tuple[int, PairBatch]]:
        classes = self._classes
        copied = np.unique(classes.representatives[classes.copies])
        if first == OWN_PAIRS and copied.size:
            own = ClassPairs(OWN_PAIRS, copied, copied, classes.sizes[copied])
            for batch in _members(self._criterion.measure, classes, own):
                yield OWN_PAIRS, batch
        for pairs in self.class_pairs(workers, max(first, 0), counted=counted):
            if pairs.left.size:
                for batch in _members(self._criterion.measure, classes, pairs):
                    yield pairs.range, batch

    def edges(self, workers: Workers) -> Iterator[tuple[UInt32s, UInt32s]]:
        """Yield pairs that connect the same items as all pairs do: a copy only with the first."""
        copies, numbers = self._classes.copies, self._classes.places.numbers
        yield numbers(self._classes.representatives[copies]), numbers(copies)
        for pairs in self.class_pairs(workers):
            yield numbers(pairs.left), numbers(pairs.right)

    def class_pairs(
        self, workers: Workers, first: int = 0, *, counted: bool | None = None
    ) -> Iterator[ClassPairs]:
        """Yield the similar pairs of representatives, in an order that no thread changes.

        If few enough pairs are met they are all counted before any is verified: ``counted`` is
        true then, and a range is a part of them. Else a range is a slice of the postings. Workers
        verify; candidates are found and items read in the caller's thread. Of the ranges before the
        ``first``, done when ``counted`` was what is given, nothing is read or compared.
        """
        self.counted = (counted or not first) and self.count()
        every = self._every.pop() if self.counted else None
        parts = self._sliced_parts(first)
        if every is not None:
            numbers = enumerate(self._parts(every))
            parts = (self._read(number, part) for number, part in numbers if number >= first)
        for pairs, counts in in_order(parts, workers):
            postings = kernels.postings
            work = self._opened.work
            work.candidates += int(counts[postings.CANDIDATES])
            work.compared += int(counts[postings.VERIFIED])
            work.found += int(counts[postings.PAIRS])
            yield pairs

    def count(self) -> bool:
        """Count and keep the common symbols of all pairs met; whether they are few enough."""
        if not self._every:
            self._every.append(self._counted_candidates())
        return self._every[0] is not None

    def _sliced_parts(self, first: int) -> Iterator[Verification]:
        for number, swept in enumerate(self._postings):
            buckets = self._slice(*swept) if number >= first else None
            if buckets is None:
                continue
            state = kernels.postings.bucket_state(buckets.left, buckets.right)
            while not buckets.is_done(state):
                room, count = self._propose(buckets, state, CANDIDATES_AT_ONCE, bounded=True)
                found = _by_number(buckets, room, count)
                for part in self._parts(self._promising(found)):
                    yield self._read(number, part)

    def _counted_candidates(self) -> Candidates | None:
        """Propose pairs by all slices, and keep those that can be similar; None if too many.

        When all common symbols within both prefixes of a pair are known, the bound of 3.9.6 on the
        first of them and the bound on their number hold for good.
        """
        nothing = np.empty(0, np.uint32)
        parts = [kernels.postings.Candidates(nothing, nothing, nothing, nothing)]
        left_over = self._most_candidates
        for swept in self._postings:
            buckets = self._slice(*swept)
            if buckets is None:
                continue
            # The whole prefix on both sides: more common symbols are counted, so fewer pairs stay.
            buckets = replace(buckets, left=buckets.right)
            state = kernels.postings.bucket_state(buckets.left, buckets.right)
            room, count = self._propose(buckets, state, left_over, bounded=False)
            if not buckets.is_done(state):
                return None
            parts.append(_by_number(buckets, room, count))
            left_over -= count
        every = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return self._possible(kernels.postings.Candidates(*every))

    def _possible(self, every: Candidates) -> Candidates:
        """Keep of all common symbols within both prefixes the first one of each possible pair.

        After the last of h of them the overlap is at most h and the shorter of the two suffixes,
        and also at most h and the longer of the two rests.
        """
        of_pair = _packed(every)
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
        return _chosen(every, kept)

    def _slice(self, keys: UInt64s, columns: UInt32s) -> _Slice | None:
        """Choose the postings that matter; None if no bucket has two."""
        items = columns[ITEM]
        is_copy = self._classes.representatives[items] != items
        if is_copy.any():
            keys, columns = _shared_only(keys[~is_copy], columns[:, ~is_copy])
        if not keys.size:
            return None
        items, positions = columns[ITEM], np.ascontiguousarray(columns[POSITION])
        sizes = columns[SIZE].astype(np.int64)
        # Items by rising size, then number, and the rank there of each.
        ranks = np.zeros(self._classes.sizes.size, np.uint32)
        ranks[items] = 1
        places = np.flatnonzero(ranks).astype(np.uint32)
        places = places[np.argsort(self._classes.sizes[places], kind="stable")]
        ranks[places] = np.arange(places.size, dtype=np.uint32)
        ranks = ranks[items]
        begins = np.append(True, keys[1:] != keys[:-1])
        starts = np.append(np.flatnonzero(begins), keys.size)
        suffixes = (sizes - positions).astype(np.uint32)
        # Ranks rise with sizes, so the left item of a pair is the smaller one: against an item no
        # smaller it needs fewer of its symbols posted than it would be probed by.
        short = positions <= self._short_prefixes[sizes]
        short_starts = np.append(0, np.cumsum(short))[starts]
        postings = kernels.postings.Postings
        left = postings(short_starts, ranks[short], positions[short], suffixes[short])
        self._opened.work.postings += items.size + left.items.size
        return _Slice(places, left, postings(starts, ranks, positions, suffixes))

    def _propose(
        self, buckets: _Slice, state: Int64s, room: int, *, bounded: bool
    ) -> tuple[Candidates, int]:
        """Propose at most so many pairs, by their ranks; return the room for them and how many."""
        postings = kernels.postings
        found = postings.Candidates(*(np.empty(room, np.uint32) for _ in range(4)))
        count = 0
        while True:
            counts = np.zeros(4, np.int64)
            count += postings.bucket_candidates(
                buckets.left,
                buckets.right,
                needed=self._needed,
                minimum=self._minimum,
                bounded=bounded,
                same=True,
                stop=buckets.left.starts.size - 1,
                most=SCANNED_AT_ONCE,
                state=state,
                found=postings.Candidates(*(column[count:] for column in found)),
                counters=counts,
            )
            self._opened.work.note(int(counts[postings.SCANNED]))
            if counts[postings.SCANNED] < SCANNED_AT_ONCE:  # full, or all is done
                return found, count

    def _promising(self, candidates: Candidates) -> Candidates:
        """Drop candidates by their bitmaps, and later proposals of one pair.

        The first common symbol of a pair is not that of a later bucket in which it is proposed.
        """
        one, other = candidates.left, candidates.right
        # Each bit in which two bitmaps differ stands for a symbol at least that only one item has,
        # and similar items have at most s + t - 2 (needed overlap) of these together.
        totals = self._classes.sizes[one] + self._classes.sizes[other]
        different = np.bitwise_count(self._classes.bitmaps[one] ^ self._classes.bitmaps[other])
        candidates = _chosen(candidates, different <= totals - 2 * self._needed[totals])
        _, first = np.unique(_packed(candidates), return_index=True)
        return _chosen(candidates, first)

    def _parts(self, candidates: Candidates) -> Iterator[Candidates]:
        """Cut candidates into parts whose sets fit into a share of memory."""
        for begin in range(0, candidates.left.size, PART_CANDIDATES):
            yield from self._halved(_chosen(candidates, slice(begin, begin + PART_CANDIDATES)))

    def _halved(self, part: Candidates) -> Iterator[Candidates]:
        """Halve candidates until the sets of each part have few enough symbols together."""
        count, sizes = part.left.size, self._classes.sizes
        if count > 1 and int(sizes[part.left].sum() + sizes[part.right].sum()) > self._most_symbols:
            distinct = np.unique(np.concatenate([part.left, part.right]))
            if int(sizes[distinct].sum()) > self._most_symbols:
                for half in (slice(count // 2), slice(count // 2, None)):
                    yield from self._halved(_chosen(part, half))
                return
        yield part

    def _read(self, number: int, candidates: Candidates) -> Verification:
        """Read the items of candidates; copies, since a thread may outlive the snapshot."""
        places, rows = np.unique(
            np.concatenate([candidates.left, candidates.right]), return_inverse=True
        )
        signer, order = self._opened.signer, self.epoch.order
        most = self._most_symbols * PART_BYTES_A_SYMBOL
        sets: list[ArrangedSets] = []
        items: list[bytes] = []
        size = 0
        numbers = self._classes.places.numbers(places)
        for _, document in self._opened.reader.documents_of(numbers):
            if size > most:  # long texts of few symbols
                sets.append(arranged(signer, order, items))
                items, size = [], 0
            items.append(bytes(document.item))
            size += len(items[-1])
        held = _Held(places, sets, items)
        return AtOnce(partial(self._verified, number, candidates, held, rows))

    def _verified(
        self, number: int, candidates: Candidates, held: _Held, rows: Int64s
    ) -> tuple[ClassPairs, Int64s]:
        """Keep the similar pairs that are proposed in the bucket of their first common symbol.

        Candidates are places, ``held`` the distinct items of them, and ``rows`` where among
        these each left item is, then each right one. The kernel counts the work.
        """
        postings = kernels.postings
        places = held.places
        last = arranged(self._opened.signer, self.epoch.order, held.stored)
        sets = ArrangedSets.concatenated([*held.arranged, last])
        assert len(sets) == places.size
        loaded = postings.Sets(
            sets.values,
            sets.offsets[:-1],
            sets.sizes,
            self._threshold.prefix_lengths(sets.sizes),
            self._classes.bitmaps[places],
        )
        count = candidates.left.size
        local = candidates._replace(
            left=rows[:count].astype(np.uint32), right=rows[count:].astype(np.uint32)
        )
        overlaps = np.empty(count, np.int64)
        counts = np.zeros(4, np.int64)
        kept = postings.verify_candidates(
            loaded,
            loaded,
            needed=self._needed,
            count=count,
            found=local,
            overlaps=overlaps,
            counters=counts,
        )
        left, right = places[local.left[:kept]], places[local.right[:kept]]
        pairs = ClassPairs(number, left, right, overlaps[:kept])
        if self._criterion.measure is not SetSimilarity.JACCARD:
            sizes = self._classes.sizes[left], self._classes.sizes[right]
            met = self._criterion.are_met(pairs.overlaps, *sizes)
            pairs = ClassPairs(number, left[met], right[met], pairs.overlaps[met])
        return pairs, counts


def _members(
    measure: SetSimilarity, classes: ItemClasses, pairs: ClassPairs
) -> Iterator[PairBatch]:
    chosen = np.unique(np.concatenate([pairs.left, pairs.right]))
    members = classes.members(chosen)
    places = np.searchsorted(chosen, pairs.left), np.searchsorted(chosen, pairs.right)
    sizes = classes.sizes[pairs.left], classes.sizes[pairs.right]
    similarities = measure.values(pairs.overlaps, *sizes)
    for rows, one, other in expanded(places, (members, members), same=True):
        numbers = classes.places.numbers
        yield PairBatch(numbers(one), numbers(other), similarities[rows])


def _by_number(buckets: _Slice, found: Candidates, count: int) -> Candidates:
    """Return so many pairs by their places; copies, so that the room is not kept."""
    return kernels.postings.Candidates(
        left=buckets.places[found.left[:count]],
        right=buckets.places[found.right[:count]],
        left_positions=found.left_positions[:count].copy(),
        right_positions=found.right_positions[:count].copy(),
    )


def _chosen(candidates: Candidates, places: Int64s | Bools | slice) -> Candidates:
    return type(candidates)(*(column[places] for column in candidates))


def _packed(candidates: Candidates) -> UInt64s:
    """Return a number for each pair, rising with left, then right."""
    return (candidates.left.astype(np.uint64) << np.uint64(32)) | candidates.right


# -- postings, in slices that memory allows ----------------------------------------------------


def room_of(memory: int) -> int:
    """How many postings a slice has."""
    return min(max(LEAST_ROOM, memory // SLICE_SHARE // BYTES_AN_ENTRY), MOST_ROOM)


class PostingSlices:
    """The postings of the current epoch that matter, in slices of whole buckets.

    Those within the prefix that the threshold, at or above the floor of the index, asks for, in
    buckets of two or more. They can be asked for repeatedly; if there is only one slice it is kept.
    It has more postings than there is room for only where one bucket has more. The candidates
    depend on the room, and on nothing else of the memory setting, so that a join can be resumed
    under another.
    """

    def __init__(
        self, collection: CollectionReader, places: Places, threshold: Threshold, room: int
    ) -> None:
        self._collection = collection
        self._places = places
        self._threshold = threshold
        self._room = room
        self._only: KeysAndColumns | None = None

    def __iter__(self) -> Iterator[KeysAndColumns]:
        """Yield the keys and the columns of slice after slice, with places for item numbers."""
        if self._only is not None:
            yield self._only
            return
        parts: list[KeysAndColumns] = []
        filled = slices = 0
        for keys, columns in self._mattering():
            if filled and filled + keys.size > self._room:
                yield _joined_slices(parts)
                parts, filled, slices = [], 0, slices + 1
            parts.append((keys, columns))
            filled += keys.size
        last = _joined_slices(parts)
        if not slices:
            self._only = last
        yield last

    def _mattering(self) -> Iterator[KeysAndColumns]:
        exact = self._collection.manifest.index.exact
        assert exact is not None
        view = open_postings(self._collection.transaction, exact.current)
        room = max(1, min(self._room, SWEPT_AT_ONCE, exact.current.postings.entries + 1))
        for swept in view.sweep(self._collection.tombstones, item_column=ITEM, room=room):
            keys, columns = _shared_only(*swept)
            lengths = self._threshold.prefix_lengths(columns[SIZE])
            within = np.flatnonzero(columns[POSITION] <= lengths)
            keys, columns = _shared_only(keys[within], columns[:, within])
            columns[ITEM] = self._places.of(columns[ITEM])
            yield keys, columns


def _joined_slices(parts: list[KeysAndColumns]) -> KeysAndColumns:
    if len(parts) == 1:
        return parts[0]
    nothing = np.empty(0, np.uint64), np.empty((COLUMNS, 0), np.uint32)
    keys, columns = zip(nothing, *parts, strict=True)
    return np.concatenate(keys), np.concatenate(columns, axis=1)


def _shared_only(keys: UInt64s, columns: UInt32s) -> KeysAndColumns:
    """Keep the postings whose key another one has."""
    shared = np.flatnonzero(are_shared(keys))
    return keys[shared], columns[:, shared]


# -- identical items ---------------------------------------------------------------------------


class ItemClasses(Struct, frozen=True):
    """What is known of all items, by their places."""

    places: Places
    sizes: Int64s  # symbols of each item; 0 of those that are not stored
    # Bit b is the parity of the number of symbols that are b modulo 64; zeros if not all were read.
    bitmaps: UInt64s
    representatives: UInt32s  # the first item that is identical to each

    @property
    def copies(self) -> UInt32s:
        """The items that are identical to an earlier one."""
        own = np.arange(self.representatives.size, dtype=np.uint32)
        return np.flatnonzero(self.representatives != own).astype(np.uint32)

    def members(self, chosen: UInt32s) -> kernels.order.Classes:
        """Return the members of the classes of some representatives, ascending ones."""
        copies = self.copies
        copies = copies[np.isin(self.representatives[copies], chosen)]
        everyone = np.concatenate([chosen, copies])
        of = np.searchsorted(chosen, self.representatives[everyone])
        order = np.lexsort((everyone, of))
        starts = np.searchsorted(of[order], np.arange(chosen.size + 1))
        return kernels.order.Classes(starts.astype(np.int64), everyone[order].astype(np.int64))


def classify(
    opened: Opened, epoch: Epoch, places: Places, postings: Iterable[KeysAndColumns]
) -> ItemClasses:
    """Find the classes of identical items, by all postings in buckets of two or more.

    Texts have to be cut into shingles to be read, so only those are read that may be identical. Of
    other items all are: that is quick, and brings their bitmaps, which tell most of small sets.
    """
    nothing, own = np.zeros(places.size, np.int64), np.arange(places.size, dtype=np.uint32)
    classes = ItemClasses(places, nothing, np.zeros(places.size, np.uint64), own)
    if opened.settings.kind.is_slow_to_read:
        found, digests = _alike_by_postings(opened, epoch, classes, postings)
    else:
        found, digests = _read_all(opened, epoch, classes)
    _find_copies(classes, found, digests)
    copies = classes.copies
    copies = copies[np.lexsort((copies, classes.representatives[copies]))]
    for some in slices_of(2 * classes.sizes[copies], CONFIRMED_SYMBOLS):
        _confirm(opened, epoch, classes, copies[some])
    return classes


def _read_all(opened: Opened, epoch: Epoch, classes: ItemClasses) -> tuple[UInt32s, UInt64s]:
    """Read all live items once; note their sizes and bitmaps, and return places and digests."""
    present = [np.empty(0, np.uint32)]
    digests = [np.empty((0, 2), np.uint64)]
    for batch in live_sets(opened, epoch.order):
        opened.resources.require_open()
        places, sets = classes.places.of(batch.numbers), batch.sets
        _, bitmaps = kernels.order.identical_representatives(sets.values, sets.offsets)
        classes.sizes[places], classes.bitmaps[places] = sets.sizes, bitmaps
        present.append(places)
        digests.append(_digests(sets))
    return np.concatenate(present), np.concatenate(digests)


def _alike_by_postings(
    opened: Opened, epoch: Epoch, classes: ItemClasses, postings: Iterable[KeysAndColumns]
) -> tuple[UInt32s, UInt64s]:
    """Read only items that agree in size and in their postings; return places and digests.

    Identical items have the same postings, and all of them in buckets of two or more.
    """
    sums = np.zeros(classes.sizes.size, np.uint64)
    for keys, columns in postings:
        classes.sizes[columns[ITEM]] = columns[SIZE]
        np.add.at(sums, columns[ITEM], (keys ^ (keys >> np.uint64(32))) * _SPREAD)
    present = np.flatnonzero(classes.sizes)
    order = present[np.lexsort((classes.sizes[present], sums[present]))]
    same = (np.diff(sums[order]) == 0) & (np.diff(classes.sizes[order]) == 0)
    alike = np.unique(np.append(order[:-1][same], order[1:][same])).astype(np.uint32)
    slices = slices_of(classes.sizes[alike], CONFIRMED_SYMBOLS)
    numbers = classes.places.numbers(alike)
    digests = [_digests(stored_sets(opened, epoch, numbers[some])) for some in slices]
    return alike, np.concatenate([np.empty((0, 2), np.uint64), *digests])


def _digests(sets: ArrangedSets) -> UInt64s:
    """Return the 128-bit digests of sets, uint64 (sets, 2)."""
    raw = memoryview(sets.values.view(np.uint8).data)
    packed = b"".join(
        xxhash.xxh3_128_digest(raw[begin:end])
        for begin, end in pairwise((sets.offsets * 8).tolist())
    )
    return np.frombuffer(packed, np.uint64).reshape(-1, 2)


def _find_copies(classes: ItemClasses, places: UInt32s, digests: UInt64s) -> None:
    """Let every item with the digest of an earlier one be represented by the first such."""
    order = np.lexsort((places, digests[:, 1], digests[:, 0]))
    order = order[classes.sizes[places[order]] > 0]
    same = (digests[order[1:]] == digests[order[:-1]]).all(axis=1)
    begins = np.concatenate([np.ones(min(1, order.size), np.bool_), ~same])
    ordered = places[order]
    classes.representatives[ordered] = ordered[begins][np.cumsum(begins) - 1]


def _confirm(opened: Opened, epoch: Epoch, classes: ItemClasses, copies: UInt32s) -> None:
    """Make copies that are none their own representatives."""
    places = np.unique(np.concatenate([copies, classes.representatives[copies]]))
    sets = stored_sets(opened, epoch, classes.places.numbers(places))
    same, _ = kernels.order.identical_representatives(sets.values, sets.offsets)
    own = same[np.searchsorted(places, copies)]
    other = same[np.searchsorted(places, classes.representatives[copies])]
    different = copies[own != other]
    classes.representatives[different] = different
