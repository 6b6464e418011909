"""Points of records against a slow twin that compares one pair of values after the other."""

from __future__ import annotations

import datetime
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdb
from simdb.kinds import distances as strings
from simdb.kinds.records import Field, Record
from simdb.kinds.records import items as records_module
from simdb.kinds.records.items import RecordItems, RecordMeasure
from tests.kinds.test_record_strings import slow_distance
from tests.support.grids import grid

GROUPS = (("bill", "william", "will"), ("ann", "anna lee"))
SETTINGS = Record(
    fields=(
        Field("edit", 60, tolerance=6, equivalents=GROUPS),
        Field("levenshtein", 33, "levenshtein", tolerance=4, missing="ignore"),
        Field("alignment", 7, "alignment", tolerance=3, missing=3),
        Field("words", 70, "words", equivalents=GROUPS, missing="ignore"),
        Field("exact", 50, "exact", equivalents=GROUPS),
        Field("number", 90, "numeric", tolerance=2.5, missing="ignore"),
        Field("date", 45, "date", tolerance=30),
        Field("unscored", 0),
    )
)
ITEMS, COMPARING = RecordItems(SETTINGS), RecordMeasure(SETTINGS)
WORDS = ["bill", "william", "will", "ann", "anna", "lee", "bob", "b", "ab", "ba"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)
records = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("edit", "levenshtein", "alignment", "words", "exact"), TEXTS),
        "number": st.integers(0, 5) | st.floats(0, 5),
        "date": st.dates(datetime.date(2001, 1, 1), datetime.date(2001, 3, 1)),
        "unscored": TEXTS,
    },
)


def replaced(text: str) -> str:
    for group in GROUPS:
        for other in sorted(group[1:], key=len, reverse=True):
            text = f" {text} ".replace(f" {other} ", f" {group[0]} ").strip()
            text = f" {text} ".replace(f" {other} ", f" {group[0]} ").strip()
    return text


def slow_points(field: Field, one: Any, other: Any) -> int | None:
    """The hundredths of one field, by its definition; None if it is missing."""
    if one in (None, "") or other in (None, ""):
        return None
    full = 100 * field.weight
    if field.compare == "words":
        left, right = set(replaced(one).split()), set(replaced(other).split())
        return full * len(left & right) // len(left | right)
    if field.compare == "numeric":
        apart = abs(Fraction(str(one)) - Fraction(str(other))) / Fraction(str(field.tolerance))
        return math.floor(full * max(Fraction(0), 1 - apart**2))
    if field.compare == "date":
        distance = abs((one - other).days)
    elif field.compare == "exact":
        equivalent = replaced(one) == replaced(other)
        distance = 0 if one == other else 1 if equivalent else field.tolerance
    else:
        edits = {
            "mutations": field.compare != "edit",
            "transpositions": field.compare == "alignment",
        }
        distance = slow_distance(one, other, **edits)
        if field.equivalents and one != other:
            distance = min(distance, slow_distance(replaced(one), replaced(other), **edits) + 1)
    exact = 1 - Fraction(distance**2, int(field.tolerance) ** 2)
    return math.floor(full * max(exact, Fraction(0)))


def slow_compared(one: dict[str, Any], other: dict[str, Any]) -> tuple[int, int]:
    points, whole = 0, 0
    for field in SETTINGS.fields:
        given = slow_points(field, one.get(field.name), other.get(field.name))
        if given is None and field.missing == "ignore":
            continue
        points += 100 * int(field.missing) if given is None else given
        whole += 100 * field.weight
    return points, whole


@given(st.lists(records, min_size=1, max_size=8), st.lists(records, min_size=1, max_size=8))
def test_points_are_those_of_the_definition(ones, others):
    features = [ITEMS.features([ITEMS.encode(row) for row in rows]) for rows in (ones, others)]
    left, right = (part.ravel() for part in np.indices((len(ones), len(others))))
    between = COMPARING.compare_between(features[0], features[1], left, right)
    expected = [slow_compared(one, other) for one in ones for other in others]
    assert list(zip(between.numerators.tolist(), between.denominators.tolist(), strict=True)) == (
        expected
    )
    assert between.numerators.dtype == between.denominators.dtype == np.int64
    probe = ITEMS.features([ITEMS.encode(ones[0])])
    alone = COMPARING.compare_probe(probe, features[1])
    assert alone.numerators.tolist() == [points for points, _ in expected[: len(others)]]
    assert alone.denominators.tolist() == [whole for _, whole in expected[: len(others)]]


@given(st.lists(records, min_size=2, max_size=8))
def test_within_one_batch_a_record_equals_itself_and_order_does_not_matter(rows):
    features = ITEMS.features([ITEMS.encode(row) for row in rows])
    left, right = (part.ravel() for part in np.indices((len(rows), len(rows))))
    one = COMPARING.compare_pairs(features, left, right)
    other = COMPARING.compare_pairs(features, right, left)
    assert one.numerators.tolist() == other.numerators.tolist()
    assert one.denominators.tolist() == other.denominators.tolist()
    expected = [slow_compared(rows[i], rows[j]) for i, j in zip(left, right, strict=True)]
    assert one.numerators.tolist() == [points for points, _ in expected]


def compared(settings: Record, one: dict[str, Any], other: dict[str, Any]) -> tuple[int, int]:
    items = RecordItems(settings)
    features = items.features([items.encode(one), items.encode(other)])
    found = RecordMeasure(settings).compare_pairs(features, np.array([0]), np.array([1]))
    return int(found.numerators[0]), int(found.denominators[0])


@pytest.mark.parametrize(
    ("missing", "expected"),
    [(0, (10_000, 20_000)), (40, (14_000, 20_000)), ("ignore", (10_000, 10_000))],
)
@pytest.mark.parametrize("other", [{"a": "x"}, {"a": "x", "b": None}, {"a": "x", "b": " "}])
@pytest.mark.parametrize("one", [{"a": "x", "b": "y"}, {"a": "x"}])
def test_a_missing_field_counts_what_the_settings_say(missing, expected, one, other):
    settings = Record([Field("a"), Field("b", missing=missing)])
    assert compared(settings, one, other) == expected


def test_records_without_a_common_field_are_not_similar_when_missing_is_ignored():
    settings = Record([Field("a", missing="ignore"), Field("b", missing="ignore")])
    assert compared(settings, {"a": "x"}, {"b": "x"}) == (0, 0)
    items, comparing = RecordItems(settings), RecordMeasure(settings)
    features = items.features([items.encode({"a": "x"}), items.encode({})])
    found = comparing.compare_pairs(features, np.array([0]), np.array([1]))
    assert found.values().tolist() == [0.0]


def test_numbers_at_the_ends_of_the_floats_can_be_compared():
    settings = Record([Field("a", compare="numeric")])
    assert compared(settings, {"a": 1e308}, {"a": -1e308}) == (0, 10_000)
    assert compared(settings, {"a": 1e308}, {"a": 1e308}) == (10_000, 10_000)


def test_the_largest_weights_and_tolerances_do_not_overflow():
    settings = Record([Field("a", 1_000_000, tolerance=65_535), Field("b", 1_000_000, "words")])
    one, other = {"a": "x" * 65_535, "b": "p q"}, {"a": "y", "b": "q r"}
    assert compared(settings, one, other) == (10**8 // 3, 2 * 10**8)
    assert compared(settings, one, {"a": "x" * 65_534})[0] == 10**8 * (65_535**2 - 1) // 65_535**2


def test_long_texts_are_not_compared_to_the_end():
    settings = Record([Field("a")])
    items, comparing = RecordItems(settings), RecordMeasure(settings)
    rng = np.random.default_rng(1)
    texts = ["".join(rng.choice(list("abcdef"), 65_000)) for _ in range(2)]
    features = items.features([items.encode({"a": text}) for text in texts])
    many = comparing.compare_pairs(features, np.zeros(50, np.int64), np.ones(50, np.int64))
    assert not many.numerators.any()


def test_more_words_than_there_are_letters_are_compared_in_parts(monkeypatch):
    monkeypatch.setattr(records_module, "_MOST_LETTERS", 7)
    settings = Record([Field("a", compare="words")])
    items, comparing = RecordItems(settings), RecordMeasure(settings)
    rows = [{"a": f"w{n} w{n + 1} w{n + 2}"} for n in range(20)]
    features = items.features([items.encode(row) for row in rows])
    left = np.arange(19, dtype=np.int64)
    found = comparing.compare_pairs(features, left, left + 1)
    assert found.numerators.tolist() == [10_000 * 2 // 4] * 19


def test_words_of_every_letter_there_is_are_compared():
    settings = Record([Field("a", compare="words")])
    items, comparing = RecordItems(settings), RecordMeasure(settings)
    # More than 0xD800 words, so that some are written as halves of surrogate pairs.
    rows = [{"a": f"{n} {n + 1}"} for n in range(60_000)]
    features = items.features([items.encode(row) for row in rows])
    left = np.arange(len(rows) - 1, dtype=np.int64)
    found = comparing.compare_pairs(features, left, left + 1)
    assert set(found.numerators.tolist()) == {10_000 // 3}


def test_each_pair_of_values_is_compared_once(monkeypatch):
    seen = []
    real = strings.pair_distances

    def counting(left, right, **settings):
        seen.append(len(left))
        return real(left, right, **settings)

    monkeypatch.setattr(records_module, "pair_distances", counting)
    settings = Record([Field("a")])
    items, comparing = RecordItems(settings), RecordMeasure(settings)
    features = items.features([items.encode({"a": f"value {n % 3}"}) for n in range(300)])
    left, right = (part.ravel() for part in np.indices((300, 300)))
    comparing.compare_pairs(features, left, right)
    assert seen == [6]  # of three values, those that differ, in both orders


def numbers_of(generator: np.random.Generator) -> list[Any]:
    whole = generator.integers(-50, 50, 12).tolist()
    decimals = [round(float(x), d) for d, x in enumerate(generator.normal(0, 9, 12))]
    far = [2**53, 2**53 + 1, "9007199254740993.5", 10**15 + 1, -(2**63), 1e300, "1e-300"]
    return [*whole, *decimals, *generator.normal(0, 9, 8).tolist(), *map(str, whole[:3]), *far]


@pytest.mark.parametrize(
    ("tolerance", "weight"),
    grid([10, 1, 0.1, 7.3, 1e-300, 1_000_000, 10 / 3], [1, 100, 333, 1_000_000], step=3),
)
def test_numbers_get_the_points_of_exact_arithmetic(tolerance, weight):
    """30 and 38 have 36 points of 100 at the tolerance of 10, not 35.99."""
    field = Field("n", weight, "numeric", tolerance=tolerance)
    items, comparing = RecordItems(Record([field])), RecordMeasure(Record([field]))
    generator = np.random.default_rng(weight)
    within = Fraction(str(tolerance))
    for values in ([30, 38, 2**53, 2**53 + 1], ["0.1", 0.4, 0.1], numbers_of(generator)):
        features = items.features([items.encode({"n": value}) for value in values])
        left, right = map(np.ravel, np.indices((len(values), len(values))))
        found = comparing.compare_pairs(features, left, right)
        for one, other, points in zip(left, right, found.numerators.tolist(), strict=True):
            apart = abs(Fraction(str(values[one])) - Fraction(str(values[other]))) / within
            assert points == math.floor(100 * weight * max(0, 1 - apart**2)), values[one]


def test_a_pair_exactly_at_the_threshold_is_found(tmp_path):
    kind = Record([Field("age", compare="numeric", tolerance=10)])
    with simdb.open(tmp_path / "s.simdb") as database:
        people = database.collection("people", kind, threshold=0.36)
        people.add_many([(1, {"age": 30}), (2, {"age": 38}), (3, {"age": 39})])
        found = {(p.left, p.right, p.similarity) for p in people.pairs(0.36, guarantee="exact")}
        assert found == {(1, 2, 0.36), (2, 3, 0.99)}
