"""How large the largest bucket of an index is, from its sorted runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simdb.storage.tables.run_views import RunView

COUNTED = 2**20  # entries up to which all are counted
SAMPLED = 2**16  # entries that are looked at where there are more
LOOKED_UP = 16  # buckets whose entries are counted after that

Keys = npt.NDArray[np.uint64]


class LargestBucket(NamedTuple):
    """The entries of the largest bucket found, and what no bucket exceeds.

    Entries of deleted items that are not dropped yet are among them.
    """

    entries: int
    bound: int


def largest_bucket(view: RunView) -> LargestBucket:
    """Find the largest bucket of an index.

    Exact for up to ``COUNTED`` entries. Of more, every n-th of each run is looked at, and the
    buckets met most often are counted. The entries of a bucket lie together in a run, so a bucket
    met m times in r runs has less than n (m + r) entries.
    """
    runs = [list(chunks) for chunks in view.keys_of_runs()]
    total = sum(keys.size for chunks in runs for keys in chunks)
    if not total:
        return LargestBucket(0, 0)
    step = 1 if total <= COUNTED else -(-total // SAMPLED)
    samples = np.concatenate([part for chunks in runs for part in _every(chunks, step)])
    met, counts = np.unique(samples, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    if step == 1:
        return LargestBucket(*[int(counts[order[0]])] * 2)
    chosen = np.sort(met[order[:LOOKED_UP]])
    sizes = np.zeros(chosen.size, np.int64)
    for keys in (keys for chunks in runs for keys in chunks):
        sizes += np.searchsorted(keys, chosen, side="right") - np.searchsorted(keys, chosen)
    most_met_of_others = int(counts[order[LOOKED_UP]]) if order.size > LOOKED_UP else 0
    largest = int(sizes.max())
    return LargestBucket(largest, max(largest, step * (most_met_of_others + len(runs))))


def _every(chunks: list[Keys], step: int) -> Iterator[Keys]:
    """Yield every n-th key of a run, counted over all of its chunks."""
    passed = 0
    for keys in chunks:
        yield keys[-passed % step :: step]
        passed += keys.size
