"""Tables of six libraries: deduplicated, paired and linked in one call, given back in kind."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import datasets
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

import simdb
from simdb.arrow import Columns, narrowed, plain, rows_of
from simdb.frames import _proposed, _Table
from simdb.kinds.records import Field, Record
from tests.support.commands import done, failed
from tests.support.grids import grid

TEXTS = [
    "the quick brown fox jumps over the lazy dog near the river bank today",
    "completely different words about the price of copper in London markets",
    "the quick brown fox jumps over the lazy dog near the river bank today!",
    "completely different words about the price of copper in London market",
]
ROWS: list[dict[str, Any]] = [
    {"id": f"k{number}", "text": text, "n": number * 10} for number, text in enumerate(TEXTS)
]

Made = tuple[Callable[[list[dict[str, Any]]], Any], Callable[[Any], list[dict[str, Any]]]]


def columns_of(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def rows_of_pandas(frame: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return found


# How each library makes a table of rows, and gives the rows of one; and the class of it.
LIBRARIES: dict[str, tuple[type, *Made]] = {
    "list": (list, list, list),
    "pandas": (
        pd.DataFrame,
        lambda rows: pd.DataFrame(rows, index=range(5, 5 + len(rows))),
        rows_of_pandas,
    ),
    "polars": (pl.DataFrame, pl.DataFrame, lambda frame: frame.to_dicts()),
    "pyarrow": (pa.Table, pa.Table.from_pylist, lambda table: table.to_pylist()),
    "duckdb": (
        duckdb.DuckDBPyRelation,
        lambda rows: duckdb.from_arrow(pa.Table.from_pylist(rows)),
        lambda relation: pa.table(relation).to_pylist(),
    ),
    "datasets": (
        datasets.Dataset,
        lambda rows: datasets.Dataset.from_dict(columns_of(rows)),
        lambda data_set: data_set.to_list(),
    ),
}


# Those whose missing values and rows are unlike each other's first.
UNLIKE = [
    *("list", "pandas", "pyarrow"),
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("polars", "duckdb", "datasets")),
]


@pytest.fixture(params=LIBRARIES)
def made(request: pytest.FixtureRequest) -> tuple[type, *Made]:
    return LIBRARIES[request.param]


def test_pairs_of_new_rows_have_the_same_columns_whether_there_are_any(made, tmp_path):
    _, make, rows_of = made
    columns = ["left", "right", "similarity", "sides"]
    store = tmp_path / "s.simdb"
    first = simdb.pairs(make(ROWS), item="text", key="id", store=store)
    assert [list(row) for row in rows_of(first)] == [columns, columns]
    assert rows_of(first)[0]["sides"] == "new-new"
    other = make([{"id": "x", "text": "of something else"}])
    none = simdb.pairs(other, item="text", key="id", store=tmp_path / "t")
    if isinstance(none, list):
        assert none == []
        return
    assert list(getattr(none, "column_names", None) or none.columns) == columns


def test_the_rows_that_are_kept_come_back_in_kind(made):
    kind, make, rows_of = made
    kept = simdb.dedupe(make(ROWS), item="text", threshold=0.8)
    assert isinstance(kept, kind)
    assert rows_of(kept) == ROWS[:2]


def test_by_containment_a_later_and_longer_row_is_the_one_that_stays():
    rows = [{"text": TEXTS[0][:40]}, {"text": TEXTS[1]}, {"text": TEXTS[0]}]
    found = simdb.dedupe(rows, item="text", threshold=0.9, measure="containment", show="all")
    assert [row["duplicate_of"] for row in found] == [2, None, None]
    assert found[0]["similarity"] == 1.0


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_policy_reads_the_other_columns(library):
    _, made, rows_of = LIBRARIES[library]
    for policy, numbers in (("n desc", [20, 30]), (lambda row: -row.metadata["n"], [0, 10])):
        found = simdb.dedupe(made(ROWS), item="text", threshold=0.8, policy=policy)
        assert [row["n"] for row in rows_of(found)] == numbers


def test_dates_sort_as_they_do_and_nulls_come_last():
    days = [date(2024, 2, 1), None, date(2024, 10, 1), date(2023, 12, 1)]
    rows = [{"text": TEXTS[0], "day": day} for day in days]
    for made in (list, pa.Table.from_pylist):
        table: Any = made(rows)
        marked = simdb.dedupe(table, item="text", policy="day desc", show="all")
        told = marked if made is list else marked.to_pylist()
        assert [row["duplicate_of"] for row in told] == [2, 2, None, 2]


def test_all_rows_are_marked_on_demand(made):
    kind, make, rows_of = made
    marked = simdb.dedupe(make(ROWS), item="text", key="id", threshold=0.8, show="all")
    assert isinstance(marked, kind)
    found = rows_of(marked)
    assert [row["duplicate_of"] for row in found] == [None, None, "k0", "k1"]
    assert [row["similarity"] is None for row in found] == [True, True, False, False]
    assert [{name: row[name] for name in ROWS[0]} for row in found] == ROWS


def test_without_keys_the_numbers_of_rows_are_keys(made):
    _, make, rows_of = made
    found = rows_of(simdb.dedupe(make(ROWS), item="text", threshold=0.8, show="all"))
    assert [row["duplicate_of"] for row in found] == [None, None, 0, 1]


def test_pairs_come_back_in_kind(made):
    kind, make, rows_of = made
    pairs = simdb.pairs(make(ROWS), item="text", key="id", threshold=0.8)
    assert isinstance(pairs, kind)
    assert sorted((row["left"], row["right"]) for row in rows_of(pairs)) == [
        ("k0", "k2"),
        ("k1", "k3"),
    ]


def test_two_tables_are_linked(made):
    kind, make, rows_of = made
    left, right = make(ROWS), make([{"name": "x", "body": TEXTS[1]}] * 1)
    links = simdb.link(
        left, right, item="text", key="id", right_item="body", right_key="name", threshold=0.8
    )
    assert isinstance(links, kind)
    assert sorted((row["left"], row["right"]) for row in rows_of(links)) == [
        ("k1", "x"),
        ("k3", "x"),
    ]


def test_a_table_is_linked_with_a_collection(made, tmp_path):
    kind, make, rows_of = made
    with simdb.open(tmp_path / "s.simdb") as database:
        stored = database.collection("stored", simdb.Text(simdb.WordShingles(1)), threshold=0.5)
        stored.add_many([("x", "one two three four"), ("y", "nothing like it")])
        rows = [{"id": "a", "text": "one two three five"}, {"id": "b", "text": "quite another"}]
        table = make(rows)
        found = simdb.link(table, stored, item="text", key="id")
        assert isinstance(found, kind)
        assert rows_of(found) == [{"left": "a", "right": "x", "similarity": 0.6}]
        turned = rows_of(simdb.link(stored, table, item="text", key="id", threshold=0.6))
        assert turned == [{"left": "x", "right": "a", "similarity": 0.6}]
        assert len(stored) == 2
        with pytest.raises(simdb.UsageError, match="to link two collections, use join"):
            simdb.link(stored, stored, item="text")


def test_a_store_remembers_the_rows_of_earlier_calls(made, tmp_path):
    _, make, rows_of = made
    store = tmp_path / "corpus.simdb"
    first = simdb.dedupe(make(ROWS[:1]), item="text", key="id", store=store)
    second = simdb.dedupe(make(ROWS[1:]), item="text", key="id", store=store)
    again = simdb.dedupe(make(ROWS[1:]), item="text", key="id", store=store)
    assert rows_of(first) == ROWS[:1]
    assert rows_of(second) == rows_of(again) == ROWS[1:2]


def test_a_store_keeps_its_bound_where_only_the_kind_is_given_again(tmp_path):
    store = tmp_path / "s.simdb"
    asked: dict[str, Any] = {"item": "text", "key": "id", "store": store}
    assert len(simdb.dedupe(ROWS, **asked, threshold=0.6)) == 2
    assert len(simdb.dedupe(ROWS, **asked, kind=simdb.Text())) == 2
    with simdb.open(store) as database:
        assert database["documents"].threshold == Fraction(3, 5)
    with simdb.open(store) as database:
        made = database.create_collection("planned", simdb.Text(), threshold=0.6, bands=30, rows=3)
        made.add_many((row["id"], row["text"]) for row in ROWS)
    asked["collection"] = "planned"  # settings that these calls cannot name
    assert len(simdb.dedupe(ROWS, **asked, kind=simdb.Text())) == 4
    with pytest.raises(simdb.ConfigurationError, match="shingles is character:9, not word:2"):
        simdb.dedupe(ROWS, **asked, kind=simdb.Text(simdb.WordShingles(2)))


def test_keys_of_another_type_than_those_stored_are_refused(made, tmp_path):
    _, make, _ = made
    store = tmp_path / "corpus.simdb"
    numbered = [{**row, "id": number} for number, row in enumerate(ROWS)]
    simdb.dedupe(make(numbered), item="text", key="id", store=store)
    with pytest.raises(simdb.UsageError, match=r"are whole numbers.*'id' are texts"):
        simdb.dedupe(make(ROWS), item="text", key="id", store=store)
    empty = pa.table({"id": pa.array([], pa.string()), "text": pa.array([], pa.string())})
    assert simdb.dedupe(empty, item="text", key="id", store=store).num_rows == 0
    other = tmp_path / "other.simdb"
    with simdb.open(other) as database:
        database.collection("documents", simdb.Text(), threshold=0.8).add(100, "one")
    for rows, wanted in ((ROWS, pytest.raises(simdb.UsageError)), (numbered, nullcontext())):
        with wanted:  # what is refused leaves no note of where its keys came from
            key = "id" if rows is numbered else "text"
            simdb.dedupe(make(rows), item="text", key=key, store=other)
    simdb.dedupe(make(numbered), item="text", key="id", store=store)
    with simdb.open(store) as database:
        assert database["documents"].key_types() == {int}


def test_the_pairs_of_a_store_are_those_that_came_with_the_rows(made, tmp_path):
    _, make, rows_of = made
    store = tmp_path / "corpus.simdb"
    simdb.pairs(make(ROWS[:3]), item="text", key="id", store=store)
    came = simdb.pairs(make(ROWS[3:]), item="text", key="id", store=store)
    assert [(row["left"], row["right"]) for row in rows_of(came)] == [("k1", "k3")]


def test_a_missing_column_is_named_with_those_there_are(made):
    _, make, _ = made
    with pytest.raises(simdb.UsageError, match="has no column 'body'; it has 'id', 'text', 'n'"):
        simdb.dedupe(make(ROWS), item="body")


def test_what_makes_a_table_of_the_data_is_told(tmp_path):
    table = pa.table({"text": ["some words"]})
    for data, call in (
        (pl.LazyFrame({"text": ["some words"]}), "collect"),
        (dataset.dataset(table), "to_table"),
        (dataset.dataset(table).scanner(), "to_table"),
    ):
        with pytest.raises(simdb.UsageError, match=rf"; its \.{call}\(\) makes a table$"):
            simdb.dedupe(data, item="text")


def test_a_store_needs_keys(made, tmp_path):
    _, make, _ = made
    with pytest.raises(simdb.UsageError, match="key="):
        simdb.dedupe(make(ROWS), item="text", store=tmp_path / "corpus.simdb")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("verb", [simdb.dedupe, simdb.pairs])
def test_a_store_that_is_no_path_is_refused_as_by_open(verb):
    with pytest.raises(simdb.WrongTypeError, match="must be str or Path, not bool"):
        verb(ROWS, item="text", key="id", store=False)


def test_a_column_that_marks_would_replace_is_refused(made, tmp_path):
    _, make, _ = made
    with pytest.raises(simdb.UsageError, match="'similarity' already"):
        simdb.dedupe(
            make([{"text": text, "similarity": 1} for text in TEXTS]), item="text", show="all"
        )
    rows = [{"id": text, "text": text, "duplicate_of": 1} for text in TEXTS]
    with pytest.raises(simdb.UsageError, match="'duplicate_of' already"):
        simdb.dedupe(make(rows), item="text", key="id", show="all", store=tmp_path / "s.simdb")
    with simdb.open(tmp_path / "s.simdb") as store:
        assert not [entry for name in store for entry in store[name].items()]


def test_what_duplicates_keys_of_both_types_is_refused_before_a_row_is_stored(tmp_path):
    store = tmp_path / "s.simdb"
    with simdb.open(store) as db:
        db.collection("data", simdb.Text(), threshold=0.8).add_many(
            [("a", TEXTS[0]), (1, TEXTS[1])]
        )
    rows = [{"id": n, "text": f"{n} {text}"} for n, text in enumerate(TEXTS, 10)]
    asked = {"item": "text", "key": "id", "store": store, "collection": "data", "show": "all"}
    with pytest.raises(simdb.UsageError, match="some keys in the store are texts and some are"):
        simdb.dedupe(pa.Table.from_pylist(rows), **asked)
    with simdb.open(store) as db:
        assert len(db["data"]) == 2
    assert len(simdb.dedupe(rows, **asked)) == len(rows)


def test_a_null_is_an_error_by_row_or_kept(made):
    _, make, rows_of = made
    rows = [*ROWS, {"id": "k4", "text": None, "n": 40}]
    data = make(rows)
    with pytest.raises(simdb.BadItemError, match="row 4") as caught:
        simdb.dedupe(data, item="text")
    assert caught.value.row == 4
    kept = rows_of(simdb.dedupe(data, item="text", on_bad="skip"))
    assert [row["id"] for row in kept] == ["k0", "k1", "k4"]


def test_the_same_data_give_the_same_rows():
    rows = [{"text": " ".join(f"w{i * j % 97}" for j in range(40))} for i in range(300)]
    kept = [simdb.dedupe(rows, item="text", threshold=0.5) for _ in range(2)]
    assert kept[0] == kept[1]


def test_an_index_of_pandas_may_repeat():
    frame = pd.DataFrame(ROWS, index=[0, 0, 1, 1])
    marked = simdb.dedupe(frame, item="text", show="all")
    assert list(marked.index) == [0, 0, 1, 1]
    assert marked["duplicate_of"].isna().tolist() == [True, True, False, False]


def test_other_columns_need_not_fit_into_arrow():
    frame = pd.DataFrame({"text": TEXTS, "odd": [1, "x", object(), {2}]})
    assert len(simdb.dedupe(frame, item="text")) == 2


def test_records_take_several_columns():
    people = pd.DataFrame(
        {"name": ["Ann Lee", "Ann Lee", "Bo Ek"], "town": ["Ulm", "Ulm", "Bern"], "x": [1, 2, 3]}
    )
    fields = [simdb.Field("name", weight=2), simdb.Field("town", weight=1)]
    kind = simdb.Record(fields, candidates=["town"])
    kept = simdb.dedupe(people, item=["name", "town"], kind=kind, threshold=0.9)
    assert kept["x"].tolist() == [1, 3]


def test_of_too_few_columns_to_learn_from_equal_rows_are_the_same():
    def row(number: int, key: int) -> dict[str, object]:
        return {"id": key, "name": f"n{number**2:x}", "price": number % 9 + 0.5}

    rows = [row(number, number) for number in range(60)]
    again = [row(number, 100 + number) for number in range(40, 60)]
    with pytest.warns(UserWarning, match="only rows that are equal in all columns"):
        links = simdb.link(rows, again, item=["name", "price"], key="id")
    found = sorted((one["left"], one["right"]) for one in links)
    assert found == [(n, 100 + n) for n in range(40, 60)]
    for item in (["name", "price"], ["name"]):
        with pytest.warns(UserWarning, match="only rows that are equal in all columns"):
            assert simdb.dedupe(rows + again, item=item, key="id") == rows
    with pytest.warns(UserWarning, match="no two rows agree in any column"):
        assert simdb.pairs([{"name": "ann becker"}, {"name": "zoltan"}], item=["name"]) == []


def test_of_columns_of_few_values_equal_rows_are_the_same(tmp_path):
    rows = [{"id": n, "month": n % 12, "price": n % 35 + 0.5} for n in range(500)]
    asked: dict[str, Any] = {"item": ["month", "price"], "key": "id"}
    told = "no rule proposes some pairs, and at most 10,000 .*; only rows that are equal in all"
    with pytest.warns(UserWarning, match=told):
        assert simdb.dedupe(rows, **asked) == rows[:420]
    with pytest.warns(UserWarning, match=told):
        found = simdb.pairs(rows, **asked)
    assert sorted((one["left"], one["right"]) for one in found) == [(n, 420 + n) for n in range(80)]
    with pytest.warns(UserWarning, match="only rows that are equal in all columns"):
        assert len(simdb.link(rows[:420], rows[420:], **asked)) == 80
    with pytest.raises(simdb.NothingAlikeError, match="no rule proposes some pairs"):
        simdb.dedupe(rows, **asked, store=tmp_path / "s.simdb")


def test_columns_that_do_not_tell_rows_apart_are_told_where_no_row_is_alike():
    left, right = (
        [{"name": name, "city": "york", "zip": "10001"}] for name in ("robert lee", "bob lee")
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert simdb.link(left, right, item=["name", "city", "zip"]) == []
    assert [str(one.message) for one in caught] == [
        "no two rows agree in any column that tells rows apart; only rows that are equal in all "
        "columns that item= names ('name', 'city', 'zip'), left out or not, count as the same",
        "column 'city' is left out because it is the same everywhere",
        "column 'zip' is left out because it is the same everywhere",
    ]
    assert {one.filename for one in caught} == {__file__}


def test_distances_are_told_as_distances():
    frame = pl.DataFrame({"hash": [0, 1, 2**60], "name": ["a", "b", "c"]})
    found = simdb.pairs(frame, item="hash", key="name", kind=simdb.Bits(64), max_distance=2)
    assert found.sort("left", "right").to_dicts() == [
        {"left": "a", "right": "b", "distance": 1.0},
        {"left": "a", "right": "c", "distance": 1.0},
        {"left": "b", "right": "c", "distance": 2.0},
    ]


def test_a_call_that_forgets_the_distance_leaves_nothing_that_refuses_the_corrected_call(tmp_path):
    rows = [{"id": 1, "v": "smith"}, {"id": 2, "v": "smyth"}]
    asked: dict[str, Any] = {"item": "v", "key": "id", "kind": simdb.String()}
    stored = {"store": tmp_path / "s.simdb"}
    calls = (
        partial(simdb.dedupe, rows, **stored),
        partial(simdb.dedupe, rows),
        partial(simdb.pairs, rows),
        partial(simdb.link, rows, rows),
    )
    for call in calls:
        with pytest.raises(simdb.ConfigurationError, match=r"^strings .* need max_distance=$"):
            call(**asked)
    assert simdb.dedupe(rows, **asked, **stored, max_distance=1) == rows[:1]
    assert simdb.dedupe(rows, **asked, **stored) == rows[:1]


def test_a_measure_that_a_kind_has_not_leaves_a_store_planned_for_the_bound_that_is_given(tmp_path):
    rows = [{"id": 1, "w": {"a": 1.0}}]
    asked: dict[str, Any] = {"item": "w", "key": "id", "kind": simdb.WeightedSet()}
    asked |= {"store": tmp_path / "s.simdb", "threshold": 0.5}
    with pytest.raises(simdb.ConfigurationError, match="have only one measure"):
        simdb.dedupe(rows, **asked, measure="containment")
    assert simdb.dedupe(rows, **asked) == rows


def test_remedies_are_arguments_of_the_call_or_of_the_collection_that_it_opened(tmp_path):
    store = tmp_path / "s.simdb"
    rows = [{"id": 1, "text": TEXTS[0]}, {"id": 2, "text": TEXTS[2]}]
    asked: dict[str, Any] = {"item": "text", "key": "id", "store": store}
    assert simdb.pairs(rows[:1], **asked) == []
    opened = f"simdb.open({str(store)!r})['documents'].rebuild"
    for call, kind in product((simdb.pairs, simdb.dedupe), (None, simdb.Text())):
        with pytest.raises(simdb.ThresholdTooLowError) as caught:
            call(rows[1:], **asked, kind=kind, threshold=0.5)
        told = str(caught.value)
        assert f"; {opened}(threshold=0.5) plans for it, or {opened}(exact_floor=0.5)" in told
        assert "guarantee" not in told
        assert "min_recall" not in told
    with pytest.raises(simdb.ConfigurationError) as elsewhere:
        simdb.pairs([{"n": 3, "text": TEXTS[1]}], **{**asked, "key": "n"})
    noted = opened.replace("rebuild", "note_key_source")
    assert f"; {noted}(source=\"the field 'n'\", also=True) takes both" in str(elsewhere.value)
    # No row of a call that is refused is stored, whose pairs would be those of no later call.
    (pair,) = simdb.pairs(rows[1:], **asked)
    assert (pair["left"], pair["right"], pair["sides"]) == (1, 2, "old-new")


def test_a_store_serves_every_bound_above_its_own_whether_the_kind_is_given_or_not(tmp_path):
    rows = [{"id": number, "text": TEXTS[number]} for number in (0, 2)]
    for kind in (None, simdb.Text()):
        asked: dict[str, Any] = {"item": "text", "key": "id", "kind": kind}
        asked["store"] = tmp_path / f"{kind is None}.simdb"
        assert simdb.dedupe(rows[:1], **asked, threshold=0.5) == rows[:1]
        assert simdb.dedupe(rows[1:], **asked, threshold=0.6) == []
        (pair,) = simdb.pairs(rows[1:], **asked, threshold=0.7)
        assert (pair["left"], pair["right"]) == (0, 2)


def test_a_first_call_that_is_refused_leaves_nothing_behind(tmp_path):
    store = tmp_path / "s.simdb"
    rows = [{"id": 1, "text": "a", "duplicate_of": 2, "w": {"a": 1.0}}]
    refused: list[dict[str, Any]] = [
        {"threshold": 0.1},
        {"threshold": 7},
        {"max_distance": 3},
        {"kind": simdb.Bits(64)},
        {"collection": "a\nb"},
    ]
    of_dedupe: list[dict[str, Any]] = [
        {"containment": 0.5},
        {"show": "all"},
        {"item": "w", "kind": simdb.WeightedSet(), "measure": "containment"},
    ]
    calls: list[Any] = [(simdb.dedupe, given) for given in (*refused, *of_dedupe)]
    calls += [(simdb.pairs, given) for given in refused]
    for call, given in calls:
        with pytest.raises(simdb.UsageError):
            call(rows, **{"item": "text", "key": "id", "store": store, **given})
    assert not list(tmp_path.iterdir())
    with simdb.open(store) as database:
        database.collection("other", simdb.Text())
    for call, given in calls[::5]:
        with pytest.raises(simdb.UsageError):
            call(rows, **{"item": "text", "key": "id", "store": store, **given})
    with simdb.open(store) as database:
        assert database.collection_names() == ["other"]


def test_pairs_of_records_whose_rules_propose_too_many_are_refused_before_they_are_stored(tmp_path):
    fields = [Field("name", compare="levenshtein"), Field("town", compare="levenshtein")]
    kind = Record(fields, ["town"], rule_budget=2)
    rows = [{"id": number, "name": "ann", "town": "oslo"} for number in range(3)]
    asked: dict[str, Any] = {"item": ["name", "town"], "key": "id", "threshold": 0.9}
    with simdb.open(tmp_path / "there") as database:
        database.collection("documents", kind, threshold=0.9)
    for store, own in (("new", kind), ("there", kind), ("there", None)):
        asked |= {"store": tmp_path / store}
        for _ in range(2):
            with pytest.raises(simdb.ConfigurationError, match="proposes 3 pairs, more than the"):
                simdb.pairs(rows, **asked, kind=own)
        assert not (tmp_path / "new").exists()
        with simdb.open(tmp_path / "there") as database:
            assert not len(database["documents"])
    assert len(simdb.pairs([*rows[:2], rows[0]], **asked)) == 1  # a row that comes again is one
    assert len(simdb.pairs(rows, **asked)) == 2  # those of the new row


def test_what_a_linked_collection_would_answer_otherwise_is_no_argument_of_the_call(tmp_path):
    rows = [{"id": 1, "w": {"a": 1.0}}]
    with simdb.open(tmp_path / "s.simdb", threads=1) as database:
        stored = database.collection("w", simdb.WeightedSet())
        with pytest.raises(simdb.ThresholdTooLowError) as caught:
            simdb.link(rows, stored, item="w", key="id", threshold=0.5)
    assert str(caught.value).endswith("finds 22.3%; rebuild(threshold=0.5) plans for it")


def test_rows_are_linked_by_the_index_of_a_collection_that_this_call_could_not_plan(tmp_path):
    rows = [{"id": 1, "w": {"a": 1.0, "b": 1.0, "c": 1.0}}, {"id": 2, "w": {"c": 1.0, "d": 3.0}}]
    asked: dict[str, Any] = {"item": "w", "key": "id"}
    with simdb.open(tmp_path / "s.simdb", threads=1) as database:
        kind, budget = simdb.WeightedSet(), 3_000
        planned = database.collection("planned", kind, threshold=0.1, row_budget=budget, seed=1)
        for stored in (planned, database.collection("without", kind, threshold=None)):
            stored.add_many((row["id"], row["w"]) for row in rows)
            for left, right in ((stored, rows), (rows, stored)):
                found = simdb.link(left, right, **asked, threshold=0.1)
                pairs = sorted((one["left"], one["right"]) for one in found)
                assert pairs == [(1, 1), (1, 2), (2, 1), (2, 2)]
        with pytest.raises(simdb.ConfigurationError, match="this call, another bound"):
            simdb.link(planned, rows, **asked, threshold=0.05)
        with pytest.raises(simdb.ConfigurationError, match="this call, another bound"):
            simdb.link(rows, rows, **asked, kind=kind, threshold=0.1)


@pytest.mark.parametrize("data", [3, "abc", {"a": 1}, [1], pd.Series([1]), iter([{"a": 1}])])
def test_what_is_no_table_is_refused(data):
    with pytest.raises(simdb.UsageError):
        simdb.dedupe(data, item="text")


def test_nothing_is_left_in_the_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    simdb.dedupe(ROWS, item="text")
    with pytest.raises(simdb.UsageError):
        simdb.dedupe(ROWS, item="body")
    assert not list(tmp_path.iterdir())


def test_empty_tables_stay_empty():
    assert simdb.dedupe([], item="text") == []
    assert len(simdb.dedupe(pd.DataFrame({"text": []}), item="text")) == 0
    empty = pa.table({"text": pa.array([], pa.string())})
    assert simdb.pairs(empty, item="text").num_rows == 0


def people(count: int) -> list[dict[str, Any]]:
    words = random.Random(1)

    def word() -> str:
        return "".join(words.choice("abcdefgh") for _ in range(8))

    rows: list[dict[str, Any]] = [
        {"id": n, "name": word(), "street": word(), "land": "ch"} for n in range(count)
    ]
    others = [{**row, "id": count + row["id"], "street": row["street"][::-1]} for row in rows]
    return [*rows, *others]


@pytest.mark.parametrize("call", [simdb.dedupe, simdb.pairs])
def test_a_column_that_says_nothing_does_not_stand_in_the_way_of_the_next_file(tmp_path, call):
    rows = people(40)
    named = {"item": ["name", "street", "land"], "key": "id", "threshold": 0.4}
    with pytest.warns(UserWarning, match="'land' is left out because it is the same everywhere"):
        first = call(rows, **named, store=tmp_path / "s.simdb")
    again = call(rows, **named, store=tmp_path / "s.simdb")
    assert len(again) == (len(first) if call is simdb.dedupe else 0)


def test_pairs_of_a_store_refuse_a_key_with_other_content(tmp_path):
    named = {"item": "t", "key": "id", "store": tmp_path / "s.simdb"}
    one = {"id": "m", "t": "the first text of this key in the store"}
    new = "another text altogether that nobody stored before"
    assert simdb.pairs([one], **named) == []
    assert simdb.pairs([one], **named) == []
    told = r"'m' is stored with other content; Collection\.replace updates it$"
    with pytest.raises(simdb.KeyExistsError, match=told):
        simdb.pairs([{"id": "m", "t": new}, {"id": "n", "t": new}], **named)
    with pytest.raises(simdb.KeyExistsError, match=r"^key 'm' comes twice$"):
        simdb.pairs([one, {"id": "m", "t": new}], item="t", key="id")
    assert simdb.pairs([one, {"id": "m", "t": new}], **named, on_bad="skip") == []


@pytest.mark.parametrize("frame", [list, pd.DataFrame])
def test_columns_of_two_tables_may_have_other_names(frame):
    left = people(30)[:30]
    right = [{"key": row["id"], "nom": row["name"], "rue": row["street"]} for row in left]
    named: dict[str, Any] = {"item": ["name", "street"], "key": "id", "right_key": "key"}
    found = simdb.link(frame(left), frame(right), **named, right_item=["nom", "rue"], threshold=1)
    same = found if frame is list else found.to_dict("records")
    assert [(pair["left"], pair["right"]) for pair in same] == [(n, n) for n in range(30)]
    with pytest.raises(simdb.UsageError, match="2 columns and right_item 1"):
        simdb.link(left, right, **named, right_item=["nom"])
    with pytest.raises(simdb.WrongTypeError, match="item= must be the name"):
        simdb.dedupe(left, item=0)  # type: ignore[arg-type]
    with pytest.raises(simdb.ConfigurationError, match="item= names the column 'name' twice"):
        simdb.link(frame(left), frame(left), item=["name", "name"], key="id")


def test_fields_of_a_collection_on_the_right_may_have_other_names(tmp_path):
    table = [{"id": "a", "nom": "ann lee", "ville": "york"}, {"id": "b", "nom": "zed", "ville": ""}]
    fields: dict[str, Any] = {"item": ["nom", "ville"], "right_item": ["name", "city"]}
    with simdb.open(tmp_path / "s.simdb") as database:
        kind = simdb.Record([simdb.Field("name"), simdb.Field("city")])
        people = database.collection("people", kind, threshold=0.8)
        people.add_many([(7, {"name": "ann lee", "city": "york"}), (8, {"name": "bob"})])
        (pair,) = simdb.link(table, people, **fields, key="id")
        assert pair == {"left": "a", "right": 7, "similarity": 1}
        turned: dict[str, Any] = {"item": fields["right_item"], "right_item": fields["item"]}
        (pair,) = simdb.link(people, table, **turned, key="id")
        assert pair == {"left": 7, "right": "a", "similarity": 1}
        with pytest.raises(simdb.UsageError, match="'city', which right_item= does not name"):
            simdb.link(table, people, item=["nom", "ville"], right_item=["name", "town"])
        with pytest.raises(simdb.UsageError, match="item names 2 columns and right_item 1"):
            simdb.link(table, people, item=["nom", "ville"], right_item=["name"])
        with pytest.raises(simdb.UsageError, match="'name', which item= does not name"):
            simdb.link(table, people, item=["nom", "ville"])
        texts = database.collection("texts", simdb.Text(simdb.WordShingles(1)))
        texts.add("t", "ann lee")
        (pair,) = simdb.link(table, texts, item="nom", right_item=["name"], key="id")
        assert pair == {"left": "a", "right": "t", "similarity": 1}


@pytest.mark.parametrize(("pair", "table"), [((99, 1), "left"), ((1, 99), "right")])
def test_of_a_key_that_is_kept_apart_it_is_said_which_table_lacks_it(pair, table):
    rows = people(30)[:30]
    named: dict[str, Any] = {"item": ["name", "street"], "key": "id", "threshold": 1}
    with pytest.raises(simdb.KeyNotFoundError, match=f"key 99 is not stored in '{table}'"):
        simdb.link(rows, rows, **named, one_to_one=True, apart=[pair])


def test_names_of_columns_may_come_in_any_collection():
    frame = pd.DataFrame(people(30))
    call: Any = simdb.dedupe
    same = call(frame, item=["name", "street"], key="id", threshold=0.5)
    for item in (frame.columns[1:3], np.array(["name", "street"]), {"name": 1, "street": 2}.keys()):
        assert len(call(frame, item=item, key="id", threshold=0.5)) == len(same)
    call, names = simdb.link, (name for name in ("name", "street"))
    named = {"item": names, "right_item": frame.columns[1:3], "key": "id", "threshold": 0.5}
    assert len(call(frame, frame, **named)) >= 60


def columns_to_rows(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


UNEQUAL: list[dict[str, list[Any]]] = [
    {"name": ["ann", "ann", "bob"], "active": [True, False, True]},
    {"name": ["ann", "ann", "bob"], "town": ["x", None, "x"]},
    {"tags": [["a"], ["b"], ["c"]]},
    {"language": ["C++", "C#", "C"]},
    {"name": ["José", "Jose", "JOSE"]},
]


@pytest.mark.parametrize(
    "bound",
    [
        {"threshold": 7},
        {"threshold": "x"},
        {"max_distance": 3},
        {"threshold": 1, "max_distance": 1},
    ],
)
def test_a_bound_that_cannot_be_is_refused_also_where_nothing_is_alike(bound):
    rows = [{"a": "x", "b": "z"}]
    call: Any
    for call in (simdb.dedupe, simdb.pairs, partial(simdb.link, rows)):
        for table in (rows, []):
            with pytest.raises(simdb.ConfigurationError):
                call(table, item=("a", "b"), **bound)
            with pytest.raises(simdb.ConfigurationError, match="on_bad must be"):
                call(table, item=("a", "b"), on_bad="ignore")


@pytest.mark.filterwarnings("ignore:.*only rows that are equal in all columns")
@pytest.mark.filterwarnings("ignore:column .* is left out because")
@pytest.mark.parametrize(("library", "columns"), grid(LIBRARIES, UNEQUAL, step=4))
def test_where_nothing_is_learnt_no_unequal_row_is_lost(library, columns):
    _, make, rows_of = LIBRARIES[library]
    rows, named = columns_to_rows(columns), list(columns)
    assert rows_of(simdb.dedupe(make(rows), item=named)) == rows
    assert rows_of(simdb.pairs(make(rows), item=named)) == []
    links = rows_of(simdb.link(make(rows), make(rows), item=named))
    assert sorted((pair["left"], pair["right"]) for pair in links) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.filterwarnings("ignore:.*only rows that are equal in all columns")
@pytest.mark.filterwarnings("ignore:column .* is left out because")
@pytest.mark.parametrize("library", UNLIKE)
def test_where_nothing_is_learnt_rows_that_lack_the_same_are_equal(library):
    _, make, rows_of = LIBRARIES[library]
    columns: dict[str, list[Any]] = {
        "name": ["bob", "bob", "ann", "cat"],
        "town": [None, None, "x", "y"],
    }
    rows = columns_to_rows(columns)
    kept = rows_of(simdb.dedupe(make(rows), item=["name", "town"]))
    assert [row["name"] for row in kept] == ["bob", "ann", "cat"]
    (pair,) = rows_of(simdb.pairs(make(rows), item=["name", "town"]))
    assert (pair["left"], pair["right"], pair["similarity"]) == (0, 1, 1)
    links = rows_of(simdb.link(make(rows), make(rows[1:2]), item=["name", "town"]))
    assert sorted(pair["left"] for pair in links) == [0, 1]


@pytest.mark.filterwarnings("ignore:.*only rows that are equal in all columns")
@pytest.mark.parametrize("library", UNLIKE)
def test_where_nothing_is_learnt_numbers_equal_the_texts_that_write_them(library):
    _, make, rows_of = LIBRARIES[library]
    sizes, texts = [1.0, 1.5, None, 30.0], ["1.0", "1.50", "", "030"]
    one, other = (
        make([{"size": size, "name": f"n{place}"} for place, size in enumerate(column)])
        for column in (sizes, texts)
    )
    for sides in ((one, other), (other, one)):
        links = rows_of(simdb.link(*sides, item=["size", "name"]))
        assert sorted((pair["left"], pair["right"]) for pair in links) == [(0, 0), (1, 1), (2, 2)]


def test_where_nothing_is_learnt_a_policy_still_sees_the_columns_and_a_store_is_refused(tmp_path):
    rows = [{"id": n, "name": "ann", "n": 1, "photo": b"x"} for n in range(3)]
    with pytest.warns(UserWarning, match="equal in all columns"):
        kept = simdb.dedupe(
            rows,
            item=["name", "n"],
            policy=lambda row: (row.item["name"], row.metadata["id"]),
        )
    assert kept == rows[2:]
    with pytest.raises(simdb.NothingAlikeError):
        simdb.dedupe(rows, item=["name", "n"], key="id", store=tmp_path / "s.simdb")


def test_a_stream_is_read_once():
    table = pa.Table.from_pylist(ROWS)
    for policy in ("n desc", lambda row: row.metadata["n"]):
        kept = simdb.dedupe(table.to_reader(), item="text", policy=policy)
        assert kept.column("n").to_pylist() == [20, 30]


EAST = timezone(timedelta(hours=9))


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (Decimal("9.50"), Decimal("10.00")),
        (timedelta(days=9), timedelta(days=30)),
        (datetime(2024, 1, 1, 8, tzinfo=EAST), datetime(2024, 1, 1, 1, tzinfo=UTC)),
        (10.5, math.inf),
        (-math.inf, -3.0),
    ],
)
@pytest.mark.parametrize("library", ["list", "pandas", "polars", "pyarrow"])
def test_what_is_no_text_is_compared_by_value(library, less, more):
    _, make, rows_of = LIBRARIES[library]
    rows = [{"text": TEXTS[0], "n": n, "f": value} for n, value in enumerate((less, more))]
    for policy, best in (("f asc", 0), ("f desc", 1)):
        kept = rows_of(simdb.dedupe(make(rows), item="text", policy=policy))
        assert [row["n"] for row in kept] == [best]


def test_clocks_that_are_put_back_do_not_turn_times_round():
    times = pd.to_datetime(["2024-10-27 00:30", "2024-10-27 01:15"], utc=True)
    frame = pd.DataFrame({"text": TEXTS[:1] * 2, "at": times.tz_convert("Europe/Berlin")})
    assert simdb.dedupe(frame, item="text", policy="at desc").index.tolist() == [1]


def test_whole_numbers_beside_a_null_are_named_by_a_policy():
    frame = pd.DataFrame({"text": TEXTS[:1] * 2, "n": [None, 5], "flag": [False, True]})
    for policy in ("n in 5", "flag in True", "flag in true"):
        assert simdb.dedupe(frame, item="text", policy=policy).index.tolist() == [1]


def test_key_and_item_are_terms_of_a_policy(made):
    _, make, rows_of = made
    kept = simdb.dedupe(make(ROWS), item="text", key="id", policy="n in 77|78, key desc")
    assert [row["id"] for row in rows_of(kept)] == ["k2", "k3"]
    kept = simdb.dedupe(make(ROWS), item="text", policy="length(item) desc")
    assert [row["id"] for row in rows_of(kept)] == ["k1", "k2"]


def test_a_policy_stores_neither_key_nor_item_a_second_time(tmp_path):
    """But where one of the two columns is called as the other part of a row is, and so is meant."""
    named = [{"item": row["id"], "key": row["text"]} for row in ROWS]
    for rows, key, item in ((ROWS, "id", "text"), (named, "item", "key")):
        for number, policy in enumerate((f"length({item}) desc", f"{key} desc", f"{item} asc")):
            store = tmp_path / f"{key}{number}.simdb"
            asked: dict[str, Any] = {"key": key, "item": item, "policy": policy, "store": store}
            kept = [row[key] for row in simdb.dedupe(rows, **asked)]
            assert kept == [["k1", "k2"], ["k2", "k3"], ["k0", "k3"]][number]
            with simdb.open(store) as database:
                noted = [one.metadata for one in database["documents"].items()]
                assert (noted == [None, None]) == (rows is ROWS)


def test_data_sets_that_are_streams_or_several_tables():
    whole = datasets.Dataset.from_dict({"text": TEXTS})
    kept = simdb.dedupe(whole.to_iterable_dataset(), item="text")
    assert (type(kept), kept["text"][:]) == (datasets.Dataset, TEXTS[:2])
    made = datasets.IterableDataset.from_generator(lambda: iter(ROWS))
    several = datasets.DatasetDict({"train": whole, "test": whole})
    for call in (simdb.dedupe, simdb.pairs):
        with pytest.raises(simdb.UsageError, match="columns of this IterableDataset are not known"):
            call(made, item="text")
        with pytest.raises(simdb.UsageError, match="several tables: give one of 'train', 'test'"):
            call(several, item="text")


def test_a_data_set_that_is_marked_keeps_its_split_its_info_and_its_format():
    whole = datasets.Dataset.from_dict({"text": TEXTS, "n": range(4)}, split="train")
    whole.info.description = "news"
    for data in (
        whole.select([1, 0, 3, 2]).with_format("numpy"),
        whole.with_format("numpy", columns=["text"], output_all_columns=True, dtype=np.float32),
    ):
        marked = simdb.dedupe(data, item="text", show="all")
        assert (marked.split, marked.info.description) == ("train", "news")
        added = ["duplicate_of", "similarity"]
        assert marked.format == data.format | {"columns": [*data.format["columns"], *added]}
        assert marked.features == data.features | {
            "duplicate_of": datasets.Value("int64"),
            "similarity": datasets.Value("float64"),
        }
        assert marked.with_format(None)["n"][:] == data.with_format(None)["n"][:]
        assert marked.with_format(None)["duplicate_of"][:] == [None, None, 0, 1]
    assert simdb.dedupe(whole.select([]), item="text", show="all").split == "train"


def test_a_stream_whose_rows_have_types_of_their_own_says_what_to_give(tmp_path):
    rows = [{"text": TEXTS[0], "more": {"a": "x"}}, {"text": TEXTS[1], "more": None}]
    data = datasets.Dataset.from_list(rows).to_iterable_dataset().filter(lambda _row: True)
    for call in (simdb.dedupe, simdb.pairs):
        with pytest.raises(simdb.UsageError, match=r"give a Dataset, such as Dataset\.from_list"):
            call(data, item="text")
    with (
        simdb.open(tmp_path / "s.simdb") as db,
        pytest.raises(simdb.UsageError, match="give a Dataset"),
    ):
        db.collection("c", simdb.Text()).add_many(data, item="text")
    given = datasets.Dataset.from_list(list(data), features=data.features)
    assert simdb.dedupe(given, item="text").to_list() == rows


def test_names_of_pandas_need_not_be_texts():
    frame = pd.DataFrame({0: TEXTS, 2020: [1, 2, 3, 4]})
    assert simdb.dedupe(frame, item="0").index.tolist() == [0, 1]
    kept = simdb.dedupe(frame, item="0", policy=lambda row: row.metadata["2020"])
    assert kept.index.tolist() == [2, 3]
    assert simdb.pairs(frame, item="0", key="2020")["left"].sort_values().tolist() == [1, 2]


def test_values_of_several_types_are_bad_rows():
    frame = pd.DataFrame({"t": [TEXTS[0], TEXTS[0], 5]})
    assert simdb.dedupe(frame, item="t", on_bad="skip").index.tolist() == [0, 2]
    with pytest.raises(simdb.BadItemError, match="row 2: a text must be a str, not int 5"):
        simdb.dedupe(frame, item="t")


@pytest.mark.parametrize(
    ("kind", "items", "left"),
    [
        (simdb.Text(), [TEXTS[0], TEXTS[0], b"x"], [0, 2]),
        (simdb.Set(), [[1, 2], [1, 2], [1.5]], [0, 2]),
        (simdb.Set(), [np.array(["a", "b"], object), ["a", "b"], None], [0, 2]),
        (simdb.WeightedSet(), [{"tea": 1.0}, {"rum": 2.0}, {"tea": 1.0}], [0, 1]),
        (simdb.Bag("maximum"), [{"tea": 1}, {"rum": 2}, {"tea": 1}], [0, 1]),
        (simdb.WeightedSet(), [[(1, 1.5)], [(2, 2.0)], [(1, 1.5)]], [0, 1]),
        (simdb.Bag("maximum"), [[("tea", 1)], [("tea", 3)], [("tea", 1)]], [0, 1]),
    ],
)
def test_objects_of_pandas_are_the_items_that_a_list_has(kind, items, left):
    asked: dict[str, Any] = {"item": "it", "kind": kind, "threshold": "0.8", "on_bad": "skip"}
    frame = pd.DataFrame({"it": pd.Series(items, dtype=object)})
    assert simdb.dedupe(frame, **asked).index.tolist() == left
    rows = [{"it": item, "place": place} for place, item in enumerate(items)]
    assert [row["place"] for row in simdb.dedupe(rows, **asked)] == left


def test_objects_of_pandas_are_the_metadata_that_a_list_has():
    days = [date(2020, 1, 1), datetime(2020, 1, 1, 5)]
    zoned = [datetime(2020, 1, 1, 5, tzinfo=timezone(timedelta(hours=9))), days[1]]
    told: dict[str, Any] = {
        "a day, then a time of it": (days, ["2020-01-01", "2020-01-01T05:00:00"]),
        "with and without a zone": (zoned, ["2020-01-01T05:00:00+09:00", "2020-01-01T05:00:00"]),
        "of their own names": ([{"a": 1}, {"b": 2}], [{"a": 1}, {"b": 2}]),
        "whole numbers and fractions": ([[1], [2.5]], [[1], [2.5]]),
        "of several digits": ([Decimal("1.5"), Decimal("2.25")], ["1.5", "2.25"]),
        "nothing": ([float("nan"), {"a": 1}], [None, {"a": 1}]),
    }
    columns = {name: pd.Series(given, dtype=object) for name, (given, _) in told.items()}
    for name in told:
        frame = pd.DataFrame({"text": TEXTS[:2], name: columns[name]})
        rows = rows_of(frame, None, "text", name)
        assert repr([row[2][name] for row in rows]) == repr(told[name][1])
    for name in ("a day, then a time of it", "of several digits"):
        frame = pd.DataFrame({"text": TEXTS[:2], name: columns[name].astype("category")})
        rows = rows_of(frame, None, "text", name)
        assert [row[2][name] for row in rows] == told[name][1]
    frame = pd.DataFrame({"text": [TEXTS[0]] * 2, "day": pd.Series(days, dtype=object)})
    assert simdb.dedupe(frame, item="text", policy="day desc").index.tolist() == [1]


def test_objects_of_pandas_of_one_type_are_read_as_columns():
    plain_columns = [
        ["a", None, float("nan")],
        [1, 2, None],
        [[1, 2], None, [3]],
        [np.zeros(2, np.float32)] * 3,
        [np.array(["a", None], object)] * 3,
        [date(2020, 1, 1), None, pd.NaT],
    ]
    for values in plain_columns:
        frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
        assert isinstance(narrowed(frame, Columns.named(None, "x", ())), pa.Table)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_tables_without_rows_have_no_duplicates(frame, tmp_path):
    nothing = pa.array([], pa.string()) if frame is pa.table else []
    empty: Any = frame({"a": nothing, "b": nothing})
    filled: Any = frame({"a": ["x"], "b": ["y"]})
    call: Any = simdb.link
    for one, other in ((empty, filled), (filled, empty)):
        assert len(call(one, other, item=["a", "b"])) == 0
    for answer in (simdb.dedupe, simdb.pairs):
        assert len(answer(empty, item=["a", "b"])) == 0
    assert simdb.dedupe([], item=["a", "b"], show="all") == []


def test_answers_without_a_pair_have_the_types_of_others():
    texts, keys = TEXTS[:2], ["a", "b"]
    frame = pl.DataFrame({"text": texts, "key": keys})
    some = pl.DataFrame({"text": TEXTS, "key": ["a", "b", "c", "d"]})
    for key in (None, "key"):
        for call in (simdb.pairs, partial(simdb.dedupe, show="all")):
            without, others = (call(one, item="text", key=key) for one in (frame, some))
            assert pl.concat([without, others]).height > without.height
    links = simdb.link(frame, frame.rename({"key": "number"}), item="text", key="key",
                       right_key="number", threshold=0.8)  # fmt: skip
    none = simdb.link(frame[:1], frame[1:], item="text", key="key")
    assert none.schema == links.schema
    pandas = simdb.dedupe(frame.to_pandas(), item="text", show="all")
    assert list(map(str, pandas.dtypes[["duplicate_of", "similarity"]])) == ["Int64", "float64"]


@pytest.mark.parametrize("frame", [list, pd.DataFrame])
def test_times_of_midnight_are_days(frame):
    rows = [{"day": datetime(2024, 1, day)} for day in (1, 1, 9)]
    kind = simdb.Record([simdb.Field("day", compare="date")])
    kept: Any = simdb.dedupe(frame(rows), item=["day"], kind=kind, threshold=1)
    assert len(kept) == 2
    bad = frame([{"day": datetime(2024, 1, 1, 12)}])
    with pytest.raises(simdb.BadItemError, match="compared as a date"):
        simdb.dedupe(bad, item=["day"], kind=kind, threshold=1)


def test_fields_of_a_struct_are_read_as_those_of_several_columns(tmp_path):
    fields = {
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
        "day": pa.array([date(2024, 1, 1), None]),
        "at": pa.array([datetime(2024, 1, 1, 8), datetime(2024, 1, 2)]),
        "clock": pa.array([1, 2], pa.time64("ns")),
        "long": pa.array([timedelta(hours=1), None]),
        "share": pa.array([float("nan"), float("inf")]),
    }
    names = list(fields)
    kind = simdb.Record([simdb.Field(name) for name in names])
    table = pa.table({"id": [1, 2], **fields})
    whole = pa.StructArray.from_arrays(list(fields.values()), names)
    stored: list[Any] = []
    with simdb.open(tmp_path / "x.simdb") as database:
        for name, item in (("several", names), ("one", "record")):
            target = database.collection(name, kind)
            target.add_many(table.append_column("record", whole), key="id", item=item)
            stored.append([one.item for one in target.items()])
    assert stored[0] == stored[1]
    assert stored[0][1]["share"] == "inf"


def test_a_date_and_its_text_are_the_same_content_by_whatever_door_it_comes(tmp_path):
    """Lists bring dates, tables texts; a row that was removed may come again by another, too."""
    kind = simdb.Record(
        [simdb.Field("name", weight=100), simdb.Field("day", weight=100, compare="date")]
    )
    days = [date(2024, 1, 1), date(2024, 1, 1), date(2021, 5, 7), None]
    names = ["ann lee", "ann lee", "bob", "cy"]
    rows = [
        {"id": number, "name": name, "day": day}
        for number, (name, day) in enumerate(zip(names, days, strict=True))
    ]
    table = pa.Table.from_pylist(rows)
    doors: list[Any] = [rows, table, table.to_pandas(), pl.from_arrow(table)]
    asked: dict[str, Any] = {"item": ["name", "day"], "key": "id", "kind": kind, "threshold": 0.6}
    for order, given in ((None, doors), ("id desc", doors[1::-1])):
        asked |= {"store": tmp_path / f"{order}.simdb", "policy": order}
        assert [len(simdb.dedupe(door, **asked)) for door in given] == [3] * len(given)
    with simdb.open(tmp_path / "None.simdb") as database:
        target = database["documents"]
        whole = pa.table(target)
        told = target.dedupe(whole, key="key", item="item", on_existing="replace")
        assert (told.present, told.replaced) == (3, 0)
        ann, text = {"name": "ann lee", "day": days[0]}, {"name": "ann lee", "day": "2024-01-01"}
        (stored,) = (one.key for one in target.items() if one.item == ann)
        told = target.dedupe(
            [(stored, text), (9, ann)], on_existing="replace", policy=lambda row: -row.key
        )
        assert (told.present, told.duplicates_new + told.duplicates_old) == (1, 1)
        target.dedupe([(9, ann), (9, text)])
        with pytest.raises(simdb.KeyExistsError, match="other content"):
            target.dedupe([(3, {"name": "cy", "day": "20240101"})])


@pytest.mark.filterwarnings("ignore:.*only rows that are equal in all columns")
@pytest.mark.parametrize(
    "values",
    [
        pl.Series([time(8, 5), time(8, 5), time(9)]),  # in nanoseconds
        pa.array([9_999_999, 9_999_999, 1], pa.int32()).cast(pa.date32()),  # after the year 9999
    ],
)
def test_columns_of_values_that_python_has_not_are_items(values):
    table = pa.table({"name": ["a", "a", "b"], "when": pa.array(values)})
    assert simdb.dedupe(table, item=["name", "when"])["name"].to_pylist() == ["a", "b"]


@pytest.mark.parametrize("table", [list, pd.DataFrame, pl.DataFrame, pa.Table.from_pylist])
def test_a_column_of_dates_is_compared_as_dates_in_any_table(table):
    people = [
        {"name": f"ann lee {n // 2}", "town": f"t{n // 2}", "born": date(1980, 1, 1 + n % 28)}
        for n in range(60)
    ]
    asked = _Table(table(people), Columns.named(None, ["name", "town", "born"], ()))
    (born,) = (field for field in _proposed([asked]).kind.fields if field.name == "born")
    assert born.compare == "date"


@pytest.mark.parametrize("text", ["12000-01-01", "-0044-03-15", "0000-12-31", "9999-12-31"])
@pytest.mark.parametrize("unit", ["D", "h", "s", "ms", "us"])
def test_days_and_times_of_any_year_are_the_text_that_a_column_of_them_is(text, unit):
    """Python has a bare number for those outside the years 1 to 9999."""
    value = np.datetime64(text, unit)
    of_arrow = pa.array(np.array([value.astype("M8[s]") if unit == "h" else value]))
    ((_, _, column),) = rows_of(pa.table({"t": ["a"], "when": of_arrow}), None, "t", "when")
    assert plain(value) == column["when"] == (text if unit == "D" else f"{text}T00:00:00")


@pytest.mark.parametrize(
    "value",
    [np.int64(4), Decimal("3.5"), pd.NA, pd.NaT, np.float32("nan"), np.datetime64("2024-01-01")],
)
def test_rows_of_dicts_may_have_the_values_of_frames(value):
    rows = [{"text": TEXTS[0], "f": None}, {"text": TEXTS[0], "f": value}]
    (kept,) = simdb.dedupe(rows, item="text", policy="f desc")
    assert kept is rows[0 if pd.isna(value) else 1]
    with pytest.warns(UserWarning, match="equal in all columns"):
        assert simdb.dedupe([rows[1], rows[1]], item=["text", "f"]) == rows[1:]


def test_functions_get_no_bytes(made):
    _, make, rows_of = made
    rows = [{**row, "photo": b"x"} for row in ROWS]
    kept = rows_of(simdb.dedupe(make(rows), item="text", policy=lambda row: row.metadata["n"]))
    assert [row["n"] for row in kept] == [20, 30]


def test_a_key_that_comes_twice_in_a_table_that_is_linked():
    rows = [{"id": 1, "text": TEXTS[0]}, {"id": 1, "text": TEXTS[1]}]
    with pytest.raises(simdb.KeyExistsError, match=r"^the left table: key 1 comes twice$"):
        simdb.link(rows, rows, item="text", key="id")
    other = [{"id": 2, "text": None}]
    with pytest.raises(simdb.BadItemError, match=r"^the right table: row 0: a text must"):
        simdb.link(rows[:1], other, item="text", key="id")
    with pytest.raises(simdb.UsageError, match=r"^the right table: the table has no column 'text'"):
        simdb.link(rows[:1], [{"id": 2}], item="text", key="id")


def test_a_bound_that_no_index_finds_says_what_takes_its_remedies(tmp_path):
    for store in (None, tmp_path / "s.simdb"):
        with pytest.raises(simdb.ConfigurationError, match="this call, another bound"):
            simdb.dedupe(ROWS, item="text", key="id", threshold=0.1, store=store)


def test_pairs_of_sets_need_no_index_for_a_low_threshold(tmp_path):
    rows = [
        {"id": number, "s": elements}
        for number, elements in enumerate(([1, 2, 3, 4, 5], [1, 2, 9, 8, 7], [4, 5, 6]))
    ]
    asked: dict[str, Any] = {"item": "s", "key": "id", "threshold": 0.2}
    similar = {(0, 1): 1 / 4, (0, 2): 1 / 3}

    def found(pairs: Any) -> dict[tuple[int, int], float]:
        return {(pair["left"], pair["right"]): pair["similarity"] for pair in pairs}

    joined = similar | {pair[::-1]: value for pair, value in similar.items()}
    joined |= {(number, number): 1 for number in range(3)}
    assert found(simdb.pairs(rows, kind=simdb.Set(), **asked)) == similar
    assert found(simdb.link(rows, rows, kind=simdb.Set(), **asked)) == joined
    with simdb.open(tmp_path / "s.simdb") as database:
        stored = database.collection("sets", simdb.Set())
        stored.add_many((row["id"], row["s"]) for row in rows)
        assert found(simdb.link(stored, rows, **asked)) == joined
        assert found(simdb.link(rows, stored, **asked)) == joined


def test_a_map_with_an_element_twice_is_a_bad_row():
    maps = [[("a", 1), ("b", 2)], [("a", 1), ("a", 5)]]
    table = pa.table({"m": pa.array(maps, pa.map_(pa.string(), pa.int64()))})
    for kind in (simdb.Bag(), simdb.WeightedSet()):
        with pytest.raises(simdb.BadItemError, match="row 1: an element of the map is there twice"):
            simdb.dedupe(table, item="m", kind=kind)


def test_a_map_of_what_can_be_no_element_is_a_bad_row():
    maps = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))
    nested = pa.array([[(["a"], 1)]], pa.map_(pa.list_(pa.string()), pa.int64()))
    for kind in (simdb.Bag(), simdb.WeightedSet()):
        assert simdb.dedupe(pa.table({"m": maps}), item="m", kind=kind).num_rows == 1
        with pytest.raises(simdb.BadItemError, match="row 0: an element of the map cannot be one"):
            simdb.dedupe(pa.table({"m": nested}), item="m", kind=kind)


def test_columns_of_polars_that_arrow_does_not_have_are_left_alone():
    numbers = pl.Series("big", [2**100, 1, 2, 3], dtype=pl.Int128)
    frame = pl.DataFrame({"text": TEXTS, "key": list("abcd")}).with_columns(numbers)
    kept = simdb.dedupe(frame, item="text", key="key")
    assert kept.equals(frame[:2])
    marked = simdb.dedupe(frame, item="text", key="key", show="all")
    assert marked.select(frame.columns).equals(frame)
    assert marked["duplicate_of"].to_list() == [None, None, "a", "b"]
    asked: list[dict[str, Any]] = [{"key": "big"}, {"policy": "big desc"}]
    for columns in asked:
        with pytest.raises(simdb.UsageError, match="cannot hold the column 'big' of Int128"):
            simdb.dedupe(frame, item="text", **columns)


def test_the_same_texts_give_the_same_answer_in_any_table():
    """Whatever their pieces and types are, their hash functions are the same."""
    texts = [None if place % 50 == 7 else f"some words é {place % 90}" for place in range(200)]
    table = pa.table({"text": texts})
    tables = [
        pa.concat_tables([table.slice(0, 60), table.slice(60)]),
        *(
            pa.table({"text": table["text"].combine_chunks().cast(kind)})
            for kind in (pa.large_string(), pa.string_view())
        ),
        pa.table({"text": table["text"].dictionary_encode()}),
        pd.DataFrame({"text": texts}),
        pl.DataFrame({"text": texts}),
        [{"text": text} for text in texts],
    ]
    columns = Columns.named(None, "text", ())
    seeds = {_Table(one, columns, None).seed() for one in (table, *tables)}
    assert len(seeds) == 1
    for other in (texts[::-1], texts[:-1], [f"{text}." for text in texts]):
        assert _Table(pa.table({"text": other}), columns, None).seed() not in seeds
    rows = [[{"text": one} for one in (1, 2)], [{"text": one} for one in ("1", "2")]]
    assert len({_Table(one, columns, None).seed() for one in rows}) == 2
    numbers = pa.table({"v": pa.array(np.arange(300.0).reshape(100, 3).tolist())})
    pieces = pa.concat_tables([numbers.slice(0, 9), numbers.slice(9)])
    whole, parts = (
        _Table(one, Columns.named(None, "v", ()), None).seed() for one in (numbers, pieces)
    )
    assert whole == parts


def test_categories_of_pieces_need_not_fit_into_one_dictionary():
    """Each piece has a hundred of its own, and numbers of 8 bits have room for 128."""
    names = [[f"shop {number}" for number in range(first, first + 100)] for first in (0, 100)]
    shops = [pa.array(some).dictionary_encode() for some in names]
    kind = pa.dictionary(pa.int8(), pa.string())
    texts = [f"one {number // 2} two {number // 2} three" for number in range(200)]
    table = pa.table(
        {
            "id": range(200),
            "text": texts,
            "shop": pa.chunked_array([some.cast(kind) for some in shops]),
        }
    )
    asked: dict[str, Any] = {"item": "text", "kind": simdb.Text(simdb.WordShingles(1))}
    kept = simdb.dedupe(table, key="id", **asked)
    assert kept["id"].to_pylist() == list(range(0, 200, 2))
    assert kept["shop"].to_pylist() == [f"shop {number}" for number in range(0, 200, 2)]
    assert kept.schema == table.schema
    found = simdb.pairs(table, key="shop", **asked)
    assert set(found["right"].to_pylist()) == {f"shop {number}" for number in range(1, 200, 2)}
    rows = list(rows_of(table, "id", "shop", "shop"))
    assert rows[150] == (150, "shop 150", {"shop": "shop 150"})


def test_the_same_sets_give_the_same_hash_functions_in_any_process():
    """A set comes in an order of its own; NumPy prints long arrays by their ends."""
    columns = Columns.named(None, "v", ())

    def seed(*items: Any) -> int:
        return _Table([{"v": item} for item in items], columns, None).seed()

    assert list({0, 8}) != list({8, 0})
    assert seed({0, 8}, [{0, 8}, "a"]) == seed({8, 0}, [{8, 0}, "a"])
    assert seed({"a": 1, "b": [2]}) == seed({"b": [2], "a": 1})
    assert seed("a", None) == seed("a", float("nan")) == seed("a", pd.NA) != seed("a", "")
    long = np.arange(3_000)
    other = np.where(long == 1_500, 0, long)
    nested: list[Any] = [0]
    nested.append(nested)
    told = [seed(one) for one in ({0, 8}, {0, 9}, [8, 0], [[0], 8], [[0, 8]])]
    told += [seed(one) for one in (long, other, nested, frozenset({0, 8, 9}))]
    assert len(set(told)) == len(told)


@pytest.mark.parametrize("made", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_table_without_rows_may_have_columns_of_no_type(made):
    kept = simdb.dedupe(made({"id": [], "text": []}), item="text", key="id")
    assert len(kept) == 0


def test_intervals_are_in_iso_form():
    spans = [pa.MonthDayNano([14, 3, 5 * 10**8]), pa.MonthDayNano([0, -1, -(10**9)]), None]
    assert [plain(one) for one in spans] == ["P14M3DT0.5S", "P-1DT-1S", None]
    assert plain(pa.MonthDayNano([0, 0, 0])) == "PT0S"


def test_columns_encoded_by_runs_are_read_and_given_back_plain():
    runs = pa.RunEndEncodedArray.from_arrays([2, 3], TEXTS[:2])
    numbers = pa.RunEndEncodedArray.from_arrays([1, 3], [None, 7])
    kept = simdb.dedupe(pa.table({"text": runs, "n": numbers}), item="text", threshold=0.8)
    assert kept.to_pydict() == {"text": TEXTS[:2], "n": [None, 7]}


VIEW = pa.string_view()


def test_a_frame_of_pandas_with_views_gives_back_kept_rows(tmp_path):
    columns = {"text": [*TEXTS[:2], TEXTS[0]], "tags": [["a"], None, []], "n": [1, 2, 3]}
    types = {"text": VIEW, "tags": pa.list_(VIEW), "n": pa.int64()}
    table = pa.table({name: pa.array(columns[name], kind) for name, kind in types.items()})
    frame = table.to_pandas(types_mapper=pd.ArrowDtype).set_index(pd.Index([7, 8, 9]))
    for options in ({}, {"key": "n", "store": tmp_path / "s.simdb"}):
        kept = simdb.dedupe(frame, item="text", **options)
        assert kept.index.tolist() == [7, 8]
        assert kept.text.tolist() == TEXTS[:2]
        assert pa.array(kept.tags).to_pylist() == [["a"], None]
        assert str(kept.text.dtype) == "large_string[pyarrow]"
    assert frame.dtypes.text.pyarrow_dtype == VIEW


def test_a_frame_of_pandas_gives_back_its_columns_by_place_and_as_they_were_if_it_can(tmp_path):
    codes = pa.DictionaryArray.from_arrays(pa.array([0, None, 1]), pa.array(["x", "y"], VIEW))
    runs = pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"])
    both = pa.StructArray.from_arrays([runs], ["r"])
    held = [codes, runs, pa.array(["1", "2", "3"], VIEW), pa.array([1, None, 3]), both]
    columns = [pd.array(one, dtype=pd.ArrowDtype(one.type)) for one in held]
    frame = pd.concat([pd.Series([*TEXTS[:2], TEXTS[0]]), *map(pd.Series, columns)], axis=1)
    frame.columns = ["text", *"accab"]
    frame.index = pd.Index(["i", "j", "i"])
    kept = simdb.dedupe(frame, item="text")
    assert kept.columns.tolist() == ["text", *"accab"]
    assert kept.index.tolist() == ["i", "j"]
    found = [pa.chunked_array(pa.array(kept.iloc[:, place].array)) for place in range(1, 6)]
    told = [codes.type, pa.string(), pa.large_string(), pa.int64(), both.type]
    assert [one.type for one in found] == told
    wanted = [["x", None], ["a", "a"], ["1", "2"], [1, None], [{"r": "a"}] * 2]
    assert [one.to_pylist() for one in found] == wanted


CODES = pa.array(["en", "de", "en"], pa.dictionary(pa.int8(), pa.string()))
RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], pa.int32()), [3, None, 1])


@pytest.mark.parametrize(
    "column",
    [
        RUNS,
        pa.StructArray.from_arrays([RUNS, CODES], ["runs", "codes"]),
        pa.ListArray.from_arrays(
            pa.array([0, 1, 1, 3], pa.int32()),
            pa.StructArray.from_arrays([CODES, RUNS], ["c", "r"]),
        ),
        pa.StructArray.from_arrays([RUNS, pa.array(["a", None, "b"], VIEW)], ["runs", "view"]),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), ["a", None]),
    ],
    ids=["alone", "in a struct", "in a list", "beside a view", "none, but a null in a dictionary"],
)
def test_runs_in_slices_beside_a_dictionary_are_what_they_are(tmp_path, column):
    """pyarrow gives them other values where it casts them, if only to their own type."""
    texts = pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 2, 3], pa.int32()), [*TEXTS[:2], "of three texts the last"]
    )
    whole = pa.table({"id": [1, 2, 3], "lang": CODES, "text": texts, "more": column})
    table = pa.concat_tables([whole.slice(0, 1), whole.slice(1)])
    rows = whole.to_pylist()
    with simdb.open(tmp_path / "x.simdb") as database:
        target = database.collection("c", simdb.Text(), threshold=0.8)
        target.add_many(table, key="id", item="text", metadata=["lang", "more"])
        stored = [
            {"id": one.key, "text": one.item, **(one.metadata or {})} for one in target.items()
        ]
    assert stored == [{name: row[name] for name in stored[0]} for row in rows]
    assert simdb.dedupe(table, item="text", key="id", policy="lang asc").to_pylist() == rows


def test_what_arrow_would_change_of_duckdb_is_text():
    """A number of 128 bits came as -1, bits as bytes, a time without its zone."""
    query = """
        SELECT 'some words of a text' AS text,
            340282366920938463463374607431768211455::UHUGEINT AS "u h",
            '101'::BIT AS b, '10:00:00+02'::TIMETZ AS z, {'a': 1::UHUGEINT} AS s, ['1'::BIT] AS l,
            170141183460469231731687303715884105727::HUGEINT AS h, 'infinity'::DATE AS d, 3 AS n
    """
    kept = simdb.dedupe(duckdb.sql(query), item="text")
    assert kept.columns == ["text", "u h", "b", "z", "s", "l", "h", "d", "n"]
    ((_, *values),) = kept.fetchall()
    large = 2**127 - 1
    told = [str(2**128 - 1), "101", "10:00:00+02", "{'a': 1}", "[1]", large, date.max, 3]
    assert values == told


def test_enums_and_json_of_duckdb_come_back_as_text():
    query = """
        SELECT 'some words of a text' AS text, 'a'::ENUM('a', 'b') AS e, ['b'::ENUM('a', 'b')] AS l,
            {'e': 'a'::ENUM('a', 'b')} AS s, '{"n": 1}'::JSON AS j, ['1'::JSON] AS k
    """
    given: Any = duckdb.sql(query)
    kept = simdb.dedupe(given, item="text")
    shown = ["VARCHAR", "VARCHAR", "VARCHAR[]", "STRUCT(e VARCHAR)", "VARCHAR", "VARCHAR[]"]
    assert list(map(str, kept.types)) == shown
    assert kept.fetchall() == given.fetchall()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[("a", "b")], [("c", "d")], [], None], pa.map_(VIEW, VIEW)),
        pa.array([["a", "b"], ["c", "d"], ["e", "f"], None], pa.list_(VIEW, 2)),
        pa.StructArray.from_arrays(
            [pa.RunEndEncodedArray.from_arrays(pa.array([3, 4], pa.int32()), ["x", "y"])], ["s"]
        ),
    ],
    ids=["map", "list of one length", "run ends in a struct"],
)
def test_rows_are_picked_whatever_a_column_holds(column):
    table = pa.table({"text": TEXTS, "more": column})
    kept = simdb.dedupe(table, item="text")
    assert kept.to_pylist() == table.to_pylist()[:2]
    assert simdb.dedupe(table.slice(0, 0), item="text").to_pylist() == []


def test_objects_of_polars_are_refused():
    """It would give their places in memory, which are bits, too."""
    objects = pl.DataFrame({"id": [1, 2], "h": pl.Series([7, 7], dtype=pl.Object)})
    for call in (simdb.dedupe, simdb.pairs):
        with pytest.raises(simdb.UsageError, match="cannot hold the column 'h' of Object"):
            call(objects, item="h", kind=simdb.Bits(64), max_distance=0)
    assert len(simdb.pairs(objects, item="id", kind=simdb.Bits(64), max_distance=2)) == 1


@pytest.mark.parametrize("made", [list, pa.Table.from_pylist, pd.DataFrame, pl.DataFrame])
def test_columns_of_a_stored_collection_of_records_may_not_be_missing(tmp_path, made):
    path = tmp_path / "s.simdb"
    names = ["name", "phone", "town"]
    kind = simdb.Record([simdb.Field(name) for name in names], candidates=["phone"])
    rows = [{"id": "a", "name": "Ann Lee", "phone": "555", "town": "York", "more": "x"}]
    simdb.dedupe(made(rows), item=names, key="id", kind=kind, threshold=0.9, store=path)
    for wanted in (names[:2], ["name", "phone", "more"]):
        with pytest.raises(simdb.UsageError, match="have the field 'town', which item="):
            simdb.dedupe(made(rows), item=wanted, key="id", store=path)
        with pytest.raises(simdb.UsageError, match="have the field 'town', which item="):
            simdb.pairs(made(rows), item=wanted, key="id", store=path)
    february = made([{**rows[0], "id": "b"}])
    assert not len(simdb.dedupe(february, item=[*names, "more"], key="id", store=path))


def test_tables_in_files_have_all_columns_of_records(tmp_path):
    path, store = tmp_path / "in.parquet", tmp_path / "s.simdb"
    parquet.write_table(pa.table({"id": ["a"], "name": ["Ann"], "phone": ["555"]}), path)
    settings = '{"kind": "record", "fields": ["name", "phone", "town"], "candidates": ["phone"]}'
    done("create", store, "c", "--settings", settings)
    assert "there is no column 'town'" in failed("add", store, "c", path, "--id-field", "id")
    kept = ("dedupe", path, "-o", tmp_path / "kept.parquet", "--id-field", "id")
    assert "there is no column 'town'" in failed(*kept, "--store", store, "--collection", "c")
    # What is searched for need not have all.
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "b", "name": "Ann", "phone": "555", "town": "York"}')
    done("add", store, "c", rows, "--id-field", "id")
    found = done("search", store, "c", "--input", path, "--id-field", "id", "--threshold", "0.1")
    assert "b" in found.stdout.split()


@pytest.mark.parametrize("made", [list, pa.Table.from_pylist, pd.DataFrame, pl.DataFrame])
def test_a_table_is_linked_to_a_collection_by_the_fields_of_its_records(tmp_path, made):
    names = ["name", "phone", "town"]
    kind = simdb.Record([simdb.Field(name) for name in names], candidates=["phone"])
    row = {"id": "a", "name": "Ann Lee", "phone": "555", "town": "York", "more": "x"}
    with simdb.open(tmp_path / "s.simdb") as db:
        stored = db.collection("c", kind, threshold=0.9)
        stored.add("z", {name: row[name] for name in names})
        assert len(simdb.link(stored, made([row]), item=[*names, "more"], key="id")) == 1
        with pytest.raises(simdb.UsageError, match="have the field 'town', which item="):
            simdb.link(stored, made([row]), item=names[:2], key="id")


def test_a_row_that_is_no_dict_is_named():
    for rows, told in ((["a", "b"], "row 0 is str 'a'"), ([{"text": "a"}, 5], "row 1 is int 5")):
        with pytest.raises(simdb.UsageError, match=f"or a list of dicts, but {told}"):
            simdb.dedupe(rows, item="text")
