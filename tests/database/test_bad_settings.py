"""Bad thresholds, settings, kinds and options: each has a clear error, and harms nothing."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import simdb
from tests.support import guarded_stores
from tests.support.guarded_stores import WORDS

# The fixtures of this module.
database, collection = guarded_stores.database, guarded_stores.collection


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


@pytest.mark.parametrize("numbers", [[-1], [2**32], [0, 2**40], np.array([-1])])
def test_a_number_that_no_item_can_have_is_not_stored(collection, numbers):
    with pytest.raises(simdb.KeyNotFoundError, match="is not an item number"):
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


@pytest.mark.parametrize(
    "kind", [simdb.Vector(2), simdb.Bits(8), simdb.String(), simdb.Signature(4)]
)
def test_an_exact_index_is_planned_only_for_what_has_one(kind):
    with pytest.raises(simdb.ConfigurationError, match="has no exact index"):
        simdb.plan_exact([[1, 0]], kind)


def test_settings_that_differ_are_told_as_they_were_given(tmp_path):
    kind = simdb.Bag("sum")
    assert simdb.plan_exact([["a", "b"]], kind, exact_floor="0.3").floor == Fraction(3, 10)
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        given: dict[str, Any] = {"threshold": 0.4, "exact_floor": 0.3, "groups": "chain"}
        db.collection("c", kind, **given, groups_at=[0.42])
        with pytest.raises(simdb.ConfigurationError, match=r"exact_floor is 0\.3, not None"):
            db.collection("c", kind, threshold=0.4)
        with pytest.raises(simdb.ConfigurationError, match=r"at 0\.42, not 'chain' at 0\.45"):
            db.collection("c", kind, **given, groups_at=[0.45])


@pytest.mark.parametrize("seed", [-1, 1.5, "a", None])
def test_a_seed_must_be_a_whole_number(tmp_path, seed):
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Text(), threshold=0.5)
        collection.add_many((n, f"text number {n}") for n in range(9))
        for call in (collection.self_audit, collection.survey, collection.learn):
            with pytest.raises(simdb.ConfigurationError, match="seed must be a whole number"):
                call(seed=seed)
