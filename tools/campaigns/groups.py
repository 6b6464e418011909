"""Histories of collections that keep groups, held against pairs compared one by one."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

import simdb
from simdb.linkage.entities import Clustering, SimilarPairs, cluster
from tools.campaigns.registry import Run, campaign

A_STORE = 200  # histories, each of a collection of its own that is dropped
BOUND = Fraction(1, 2)
INDEXES: tuple[dict[str, Any], ...] = (
    {"threshold": None, "exact_floor": "0.5"},
    {"threshold": "0.5", "bands": 200, "rows": 1},
)


@campaign("groups", "kept groups after each step of random histories", short=3, long=100_000)
def kept_groups(run: Run) -> None:
    """Do so many histories of few steps."""
    for begin in range(0, run.count, A_STORE):
        with simdb.open(run.work / f"{begin}.simdb", sync="batch", threads=1) as database:
            for trial in range(begin, min(begin + A_STORE, run.count)):
                seed = run.seed + trial
                problem = _history(database, random.Random(seed))
                run.trial()
                if problem:
                    run.fail(f"seed {seed}: {problem}")
        (run.work / f"{begin}.simdb").unlink()


def _history(database: simdb.Database, generator: random.Random) -> str:
    method: Any = generator.choice(["chain", "star"])
    made = database.create_collection(
        "c", simdb.Set(), seed=1, groups=method, **generator.choice(INDEXES)
    )
    items: dict[int, frozenset[int]] = {}
    replayed: dict[int, set[Any]] = {}
    last = following = 0
    problem = ""
    for step in range(generator.randrange(2, 9)):
        keys = generator.sample(sorted(items), min(len(items), generator.choice([1, 1, 2, 4])))
        if items and generator.random() < 0.35:
            made.delete_many(keys)
            for key in keys:
                del items[key]
        else:
            rows = {key: _item(generator) for key in keys if generator.random() < 0.4}
            count = generator.choice([1, 2, 6])
            rows |= {following + more: _item(generator) for more in range(count)}
            following += count
            made.add_many(rows.items(), on_existing="replace")
            # A row that is replaced comes last, as it does in the store.
            items = {**{key: item for key, item in items.items() if key not in rows}, **rows}
        groups = {one.id: set(one.keys) for one in made.kept_groups()}
        if sorted(map(sorted, groups.values())) != _expected(items, method):
            problem = f"step {step}: {groups} of {items}"
        for change in made.changes(last):
            last = _repeat(replayed, change)
        if {label: own for label, own in replayed.items() if len(own) > 1} != groups:
            problem = problem or f"step {step}: the changes make {replayed}, not {groups}"
        if problem:
            break
    database.drop_collection("c")
    return problem


def _item(generator: random.Random) -> frozenset[int]:
    begin = generator.randrange(6)
    return frozenset(range(begin, begin + generator.choice([2, 3, 3, 4])))


def _expected(items: dict[int, frozenset[int]], method: Any) -> list[list[int]]:
    """The groups of all pairs, in the order in which items came."""
    keys = list(items)
    pairs = []
    for left, right in combinations(range(len(keys)), 2):
        one, other = items[keys[left]], items[keys[right]]
        likeness = Fraction(len(one & other), len(one | other))
        if likeness >= BOUND:
            pairs.append((left, right, float(likeness)))
    columns = np.array(pairs or np.empty((0, 3)))
    found = cluster(
        SimilarPairs.of(
            columns[:, 0].astype(np.uint32), columns[:, 1].astype(np.uint32), columns[:, 2]
        ),
        SimilarPairs.none(),
        Clustering(method, 0.5, 0),
    )
    return sorted(sorted(keys[place] for place in group.tolist()) for group in found.groups())


def _repeat(groups: dict[int, set[Any]], change: simdb.GroupChange) -> int:
    keys = set(change.keys)
    if change.action == "merged":
        groups[change.group] |= groups.pop(change.other or 0)
    elif change.action == "joined":
        groups[change.group] |= keys
    elif change.action == "created":
        groups[change.group] = keys
    else:
        groups[change.group] -= keys
        if change.other is not None:
            groups[change.other] = keys
    return change.number
