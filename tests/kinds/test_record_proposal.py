"""Settings of records are proposed by what columns hold, and refused where nothing fits."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import simdb

NAMES = ["ann", "bob", "cleo", "dora", "emil", "fritz", "gustav", "hanna"]


_DAYS = np.datetime64("2000-01-01") + np.arange(99)


def row(number: int) -> dict[str, object]:
    name = "".join(NAMES[number // 8**place % 8] for place in range(3))
    return {
        "name": name,
        "title": f"on {name} and the {name[::-1]} of all {number}",
        "street": f"{number} {name} road",
        "phone": f"(0{number % 7}) {number * 7919:07d}",
        "born": datetime.date(2000, 1, 1) + datetime.timedelta(number),
        "year": 1900 + number % 100,
        "price": f"{number % 90}.5" if number else "n/a",
        "state": ["nsw", "vic"][number % 2],
        "empty": None,
        "same": "x",
        "left only" if number < 100 else "right only": 1,
    }


LEFT, RIGHT = [row(number) for number in range(100)], [row(number) for number in range(100, 200)]


def test_a_column_is_compared_by_what_it_holds_and_has_a_rule_that_is_not_too_large():
    found = simdb.propose_record(LEFT, [*RIGHT, *LEFT[:50]], rows=(1_000, 1_000))
    assert {field.name: field.compare for field in found.kind.fields} == {
        "name": "jaro-winkler",
        "title": "cosine",
        "street": "levenshtein",
        "phone": "levenshtein",
        "born": "date",
        "year": "numeric",
        "price": "numeric",
        "state": "exact",
    }
    assert found.reasons["price"] == "numbers; 2 other values are missing ones"
    assert found.left_out == {
        "empty": "has no value in the left and the right table",
        "same": "is the same everywhere",
        "left only": "is the same everywhere",
        "right only": "is only in the right table",
    }
    assert {"phone", "born"} <= found.pairs.keys()
    assert "state" not in found.pairs  # half of all pairs
    assert all(0 < pairs <= 40_000 for pairs in found.pairs.values())
    assert list(found.pairs) == [" and ".join(map(str, rule)) for rule in found.kind.rules]


def test_a_column_whose_name_differs_in_case_or_blanks_is_told_beside_the_other():
    left = [{"name": f"ann {n}", "Town": f"t{n}", "Zip": n, "zip": n} for n in range(40)]
    right = [{"name": f"ann {n}", "town ": f"t{n}", "zip": n} for n in range(40)]
    assert simdb.propose_record(left, right).left_out == {
        "Town": "is only in the left table; the right one has 'town ': rename one",
        "Zip": "is only in the left table",
        "town ": "is only in the right table",
    }


def test_an_error_has_the_columns_that_it_does_not_name():
    left: list[dict[str, Any]] = [{"a": 1, "same": "x", "b": 2}]
    right: list[dict[str, Any]] = [{"a": 9999, "same": "x", "c": 3}]
    with pytest.raises(simdb.NothingAlikeError, match="no two rows agree in any column") as caught:
        simdb.propose_record(left, right)
    assert [*caught.value.left_out] == ["same", "b", "c"]
    for rows in left, right:
        del rows[0]["a"]
    with pytest.raises(simdb.NothingAlikeError, match=r"'same' is the same everywhere$") as caught:
        simdb.propose_record(left, right)
    assert [*caught.value.left_out] == ["b", "c"]


@pytest.mark.parametrize("infinite", ["inf", "-Infinity"])
def test_infinite_numbers_of_a_column_are_missing_ones(infinite):
    rows = [{**row(number), "size": number / 7 if number % 4 else infinite} for number in range(99)]
    found = simdb.propose_record(rows, rows)
    assert found.kind.fields[-1].compare == "numeric"
    assert found.reasons["size"] == "numbers; 50 other values are missing ones"
    bad = [{**row(number), "size": [math.inf, -math.inf][number % 2]} for number in range(99)]
    with pytest.raises(simdb.BadItemError, match=r"'size' is -?inf, not a number; use None"):
        simdb.propose_record(bad)
    # Where others can be stored, it is told when they are.
    some = [{**row(number), "size": [math.inf, number][number % 2]} for number in range(99)]
    assert simdb.propose_record(some).pairs == simdb.propose_record(some[1::2], rows=(99,)).pairs


@pytest.mark.parametrize("day", [datetime.date.isoformat, lambda day: day])
def test_dates_with_and_without_a_time_are_compared_as_dates(day):
    """As those of pandas and of a file are."""

    def field_of(left: Sequence[object], right: Sequence[object]) -> simdb.Field:
        tables = [
            [{"born": value, "n": n} for n, value in enumerate(side)] for side in (left, right)
        ]
        (field,) = (one for one in simdb.propose_record(*tables).kind.fields if one.name == "born")
        return field

    days = [datetime.date(2000, 1, 1) + datetime.timedelta(number) for number in range(50)]
    plain = list(map(day, days))
    timed = [f"{one.isoformat()}T00:00:00" for one in days]
    found = field_of(timed, plain)
    assert (found.compare, found.invalid) == ("date", "missing")
    assert field_of(timed, timed).compare == "levenshtein"
    assert field_of([*timed, "2000-01-01T10:00:00"], list(map(str, days))).compare != "date"


def test_texts_of_columns_of_dates_are_compared_as_dates():
    days = [datetime.date(2000, 1, 1) + datetime.timedelta(number) for number in range(50)]
    texts = list(map(str, days))

    def compared(*sides: Sequence[object], **named: Any) -> str:
        tables = [[{"born": value, "n": n} for n, value in enumerate(side)] for side in sides]
        fields = simdb.propose_record(*tables, **named).kind.fields
        return next(field.compare for field in fields if field.name == "born")

    assert compared(texts) == "levenshtein"
    assert compared(texts, dates=["born"]) == "date"
    assert compared(days, texts) == compared(texts, days) == "date"
    assert compared([*texts, "10000-01-01"], dates=["born"]) == "levenshtein"


def test_few_other_values_among_dates_are_missing_ones():
    days: list[object] = [datetime.date(2000, 1, 1) + datetime.timedelta(n) for n in range(99)]
    rows = [{"name": f"name {n // 2}", "born": day} for n, day in enumerate([*days, "unknown"])]
    found = simdb.propose_record(rows)
    assert found.kind.fields[-1].compare == "date"
    assert found.reasons["born"] == "dates; 1 other values are missing ones"
    for row in rows[:20]:
        row["born"] = "unknown"
    with pytest.raises(simdb.ConfigurationError, match="'born' has both dates and other values"):
        simdb.propose_record(rows)


def test_few_dates_among_numbers_are_missing_ones():
    rows = [{"name": f"name {n // 2}", "size": n / 7} for n in range(99)]
    rows[3]["size"] = datetime.date(2000, 1, 1)
    found = simdb.propose_record(rows)
    assert found.reasons["size"] == "numbers; 1 other values are missing ones"


@pytest.mark.parametrize("value", [7, datetime.date(2000, 1, 1)])
def test_a_column_of_numbers_or_dates_is_one_in_either_table_or_is_none(value):
    """By both together, all texts of a small table would be missing ones."""

    def table(count: int, value: object) -> list[dict[str, object]]:
        return [{"name": f"name {n // 2}", "other": value} for n in range(count)]

    many, few = table(99, value), table(4, "some road")
    for row in many[::2]:
        row["other"] = type(value)(8) if isinstance(value, int) else datetime.date(2001, 1, 1)
    for left, right in [(many, few), (few, many)]:
        if isinstance(value, int):
            found = simdb.propose_record(left, right)
            assert found.reasons["other"] == "short texts"
        else:
            with pytest.raises(simdb.ConfigurationError, match="'other' has both dates and other"):
                simdb.propose_record(left, right)


@pytest.mark.parametrize("value", [7, datetime.date(2000, 1, 1)])
def test_an_odd_value_of_a_small_table_is_a_missing_one(value):
    others = [8 if isinstance(value, int) else datetime.date(2000, 1, day) for day in range(1, 29)]
    left = [{"name": f"name {n // 2}", "other": [value, *others][n % 29]} for n in range(99)]
    right = [*left[:9], {"name": "name 5", "other": "unknown"}]
    for one, other in [(left, right), (right, left)]:
        found = simdb.propose_record(one, other)
        assert found.kind.fields[-1].compare == ("numeric" if isinstance(value, int) else "date")


@pytest.mark.parametrize("nothing", [np.datetime64("NaT", "D"), pd.NA, pd.NaT])
def test_what_stands_for_nothing_does_not_say_what_a_column_holds(nothing):
    rows = [{"name": f"name {n // 2}", "other": nothing} for n in range(99)]
    assert simdb.propose_record(rows).left_out == {"other": "has no value"}


@pytest.mark.parametrize(
    "value",
    [
        *({1}, (1, 2), object(), bytearray(b"a"), 1j, True),
        *(datetime.timedelta(1), datetime.time(1), np.timedelta64(1, "D")),
        *(np.bool_(True), np.arange(2), np.datetime64("2000-01-01", "ns")),
    ],
)
def test_columns_of_what_no_field_may_have_are_left_out(value):
    rows = [{"name": f"name {n // 2}", "other": value if n else "a"} for n in range(99)]
    found = simdb.propose_record(rows)
    assert found.left_out["other"].startswith("holds what is neither a text, a number nor a date")
    rows = [
        {"name": f"name {n // 2}", "other": value if n == 7 else f"{n} road"} for n in range(99)
    ]
    assert "date: 1 of 99 values, such as " in simdb.propose_record(rows).left_out["other"]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (np.uint64(2**63), "the field 'other' is 9223372036854775808, beyond 64 bits; give a"),
        ("\xe9" * 32_768, "the field 'other' has 65,536 bytes in UTF-8, more than the 65,535"),
        ("a\ud800b", "the field 'other' holds half a surrogate pair, U\\+D800, at position 1"),
    ],
)
def test_a_column_of_numbers_or_texts_that_no_record_can_hold_is_left_out(value, why):
    """Where few are, their rows are bad ones."""

    def rows(count: int) -> list[dict[str, object]]:
        return [{"name": f"n {n}", "other": value if n < count else f"{n} a"} for n in range(40)]

    told = simdb.propose_record(rows(5), rows(0)).left_out["other"]
    assert re.match(f"holds what no record can: 5 of 80 values; {why}", told)
    assert "other" in simdb.propose_record(rows(4), rows(0)).reasons
    with pytest.raises(simdb.BadItemError, match=f"the left table: row 0: {why}"):
        simdb.link(rows(4), rows(0), item=["name", "other"])


def test_few_fractional_numbers_among_texts_are_missing_ones(tmp_path):
    rows: list[dict[str, Any]]
    rows = [{"name": f"name {n // 2}", "other": f"{n} road"} for n in range(99)]
    rows[3]["other"] = 3.5
    found = simdb.propose_record(rows)
    assert found.reasons["other"] == "short texts; 1 other values are missing ones"
    with simdb.open(tmp_path / "s") as database:
        assert database.collection("c", found.kind).add_many(enumerate(rows)).added == 99


def test_what_does_not_fit_is_a_missing_value_in_rows_that_were_not_looked_at_too(tmp_path):
    rows: list[dict[str, Any]] = [row(number) for number in range(200)]
    kind = simdb.propose_record(rows, rows).kind
    held = [
        {"name": 3.5, "title": 3.5, "street": 3.5, "phone": 3.5, "state": 3.5},
        {"born": "unknown", "year": "unknown", "price": "unknown"},
    ]
    with simdb.open(tmp_path / "s") as database:
        collection = database.collection("c", kind)
        assert collection.add_many(enumerate(held)).added == 2
        assert [collection.get(number).item for number in range(2)] == held


def test_numbers_and_days_of_numpy_are_like_those_of_python():
    rows = [{"name": f"name {n // 2}", "n": np.int16(n * n), "day": _DAYS[n]} for n in range(99)]
    found = simdb.propose_record(rows)
    assert [field.compare for field in found.kind.fields] == ["levenshtein", "numeric", "date"]


def test_a_whole_number_beyond_all_floats_is_told_as_one_beyond_64_bits():
    for beyond in (10**400, -(10**400)):
        rows = [{"n": n or beyond, "x": f"x{n}"} for n in range(40)]
        assert simdb.propose_record(rows, rows).kind.fields[0].compare == "numeric"
        with pytest.raises(simdb.BadItemError, match="beyond 64 bits"):
            simdb.link(rows, rows, item=["n", "x"])


def test_what_is_given_overrules_the_proposal():
    field = simdb.Field("year", compare="numeric", tolerance=3)
    found = simdb.propose_record(LEFT, LEFT, fields=[field], candidates=["phone"])
    assert found.kind.fields[5] == field
    assert found.kind.rules == ((simdb.Equal("phone"),),)


@pytest.mark.parametrize(
    ("right", "named", "problem"),
    [
        ([{"other": "a"}], {}, "the tables share no column to compare$"),
        (
            [{" NAME": "a"}],
            {},
            "share no column to compare; the left one has 'name', the right one ' NAME': rename",
        ),
        (
            [{"empty": "a", "same": "x"}],
            {},
            "^no column of both tables tells rows apart: 'empty' has no value in the left table; "
            "'same' is the same everywhere$",
        ),
        (RIGHT, {"fields": [simdb.Field("age")]}, "both tables have no column 'age'; they share"),
        ([{"state": "nsw"}] * 99 + [{"state": "vic"}], {}, "no rule proposes some pairs"),
        (
            [{"price": 0.5}, {"price": "x"}] * 20,
            {},
            "'price' has both texts and fractional numbers",
        ),
        (
            [{"state": 0.5}],  # which would be missing in all rows of one table
            {},
            "'state' has both texts and fractional numbers",
        ),
    ],
)
def test_what_cannot_be_proposed_is_said(right, named, problem):
    with pytest.raises(simdb.ConfigurationError, match=problem):
        simdb.propose_record(LEFT, right, **named)


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ({"rows": "x"}, "rows must be two whole numbers in a tuple"),
        ({"rows": 3}, "rows must be two whole numbers"),
        ({"rows": (3,)}, "rows must be two whole numbers"),
        ({"rows": (3, -1)}, "rows must be two whole numbers"),
        ({"fields": "name"}, "fields must be an iterable of Field, not one text"),
        ({"fields": ["name"]}, "fields must be Field objects, not str 'name'"),
        ({"fields": [simdb.Field("name")] * 2}, "fields has the field 'name' twice"),
    ],
)
def test_arguments_that_cannot_be_are_refused(named, problem):
    with pytest.raises(simdb.UsageError, match=problem):
        simdb.propose_record(LEFT, RIGHT, **named)


def test_frames_are_told_how_they_become_dicts() -> None:
    rows: Any = [{"id": "a", "name": "x"}, {"id": "b", "name": "y"}]
    frames: Any = [
        (pd.DataFrame(rows), r'DataFrame: frame.to_dict\("records"\)'),
        (pl.DataFrame(rows), r"DataFrame: frame.to_dicts\(\)"),
        (pa.Table.from_pylist(rows), r"Table: table.to_pylist\(\)"),
    ]
    for frame, told in frames:
        with pytest.raises(simdb.WrongTypeError, match=f"must be a list of dicts, not {told}"):
            simdb.propose_record(rows, frame)
    wrong: Any = ["b"]
    with pytest.raises(simdb.BadItemError, match="row 2 must be a mapping of field names"):
        simdb.propose_record([*rows, *wrong])


@pytest.mark.parametrize("name", ["dates", "candidates", "fields"])
@pytest.mark.parametrize("wrong", [None, 5, "born"])
def test_what_is_no_list_of_names_rules_or_fields_is_told(name, wrong):
    rows = [{"name": f"name {number}", "born": 1900 + number} for number in range(60)]
    with pytest.raises(simdb.WrongTypeError, match=f"{name} must be an iterable of"):
        simdb.propose_record(rows, **{name: wrong})
