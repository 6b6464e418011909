"""How calls are timed: again and again while they are short, by the clock and by the processor.

What runs on one core is judged by its processor time, which other programs do not prolong: a peer
that takes minutes would suffer from them more than a call of some milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

LEAST_REPEATS = 3
MOST_REPEATS = 15
LONG_ENOUGH = 2.0  # seconds, after which nothing is done again


def repeated(
    work: Callable[[], Any],
    *,
    least: int = LEAST_REPEATS,
    after: Callable[[], Any] | None = None,
) -> dict[str, float]:
    """Time a call and return the medians of its seconds.

    Args:
        work: what to call.
        least: how often at least; a call of more than 2 seconds is done so often and no more.
        after: what to do after each call, which is not timed.

    Returns:
        ``seconds`` by the clock, ``processor`` seconds of the process and ``repeats``.
    """
    seconds: list[float] = []
    working: list[float] = []
    while len(seconds) < least or (sum(seconds) < LONG_ENOUGH and len(seconds) < MOST_REPEATS):
        began, worked = time.perf_counter(), time.process_time()
        work()
        working.append(time.process_time() - worked)
        seconds.append(time.perf_counter() - began)
        if after is not None:
            after()
    return {
        "seconds": float(np.median(seconds)),
        "processor": float(np.median(working)),
        "repeats": len(seconds),
    }


def timed_each(work: Callable[[Any], Any], arguments: Sequence[Any]) -> dict[str, float]:
    """Time one call for each argument; return quantiles in milliseconds."""
    seconds, working = [], []
    for argument in arguments:
        began, worked = time.perf_counter(), time.thread_time()
        work(argument)
        working.append(time.thread_time() - worked)
        seconds.append(time.perf_counter() - began)
    p50, p99 = np.quantile(seconds, [0.5, 0.99]).tolist()
    working_p50, working_p99 = np.quantile(working, [0.5, 0.99]).tolist()
    return {
        "p50": p50 * 1e3,
        "p99": p99 * 1e3,
        "processor_p50": working_p50 * 1e3,
        "processor_p99": working_p99 * 1e3,
    }
