"""Bad names, files, openings and uses of databases: each has a clear error, and harms nothing."""

from __future__ import annotations

import math
from typing import Any

import pytest

import simdb
from tests.support import guarded_stores
from tests.support.guarded_stores import WORDS
from tests.support.strategies import SURE

database = guarded_stores.database  # the fixture of this module


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": "1G"}, "memory must be a whole number"),
        ({"memory": 1e9}, "memory must be a whole number"),
        ({"map_size": "1G"}, "map_size must be a whole number"),
        ({"threads": "2"}, "threads must be a whole number"),
        ({"busy_timeout": "2"}, "busy_timeout"),
        ({"busy_timeout": math.nan}, "busy_timeout"),
    ],
)
def test_settings_of_an_opening_have_the_right_type(tmp_path, options, message):
    with pytest.raises(simdb.ConfigurationError, match=message):
        simdb.open(tmp_path / "new.simdb", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_file_name_that_cannot_be_is_refused(database, tmp_path):
    use: Any
    for use in (simdb.open, database.backup):
        with pytest.raises(simdb.ConfigurationError, match="null character"):
            use("a\0b")
        for name in (5, None, b"a"):
            with pytest.raises(simdb.WrongTypeError, match="str or Path"):
                use(name)


def test_there_is_no_store_in_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(simdb.ConfigurationError, match="a store is a file"):
        simdb.open(":memory:")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a\nb", "\0", "x" * 201, "é" * 101, "tab\t", "\ud800"])
def test_a_name_that_cannot_be_stored_is_a_configuration_error(database, name):
    with pytest.raises(simdb.ConfigurationError, match="name"):
        database.collection(name, WORDS)
    with pytest.raises(simdb.ConfigurationError, match="name"):
        database.create_collection(name, WORDS)
    assert name not in database
    with pytest.raises((simdb.CollectionNotFoundError, simdb.ConfigurationError)):
        database[name]


@pytest.mark.parametrize("name", [None, 5, b"c"])
def test_a_name_of_another_type_is_a_type_error(database, name):
    with pytest.raises(TypeError, match="name"):
        database.collection(name, WORDS)
    with pytest.raises(TypeError, match="name"):
        database[name]
    with pytest.raises(TypeError, match="name"):
        database.drop_collection(name)


@pytest.mark.parametrize("name", ["a b", "é" * 100, "x" * 200, "c", "#", "simdb", "g", "🙂"])
def test_other_names_work(database, name):
    if name != "c":
        database.create_collection(name, WORDS).add("a", "b")
    assert name in database
    assert len(database[name]) == 1


def test_a_missing_collection_is_an_error_that_lists_those_there_are(database):
    use: Any
    for use in (
        lambda: database["d"],
        lambda: database.collection("d"),
        lambda: database.drop_collection("d"),
    ):
        with pytest.raises(simdb.CollectionNotFoundError, match=r"'d'.*'c'"):
            use()


def test_other_settings_than_the_stored_ones_are_refused_and_named(database):
    for kind, options, message in (
        (simdb.Text(simdb.WordShingles(2)), {}, r"shingles\.size is 1, not 2"),
        (WORDS, {"threshold": 0.6}, "threshold"),
        (WORDS, {"recall": 0.5}, "recall"),
        (WORDS, {"bands": 41}, "bands"),
        (WORDS, {"seed": 2}, "seed"),
        (WORDS, {"sketch": "classical"}, "sketch"),
    ):
        with pytest.raises(simdb.ConfigurationError, match=rf"{message}.*rebuild"):
            database.collection("c", kind, **{**SURE, **options})
    with pytest.raises(simdb.ConfigurationError, match="exists"):
        database.create_collection("c", WORDS, **SURE)
    assert database.collection("c").kind == WORDS
    assert len(database.collection("c", WORDS, **SURE)) == 1


def test_a_closed_database_says_so(tmp_path):
    db = simdb.open(tmp_path / "s.simdb")
    collection = db.collection("c", WORDS)
    collection.add("a", "b")
    pairs = collection.pairs()
    db.close()
    db.close()
    for use in (
        db.collection_names,
        lambda: db["c"],
        lambda: "c" in db,
        lambda: db.collection("c", WORDS),
        lambda: db.drop_collection("c"),
        db.stats,
        db.check,
        db.compact,
        lambda: db.backup(tmp_path / "copy"),
        lambda: db.snapshot().__enter__(),
        lambda: db.uuid,
        lambda: len(collection),
        lambda: collection.add("b", "c"),
        lambda: collection.add_many([("b", "c")]),
        lambda: collection.dedupe([("b", "c")]),
        lambda: collection.get("a"),
        lambda: "a" in collection,
        lambda: collection.search("b"),
        lambda: list(collection.items()),
        collection.pairs,
        lambda: list(pairs),
        collection.groups,
        collection.stats,
        lambda: collection.delete("a"),
        lambda: collection.replace("a", "x"),
        collection.rebuild,
        collection.compact,
        collection.self_audit,
    ):
        with pytest.raises(simdb.DatabaseClosedError, match="closed"):
            use()
    assert not (tmp_path / "copy").exists()


def test_a_read_only_database_reads_and_refuses_to_write(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        db.collection("c", WORDS, **SURE).add_many([("a", "b c"), ("b", "b c")])
    before = (tmp_path / "s.simdb").read_bytes()
    with simdb.open(tmp_path / "s.simdb", read_only=True) as db:
        assert db.read_only
        collection = db.collection("c", WORDS, **SURE)
        assert [match.key for match in collection.search("b c")] == ["a", "b"]
        assert len(list(collection.pairs())) == len(collection.groups()) == 1
        assert db.check(deep=True).sound
        for use in (
            lambda: collection.add("x", "y"),
            lambda: collection.add_many([("x", "y")]),
            lambda: collection.add_many([]),
            lambda: collection.dedupe([("x", "y")]),
            lambda: collection.delete("a"),
            lambda: collection.replace("a", "x"),
            collection.compact,
            collection.rebuild,
            db.compact,
            lambda: db.collection("new", WORDS),
            lambda: db.create_collection("new", WORDS),
            lambda: db.drop_collection("c"),
        ):
            with pytest.raises(simdb.ReadOnlyError, match="read-only"):
                use()
    assert (tmp_path / "s.simdb").read_bytes() == before


def test_a_missing_file_or_folder_is_named(tmp_path):
    with pytest.raises(simdb.DatabaseNotFoundError, match=r"absent\.simdb"):
        simdb.open(tmp_path / "absent.simdb", read_only=True)
    with pytest.raises(FileNotFoundError):
        simdb.open(tmp_path / "no" / "such" / "folder.simdb")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_database(tmp_path):
    with pytest.raises(simdb.NotADatabaseError, match="not a regular file"):
        simdb.open(tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"sync": "none"},
        {"sync": None},
        {"busy_timeout": -1},
        {"busy_timeout": math.nan},
        {"threads": 0},
        {"threads": -2},
        {"threads": True},
        {"threads": 1.5},
        {"memory": 0},
        {"memory": 2**20},
        {"memory": True},
        {"map_size": 5},
        {"map_size": True},
    ],
    ids=str,
)
def test_openings_that_cannot_be_are_configuration_errors(tmp_path, options):
    with pytest.raises(simdb.ConfigurationError, match=next(iter(options))):
        simdb.open(tmp_path / "s.simdb", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [5, None, b"bytes", ["list"]])
def test_a_path_of_another_type_is_a_type_error(path):
    with pytest.raises(TypeError):
        simdb.open(path)


def test_a_backup_over_an_existing_file_is_refused(database, tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(simdb.StorageError, match="taken"):
        database.backup(tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"
    with pytest.raises(simdb.StorageError):
        database.backup(tmp_path / "no" / "folder")
    for compact in (False, True):
        database.backup(tmp_path / f"copy {compact}", compact=compact)
        with simdb.open(tmp_path / f"copy {compact}") as copy:
            assert copy["c"].get("kept").item == "what was stored before"
            assert copy.check(deep=True).sound
