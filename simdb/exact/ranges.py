"""Work divided into ranges that threads do at the same time, with results in the order of ranges.

How work is divided must not depend on the threads: then neither do the results, their order and
the places at which they can be resumed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from simdb.kernels.postings import Postings

RANGES = 64
RANGE_WEIGHT = 2**18  # pairs of postings, so that a range is worth the handing over
RESULT_BYTES = 24  # of a pair that waits to be delivered
ROOM_BYTES = 4 * 2**20  # of a range that is being joined, without its results
MOST_AHEAD = 16

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Place(NamedTuple):
    """Where a join goes on: the ranges before are done, and so many batches of this one."""

    range: int
    batches: int


OWN_PAIRS = -1  # number of the range before the first one: pairs of identical sets
BEGINNING = Place(OWN_PAIRS, 0)


class Workers(NamedTuple):
    """Who does the work.

    Attributes:
        pool: threads; None does it in the caller's, when the results are asked for.
        ahead: ranges that may be under way or wait to be delivered.
        most: results of a range that may wait; it goes on when they are delivered.
    """

    pool: Executor | None = None
    ahead: int = 1
    most: int = 1

    @classmethod
    def within(cls, pool: Executor | None, memory: int) -> Workers:
        """Let threads of a pool work ahead within an eighth of so many bytes."""
        share = memory // 8
        ahead = max(1, min(MOST_AHEAD, share // (2 * ROOM_BYTES)))
        return cls(pool, ahead, max(1, share // 2 // ahead // RESULT_BYTES))


class Work(Protocol[T_co]):
    """A range of the work."""

    @property
    def done(self) -> bool:
        """Whether there is nothing left."""

    def advance(self, most: int) -> T_co:
        """Go on until so many results are found, or all is done; at least a step."""


def in_order(
    works: Iterable[Work[T]],
    workers: Workers,
) -> Iterator[T]:
    """Yield the results of range after range.

    Args:
        works: the ranges; the iterable is advanced in the caller's thread, each range by one
            thread at a time.
        workers: who does them. The order and the results are the same with any.
    """
    if workers.pool is None:
        for work in works:
            while not work.done:
                yield work.advance(1)
        return
    waiting = iter(works)
    started: deque[tuple[Work[T], Future[T]]] = deque()
    try:
        while True:
            for work in islice(waiting, workers.ahead - len(started)):
                started.append((work, workers.pool.submit(work.advance, workers.most)))
            if not started:
                return
            work, future = started.popleft()
            result = future.result()
            if not work.done:
                started.appendleft((work, workers.pool.submit(work.advance, workers.most)))
            yield result
    finally:
        for _, future in started:
            future.cancel()


def numbered(batches: Iterable[tuple[int, T]], start: Place) -> Iterator[tuple[T, Place]]:
    """Leave out the batches that were delivered, and tell where to go on after each other one.

    Args:
        batches: with the number of the range that each is of, from that of ``start`` on.
        start: where to go on.
    """
    present, count = start.range, 0
    for number, batch in batches:
        count = count + 1 if number == present else 1
        present = number
        if number != start.range or count > start.batches:
            yield batch, Place(number, count)


def divided(left: Postings, right: Postings) -> npt.NDArray[np.int64]:
    """Divide buckets into ranges of about the same weight.

    Args:
        left: postings of one side, as ``kernels.postings`` has them.
        right: postings of the other side.

    Returns:
        the first bucket of each range, and one past the last bucket.
    """
    counts = np.diff(right.starts)
    weights = np.cumsum(counts * np.diff(left.starts) + counts)
    if not weights.size:
        return np.zeros(1, np.int64)
    total = int(weights[-1])
    ranges = max(1, min(RANGES, total // RANGE_WEIGHT))
    inner = np.searchsorted(weights, np.arange(1, ranges) * (total / ranges))
    return np.unique(np.concatenate([[0], inner, [weights.size]])).astype(np.int64)
