"""Candidates of records, found pair by pair: what buckets give must be the same (MMDS 3.8.2)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simdb.arrays import Int64s, UInt64s

PAIRS_A_BATCH = 1 << 18


def candidate_pairs(
    left: UInt64s, right: UInt64s | None = None, *, most: int = PAIRS_A_BATCH
) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield the pairs of records that agree in a rule, each once, in batches.

    Memory does not grow with the number of pairs: a pair comes in the bucket of its first common
    rule, so that none need be remembered.

    Args:
        left: keys of the records, uint64 (n, rules), 0 for no bucket.
        right: of another collection to link it with; None gives the pairs within the one.
        most: pairs that are looked at in one batch.

    Yields:
        positions in ``left`` and in ``right``; within one collection the smaller comes first.
    """
    others = left if right is None else right
    for rule in range(left.shape[1]):
        order, starts, counts = _buckets(left[:, rule], others[:, rule])
        ends = np.cumsum(counts)
        begin = 0
        while begin < len(left):
            done = ends[begin - 1] if begin else 0
            stop = max(begin + 1, int(np.searchsorted(ends, done + most, side="right")))
            rows = np.repeat(np.arange(begin, stop, dtype=np.int64), counts[begin:stop])
            within = np.arange(rows.size, dtype=np.int64) + done
            partners = order[starts[rows] + within - (ends[rows] - counts[rows])]
            wanted = rows < partners if right is None else np.ones(rows.size, np.bool_)
            for earlier in range(rule):
                keys = left[rows, earlier]
                wanted &= (keys != others[partners, earlier]) | (keys == 0)
            if wanted.any():
                yield rows[wanted], partners[wanted]
            begin = stop


def _buckets(left: UInt64s, right: UInt64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return the order of ``right`` by key; where each of ``left`` begins in it, and how many."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    starts = np.searchsorted(ordered, left, side="left")
    counts = np.searchsorted(ordered, left, side="right") - starts
    counts[left == 0] = 0
    return order, starts, counts
