"""A collection object that has outlived its collection: another of the same name is not touched."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import simdb
from simdb.ingest import add as adding
from tests.support.grids import some_of
from tests.support.processes import interpreted

KINDS: dict[str, tuple[Any, Any]] = {
    "text": (simdb.Text(simdb.WordShingles(1)), "hello world again"),
    "set": (simdb.Set(), ["a", "b"]),
    "bag": (simdb.Bag("maximum"), [1, 1, 2]),
    "bits": (simdb.Bits(64), 5),
    "more bits": (simdb.Bits(128), 5),
    "tanimoto": (simdb.Bits(64, "tanimoto"), 5),
    "vector": (simdb.Vector(3, "euclidean"), [1, 2, 3]),
    "record": (simdb.Record([simdb.Field("a", compare="exact")]), {"a": "x"}),
    "prints": (simdb.Fingerprint(100, 100, functions=64, groups=1), [(1, 2, 3), (50, 60, 70)]),
}


@pytest.mark.parametrize(("before", "after"), some_of(itertools.permutations(KINDS, 2), 5))
def test_a_collection_made_anew_of_another_kind_is_refused(tmp_path, before, after):
    with simdb.open(tmp_path / "s.simdb") as db:
        (old_kind, old_item), (kind, item) = KINDS[before], KINDS[after]
        stale = db.create_collection("c", old_kind)
        stale.add("first", old_item)
        db.drop_collection("c")
        present = db.create_collection("c", kind)
        present.add("first", item)
        calls: list[Callable[[], object]] = [
            lambda: stale.add("stale", old_item),
            lambda: stale.replace("first", old_item),
            lambda: stale.delete("first"),
            lambda: stale.search(old_item),
            lambda: stale.get("first"),
            stale.compact,
            stale.rebuild,
        ]
        for call in calls:
            with pytest.raises(simdb.ConfigurationError, match="was dropped"):
                call()
        assert [entry.key for entry in present.items()] == ["first"]
        assert db.check(deep=True).sound


def test_a_load_notices_that_another_process_made_the_collection_anew(tmp_path):
    path = tmp_path / "s.simdb"
    program = """
import sys, simdb
with simdb.open(sys.argv[1]) as db:
    db.drop_collection("c")
    db.create_collection("c", simdb.Bits(64)).add("first", 5)
"""

    def rows() -> Any:
        yield "a", "hello world"
        interpreted(program, path)

    with simdb.open(path) as db:
        collection = db.create_collection("c", simdb.Text())
        with pytest.raises(simdb.ConfigurationError, match="was dropped"):
            collection.add_many(rows())
        assert len(db["c"]) == 1
        assert db.check(deep=True).sound


def test_a_collection_made_anew_of_the_same_kind_is_the_one_of_that_name(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        stale = db.create_collection("c", simdb.Text())
        db.drop_collection("c")
        with pytest.raises(simdb.CollectionNotFoundError):
            stale.add("a", "hello world")
        db.create_collection("c", simdb.Text())
        stale.add("a", "hello world")
        assert db["c"].get("a").item == "hello world"
        assert db.check(deep=True).sound


@pytest.mark.parametrize("threshold", [0.8, 0.5], ids=["alike", "other"])
def test_one_that_was_renamed_is_not_the_one_that_has_its_name_now(tmp_path, threshold):
    with simdb.open(tmp_path / "s.simdb") as db:
        stale = db.create_collection("c", simdb.Text())
        stale.add("a", "hello world")
        db.rename_collection("c", "renamed")
        present = db.create_collection("c", simdb.Text(), threshold=threshold)
        calls: list[Callable[[], object]] = [
            lambda: stale.add("stale", "hello world"),
            lambda: stale.delete_many(["a"], missing="skip"),
            lambda: stale.search("hello world"),
            lambda: len(stale),
            lambda: stale.note_key_source("x"),
            stale.compact,
        ]
        for call in calls:
            with pytest.raises(simdb.CollectionNotFoundError, match="was renamed"):
                call()
        assert [entry.key for entry in db["renamed"].items()] == ["a"]
        assert not len(present)
        db.drop_collection("renamed")
        assert not len(stale)  # as if its own had been dropped, and made anew
        assert db.check(deep=True).sound


@pytest.mark.parametrize(
    ("kind", "item", "bound", "narrow"),
    [
        (
            simdb.Set(),
            lambda n: {n % 7, n % 5 + 10, n % 3 + 20},
            {"threshold": 0.5},
            {"threshold": 0.9},
        ),
        (simdb.Vector(2), lambda n: [n % 7, 1], {"max_distance": 30}, {"max_distance": 1}),
    ],
    ids=["set", "vector"],
)
def test_pairs_that_the_index_serves_no_more_are_refused(tmp_path, kind, item, bound, narrow):
    """They are found when they are read: a rebuild in between must not make them fewer."""
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.create_collection("c", kind, seed=1, **bound)
        collection.add_many((n, item(n)) for n in range(60))
        pairs = collection.pairs(guarantee="probable")
        joined = collection.join(collection, guarantee="probable")
        count = pairs.count()
        assert count
        assert joined.count() == 2 * count + 60
        collection.rebuild(**bound)
        assert pairs.count() == count
        collection.rebuild(**narrow)
        for stale in (pairs, joined):
            with pytest.raises(simdb.ConfigurationError, match=r"'c' was rebuilt .* ask again"):
                stale.count()
        assert collection.pairs(guarantee="probable").count() < count


TURNED = simdb.Vector(2), simdb.Vector(2, "euclidean")
RESHAPED = simdb.Bits(8, "tanimoto"), simdb.Bits(8)
WEIGHED = [
    simdb.Record([simdb.Field("a", weight=weight), simdb.Field("b")], candidates=["b"])
    for weight in (50, 60)
]


@pytest.mark.parametrize(
    ("kinds", "rows", "bound", "other_bound"),
    [
        (TURNED, [[1, 0], [9, 1], [1, 1]], {"max_distance": 10}, {"max_distance": 20}),
        (RESHAPED, [0b1111, 0b1110, 0b1], {"threshold": 0.7}, {"max_distance": 1}),
        (RESHAPED[::-1], [0b1111, 0b1110, 0b1], {"max_distance": 1}, {"threshold": 0.7}),
        (WEIGHED, [{"a": "x", "b": "y"}] * 3, {"threshold": 0.5}, {}),
    ],
    ids=["vector", "tanimoto", "hamming", "record"],
)
def test_pairs_are_not_read_by_another_measure_than_they_were_asked_by(
    tmp_path, kinds, rows, bound, other_bound
):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        left, right = (db.create_collection(name, kinds[0], **bound) for name in ("c", "other"))
        left.add_many(enumerate(rows))
        right.add_many(enumerate(rows))
        of_one = [left.pairs(guarantee="exact"), left.pairs(), left.score([(0, 1)])]
        of_both = [
            left.join(right, guarantee="exact"),
            right.join(left, guarantee="exact"),
            left.score([(0, 1)], right),
        ]
        expected = [list(one) for one in of_one]
        assert all(expected)
        with db.snapshot() as before:
            kept = before["c"].pairs(guarantee="exact")
            left.rebuild(kinds[1], **other_bound)
            for stale in (*of_one, *of_both):
                with pytest.raises(simdb.ConfigurationError, match=r"'c' was rebuilt .*ask again"):
                    list(stale)
            assert list(kept) == expected[0]
        assert list(left.pairs(guarantee="exact"))


@pytest.mark.parametrize("policy", [None, "key asc"])
def test_a_dedupe_does_not_go_on_by_another_measure(tmp_path, monkeypatch, policy):
    """No two rows are within 10 degrees; by Euclidean distance all are within 10."""
    monkeypatch.setattr(adding, "BATCH_ITEMS", 2)
    rows = [(1, [1, 0]), (2, [0, 1]), (3, [3, 0.9]), (4, [0.5, -3]), (5, [-4, 0.1])]
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.create_collection("c", TURNED[0], max_distance=10)

        def rebuilt(progress: simdb.Progress) -> None:
            assert progress.done == 2  # the first batch is stored
            collection.rebuild(TURNED[1], max_distance=20)

        with pytest.raises(simdb.ConfigurationError, match=r"'c' was rebuilt .*add them again"):
            collection.dedupe(rows, policy=policy, progress=rebuilt)
        assert [entry.key for entry in collection.items()] == [1, 2]
        collection.rebuild(TURNED[0], max_distance=10)
        assert not collection.dedupe(rows, policy=policy).duplicates
        assert len(collection) == 5


def test_what_is_contained_is_not_told_by_other_symbols(tmp_path):
    rows = [(1, "a red fox"), (2, "a red fox jumps")]
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.create_collection("c", simdb.Text(simdb.WordShingles(1)))

        def rebuilt(_: simdb.Progress) -> None:
            collection.rebuild(simdb.Text(simdb.WordShingles(3)))

        with pytest.raises(simdb.ConfigurationError, match=r"'c' was rebuilt .*none is removed"):
            collection.dedupe(rows, measure="containment", threshold=0.9, progress=rebuilt)
        assert len(collection) == 2
