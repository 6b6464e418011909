"""Ratings as sets and bags (MMDS 3.1.3), and files of ratings."""

from __future__ import annotations

import csv
import gzip
import io
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdb
from simdb.errors import BadItemError, ConfigurationError
from simdb.files import open_rows
from simdb.files.rows import ReadingOptions, Row
from simdb.files.separated import treatment_from
from simdb.kinds.ratings import (
    Liked,
    LikedOrHated,
    Stars,
    Treatment,
    bags_of_stars,
    sets_of_liked,
    sets_of_liked_or_hated,
)

RATINGS = [
    ("ann", "Alien", 5),
    ("ann", "Brazil", 1),
    ("bob", "Alien", 4),
    ("ann", "Casablanca", 3),
    ("bob", "Casablanca", 2),
    ("cas", "Brazil", 2),
]

tables = st.dictionaries(
    st.tuples(st.sampled_from("uvw"), st.sampled_from("abcd")), st.integers(0, 5)
).map(lambda table: [(user, item, stars) for (user, item), stars in table.items()])


# The three ways of 3.1.3.


def test_the_first_way_ignores_low_ratings():
    assert sets_of_liked(RATINGS) == {"ann": {"Alien"}, "bob": {"Alien"}, "cas": set()}
    assert sets_of_liked(RATINGS, least=3)["ann"] == {"Alien", "Casablanca"}
    assert sets_of_liked(RATINGS, by="item") == {
        "Alien": {"ann", "bob"},
        "Brazil": set(),
        "Casablanca": set(),
    }


def test_the_second_way_makes_two_elements_of_every_movie():
    assert sets_of_liked_or_hated(RATINGS) == {
        "ann": {"liked Alien", "hated Brazil"},
        "bob": {"liked Alien", "hated Casablanca"},
        "cas": {"hated Brazil"},
    }
    assert sets_of_liked_or_hated(RATINGS, liked=3, hated=1, by="item") == {
        "Alien": {"liked ann", "liked bob"},
        "Brazil": {"hated ann"},
        "Casablanca": {"liked ann"},
    }


def test_the_third_way_puts_a_movie_in_a_bag_once_a_star():
    assert bags_of_stars(RATINGS)["ann"] == Counter({"Alien": 5, "Casablanca": 3, "Brazil": 1})
    assert bags_of_stars(RATINGS, by="item")["Casablanca"] == Counter(ann=3, bob=2)
    assert bags_of_stars([("ann", "Alien", 0)]) == {"ann": Counter()}


@given(tables, st.integers(0, 5), st.sampled_from(["user", "item"]))
def test_every_way_is_what_counting_gives(table, least, by):
    turned = [(u, i, r) if by == "user" else (i, u, r) for u, i, r in table]
    keys = dict.fromkeys(key for key, _, _ in turned)
    assert list(bags_of_stars(table, by=by)) == list(keys)
    assert sets_of_liked(table, least=least, by=by) == {
        key: {e for k, e, r in turned if k == key and r >= least} for key in keys
    }
    assert bags_of_stars(table, by=by) == {
        key: Counter(e for k, e, r in turned if k == key for _ in range(r)) for key in keys
    }
    assert sets_of_liked_or_hated(table, liked=least, hated=least - 1, by=by) == {
        key: {("liked " if r >= least else "hated ") + e for k, e, r in turned if k == key}
        for key in keys
    }


def test_numbers_of_every_class_are_ratings_and_whole_numbers_are_keys():
    numbers: list[Any] = [4, 4.0, Fraction(9, 2), Decimal("4.5"), np.float32(4.5), np.int8(5)]
    table: list[Any] = [(np.int64(7), number, rating) for number, rating in enumerate(numbers)]
    liked = sets_of_liked(table)
    assert liked == {7: set(range(6))}
    assert {type(name) for name in [*liked, *liked[7]]} == {int}
    assert bags_of_stars([(1, 2, 3.0)]) == {1: {2: 3}}


@pytest.mark.parametrize(
    ("row", "part"),
    [
        (("ann", "Alien", 1), "'ann' and 'Alien' already have a rating"),
        (("ann", 5, 1), "must be all texts or all whole numbers, but 5 differs"),
        (("ann", None, 1), "must be text or a whole number, not NoneType"),
        ((True, "Dune", 1), "not bool"),
        ((1.5, "Dune", 1), "not float"),
        (("ann", "Dune", "4"), "a rating must be a number, not '4'"),
        (("ann", "Dune", float("nan")), "a rating must be a number, not nan"),
        (("ann", "Dune", None), "a rating must be a number"),
        (("ann", "Dune", 10**400), "a rating must be a number"),
        (("ann", "Dune", np.timedelta64(4, "s")), "a rating must be a number"),
        (("ann", "Dune", True), "a rating must be a number"),
        (("ann", "Dune"), "a rating is a user, an item and a number, not ('ann', 'Dune')"),
        (("ann", "Dune", 4, 1), "a rating is a user, an item and a number"),
        (7, "a rating is a user, an item and a number, not 7"),
        (("ann", "Dune", 3.5), "must be a whole number from 0 on, not 3.5: multiply half stars"),
        (("ann", "Dune", -1), "must be a whole number from 0 on, not -1"),
    ],
)
def test_a_bad_rating_is_refused_with_its_row(row, part):
    with pytest.raises(BadItemError) as refused:
        bags_of_stars([*RATINGS, row])
    assert str(refused.value).startswith("row 6: ")
    assert part in str(refused.value)
    assert refused.value.row == 6


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"liked": 2, "hated": 2}, "hated must be below liked"),
        ({"liked": float("nan")}, "LikedOrHated.liked must be a number"),
        ({"hated": "2"}, "LikedOrHated.hated must be a number, not '2'"),
        ({"by": "film"}, "by must be 'user' or 'item', not 'film'"),
    ],
)
def test_bad_settings_are_refused(settings, part):
    with pytest.raises(ConfigurationError, match=part):
        sets_of_liked_or_hated(RATINGS, **settings)


# Files.


def rows_of(path: Any, content: bytes, treatment: Treatment, **options: Any) -> list[Row]:
    path.write_bytes(content)
    options.setdefault("id_field", "user")
    options.setdefault("text_fields", ("item",))
    options.setdefault("kind", simdb.Bag() if isinstance(treatment, Stars) else simdb.Set())
    with open_rows(str(path), ReadingOptions(ratings=treatment, **options)) as reader:
        return list(reader)


CONTENT = b"user,item,rating,when\r\nann,7,5,x\r\nbob,7,4,x\r\nann,9,1,x\r\nann,8,3.5,y"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ratings.csv"


def test_a_file_of_ratings_is_a_set_a_user(path):
    assert rows_of(path, CONTENT, Liked(Fraction(7, 2))) == [
        Row(2, "ann", [7, 8], None, b"ann,7,5,x\r\nann,9,1,x\r\nann,8,3.5,y\n"),
        Row(3, "bob", [7], None, b"bob,7,4,x\r\n"),
    ]


def test_a_file_of_ratings_is_a_set_a_movie_under_other_fields(path):
    (seven, nine, eight) = rows_of(
        path,
        CONTENT,
        LikedOrHated(),
        id_field="item",
        text_fields=("user",),
        integer_keys=True,
    )
    assert (seven.key, seven.item) == (7, ["liked ann", "liked bob"])
    assert (nine.key, nine.item, eight.key, eight.item) == (9, ["hated ann"], 8, [])


def test_stars_of_a_file_are_counts_and_bad_rows_are_told_with_their_lines(path):
    content = CONTENT + b"\nann,7,2,x\nann,x,1,x\nbob,9,many,x\nbob,10\n\ncas,7,-1,x\ncas,1,0,\n"
    rows = rows_of(path, content, Stars())
    problems = [(row.line, row.problem) for row in rows if row.problem is not None]
    assert [line for line, _ in problems] == [5, 6, 7, 8, 9, 11]
    assert [row.item for row in rows if row.problem is not None] == [None] * 6
    for (_, problem), part in zip(
        problems,
        [
            "must be a whole number from 0 on",
            "'ann' and 7 already have a rating",
            "the element 'x' is not a whole number",
            "the rating 'many' is not a number",
            "2 fields, but the header has 4",
            "must be a whole number from 0 on",
        ],
        strict=True,
    ):
        assert part in (problem or "")
    assert [(row.key, row.item) for row in rows if row.problem is None] == [
        ("ann", {7: 5, 9: 1}),
        ("bob", {7: 4}),
        ("cas", {}),
    ]


def test_elements_can_be_told_to_be_strings(path):
    (ann, _) = rows_of(path, CONTENT, Liked(4), elements="strings")
    assert ann.item == ["7"]


def test_the_raw_bytes_of_a_row_are_a_file_of_its_ratings_and_fields_tell_them(path):
    options = ReadingOptions(
        id_field="user", text_fields=("item",), kind=simdb.Set(), ratings=Liked(4), format="csv"
    )
    packed = path.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(CONTENT))
    with open_rows(str(packed), options) as reader:
        ann, bob = reader
        assert reader.preamble == b"user,item,rating,when\r\n"
        assert reader.header == ("user", "item", "rating", "when")
        assert reader.fields(bob.raw) == {
            "ratings": [{"user": "bob", "item": "7", "rating": "4", "when": "x"}]
        }
        assert len(reader.fields(ann.raw)["ratings"]) == 3
        assert reader.bytes_read == reader.bytes_total == packed.stat().st_size
        kept = list(csv.DictReader(io.StringIO((reader.preamble + ann.raw).decode())))
    assert [row["item"] for row in kept] == ["7", "9", "8"]


def test_the_rating_has_a_field_of_any_name_and_must_have_one(path):
    content = CONTENT.replace(b"rating", b"stars")
    assert len(rows_of(path, content, Liked(4), rating_field="stars")) == 2
    assert {row.problem for row in rows_of(path, content, Liked(4))} == {
        "the field 'rating' is missing"
    }


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"kind": simdb.Bag()}, "ratings as Liked make sets, not bags"),
        ({"kind": simdb.Text()}, "ratings as Liked make sets, not texts"),
        ({"ratings": Stars()}, "ratings as Stars make bags, not sets"),
        ({"format": "jsonl"}, "read from CSV, not from jsonl"),
        ({"id_field": None}, "three different fields"),
        ({"rating_field": "item"}, "three different fields"),
        ({"text_fields": ("item", "when")}, "three different fields"),
    ],
)
def test_options_that_ratings_do_not_go_with_are_refused(options, part):
    given_options: dict[str, Any] = {
        "kind": simdb.Set(),
        "id_field": "user",
        "text_fields": ("item",),
        "ratings": Liked(4),
    }
    with pytest.raises(ConfigurationError, match=part):
        ReadingOptions(**{**given_options, **options})


def test_ways_are_spelled_on_the_command_line():
    assert treatment_from("liked:4") == Liked(Fraction(4))
    assert treatment_from("liked:3.5") == Liked(Fraction(7, 2))
    assert treatment_from("liked-hated:4,2") == LikedOrHated(Fraction(4), Fraction(2))
    assert treatment_from("stars") == Stars()
    for text in ("liked", "liked:", "liked:x", "liked:4,2", "liked-hated:4", "stars:5", "", "4"):
        with pytest.raises(ConfigurationError, match="'liked:LEAST', 'liked-hated"):
            treatment_from(text)
    with pytest.raises(ConfigurationError, match="hated must be below"):
        treatment_from("liked-hated:2,4")
