"""Histories of collections that keep groups, and what must hold after each step."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import simdb

METHODS = ("chain", "star")


def state_of(collection: simdb.CollectionView, bound: Any) -> dict[int, set[Any]]:
    """The groups by their ids, also those that one item is left of."""
    own = {} if bound is None else {"threshold": bound}
    found = {}
    for entry in collection.items():
        group = collection.group_of(entry.key, **own)
        if group.id is not None:
            found[group.id] = set(group.keys)
    return found


class Replay:
    """Groups as the changes say, from nothing on."""

    def __init__(self) -> None:
        self.groups: dict[Any, dict[int, set[Any]]] = {}
        self.aliases: dict[int, int] = {}
        self.last = 0

    def take(self, changes: Iterable[simdb.GroupChange]) -> None:
        """Repeat changes, which follow each other without a gap."""
        for change in changes:
            assert change.number == self.last + 1
            self.last = change.number
            groups = self.groups.setdefault(change.bound, {})
            keys = set(change.keys)
            if change.action == "created":
                assert change.group not in groups
                groups[change.group] = keys
            elif change.action == "joined":
                groups[change.group] |= keys
            elif change.action == "left":
                assert keys <= groups[change.group]
                groups[change.group] -= keys
            elif change.action == "merged":
                assert change.other is not None
                assert change.group < change.other
                groups[change.group] |= groups.pop(change.other)
                self.aliases[change.other] = change.group
            else:
                assert change.other is not None
                assert keys < groups[change.group]
                groups[change.group] -= keys
                groups[change.other] = keys

    def present(self, bound: Any) -> dict[int, set[Any]]:
        """The groups that have items."""
        return {label: keys for label, keys in self.groups.get(bound, {}).items() if keys}


def require_fresh(collection: Any, bounds: Iterable[Any], method: str) -> None:
    """Raise unless the kept groups are those that are computed anew."""
    for bound in bounds:
        fresh = collection.groups(bound, method=method)
        expected = {frozenset(group.keys) for group in fresh}
        found = [frozenset(group.keys) for group in collection.kept_groups(threshold=bound)]
        assert len(found) == len(expected), (bound, found, expected)
        assert set(found) == expected, (bound, found, expected)


def require_inherited(
    before: dict[int, set[Any]], now: dict[int, set[Any]], step: tuple[str, list[Any]]
) -> None:
    """Raise unless what stayed as it was, or only grew or shrank, kept its id.

    A key that was replaced in the step stands for another item; a group of no other has ended.
    """
    replaced = {row[0] for row in step[1]} if step[0] == "replace" else set()
    for label, keys in before.items():
        if keys <= replaced:
            continue
        alike = {other: own for other, own in now.items() if own & keys}
        touched = [
            other for other, own in before.items() if any(own & keys for own in alike.values())
        ]
        if len(alike) == 1 and touched == [label]:
            assert list(alike) == [label], (before, now)


def steps(generator: random.Random, count: int) -> Iterator[tuple[str, list[Any]]]:
    """Random changes: rows that are added or replaced, keys that are deleted."""
    live: list[int] = []
    following = 0
    for _ in range(count):
        action = generator.choices(["add", "replace", "delete"], [5, 2, 3])[0]
        size = generator.choice([1, 1, 1, 2, 5])
        if action == "add" or len(live) < size:
            keys = list(range(following, following + size))
            following += size
            live += keys
            yield "add", [(key, item_of(generator)) for key in keys]
        elif action == "replace":
            keys = generator.sample(live, size)
            yield "replace", [(key, item_of(generator)) for key in keys]
        else:
            keys = generator.sample(live, size)
            live = [key for key in live if key not in keys]
            yield "delete", keys


def item_of(generator: random.Random) -> frozenset[int]:
    """A small set: many are equal, and chains of similar ones are long."""
    begin = generator.randrange(12)
    return frozenset(range(begin, begin + generator.choice([2, 3, 3, 4])))


def apply(collection: Any, step: tuple[str, list[Any]]) -> None:
    """Do one step."""
    action, given = step
    if action == "delete":
        collection.delete_many(given)
    else:
        collection.add_many(given, on_existing="replace" if action == "replace" else "error")
