"""Exact joins of sets in memory: every pair at or above the threshold, each once (MMDS 3.9).

Identical sets are one class: only their representatives are joined, and the pairs of their members
are written out while the answer streams. The buckets are divided into ranges that threads may join
at the same time. The division depends on the sets alone, so that threads change neither the pairs
nor their order, and a join can go on at a range.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from simdb import kernels
from simdb.arrays import Float64s, Int64s, UInt32s, UInt64s
from simdb.exact.order import ArrangedSets
from simdb.exact.thresholds import Threshold
from simdb.threads import Settled, Task
from simdb.work import Work

if TYPE_CHECKING:
    from simdb.kernels.order import Classes
    from simdb.kernels.postings import Candidates, Postings, Sets
    from simdb.threads import Pool

CHUNK = 65_536  # candidates, and pairs of a batch, at the most
RANGES = 64
# Pairs of postings in a step of a range, after which a budget or Ctrl-C may end it, however few
# pairs are found: a tenth of a second or two.
SCANNED_AT_ONCE = 2**24
RANGE_WEIGHT = 2**18  # pairs of postings, so that a range is worth the handing over
RESULT_BYTES = 24  # of a pair that waits to be delivered
ROOM_BYTES = 4 * 2**20  # of a range that is being joined, without its results
MOST_AHEAD = 16


T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

Represented: TypeAlias = tuple[UInt32s, UInt32s, Int64s]


class Place(NamedTuple):
    """Where a join goes on: the ranges before are done, and so many batches of this one."""

    range: int
    batches: int


OWN_PAIRS = -1  # number of the range before the first one: pairs of identical sets
BEGINNING = Place(OWN_PAIRS, 0)


class Workers(Struct, frozen=True):
    """Who does the work."""

    pool: Pool | None = None  # None does it in the caller's thread, when results are asked for
    ahead: int = 1  # ranges that may be under way or wait to be delivered
    most: int = 1  # results of a range that may wait; it goes on when they are delivered

    @classmethod
    def within(cls, pool: Pool | None, memory: int) -> Workers:
        """Let threads of a pool work ahead within an eighth of so many bytes."""
        share = memory // 8
        ahead = max(1, min(MOST_AHEAD, share // (2 * ROOM_BYTES)))
        return cls(pool, ahead, max(1, share // 2 // ahead // RESULT_BYTES))


class Portion(Protocol[T_co]):
    """A range of the work."""

    @property
    def done(self) -> bool:
        """Whether there is nothing left."""

    def advance(self, most: int) -> T_co:
        """Go on until so many results are found, all is done, or it is stopped; at least a step."""


ALONE = Workers()


class PairColumns(Struct, frozen=True):
    """Similar pairs as columns."""

    left: Int64s  # places of the sets in the input; ``left < right`` in a self-join
    right: Int64s
    overlaps: Int64s  # common symbols
    unions: Int64s  # symbols that either has
    after: Place = BEGINNING  # where the join goes on after them

    def __len__(self) -> int:
        return int(self.left.size)

    @property
    def similarities(self) -> Float64s:
        """The Jaccard similarities, correctly rounded."""
        return self.overlaps / self.unions


class _Side(Struct, frozen=True):
    """One side of a join: representatives by rising size, and the classes that they stand for."""

    values: UInt64s
    starts: Int64s
    sizes: Int64s
    bitmaps: UInt64s
    classes: Classes

    @classmethod
    def of(cls, sets: ArrangedSets) -> _Side:
        """Group identical sets and sort the classes by size."""
        representatives, bitmaps = kernels.order.identical_representatives(
            sets.values, sets.offsets
        )
        # By rising size, then place: the order of buckets, of pairs and of places to resume at.
        first = np.flatnonzero(representatives == np.arange(len(sets)))
        sizes = sets.sizes
        order = first[np.argsort(sizes[first], kind="stable")]
        # Empty sets, which are similar to nothing, come first and are no class: the members of all
        # classes are followed by them.
        order = order[np.searchsorted(sizes[order], 1) :]
        ranks = np.full(len(sets), order.size, np.int64)
        ranks[order] = np.arange(order.size)
        ranks = ranks[representatives]
        members = np.argsort(ranks, kind="stable")
        starts = np.searchsorted(ranks[members], np.arange(order.size + 1))
        classes = kernels.order.Classes(starts.astype(np.int64), members)
        return cls(sets.values, sets.offsets[order], sizes[order], bitmaps[order], classes)

    def sets(self, prefixes: Int64s) -> Sets:
        """Give the representatives in the form that the kernels take."""
        return kernels.postings.Sets(self.values, self.starts, self.sizes, prefixes, self.bitmaps)


class _Join:
    """A join under way: the buckets, and the tables of bounds."""

    def __init__(
        self,
        sides: tuple[_Side, _Side],  # the same one twice to join a collection with itself
        prefixes: tuple[Int64s, Int64s],
        threshold: Threshold,
        work: Work | None,
    ) -> None:
        self.sides = sides
        self.same = sides[0] is sides[1]
        # Representatives with the first symbols that are posted, or probed.
        self.left, self.right = sides[0].sets(prefixes[0]), sides[1].sets(prefixes[1])
        self.work = work or Work()
        self.scanned = self.work.looked_at  # by all threads, about: ahead of what is noted
        self.by_steps = False
        self.left_postings, self.right_postings = kernels.postings.prefix_buckets(
            self.left, self.right, same=self.same
        )
        self.work.postings += self.left_postings.items.size + self.right_postings.items.size
        # Tables of all sizes that occur: a lookup a pair in the place of rational arithmetic.
        sizes = [int(side.sizes.max(initial=0)) for side in sides]
        self.needed = threshold.needed_overlap_table(sum(sizes))
        self.minimum = threshold.minimum_sizes(np.arange(max(sizes) + 1))

    def batches(self, workers: Workers, start: Place) -> Iterator[PairColumns]:
        """Yield the pairs from a place on, and where to go on after each batch."""
        batches = (
            (number, columns)
            for number, pairs in self._representatives(workers, start)
            for columns in self._expanded(pairs)
        )
        for columns, place in numbered(batches, start):
            yield replace(columns, after=place)

    def _representatives(self, workers: Workers, start: Place) -> Iterator[tuple[int, Represented]]:
        """Yield pairs of representatives: the number of their range; left, right and overlap."""
        if self.same and start.range == OWN_PAIRS:
            side = self.sides[0]  # a class of several sets is similar to itself, in every symbol
            own = np.flatnonzero(np.diff(side.classes.starts) > 1).astype(np.uint32)
            if own.size:
                yield OWN_PAIRS, (own, own, side.sizes[own])
        self.by_steps = workers.pool is None
        postings, buckets = kernels.postings, (self.left_postings, self.right_postings)
        bounds = divided(*buckets).tolist()
        ranges = (
            _Range(
                self, number, bounds[number + 1], postings.bucket_state(*buckets, bounds[number])
            )
            for number in range(max(0, start.range), len(bounds) - 1)
        )
        for number, counts, chunks in in_order(ranges, workers, self.stop):
            self.work.note(int(counts[postings.SCANNED]))
            self.work.candidates += int(counts[postings.CANDIDATES])
            self.work.compared += int(counts[postings.VERIFIED])
            self.work.found += int(counts[postings.PAIRS])
            for pairs in chunks:
                yield number, pairs

    def stop(self) -> None:
        """Let threads end after the step that each is at, when nobody waits for more."""
        self.by_steps = True

    def note(self, scanned: int) -> None:
        """Count what a thread has scanned; where the budget ends, ranges are joined by steps."""
        self.scanned += scanned
        if self.work.budget is not None and self.scanned > self.work.budget:
            self.by_steps = True

    def _expanded(self, pairs: Represented) -> Iterator[PairColumns]:
        """Write out the pairs of members of pairs of classes, a chunk at a time."""
        left, right = self.sides
        overlaps = pairs[2]
        classes = pairs[0].astype(np.int64), pairs[1].astype(np.int64)
        unions = left.sizes[classes[0]] + right.sizes[classes[1]] - overlaps
        members = left.classes, right.classes
        for rows, one, other in expanded(classes, members, same=self.same):
            yield PairColumns(one, other, overlaps.take(rows), unions.take(rows))


class _Range(Struct):
    """A range of the buckets of a join, and how far it is joined."""

    join: _Join
    number: int
    stop: int
    state: Int64s
    room: tuple[Candidates, Int64s] | None = None
    proposed: int = 0  # candidates in it that wait until it is full

    @property
    def done(self) -> bool:
        return self.all_scanned and not self.proposed

    @property
    def all_scanned(self) -> bool:
        """Whether there is nothing left to propose."""
        return bool(self.state[0] >= self.stop)

    def advance(self, most: int) -> tuple[int, Int64s, list[Represented]]:
        """Join on; return the number of the range, what it cost, and chunks of pairs."""
        postings, join = kernels.postings, self.join
        if self.room is None:
            columns = (np.empty(CHUNK, np.uint32) for _ in range(4))
            self.room = postings.Candidates(*columns), np.empty(CHUNK, np.int64)
        found, overlaps = self.room
        counts = np.zeros(4, np.int64)
        chunks: list[Represented] = []
        pairs = 0
        begun = False
        while pairs < most and not self.done and not (begun and join.by_steps):
            begun = True
            before = int(counts[postings.SCANNED])
            self.proposed += postings.bucket_candidates(
                join.left_postings,
                join.right_postings,
                needed=join.needed,
                minimum=join.minimum,
                same=join.same,
                bounded=True,
                stop=self.stop,
                most=SCANNED_AT_ONCE,
                state=self.state,
                found=postings.Candidates(*(column[self.proposed :] for column in found)),
                counters=counts,
            )
            join.note(int(counts[postings.SCANNED]) - before)
            # A chunk that is cut off is filled by the next step: batches, which tokens count, stay.
            if self.proposed < CHUNK and not self.all_scanned:
                continue
            kept = postings.verify_candidates(
                join.left,
                join.right,
                needed=join.needed,
                count=self.proposed,
                found=found,
                overlaps=overlaps,
                counters=counts,
            )
            self.proposed = 0
            if kept:
                pairs += kept
                part = found.left[:kept].copy(), found.right[:kept].copy(), overlaps[:kept].copy()
                chunks.append(part)
        return self.number, counts, chunks


def pairs(
    sets: ArrangedSets,
    threshold: Threshold,
    *,
    work: Work | None = None,
    workers: Workers = ALONE,
    start: Place = BEGINNING,
) -> Iterator[PairColumns]:
    """Find every pair of sets with at least the threshold of Jaccard similarity.

    Exact; each pair comes once, in an order that depends on the sets and the threshold alone. No
    batch is empty. Memory is that of the prefixes and of one chunk (with threads, of what they may
    work ahead), however many pairs there are. Empty sets are similar to nothing.

    ``start`` is ``after`` of the last columns that were had. Identical sets are found and prefixes
    posted again; the ranges before are not joined, of the range itself only the batches that were
    had are found again.
    """
    side = _Side.of(sets)
    # The smaller set of a pair is on the left, and against a set no smaller it needs fewer symbols.
    prefixes = threshold.posted_prefix_lengths(side.sizes), threshold.prefix_lengths(side.sizes)
    return _Join((side, side), prefixes, threshold, work).batches(workers, start)


def join(
    left: ArrangedSets,
    right: ArrangedSets,
    threshold: Threshold,
    *,
    work: Work | None = None,
    workers: Workers = ALONE,
    start: Place = BEGINNING,
) -> Iterator[PairColumns]:
    """Find similar pairs of a left and a right set, in the *same* order, as ``pairs`` does."""
    sides = _Side.of(left), _Side.of(right)
    prefixes = threshold.prefix_lengths(sides[0].sizes), threshold.prefix_lengths(sides[1].sizes)
    return _Join(sides, prefixes, threshold, work).batches(workers, start)


def expanded(
    pairs: tuple[Int64s, Int64s], members: tuple[Classes, Classes], *, same: bool
) -> Iterator[tuple[Int64s, Int64s, Int64s]]:
    """Write out pairs of classes: the place of the pair and a member of each, a chunk at a time.

    With ``same`` both sides are one, a class is paired with itself in all pairs of its members, and
    the smaller member comes first. The next chunk overwrites the places.
    """
    state = np.zeros(3, np.int64)
    room = np.empty((3, CHUNK), np.int64)
    found = room[0], room[1], room[2]
    while state[0] < pairs[0].size:
        count = kernels.order.expand_pairs(pairs, *members, same=same, state=state, found=found)
        rows, one, other = room[:, :count]
        if count and same:
            yield rows, np.minimum(one, other), np.maximum(one, other)
        elif count:
            yield rows, one.copy(), other.copy()


# -- ranges, in any thread -----------------------------------------------------------------------


def in_order(
    works: Iterable[Portion[T]], workers: Workers, stop: Callable[[], None] | None = None
) -> Generator[T, None, None]:
    """Yield the results of range after range: with any workers the same, in the same order.

    At the end, before threads are waited for, ``stop`` may tell them to do no more. The iterable is
    advanced in the caller's thread, each range by one thread at a time.
    """
    if workers.pool is None:
        for work in works:
            while not work.done:
                yield work.advance(1)
        return
    waiting = iter(works)
    started: deque[tuple[Portion[T], Task[T]]] = deque()
    with Settled(lambda: [task for _, task in started], stop):
        while True:
            for work in islice(waiting, workers.ahead - len(started)):
                started.append((work, Task(work.advance, workers.most)))  # first, as where
                workers.pool.start(started[-1][1])  # it may be interrupted it is waited for
            if not started:
                return
            work, task = started[0]
            result = task.result()
            started.popleft()
            # Unfinished work goes to the front again: results come in the order of ranges, and what
            # waits beyond the first is bounded by ``ahead`` times ``most``.
            if not work.done:
                started.appendleft((work, Task(work.advance, workers.most)))
                workers.pool.start(started[0][1])
            yield result


def numbered(batches: Iterable[tuple[int, T]], start: Place) -> Iterator[tuple[T, Place]]:
    """Leave out the batches that were delivered, and tell where to go on after each other one.

    Batches come with the number of the range that each is of, from that of ``start`` on.
    """
    present, count = start.range, 0
    for number, batch in batches:
        count = count + 1 if number == present else 1
        present = number
        if number != start.range or count > start.batches:
            yield batch, Place(number, count)


def divided(left: Postings, right: Postings) -> Int64s:
    """Return the first buckets of ranges of about the same weight, and one past the last bucket."""
    # A bucket costs a look at each pair of its postings, and a step for each one on the right.
    counts = np.diff(right.starts)
    weights = np.cumsum(counts * np.diff(left.starts) + counts)
    if not weights.size:
        return np.zeros(1, np.int64)
    # By postings alone, which no thread and no setting changes.
    total = int(weights[-1])
    ranges = max(1, min(RANGES, total // RANGE_WEIGHT))
    inner = np.searchsorted(weights, np.arange(1, ranges) * (total / ranges))
    return np.unique(np.concatenate([[0], inner, [weights.size]])).astype(np.int64)
