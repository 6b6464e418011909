"""Rows that are compared whole: only equal ones have one form."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

from simdb.kinds.whole import whole_row, whole_rows


def form_of(value: Any, form: Any = "as given") -> list[str]:
    return whole_row({"a": value}, {"a": form})


VALUES = [None, "", "null", "None", 1, "1", 1.5, True, False, "true", [1], ["1"], [[1]], {"x": 1},
          {"x": None}, {}, [], b"1", "[1]", date(2024, 1, 1)]  # fmt: skip


def test_unequal_values_have_forms_of_their_own():
    assert len({tuple(form_of(value)) for value in VALUES}) == len(VALUES)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), ([1.0, {"y": -0.0}], [1, {"y": 0}]), ({"a": 1, "b": 2}, {"b": 2, "a": 1})],
)
def test_equal_values_have_one_form(one, other):
    assert form_of(one) == form_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *((1, "1"), (2.5, "2.5"), (True, "true"), (None, ""), (7.0, "7")),
        ("2024-01-01T00:00:00", "2024-01-01"),
        (datetime(2024, 1, 1), date(2024, 1, 1)),
    ],
)
def test_as_texts_values_are_what_writes_them(one, other):
    assert form_of(one, "as texts") == form_of(other, "as texts")
    assert form_of(one) != form_of(other)


def test_as_texts_times_of_day_are_no_dates():
    times = [
        "2024-01-01T10:00:00",
        "2024-01-01T00:00:01",
        "2024-01-01T00:00:00+01:00",
        "2024-01-01",
    ]
    assert len({tuple(form_of(one, "as texts")) for one in times}) == len(times)


def test_columns_are_told_apart_by_their_names():
    forms = whole_rows(["a", "b"], [])
    first = whole_row({"a": "x"}, forms)
    assert first == whole_row({"a": "x", "b": None}, forms)
    assert first != whole_row({"b": "x"}, forms)


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "1.0"), (1.5, "1.50"), (0, "-0.0"), (0.1, "0.10"), (2**60, f"{2**60}.0"), (-3.0, "-3.00"),
     (1e-5, "0.00001"), (7, "7"), (1e22, "1e+22"), (-1.5e300, "-1.5e+300"), (1e-07, "1e-07")],
)  # fmt: skip
def test_as_numbers_decimal_fractions_are_the_numbers_that_they_write(number, text):
    assert form_of(number, "as numbers") == form_of(text, "as numbers")


def test_as_numbers_codes_stay_as_they_are():
    codes = ["1", "01", "01.0", "+1.0", "1.", ".5", "0.5", "1.0.0", "1,0", " 1.0", "1.5\n", "1.5",
             "1e0", "1e+00", "1E+22", "1e+022", "1e+999", "1_0.0", "\u0661.\u0660", "-", "NaN",
             "12345678901234567890.5", "12345678901234567891.5"]  # fmt: skip
    assert len({tuple(form_of(code, "as numbers")) for code in codes}) == len(codes)


def test_texts_are_numbers_only_beside_a_column_of_numbers_alone():
    numbers: list[dict[str, Any]] = [{"a": 1}, {"a": None}, {}, {"a": 2.5}]
    texts: list[dict[str, Any]] = [{"a": "1.0"}, {"a": "1"}]
    assert whole_rows(["a"], numbers) == {"a": "as given"}
    assert whole_rows(["a"], texts, numbers) == whole_rows(["a"], numbers, texts)
    assert whole_rows(["a"], texts, numbers) == {"a": "as numbers"}
    others: list[list[dict[str, Any]]] = [texts, [*numbers, *texts], [{"a": None}], [{"a": True}]]
    for other in others:
        assert whole_rows(["a"], texts, other) == {"a": "as texts"}
