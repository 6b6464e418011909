"""A row and the item that it is like, made one by a function."""

from __future__ import annotations

import time
from typing import Any

import pytest

import simdb
from simdb import Entry
from tests.support.kind_cases import ALL


def union(stored: Entry, row: Entry) -> Entry:
    seen = (stored.metadata or {}).get("seen", 1)
    return Entry(stored.key, stored.item | row.item, {"seen": seen + 1})


@pytest.fixture
def database(tmp_path):
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=1) as db:
        yield db


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_a_row_is_made_one_with_what_it_is_like(database, compression):
    collection = database.create_collection(
        *("c", simdb.Set()),
        threshold="0.5",
        exact_floor="0.5",
        groups="chain",
        compression=compression,
    )
    rows: Any = [("a", {1, 2, 3}), ("b", {1, 2, 3, 4}), ("x", {9}), ("c", {3, 4, 5, 1, 2, 6})]
    outcomes: list[simdb.Outcome] = []
    report = collection.add_many(rows, on_duplicate="merge", merge=union, outcomes=outcomes.extend)
    assert [(one.action, one.duplicate_of) for one in outcomes] == [
        *(("added", None), ("merged", "a"), ("added", None), ("merged", "a"))
    ]
    # {1, 2, 3, 4} is what the last row is like, and not what either row was.
    assert collection.get("a") == Entry("a", {1, 2, 3, 4, 5, 6}, {"seen": 3})
    assert (report.added, report.merged, report.duplicates_new, len(collection)) == (2, 2, 0, 2)
    same = collection.add("d", {1, 2, 3, 4, 5}, on_duplicate="merge", merge=lambda *_: None)
    assert (same.action, same.duplicate_of) == ("duplicate", "a")
    assert collection.get("a").metadata == {"seen": 3}
    assert collection.check(deep=True).sound


def test_what_goes_wrong_in_a_merge_changes_nothing(database):
    collection = database.create_collection("c", simdb.Set(), threshold="0.5", exact_floor="0.5")
    collection.add("a", {1, 2})
    cases: list[tuple[Any, type[Exception]]] = [
        (lambda stored, row: {"item": 1}, simdb.WrongTypeError),
        (lambda stored, row: Entry("a", "a text"), simdb.BadItemError),
        (lambda stored, row: Entry("a", {1}, {"n": float("nan")}), simdb.BadItemError),
        (lambda stored, row: 1 / 0, ZeroDivisionError),
    ]
    cases.append((lambda stored, row: Entry("a", {1}, {"x": object()}), simdb.BadItemError))
    for merge, error in cases:
        with pytest.raises(error) as one:
            collection.add("b", {1, 2}, on_duplicate="merge", merge=merge)
        rows = [("z", {7}), ("b", {1, 2})]
        with pytest.raises(error) as many:
            collection.add_many(rows, on_duplicate="merge", merge=merge)
        if isinstance(many.value, simdb.BadItemError):
            assert many.value.row == 1
            assert str(one.value) in str(many.value)
        collection.delete("z")
    with pytest.raises(simdb.ConfigurationError, match="needs merge="):
        collection.add("b", {1, 2}, on_duplicate="merge")
    with pytest.raises(simdb.ConfigurationError, match="merge= needs on_duplicate='merge'"):
        collection.add("b", {1, 2}, merge=union)
    assert [*collection.items()] == [Entry("a", {1, 2})]


def test_who_writes_in_the_middle_of_a_write_is_told_so_at_once(database):
    collection = database.create_collection("c", simdb.Set(), threshold="0.5", exact_floor="0.5")
    collection.add("a", {1, 2})

    def writes(stored: Entry, row: Entry) -> None:
        collection.add("other", {7, 8})

    began = time.monotonic()
    for rows in ([("b", {1, 2})], [(f"b{place}", {1, 2}) for place in range(20)]):
        with pytest.raises(simdb.UsageError, match=r"in the middle of a write.*merge="):
            collection.add_many(rows, on_duplicate="merge", merge=writes)
    assert time.monotonic() - began < 5  # busy_timeout is 10
    collection.add("other", {7, 8})
    assert [entry.key for entry in collection.items()] == ["a", "other"]


def test_items_of_every_kind_are_merged(database):
    for name, case in ALL.items():
        collection = database.create_collection(name, case.kind, **case.bound, seed=1)
        item, other = case.items[:2]
        collection.add("a", item)
        told = collection.add(
            "b", item, on_duplicate="merge", merge=lambda one, two, o=other: Entry("", o, {"n": 1})
        )
        if told.action == "merged":
            assert collection.get("a").metadata == {"n": 1}
        assert collection.check(deep=True).sound, name
