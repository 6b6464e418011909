"""Rows one by one: every pair of policies against the definition, however rows are cut."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

import simdb
from simdb.ingest import add as adding
from simdb.ingest import dedupe

BOUND = Fraction(1, 2)
EXISTING = ("error", "skip", "replace")


def is_similar(one: frozenset[int], other: frozenset[int]) -> bool:
    return Fraction(len(one & other), len(one | other)) >= BOUND


def defined(
    stored: list[Any], rows: list[Any], on_existing: str, on_duplicate: str, *, look: bool
) -> list[Any]:
    """What becomes of each row; ``stored`` is changed as the store is to be."""
    outcomes: list[Any] = []
    for key, item in rows:
        exists = key in dict(stored)
        if exists and on_existing != "replace":
            outcomes.append((key, "present" if on_existing == "skip" else "bad", None))
            continue
        similar = (other for other, kept in stored if other != key and is_similar(item, kept))
        first = next(similar, None) if look or on_duplicate == "skip" else None
        if first is not None and on_duplicate == "skip":
            outcomes.append((key, "duplicate", first))
            continue
        stored[:] = [*((other, kept) for other, kept in stored if other != key), (key, item)]
        outcomes.append((key, "replaced" if exists else "added", first))
    return outcomes


def some_rows(generator: random.Random, count: int) -> list[Any]:
    return [
        (generator.randrange(14), frozenset(generator.sample(range(7), generator.randint(2, 4))))
        for _ in range(count)
    ]


@pytest.mark.parametrize("policies", [*product(EXISTING, ["keep", "keep and tell", "skip"])])
@pytest.mark.parametrize("index", [{"exact_floor": "0.5"}, {"bands": 200, "rows": 1}])
def test_rows_meet_what_was_kept_before_them(tmp_path, monkeypatch, long_form, index, policies):
    on_existing, duplicates = policies
    on_duplicate: Any = duplicates.split()[0]
    look = duplicates == "keep and tell"
    generator = random.Random(f"{on_existing} {duplicates}")
    for trial in range(6 if long_form else 1):
        monkeypatch.setattr(adding, "BATCH_ITEMS", generator.choice([1, 3, 100]))
        monkeypatch.setattr(dedupe, "MOST_ROUNDS", generator.choice([2, 4]))
        with simdb.open(tmp_path / f"{trial}.simdb", sync="batch", threads=1) as db:
            options: dict[str, Any] = {"threshold": "0.5", "seed": trial, **index}
            collection = db.create_collection("c", simdb.Set(), **options)
            stored: list[Any] = []
            for count in (9, 12, 12):
                rows = some_rows(generator, count)
                outcomes: list[simdb.Outcome] = []
                collection.add_many(
                    rows,
                    on_existing=on_existing,
                    on_duplicate=on_duplicate,
                    find_duplicates=look,
                    on_bad="skip",
                    outcomes=outcomes.extend,
                )
                expected = defined(stored, rows, on_existing, on_duplicate, look=look)
                found = [(one.key, one.action, one.duplicate_of) for one in outcomes]
                assert found == expected, (trial, rows)
                assert [(entry.key, entry.item) for entry in collection.items()] == stored
            assert collection.check(deep=True).sound


@pytest.mark.parametrize("first", ["kept", "dropped"])
def test_fates_that_hang_on_each_other_in_a_long_chain(tmp_path, first):
    """Each row has the content that the row before it replaces, as after a line was put in."""
    items = [frozenset(range(10 * place, 10 * place + 6)) for place in range(40)]
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection = db.create_collection("c", simdb.Set(), exact_floor="0.5", seed=1)
        collection.add("other", frozenset(range(1000, 1006)))
        collection.add_many(enumerate(items))
        stored = [(entry.key, entry.item) for entry in collection.items()]
        start = frozenset(range(1000, 1005)) if first == "dropped" else frozenset([5000])
        rows = [*enumerate([start, *items[:-1]]), ("new", items[-1])]
        outcomes: list[simdb.Outcome] = []
        collection.add_many(
            rows, on_existing="replace", on_duplicate="skip", outcomes=outcomes.extend
        )
        expected = defined(stored, rows, "replace", "skip", look=False)
        assert [(one.key, one.action, one.duplicate_of) for one in outcomes] == expected
        assert {action for _, action, _ in expected} == {
            "kept": {"replaced", "added"},
            "dropped": {"duplicate"},
        }[first]
        assert [(entry.key, entry.item) for entry in collection.items()] == stored
