"""What the tests of stored records share: a kind, made people, and stores of tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

import simdb

KIND = simdb.Record(
    fields=[
        simdb.Field("name", weight=200),
        simdb.Field("town"),
        simdb.Field("born", weight=0, compare="date"),
    ],
    candidates=[simdb.Equal("name", "first:3"), "town"],
)
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
