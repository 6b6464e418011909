"""Collections: made, opened again, read; what the first page of the documentation promises."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.ingest import add as indexing
from simdb.opened.opened import Handle
from tests.support.processes import Child
from tests.support.strategies import SURE

WORDS = simdb.Text(simdb.WordShingles(1))


@pytest.fixture
def database(tmp_path: Any) -> Any:
    with simdb.open(tmp_path / "s.simdb") as db:
        yield db


def test_a_collection_is_created_once_and_opened_ever_after(database):
    kind = simdb.Text(simdb.CharacterShingles(9), lowercase=True)
    news = database.collection("news", kind, threshold=0.8, recall=0.99)
    news.add("a1", "some text", metadata={"url": "u"})
    for again in (
        database.collection("news", kind, threshold=0.8, recall=0.99),
        database.collection("news", kind),
        database.collection("news"),
        database["news"],
    ):
        assert len(again) == 1
        assert again.kind == kind
        assert (again.threshold, again.recall) == (Fraction(4, 5), Fraction(99, 100))
        assert (again.plan.bands, again.plan.rows) == (16, 6)
    with pytest.raises(simdb.ConfigurationError, match="exists"):
        database.create_collection("news", kind)
    database.create_collection("other", kind)
    assert database.collection_names() == ["news", "other"]


@pytest.fixture
def overtaken(database, monkeypatch):
    """Let another opening of the store make a collection first, whenever this one is to write."""

    def by(name: str, **settings: Any) -> None:
        write = Handle.write

        def overtaken_write(handle: Handle) -> Any:
            monkeypatch.setattr(Handle, "write", write)
            with simdb.open(database.path) as other:
                other.create_collection(name, WORDS, **settings).add("first", "other")
            return write(handle)

        monkeypatch.setattr(Handle, "write", overtaken_write)

    return by


def test_of_two_that_create_one_name_at_once_one_is_refused(database, overtaken):
    overtaken("c")
    with pytest.raises(simdb.ConfigurationError, match=r"'c' exists; collection\(\) opens it"):
        database.create_collection("c", WORDS)
    assert [record.key for record in database["c"].items()] == ["first"]


def test_of_two_that_open_one_name_at_once_the_second_opens_what_the_first_made(
    database, overtaken
):
    overtaken("c")
    assert [record.key for record in database.collection("c", WORDS).items()] == ["first"]
    overtaken("d", threshold=0.5)
    with pytest.raises(
        simdb.ConfigurationError, match=r"threshold is 0\.5, not 0\.8.*rebuild\(threshold=0\.8\)"
    ):
        database.collection("d", WORDS)
    assert database["d"].threshold == Fraction(1, 2)


def test_of_two_processes_that_create_one_name_exactly_one_succeeds(tmp_path):
    def create(child: Child) -> None:
        with simdb.open(tmp_path / "s.simdb") as db:
            child.say("ready")
            child.hear()
            try:
                db.create_collection("c", simdb.Set())
            except simdb.ConfigurationError:
                child.say("refused")
            else:
                child.say("created")

    processes = [Child(create) for _ in range(3)]
    assert [process.hear() for process in processes] == ["ready"] * 3
    for process in processes:
        process.say("go")
    assert sorted(process.hear() for process in processes) == ["created", "refused", "refused"]
    assert [process.end() for process in processes] == [0] * 3


def test_keys_come_back_as_plain_python_values(database):
    collection = database.create_collection("c", WORDS, **SURE)

    class Name(str):
        __slots__ = ()

    outcomes = [
        collection.add(np.int64(7), "one two"),
        collection.add(Name("a"), "one two", find_duplicates=True),
    ]
    collection.add_many(
        [(np.uint8(9), "one two"), (np.int32(10), None), (np.str_("b"), "one two")],
        on_duplicate="skip",
        on_bad="skip",
        outcomes=outcomes.extend,
    )
    assert [outcome.key for outcome in outcomes] == [7, "a", 9, 10, "b"]
    assert {type(outcome.key) for outcome in outcomes} == {int, str}
    assert {type(outcome.duplicate_of) for outcome in outcomes} == {int, type(None)}
    json.dumps([(outcome.key, outcome.duplicate_of) for outcome in outcomes])


def test_settings_are_kept_over_reopening(tmp_path):
    kind = simdb.Text(
        simdb.StopWordShingles(3, stop_words=("und", "der")),
        lowercase=True,
        white_space="keep",
        unicode="NFKD",
    )
    with simdb.open(tmp_path / "s.simdb") as db:
        db.collection("c", kind, threshold="1/3", bands=30, rows=2, sketch="classical", seed=4)
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db["c"]
        assert collection.kind == kind
        assert collection.threshold == Fraction(1, 3)
        assert (collection.plan.bands, collection.plan.rows) == (30, 2)
        db.collection("c", kind, threshold="1/3", bands=30, rows=2, sketch="classical", seed=4)
        with pytest.raises(simdb.ConfigurationError, match="seed"):
            db.collection("c", kind, threshold="1/3", bands=30, rows=2, sketch="classical", seed=5)


def test_a_record_comes_back_as_it_was_given(database):
    collection = database.collection("c", WORDS)
    text = "  As it was:\tÉ e\u0301 \0 東京 🙂\r\n"
    collection.add(7, text, metadata={"a": [1, {"b": None}]})
    assert collection.get(7) == simdb.Entry(7, text, {"a": [1, {"b": None}]})
    assert list(collection.items()) == [collection.get(7)]
    assert 7 in collection
    assert "7" not in collection


def test_the_types_of_the_stored_keys(tmp_path):
    with simdb.open(tmp_path / "s.simdb", sync="batch") as db:
        collection, other = (db.create_collection(name, simdb.Set()) for name in "ab")
        other.add("7", {1})
        assert collection.key_types() == set()
        collection.add(-7, {1})
        assert collection.key_types() == {int}
        collection.add("7", {1})
        assert collection.key_types() == {int, str}
        collection.delete(-7)
        assert (collection.key_types(), other.key_types()) == ({str}, {str})


def test_items_come_in_order_of_insertion(database):
    collection = database.collection("c", WORDS)
    keys = [5, "b", 3, "a", -1]
    for key in keys:
        collection.add(key, f"text of {key}")
    assert [record.key for record in collection.items()] == keys
    assert len(collection) == 5


def test_collections_do_not_see_each_other(database):
    one, other = (database.collection(name, WORDS, **SURE) for name in ("one", "other"))
    one.add("a", "some words")
    other.add("a", "other words here")
    other.add("b", "some words")
    assert [match.key for match in one.search("some words")] == ["a"]
    assert [match.key for match in other.search("some words")] == ["b"]
    one.delete("a")
    assert len(other) == 2
    database.drop_collection("one")
    assert [match.key for match in other.search("some words")] == ["b"]
    assert database.check(deep=True).sound


def test_labels_of_pairs_with_another_store_are_not_those_with_a_namesake(database, tmp_path):
    with simdb.open(tmp_path / "other.simdb", threads=1) as store:
        made = [one.collection("d", simdb.Set(), threshold=0.5) for one in (database, store)]
        left = database.collection("left", simdb.Set(), threshold=0.5)
        for one in (left, *made):
            one.add_many([(1, [1]), (2, [2])])
        left.label([(1, 1, False)], other=made[1])
        left.label([(1, 1, True), (2, 2, True)], other=made[0])
        database.rename_collection("d", "e")
        assert list(left.labels(other=database["e"])) == [(1, 1, True), (2, 2, True)]
        assert list(left.labels(other=made[1])) == [(1, 1, False)]
        database.drop_collection("e")
        assert list(left.labels(other=made[1])) == [(1, 1, False)]


def test_a_collection_is_renamed_and_labels_of_pairs_with_it_follow(database):
    kind = simdb.Record([simdb.Field("name")])
    left, right = (database.create_collection(name, kind) for name in ("left", "right"))
    left.add("l", {"name": "ann"})
    right.add("r", {"name": "ann"})
    left.label([("l", "r", True)], other=right)
    database.rename_collection("right", "persons")
    assert database.collection_names() == ["left", "persons"]
    assert len(left.labels(other=database["persons"])) == 1
    assert len(database["persons"]) == 1
    with pytest.raises(simdb.errors.CollectionNotFoundError, match="persons"):
        right.get("r")
    for wrong in ("left", "", "a\nb"):
        with pytest.raises(simdb.errors.ConfigurationError):
            database.rename_collection("persons", wrong)
    database.rename_collection("left", "left")
    with pytest.raises(simdb.errors.CollectionNotFoundError):
        database.rename_collection("right", "third")
    database.drop_collection("persons")
    again = database.create_collection("persons", kind)
    again.add("r", {"name": "ann"})
    assert len(left.labels(other=again)) == 0
    assert database.check(deep=True).sound


def test_stats_are_plain_values(database):
    collection = database.collection("c", simdb.Text(simdb.StopWordShingles(2)), threshold=0.9)
    assert collection.stats()["items"] == 0
    collection.add_many([(1, "the one of it"), (2, "abc")])
    stats = collection.stats()
    json.dumps(stats)
    assert stats["name"] == "c"
    assert stats["items"] == 2
    assert stats["item_bytes"] == 16
    assert stats["settings"]["threshold"] == 0.9
    assert stats["settings"]["shingles"]["of"] == "stop-word"
    assert stats["expected_recall"] >= 0.99
    json.dumps(database.stats())


def test_a_failure_in_the_middle_of_a_commit_leaves_the_last_one(database, monkeypatch):
    """Whatever fails after rows were written: the batch is undone, in memory as in the file."""
    collection = database.collection("c", WORDS, **SURE)
    collection.add_many((number, f"text {number}") for number in range(20))
    insert_rows = indexing.insert_rows

    def fail(*arguments: Any, **options: Any) -> Any:
        insert_rows(*arguments, **options)
        raise ZeroDivisionError

    for attempt in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(indexing, "insert_rows", fail)
            with pytest.raises(ZeroDivisionError):
                collection.add("new", "failed words")
            with pytest.raises(ZeroDivisionError):
                collection.replace(3, "failed words")
        assert len(collection) == 20 + attempt
        assert "new" not in collection
        assert collection.get(3).item == "text 3"
        assert not collection.search("failed words")
        assert collection.check(deep=True).sound
        collection.add(f"good {attempt}", "stored")
        assert len(collection.search("stored")) == attempt + 1
    assert collection.check(deep=True).sound


def test_a_dropped_collection_cannot_be_used_and_its_name_is_free(database):
    collection = database.collection("c", WORDS)
    collection.add("a", "b")
    database.drop_collection("c")
    assert "c" not in database
    with pytest.raises(simdb.CollectionNotFoundError, match="'c'"):
        len(collection)
    again = database.collection("c", simdb.Text(simdb.WordShingles(2)), threshold=0.5)
    assert len(again) == 0
    with pytest.raises(
        simdb.ConfigurationError, match=r"was dropped.*\(shingles.size is 2, not 1\)"
    ):
        len(collection)
    with pytest.raises(simdb.CollectionNotFoundError):
        database.drop_collection("d")


def test_unicode_forms_white_space_and_case_are_settings_not_changes(database):
    strict = database.collection(
        "strict", simdb.Text(simdb.CharacterShingles(3), white_space="keep", unicode="keep"), **SURE
    )
    lenient = database.collection(
        "lenient", simdb.Text(simdb.CharacterShingles(3), lowercase=True, unicode="NFKC"), **SURE
    )
    texts = ["\uff23afe\u0301  au lait", "café au\nLAIT"]
    for collection in (strict, lenient):
        collection.add_many(enumerate(texts))
        assert [record.item for record in collection.items()] == texts
    assert not list(strict.pairs())
    assert list(lenient.pairs()) == [simdb.Pair(0, 1, 1.0)]
