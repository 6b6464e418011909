"""Bad settings, options, names and files: each has a clear error, and harms nothing."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import simdb
from tests.guarded_stores import WORDS, guarded_store
from tests.strategies import SURE


@pytest.fixture
def database(tmp_path: Any) -> Any:
    with guarded_store(tmp_path / "s.simdb") as db:
        yield db


@pytest.fixture
def collection(database: Any) -> Any:
    return database["c"]


# --------------------------------------------------------------------- thresholds and options


@pytest.mark.parametrize(
    "threshold",
    [0, -0.5, 1.0000001, 2, math.nan, math.inf, True, "abc", "", "1/0", "-1/2", "1e-999999999"],
)
def test_a_threshold_outside_0_to_1_is_a_configuration_error(database, collection, threshold):
    for use in (
        lambda: collection.search("x", threshold=threshold),
        lambda: collection.search_many(["x"], threshold=threshold),
        lambda: collection.pairs(threshold),
        lambda: collection.groups(threshold),
        lambda: collection.add("a", "x", threshold=threshold, find_duplicates=True),
        lambda: collection.add_many([], threshold=threshold, on_duplicate="skip"),
        lambda: collection.dedupe([("a", "x")], threshold=threshold),
        lambda: collection.self_audit(threshold=threshold),
        lambda: collection.rebuild(threshold=threshold),
        lambda: database.collection("new", WORDS, threshold=threshold),
        lambda: simdb.plan(threshold),
    ):
        with pytest.raises(simdb.ConfigurationError, match="threshold"):
            use()
    assert database.collection_names() == ["c"]
    assert len(collection) == 1


@pytest.mark.parametrize("threshold", [[0.8], 0.8j, b"0.8", object()])
def test_a_threshold_of_another_type_is_a_type_error(database, collection, threshold):
    for use in (
        lambda: collection.search("x", threshold=threshold),
        lambda: collection.pairs(threshold),
        lambda: database.collection("new", WORDS, threshold=threshold),
        lambda: simdb.plan(threshold),
    ):
        with pytest.raises(TypeError, match="threshold"):
            use()


@pytest.mark.parametrize("threshold", [1, 1.0, "1", "4/5", ".8", Decimal("0.8"), Fraction(1, 1)])
def test_thresholds_may_be_written_in_many_ways(collection, threshold):
    assert collection.search("what was stored before", threshold=threshold)


@pytest.mark.parametrize(
    "options",
    [
        {"recall": 0},
        {"recall": 1},
        {"recall": 1.01},
        {"recall": math.nan},
        {"bands": 0},
        {"bands": -1},
        {"bands": 1.5},
        {"rows": True},
        {"rows": "5"},
        {"bands": 100_000, "rows": 100_000},
        {"bands": 1},
        {"threshold": 0.01},
        {"sketch": "slow"},
        {"seed": "secret"},
        {"seed": 1.5},
        {"seed": True},
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_configuration_errors(database, options):
    with pytest.raises(simdb.ConfigurationError):
        database.collection("new", WORDS, **options)
    assert "new" not in database


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (simdb.CharacterShingles, {"size": 0}),
        (simdb.CharacterShingles, {"size": -1}),
        (simdb.CharacterShingles, {"size": 2.5}),
        (simdb.CharacterShingles, {"size": True}),
        (simdb.WordShingles, {"size": "3"}),
        (simdb.StopWordShingles, {"following": 0}),
        (simdb.StopWordShingles, {"stop_words": "the"}),
        (simdb.StopWordShingles, {"stop_words": ()}),
        (simdb.Text, {"shingles": "character"}),
        (simdb.Text, {"shingles": 9}),
        (simdb.Text, {"white_space": "drop"}),
        (simdb.Text, {"unicode": "nfc"}),
    ],
)
def test_kinds_that_cannot_be_are_configuration_errors(make, arguments):
    with pytest.raises(simdb.ConfigurationError):
        make(**arguments)


@pytest.mark.parametrize("kind", ["text", simdb.Text, simdb.CharacterShingles(9), 5])
def test_a_kind_of_another_type_is_a_type_error(database, kind):
    with pytest.raises(TypeError, match="kind"):
        database.collection("new", kind)
    with pytest.raises(TypeError, match="kind"):
        database.create_collection("new", kind)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("add", {"on_existing": "ignore"}),
        ("add", {"on_duplicate": "drop"}),
        ("add", {"on_existing": None}),
        ("add_many", {"on_bad": "ignore"}),
        ("add_many", {"on_bad": True}),
        ("dedupe", {"on_bad": "drop"}),
        ("search", {"limit": 0}),
        ("search", {"limit": -1}),
        ("search", {"limit": True}),
        ("search", {"guarantee": "maybe"}),
        ("search", {"threshold": 0.4, "min_recall": math.nan}),
        ("search", {"threshold": 0.4, "min_recall": 1.5}),
        ("search", {"threshold": 0.4, "min_recall": -0.1}),
        ("pairs", {"guarantee": None}),
        ("delete_many", {"missing": "ignore"}),
    ],
)
def test_options_that_are_not_known_are_configuration_errors(collection, method, options):
    arguments = {
        "add": ("a", "x"),
        "add_many": ([("a", "x")],),
        "dedupe": ([("a", "x")],),
        "search": ("x",),
        "pairs": (),
        "delete_many": (["kept"],),
    }
    with pytest.raises(simdb.ConfigurationError):
        getattr(collection, method)(*arguments[method], **options)
    assert len(collection) == 1


@pytest.mark.parametrize("number", [1.5, "3", [1], np.float64(2), math.inf])
def test_a_number_of_another_type_is_a_configuration_error(collection, number):
    with pytest.raises(simdb.ConfigurationError, match="limit must be a whole number"):
        collection.search("what was stored before", limit=number)
    with pytest.raises(simdb.ConfigurationError, match="sample must be a whole number"):
        collection.self_audit(sample=number)
    with pytest.raises(simdb.ConfigurationError, match="min_recall"):
        collection.search("what was stored before", threshold=0.1, min_recall=str(number))


def test_a_limit_may_be_a_number_of_numpy(collection):
    assert len(collection.search("what was stored before", limit=np.int64(1))) == 1


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


@pytest.mark.parametrize("numbers", [[-1], [2**32], [0, 2**40], np.array([-1])])
def test_a_number_that_no_item_can_have_is_not_stored(collection, numbers):
    with pytest.raises(simdb.KeyNotFoundError, match="is no item number"):
        collection.keys_of(numbers)


@pytest.mark.parametrize("numbers", [["a"], [0.0], [2**70], [None]])
def test_item_numbers_are_whole_numbers(collection, numbers):
    with pytest.raises(simdb.WrongTypeError, match="whole numbers"):
        collection.keys_of(numbers)
    assert collection.keys_of([]) == []
    assert collection.keys_of([0]) == ["kept"]


@pytest.mark.parametrize(
    ("key", "item", "metadata"),
    [
        ("", "x", None),
        (2**64, "x", None),
        ("a", None, None),
        ("a", "x", {"b": object()}),
        ("a", "x", 5),
        (None, "x", None),
    ],
)
def test_an_error_about_a_single_item_names_no_row(collection, key, item, metadata):
    use: Any
    for use in (
        lambda: collection.add(key, item, metadata=metadata),
        lambda: collection.replace("kept" if key == "a" else key, item, metadata=metadata),
    ):
        with pytest.raises(simdb.UsageError) as caught:
            use()
        assert not str(caught.value).startswith("row")
        assert getattr(caught.value, "row", None) is None


def test_a_wrong_type_is_an_error_of_simdb_and_of_python(collection, database):
    use: Any
    for use in (
        lambda: collection.get(1.5),
        lambda: collection.add(b"a", "x"),
        lambda: collection.delete_many("text"),
        lambda: database.collection(5, WORDS),
        lambda: database.collection("new", "text"),
    ):
        with pytest.raises(simdb.WrongTypeError) as caught:
            use()
        assert isinstance(caught.value, TypeError)


# ------------------------------------------------------------------------- names and databases


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
        (simdb.Text(simdb.WordShingles(2)), {}, "kind"),
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
