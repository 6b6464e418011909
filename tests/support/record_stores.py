"""What the tests of records share: a kind, made people, stores of tables, slow candidates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

import simdb
from simdb.arrays import Int64s, UInt64s

KIND = simdb.Record(
    fields=[
        simdb.Field("name", weight=200),
        simdb.Field("town"),
        simdb.Field("born", weight=0, compare="date"),
    ],
    candidates=[simdb.Equal("name", "first:3"), "town"],
)
PAIRS_A_BATCH = 1 << 18
Scored = dict[tuple[Any, Any], float]


@contextmanager
def opened(path: Path, *tables: Any, kind: Any = KIND, threshold: Any = "0.6") -> Iterator[Any]:
    """A store with a collection for each table of records, keyed by position."""
    with simdb.open(path) as database:
        made = []
        for place, rows in enumerate(tables):
            made.append(database.collection(f"c{place}", kind, threshold=threshold, seed=place))
            made[-1].add_many(enumerate(rows))
        yield made


def some_people(seed: int, count: int = 60) -> list[dict[str, Any]]:
    """Made people: every third is an earlier one with a letter, a town or a date changed."""
    generator = np.random.default_rng(seed)
    people: list[dict[str, Any]] = []
    for number in range(count):
        person: dict[str, Any] = {
            "name": "".join(generator.choice(list("abcde"), 8).tolist()),
            "town": f"town {generator.integers(9)}",
            "born": date(1960, 1, 1) + timedelta(int(generator.integers(9_000))),
        }
        if number % 3 == 2:
            person = dict(people[int(generator.integers(number))])
            name = str(person.get("name", ""))
            change = int(generator.integers(4))
            if change == 0 and name:
                person["name"] = name[:-1] + "x"
            elif change == 1:
                person["town"] = None
            elif change == 2 and len(person) > 2:
                del person["born"]
        people.append(person)
    return people


def scored(pairs: Any) -> Scored:
    found = {(pair.left, pair.right): pair.similarity for pair in pairs}
    assert pairs.guarantee in ("exact", "probable")
    return found


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
