"""Work that threads do ahead of the one who asks for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

T = TypeVar("T")

MOST_AHEAD = 2  # calls that are begun before their results are asked for


def done_ahead(calls: Iterable[Callable[[], T]], pool: Executor | None) -> Generator[T, None, None]:
    """Yield the results of calls in their order; threads of a pool, if there is one, make them.

    The iterable is advanced in the caller's thread. What has begun has ended when this has, early
    or not, so a call may read what the caller holds open.
    """
    if pool is None:
        for call in calls:
            yield call()
        return
    begun: deque[Future[T]] = deque()
    try:
        for call in calls:
            begun.append(pool.submit(call))
            if len(begun) > MOST_AHEAD:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        for future in [future for future in begun if not future.cancel()]:
            future.exception()  # waits for its end
