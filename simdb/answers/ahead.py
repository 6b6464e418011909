"""Work that threads do ahead of the one who asks for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

from simdb.threads import Pool, Settled, Task

T = TypeVar("T")

MOST_AHEAD = 2  # calls that are begun before their results are asked for


def done_ahead(calls: Iterable[Callable[[], T]], pool: Pool | None) -> Generator[T, None, None]:
    """Yield the results of calls in their order; threads of a pool, if there is one, make them.

    The iterable is advanced in the caller's thread. A call may read the snapshot that the caller
    holds open: what has begun has ended when this has, early or not, or the snapshot stays until
    then (``Settled``).
    """
    if pool is None:
        for call in calls:
            yield call()
        return
    begun: deque[Task[T]] = deque()
    with Settled(lambda: begun):
        for call in calls:
            begun.append(Task(call))  # first: an interrupt leaves none that is not waited for
            pool.start(begun[-1])
            if len(begun) > MOST_AHEAD:
                yield _first_of(begun)
        while begun:
            yield _first_of(begun)


def _first_of(begun: deque[Task[T]]) -> T:
    """Return the result of the first task, which is forgotten when it has ended."""
    result = begun[0].result()
    begun.popleft()
    return result
