"""Groups that a collection keeps: what they add to an add, to a load, to the file."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import simdb
from tools.benchmarks.registry import Bench, Figure, measure

ELEMENTS = 20
COPY_EVERY = 5  # rows: 19 of 21 elements are those of the row before
ADDS = 600
MOST_MILLISECONDS = 2.0


def rows(count: int, first: int, seed: int) -> Iterator[tuple[int, list[int]]]:
    """Yield sets, of which every fifth is like the one before, and no two others are."""
    generator = np.random.default_rng(seed)
    last = generator.integers(0, 2**31, ELEMENTS)
    for number in range(first, first + count):
        if number % COPY_EVERY:
            last = generator.integers(0, 2**31, ELEMENTS)
        else:
            last = np.append(generator.integers(0, 2**31, 1), last[1:])
        yield number, last.tolist()


def costs(bench: Bench, groups: Any, count: int) -> dict[str, float]:
    """Load a collection, and add to it one by one; in processor time."""
    path = bench.work / f"kept-{groups}.simdb"
    path.unlink(missing_ok=True)
    with simdb.open(path, sync="batch", threads=1) as database:
        collection = database.create_collection("c", simdb.Set(), seed=1, groups=groups)
        begun = time.process_time()
        collection.add_many(rows(count, 0, bench.seed))
        loaded = time.process_time() - begun
        added, read = [], []
        for number, item in rows(ADDS, count, bench.seed + 1):
            begun = time.process_time()
            collection.add(number, item)
            if not number % COPY_EVERY and number > count:  # the first has none before it
                added.append(time.process_time() - begun)
                if groups is not None:
                    begun = time.process_time()
                    assert len(collection.group_of(number).keys) > 1
                    read.append(time.process_time() - begun)
    size = path.stat().st_size
    path.unlink()
    told = {"load": loaded, "add": 1_000 * statistics.median(added), "size": size / 2**20}
    return told | ({"read": 1_000 * statistics.median(read)} if read else {})


@measure("kept-groups", "what groups that a collection keeps add to adding and loading")
def kept_groups(bench: Bench) -> None:
    """Compare a collection that keeps chains with one that keeps no groups."""
    count = bench.count
    plain, kept = (costs(bench, groups, count) for groups in (None, "chain"))
    more = kept["add"] - plain["add"]
    bench.add(
        Figure(
            *("kept-groups", f"add of a near copy to {count:,} sets, beyond the add itself"),
            *(more, "ms"),
            target=f"at most {MOST_MILLISECONDS:g} ms at a million",
            reached=more <= MOST_MILLISECONDS,
            note=f"{kept['add']:.2f} ms and {plain['add']:.2f} ms",
        )
    )
    bench.add(Figure("kept-groups", "reading the group of an item", kept["read"], "ms"))
    for name, unit in (("load", "s"), ("size", "MiB")):
        bench.add(
            Figure(
                *("kept-groups", f"{name}, with groups", kept[name], unit),
                peer="without",
                peer_value=plain[name],
                ratio=plain[name] / kept[name],
            )
        )
