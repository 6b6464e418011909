"""Deleting and replacing: gone at once from every answer, and for good."""

from __future__ import annotations

import random
from typing import Any

import pytest

import simdb
from simdb import collection as collection_module
from simdb.ingest import add as indexing
from tests.support.strategies import SURE, found_groups, found_pairs, set_text

WORDS = simdb.Text(simdb.WordShingles(1))


@pytest.fixture
def collection(tmp_path: Any) -> Any:
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many((number, set_text(range(10))) for number in range(5))
        yield collection
        assert collection.check(deep=True).sound


def test_a_deleted_item_is_in_no_answer(collection):
    collection.delete(2)
    assert 2 not in collection
    assert len(collection) == 4
    assert [record.key for record in collection.items()] == [0, 1, 3, 4]
    assert [match.key for match in collection.search(set_text(range(10)))] == [0, 1, 3, 4]
    assert 2 not in {key for pair in found_pairs(collection) for key in pair}
    assert found_groups(collection) == [(0, 1, 3, 4)]
    with pytest.raises(simdb.KeyNotFoundError, match="2"):
        collection.get(2)
    outcome = collection.add("new", set_text(range(10)), find_duplicates=True)
    assert outcome.duplicate_of == 0
    collection.delete(0)
    outcome = collection.add("newer", set_text(range(10)), find_duplicates=True)
    assert outcome.duplicate_of == 1


def test_a_deleted_key_can_be_added_again_and_is_then_the_last(collection):
    collection.delete(0)
    collection.add(0, "something else", metadata={"again": True})
    assert [record.key for record in collection.items()] == [1, 2, 3, 4, 0]
    assert collection.get(0).metadata == {"again": True}
    assert [match.key for match in collection.search("something else")] == [0]


def test_deleting_what_is_not_stored_is_an_error_that_changes_nothing(collection):
    with pytest.raises(simdb.KeyNotFoundError, match="'0'"):
        collection.delete("0")
    with pytest.raises(simdb.KeyNotFoundError, match="99"):
        collection.delete_many([1, 99, 2])
    assert len(collection) == 5
    assert collection.delete_many([1, 99, 2, 1], missing="skip") == 2
    assert len(collection) == 3
    assert collection.delete_many([]) == 0
    with pytest.raises(simdb.KeyNotFoundError):
        collection.delete(1)


def test_the_error_about_one_absent_key_speaks_of_no_batches(collection):
    with pytest.raises(simdb.KeyNotFoundError, match=r"^key 99 is not stored in 'c'$"):
        collection.delete(99)


def test_a_collection_made_anew_meanwhile_is_the_one_that_is_deleted_from(collection, monkeypatch):
    delete_keys = indexing.delete_keys

    def overtaken(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(indexing, "delete_keys", delete_keys)
        with simdb.open(collection._handle.path, sync="batch") as other:
            other.collection(f"d{len(other)}", WORDS)  # no number comes again
            other.drop_collection("c")
            other.collection("c", WORDS, **SURE).add_many([(1, "one"), (2, "two")])
        return delete_keys(*arguments, **options)

    monkeypatch.setattr(indexing, "delete_keys", overtaken)
    assert collection.delete_many([1]) == 1
    assert [record.key for record in collection.items()] == [2]
    monkeypatch.setattr(indexing, "delete_keys", overtaken)
    with pytest.raises(simdb.KeyNotFoundError):
        collection.delete_many([2, 3])  # 3 was there before


def test_batches_before_a_missing_key_are_deleted(collection, monkeypatch):
    monkeypatch.setattr(collection_module, "DELETED_AT_ONCE", 2)
    with pytest.raises(simdb.KeyNotFoundError, match=r"99.*2 items of earlier batches"):
        collection.delete_many([0, 1, 2, 99, 3])
    assert [record.key for record in collection.items()] == [2, 3, 4]


def test_all_are_deleted_at_once_or_none(collection, monkeypatch):
    monkeypatch.setattr(collection_module, "DELETED_AT_ONCE", 2)
    with pytest.raises(simdb.KeyNotFoundError, match=r"99 is not stored in 'c'$"):
        collection.delete_many([0, 1, 2, 0, 99, 3], at_once=True)
    assert len(collection) == 5
    assert collection.delete_many([0, 1, 2, 0], at_once=True) == 3
    assert [record.key for record in collection.items()] == [3, 4]


def test_deletions_during_an_iteration_do_not_disturb_it(collection, monkeypatch):
    monkeypatch.setattr(collection_module, "DELETED_AT_ONCE", 1)
    doomed = (record.key for record in collection.items() if int(record.key) % 2)
    assert collection.delete_many(doomed) == 2
    assert [record.key for record in collection.items()] == [0, 2, 4]


def test_an_error_of_the_keys_passes_through(collection):
    def keys() -> Any:
        yield 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        collection.delete_many(keys())
    assert len(collection) == 5


def test_one_text_is_not_taken_for_many_keys(collection):
    for keys in ("text", b"bytes"):
        with pytest.raises(TypeError, match="iterable of keys"):
            collection.delete_many(keys)
    with pytest.raises(simdb.ConfigurationError, match="missing"):
        collection.delete_many([1], missing="ignore")


def test_replace_changes_item_and_metadata_and_needs_a_stored_key(collection):
    collection.replace(1, "another text", metadata={"n": 2})
    assert collection.get(1) == simdb.Entry(1, "another text", {"n": 2})
    collection.replace(1, "another text still")
    assert collection.get(1).metadata is None
    with pytest.raises(simdb.KeyNotFoundError, match="'1'") as refused:
        collection.replace("1", "x")
    assert refused.value.key == "1"
    with pytest.raises(simdb.BadItemError):
        collection.replace(1, 5)
    assert collection.get(1).item == "another text still"


def test_deleting_everything_leaves_an_empty_collection_that_works(collection):
    collection.delete_many([record.key for record in collection.items()])
    assert len(collection) == 0
    assert list(collection.items()) == []
    assert not collection.search(set_text(range(10)))
    assert not found_pairs(collection)
    assert not found_groups(collection)
    collection.compact()
    collection.add("a", "b c")
    assert [match.key for match in collection.search("b c")] == ["a"]


def test_most_of_thousands_of_items_can_be_deleted_one_by_one(tmp_path):
    """Across many blocks and runs; dead records are dropped on the way."""
    generator = random.Random(1)
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection = db.collection("c", WORDS, threshold=0.8, seed=1)
        stored = {number: set_text([number, number + 1, 0, 1, 2]) for number in range(3_000)}
        rows = list(stored.items())
        for begin in range(0, 3_000, 150):
            collection.add_many(rows[begin : begin + 150])
        doomed = generator.sample(range(3_000), 2_700)
        for begin in range(0, 2_700, 90):
            assert collection.delete_many(doomed[begin : begin + 90]) == 90
        for key in doomed:
            del stored[key]
        assert {record.key: record.item for record in collection.items()} == stored
        assert collection.check(deep=True).sound
        # Each deletion pays for its part of the merging, so the dead do not pile up.
        entries = collection.stats()["index"]["bucket_entries"]
        assert entries <= 300 * 16 / 0.5
        for key, text in list(stored.items())[::30]:
            assert key in [match.key for match in collection.search(text)]


def test_a_dropped_collection_leaves_nothing_to_its_successor(tmp_path):
    """Its numbers in the file come again; nothing cached of the first may serve the second."""
    with simdb.open(tmp_path / "s.simdb") as db:
        for round_number in range(6):
            collection = db.collection("c", WORDS, **SURE)
            stored = [(n, set_text([round_number, *range(n, n + 9)])) for n in range(200)]
            if round_number >= 3:
                collection.add_many(stored[:50])
            collection.add_many(stored, on_existing="skip")
            for key, text in stored[::20]:
                assert collection.search(text, limit=1)[0].key == key
            pairs = found_pairs(collection)
            assert len(pairs) > 200
            assert collection.check(deep=True).sound
            if round_number >= 3:
                collection.delete_many(range(0, 200, 2))
                odd = {keys: value for keys, value in pairs.items() if keys[0] % 2 and keys[1] % 2}
                assert found_pairs(collection) == odd
                assert collection.check(deep=True).sound
            db.drop_collection("c")
            assert db.collection_names() == []
            with pytest.raises(simdb.CollectionNotFoundError):
                collection.search("x")
            with pytest.raises(simdb.CollectionNotFoundError):
                collection.add("a", "x")
            with pytest.raises(simdb.CollectionNotFoundError):
                collection.delete("a")
        assert db.check(deep=True).sound
