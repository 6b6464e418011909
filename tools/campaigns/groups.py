"""Histories of collections that keep groups, held against pairs compared one by one.

A history is a few changes of a few items. Most of them share a collection with others, in a *herd*:
their items have no element in common, so that each has its own groups, and a commit, a question and
what is expected are of all at once. That makes a history cheap; others have a collection alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np

import simdb
from simdb.linkage.entities import Clustering, SimilarPairs, cluster
from tools.campaigns.registry import Run, campaign

HERDS = (1, 99)  # histories of a collection, again and again
A_STORE = 50 * sum(HERDS)
BOUND = "0.5"
APART = 1_000  # between the elements of two histories, and between their keys
INDEXES: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"threshold": None}, {"exact_floor": BOUND}),
    ({"threshold": BOUND}, {"bands": 200, "rows": 1}),  # which misses one pair of 2 to the 200th
)
Items = dict[int, frozenset[int]]


@campaign("groups", "kept groups after each step of random histories", short=12, long=100_000)
def kept_groups(run: Run) -> None:
    """Do so many histories of few steps."""
    for begin in range(0, run.count, A_STORE):
        path = run.work / f"{begin}.simdb"
        with simdb.open(path, sync="batch", threads=1) as database:
            for first, size in _herds(begin, min(begin + A_STORE, run.count)):
                seed = run.seed + first
                problem = _life(database, [_History(seed + more, more) for more in range(size)])
                for _ in range(size):
                    run.trial("in a herd" if size > 1 else "alone")
                if problem:
                    run.fail(f"seed {run.seed + begin}, the herd of {seed} on: {problem}")
        path.unlink()


def _herds(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the first trial and the size of each herd."""
    while begin < end:
        for size in HERDS:
            if begin < end:
                yield begin, min(size, end - begin)
            begin += size


class _History:
    """The changes of some items, whose keys and elements are no other history's."""

    def __init__(self, seed: int, place: int) -> None:
        self.generator = random.Random(seed)
        self._first = self._following = place * APART
        self._keys: list[int] = []
        self._left = self.generator.randrange(2, 9)

    def step(self) -> tuple[list[int], Items] | None:
        """Return keys to delete, rows to add or to put in the place of others; None at the end."""
        if not self._left:
            return None
        self._left -= 1
        draw = self.generator
        count = min(len(self._keys), draw.choice([1, 1, 2, 4]))
        keys = draw.sample(self._keys, count)
        if keys and draw.random() < 0.35:
            self._keys = [key for key in self._keys if key not in keys]
            return keys, {}
        rows = {key: self._item() for key in keys if draw.random() < 0.4}
        for _ in range(draw.choice([1, 2, 6])):
            rows[self._following] = self._item()
            self._keys.append(self._following)
            self._following += 1
        return [], rows

    def _item(self) -> frozenset[int]:
        begin = self._first + self.generator.randrange(6)
        return frozenset(range(begin, begin + self.generator.choice([2, 3, 3, 4])))


def _life(database: simdb.Database, histories: list[_History]) -> str:
    """Do histories in one collection; return what is wrong, or nothing."""
    draw = random.Random(histories[0].generator.random())
    method: Any = draw.choice(["chain", "star"])
    bound, index = draw.choice(INDEXES)
    made = database.create_collection("c", simdb.Set(), seed=1, groups=method, **bound, **index)
    items: Items = {}
    replayed: dict[int, set[Any]] = {}
    last, number, problem = 0, 0, ""
    while not problem and (steps := [step for one in histories if (step := one.step())]):
        number += 1
        doomed = [key for keys, _ in steps for key in keys]
        rows = {key: item for _, own in steps for key, item in own.items()}
        made.delete_many(doomed)
        made.add_many(rows.items(), on_existing="replace")
        # A row that is replaced comes last, as it does in the store.
        gone = {*doomed, *rows}
        items = {**{key: item for key, item in items.items() if key not in gone}, **rows}
        if len(histories) > 1 and draw.random() < 0.2:  # which no group is to notice
            made.compact() if draw.random() < 0.5 else made.rebuild(seed=number, **index)
        groups = {one.id or 0: set[Any](one.keys) for one in made.kept_groups()}
        expected = _expected(items, method)
        found = sorted(map(sorted, groups.values()))
        if found != expected:
            wrong = [group for group in found if group not in expected]
            right = [group for group in expected if group not in found]
            named = {key for group in [*wrong, *right] for key in group}
            of = {key: sorted(item) for key, item in items.items() if key in named}
            problem = f"step {number}, {method}: {wrong}, not {right}, of {of}"
        last = _repeat(replayed, made.changes(last), last)
        if {label: own for label, own in replayed.items() if len(own) > 1} != groups:
            problem = problem or f"step {number}: the changes make {replayed}, not {groups}"
    database.drop_collection("c")
    return problem


def _expected(items: Mapping[int, frozenset[int]], method: Any) -> list[list[int]]:
    """The groups of all pairs, in the order in which items came."""
    keys = list(items)
    histories: dict[int, list[int]] = {}
    for place, key in enumerate(keys):
        histories.setdefault(key // APART, []).append(place)
    pairs = []
    for places in histories.values():
        for left, right in combinations(places, 2):
            one, other = items[keys[left]], items[keys[right]]
            common, together = len(one & other), len(one | other)
            if 2 * common >= together:
                pairs.append((left, right, common / together))
    columns = np.array(pairs or np.empty((0, 3)))
    found = cluster(
        SimilarPairs.of(
            columns[:, 0].astype(np.uint32), columns[:, 1].astype(np.uint32), columns[:, 2]
        ),
        SimilarPairs.none(),
        Clustering(method, 0.5, 0),
    )
    return sorted(sorted(keys[place] for place in group.tolist()) for group in found.groups())


def _repeat(groups: dict[int, set[Any]], changes: Iterable[simdb.GroupChange], last: int) -> int:
    """Do changes to groups that are replayed; return the number of the last one."""
    for change in changes:
        last, keys = change.number, set(change.keys)
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
    return last
