"""Rows that are compared whole: only equal ones have one form."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from simdb.kinds.whole import whole_row


def form_of(value: Any, form: Any = "as given") -> list[str]:
    return whole_row({"a": value}, ["a"], form)


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
    ("one", "other"), [(1, "1"), (2.5, "2.5"), (True, "true"), (None, ""), (7.0, "7")]
)
def test_as_texts_values_are_what_writes_them(one, other):
    assert form_of(one, "as texts") == form_of(other, "as texts")
    assert form_of(one) != form_of(other)


def test_columns_are_told_apart_by_their_names():
    names = ["a", "b"]
    first = whole_row({"a": "x"}, names, "as given")
    assert first == whole_row({"a": "x", "b": None}, names, "as given")
    assert first != whole_row({"b": "x"}, names, "as given")
