"""Bad items, keys and metadata: each has a clear error or a stated answer, and harms nothing."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import simdb
from tests.support import guarded_stores
from tests.support.guarded_stores import CHARACTERS
from tests.support.strategies import SURE

# The fixtures of this module.
database, collection = guarded_stores.database, guarded_stores.collection


# ------------------------------------------------------------------------------------- items


def test_a_text_shorter_than_a_shingle_is_one_shingle_and_an_empty_one_is_similar_to_nothing(
    database,
):
    collection = database.collection("short", CHARACTERS, **SURE)
    collection.add_many([("empty", ""), ("blank", " \n "), ("short", "abc"), ("same", " abc")])
    assert len(collection) == 4
    assert collection.get("empty").item == ""
    assert collection.get("blank").item == " \n "
    assert [(m.key, m.similarity) for m in collection.search("abc")] == [("short", 1), ("same", 1)]
    for text in ("", " ", "\n\t"):
        assert list(collection.search(text)) == []
    assert [(pair.left, pair.right) for pair in collection.pairs()] == [("short", "same")]
    report = collection.dedupe([(1, ""), (2, ""), (3, "abc")])
    assert (report.added, report.duplicates_old) == (2, 1)


@pytest.mark.parametrize(
    "item", [None, 5, 5.5, math.nan, b"bytes", ["a"], ("a",), {"a": 1}, True, np.array(["a"])]
)
def test_an_item_that_is_no_text_is_a_bad_item(collection, item):
    with pytest.raises(simdb.BadItemError, match="a text must be a str"):
        collection.add("a", item)
    with pytest.raises(simdb.BadItemError, match="a text must be a str"):
        collection.search(item)
    with pytest.raises(simdb.BadItemError, match="row 1: a text must be a str"):
        collection.add_many([("b", "x"), ("a", item)])
    assert len(collection) == 1


def test_a_missing_text_of_a_table_is_named_so(collection):
    with pytest.raises(simdb.BadItemError, match="nan usually stands for a missing text"):
        collection.add("a", math.nan)


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\udc80" * 3, "🙂\ud83d"])
def test_half_a_surrogate_pair_is_a_bad_item(collection, text):
    with pytest.raises(simdb.BadItemError, match="surrogate"):
        collection.add("a", text)
    with pytest.raises(simdb.BadItemError, match="surrogate"):
        collection.search(text)
    report = collection.add_many([(1, text), (2, "good")], on_bad="skip")
    assert (report.bad, report.added) == (1, 1)


@pytest.mark.parametrize("text", ["a\0b", "\0", "\0\0\0 \0", "\ufffe", "\U0010ffff", "\ufeffx"])
def test_nul_and_other_odd_characters_are_stored_as_they_are(collection, text):
    collection.add("odd", text)
    assert collection.get("odd").item == text
    database_text = collection.get("odd").item
    assert [match.key for match in collection.search(database_text)] in ([], ["odd"])


def test_a_text_beyond_the_limit_is_refused_with_its_size_and_a_large_one_works(
    database, long_form
):
    collection = database.collection("large", CHARACTERS, seed=1)
    with pytest.raises(simdb.BadItemError, match=r"34,603,008 bytes.*33,554,432"):
        collection.add("large", "x" * (33 * 2**20))
    with pytest.raises(simdb.BadItemError, match="row 1: the text has"):
        collection.add_many([("a", "b"), ("large", "é" * (17 * 2**20))])
    assert len(collection) == 0
    count = 800_000 if long_form else 160_000
    words = np.random.default_rng(1).integers(0, 10**6, count).tolist()
    text = " ".join(map(str, words))
    assert 6 * count < len(text) < 7 * count
    collection.add("one", text)
    assert collection.get("one").item == text
    near = text[: len(text) - 100_000]
    assert collection.add("copy", near, on_duplicate="skip").duplicate_of == "one"


def test_texts_of_one_repeated_character_are_one_shingle(database):
    collection = database.collection("same", CHARACTERS, **SURE)
    collection.add_many([(1, "a" * 9), (2, "a" * 100_000)])
    assert [pair.similarity for pair in collection.pairs()] == [1.0]


# -------------------------------------------------------------------------------------- keys


@pytest.mark.parametrize(
    "key", [1.5, math.nan, True, False, None, b"bytes", ("a",), ["a"], np.float64(1), np.bool_(1)]
)
def test_a_key_of_another_type_is_a_type_error(collection, key):
    use: Any
    for use in (
        lambda: collection.add(key, "x"),
        lambda: collection.get(key),
        lambda: collection.delete(key),
        lambda: collection.delete_many(["kept", key]),
        lambda: collection.replace(key, "x"),
    ):
        with pytest.raises(TypeError, match="a key must be str or int"):
            use()
    assert key not in collection
    report = collection.add_many([(key, "x")], on_bad="skip")
    assert report.bad == 1
    with pytest.raises(simdb.BadItemError, match="row 0"):
        collection.add_many([(key, "x")])


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("", "1 to 500"),
        ("x" * 501, "501 bytes"),
        ("é" * 251, "502 bytes"),
        ("\ud800", "surrogate"),
        (2**63, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        (10**400, "64 bits"),
    ],
)
def test_a_key_that_cannot_be_stored_is_a_bad_item(collection, key, message):
    with pytest.raises(simdb.BadItemError, match=message):
        collection.add(key, "x")
    with pytest.raises(simdb.BadItemError, match=message):
        collection.get(key)
    with pytest.raises(simdb.BadItemError, match=message):
        collection.delete(key)
    assert key not in collection


def test_keys_at_the_limits_work_and_numbers_are_not_texts(collection):
    keys = [2**63 - 1, -(2**63), 0, "0", -1, "-1", "x" * 500, "é" * 250, "\0", "a\0", np.uint64(7)]
    keys += [np.int8(-3), np.str_("numpy")]
    collection.add_many((key, f"text {number}") for number, key in enumerate(keys))
    stored = [record.key for record in collection.items()][1:]
    assert stored == keys
    assert {type(key) for key in stored} == {int, str}
    for number, key in enumerate(keys):
        assert key in collection
        assert collection.get(key).item == f"text {number}"
    assert 7 in collection
    assert "7" not in collection
    assert 1 not in collection
    collection.delete_many(keys)
    assert len(collection) == 1


# ---------------------------------------------------------------------------------- metadata


def nested(depth: Any) -> Any:
    value: dict[str, object] = {}
    for _ in range(depth):
        value = {"deeper": value}
    return value


@pytest.mark.parametrize(
    "metadata",
    [
        "text",
        ["list"],
        5,
        {1: "number"},
        {"a": {1: "number"}},
        {"a": [{"b": {None: 1}}]},
        {"a": {b"bytes": 1}},
        {"a": {1, 2}},
        {"a": object()},
        {"a": 2**64},
        {"a": -(2**63) - 1},
        {"a": "\ud800"},
        {"\ud800": 1},
        {"a": 1j},
        {"a": "x" * 2**20},
        nested(65),
        nested(5_000),
    ],
    ids=range(17),
)
def test_metadata_that_cannot_be_given_back_is_a_bad_item(collection, metadata):
    with pytest.raises(simdb.BadItemError, match="metadata"):
        collection.add("a", "x", metadata=metadata)
    with pytest.raises(simdb.BadItemError, match="metadata"):
        collection.replace("kept", "x", metadata=metadata)
    report = collection.add_many([("a", "x", metadata)], on_bad="skip")
    assert report.bad == 1
    assert len(collection) == 1


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({1, 2}, "is set, which JSON cannot express"),
        (datetime.date(2026, 1, 1), "is date, which JSON cannot express; store text, as of .iso"),
        (pd.NaT, "is NaTType, which JSON cannot express; store None"),
        (pd.NA, "is NAType, which JSON cannot express; store None"),
        (np.datetime64("NaT", "D"), "is datetime64, which JSON cannot express; store None"),
        (np.int64(5), "is int64, which JSON cannot express; store its .item()"),
        (np.True_, "is bool, which JSON cannot express; store its .item()"),
        (np.zeros(2), "is ndarray, which JSON cannot express; store its .tolist()"),
        (2**64, "is a number of more than 64 bits"),
        (-(2**63) - 1, "is a number of more than 64 bits"),
        (b"x", "is bytes"),
        (float("nan"), "is nan"),
    ],
    ids=repr,
)
def test_which_value_of_metadata_cannot_be_stored_is_told(collection, value, what):
    for metadata, path in (({"a": value}, "['a']"), ({"b": [1, {"c": value}]}, "['b'][1]['c']")):
        with pytest.raises(simdb.BadItemError) as raised:
            collection.add("a", "x", metadata=metadata)
        assert f"metadata{path} {what}" in str(raised.value)


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {},
        {"": ""},
        {"a": None, "b": True, "c": 1.5, "d": [1, "2", [3]], "e": {"f": {}}},
        {"a": 2**64 - 1, "b": -(2**63), "c": -1.5e300, "\0": "\0"},
        nested(60),
    ],
)
def test_metadata_comes_back_as_it_was_given(collection, metadata):
    collection.add("a", "x", metadata=metadata)
    assert collection.get("a").metadata == metadata


def test_what_has_the_wrong_type_is_told_as_such(tmp_path):
    with simdb.open(tmp_path / "s.simdb", threads=1) as opened:
        db: Any = opened
        collection = db.collection("c", simdb.Set(), threshold=0.5, exact_floor=0.5)
        collection.add_many([("a", {1, 2}), ("b", {1, 2, 3})])
        calls: list[tuple[str, Any]] = [
            ("threshold must be a number", lambda: collection.search({1}, threshold=[0.5])),
            (
                "a resume token is a str",
                lambda: collection.pairs(guarantee="exact", resume=b"x").count(),
            ),
            ("earlier must be the groups", lambda: collection.groups(method="star", earlier="x")),
            (
                "groups_at takes several",
                lambda: db.collection("d", simdb.Set(), groups="chain", groups_at=0.6),
            ),
            (
                "groups_at takes several",
                lambda: collection.rebuild(groups="chain", groups_at="0.6"),
            ),
            (
                "groups_at takes several",
                lambda: collection.rebuild(groups="chain", groups_at=[0.6, None]),
            ),
        ]
        for told, call in calls:
            with pytest.raises(simdb.WrongTypeError, match=told):
                call()


# ----------------------------------------------------------------------------- what is iterated


@pytest.mark.parametrize("wrong", [None, 5, "text", b"bytes"])
def test_what_cannot_be_iterated_and_a_single_text_are_wrong_types(collection, wrong):
    given: Any = 5 if wrong is None else wrong  # None stands for no other table
    records = simdb.Record([simdb.Field("a")])
    use: Any
    for use in (
        lambda: collection.add_many(wrong),
        lambda: collection.dedupe(wrong),
        lambda: collection.search_many(wrong),
        lambda: collection.delete_many(wrong),
        lambda: collection.signatures(wrong),
        lambda: simdb.plan_exact(wrong, simdb.Set()),
        lambda: simdb.plan_rules(wrong, records),
        lambda: simdb.plan_rules([{"a": "x"}], records, other=given),
        lambda: simdb.tune(wrong),
        lambda: simdb.propose_record(wrong),
        lambda: simdb.propose_record([{"a": "x"}], given),
    ):
        with pytest.raises(simdb.WrongTypeError, match="must be an iterable of"):
            use()
    assert len(collection) == 1


def test_what_has_only_numbered_places_is_iterated(collection):
    class Places:
        def __getitem__(self, place: int) -> tuple[int, str]:
            return {0: (0, "one"), 1: (1, "two")}[place] if place < 2 else self.none()

        def none(self) -> tuple[int, str]:
            raise IndexError

    assert collection.add_many(Places()).added == 2


def test_a_query_that_nobody_has_run_is_told_to_be_no_rows(collection):
    polars = pytest.importorskip("polars")
    query = polars.LazyFrame({"a": ["x"]})
    for use in (simdb.tune, simdb.propose_record, collection.delete_many, collection.add_many):
        with pytest.raises(simdb.WrongTypeError, match="not LazyFrame"):
            use(query)


def test_a_row_to_propose_settings_by_is_a_mapping():
    with pytest.raises(simdb.BadItemError, match="row 1 must be a mapping") as caught:
        simdb.propose_record([{"a": "x"}, 5])  # type: ignore[list-item]
    assert caught.value.row == 1


@pytest.mark.parametrize("name", ["progress", "outcomes"])
@pytest.mark.parametrize("options", [{}, {"policy": "longest"}, {"measure": "containment"}])
def test_what_is_told_of_rows_must_be_callable_before_any_is_stored(collection, name, options):
    with pytest.raises(simdb.WrongTypeError, match=f"{name} must be a function or None, not int"):
        collection.add_many([("new", "x")], **{name: 5})
    with pytest.raises(simdb.WrongTypeError, match=f"{name} must be a function or None, not int"):
        collection.dedupe([("new", "x")], **options, **{name: 5})
    for use in (collection.compact, collection.rebuild):
        with pytest.raises(simdb.WrongTypeError, match="progress must be a function"):
            use(progress=5)
    assert "new" not in collection


@pytest.mark.parametrize("pairs", [None, 5, [0], [("kept", "kept", "kept")], ["ab"]])
def test_pairs_of_which_the_curve_is_measured_are_pairs(collection, pairs):
    with pytest.raises(simdb.WrongTypeError, match="pair"):
        collection.shares_met(pairs)


@pytest.mark.parametrize("seed", [-1, None, "x", 1.5])
def test_the_curve_is_measured_by_a_seed(collection, seed):
    with pytest.raises(simdb.ConfigurationError, match="seed must be a whole number"):
        collection.shares_met([("kept", "kept")], seed=seed)
    assert collection.shares_met([("kept", "kept")], seed=np.int64(1)) == [1.0]


@pytest.mark.parametrize("numbers", [5, None, np.zeros((2, 2), np.uint32), [[0], [0, 0]]])
def test_item_numbers_are_a_list(collection, numbers):
    with pytest.raises(simdb.WrongTypeError, match="item numbers must be a list"):
        collection.keys_of(numbers)
