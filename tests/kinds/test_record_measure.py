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
from simdb.errors import ConfigurationError
from simdb.kinds import distances as strings
from simdb.kinds import restore
from simdb.kinds.records import Field, Record
from simdb.kinds.records import points as records_module
from simdb.kinds.records.items import RecordItems
from simdb.kinds.records.points import RecordMeasure
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
        Field("overlap", 31, "overlap", equivalents=GROUPS, missing="ignore"),
        Field("intersect", 11, "intersect", equivalents=GROUPS),
        Field("number", 90, "numeric", tolerance=2.5, missing="ignore"),
        Field("share", 40, "relative", tolerance=0.7),
        Field("level", 60, "levenshtein", tolerance=3, levels=[(1, 60), ("8/9", 45), (0.5, 3)]),
        Field("lowest", 60, "levenshtein", tolerance=3, levels=[(1, 50), (0.5, 9), (0, 3)]),
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
        **dict.fromkeys(("edit", "levenshtein", "alignment", "words", "exact", "level"), TEXTS),
        "lowest": TEXTS,
        **dict.fromkeys(("overlap", "intersect"), TEXTS),
        "number": st.integers(0, 5) | st.decimals(0, 5, places=2).map(float),
        "share": st.integers(0, 9),
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


def slow_share(field: Field, one: Any, other: Any) -> Fraction | None:
    """The share of one field's weight, by its definition; None if a value is missing."""
    if one in (None, "") or other in (None, ""):
        return None
    if field.compare in ("words", "overlap", "intersect"):
        left, right = set(replaced(one).split()), set(replaced(other).split())
        common = len(left & right)
        wholes = {"words": len(left | right), "overlap": min(len(left), len(right))}
        return Fraction(common, wholes.get(field.compare, max(1, common)))
    if field.compare in ("numeric", "relative"):
        numbers = Fraction(str(one)), Fraction(str(other))
        within = Fraction(str(field.tolerance))
        if field.compare == "relative":
            within *= max(map(abs, numbers)) or 1
        return max(Fraction(0), 1 - (abs(numbers[0] - numbers[1]) / within) ** 2)
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
    return max(Fraction(0), 1 - Fraction(distance**2, int(field.tolerance) ** 2))


def slow_compared(one: dict[str, Any], other: dict[str, Any]) -> Fraction | None:
    """The similarity of two records, whose numbers have few decimals; None without any weight."""
    points, whole = Fraction(0), 0
    for field in SETTINGS.fields:
        share = slow_share(field, one.get(field.name), other.get(field.name))
        if share is None and field.missing == "ignore":
            continue
        if share is None:
            points += int(field.missing)
        elif field.levels:
            reached = (given for least, given in field.levels if share >= Fraction(str(least)))
            points += next(reached, 0)
        else:
            points += field.weight * share
        whole += field.weight
    return points / whole if whole else None


def quotients(found: Any) -> list[Fraction | None]:
    pairs = zip(found.numerators.tolist(), found.denominators.tolist(), strict=True)
    return [Fraction(points, whole) if whole else None for points, whole in pairs]


@given(st.lists(records, min_size=1, max_size=8), st.lists(records, min_size=1, max_size=8))
def test_points_are_those_of_the_definition(ones, others):
    features = [ITEMS.features([ITEMS.encode(row) for row in rows]) for rows in (ones, others)]
    left, right = (part.ravel() for part in np.indices((len(ones), len(others))))
    between = COMPARING.compare_between(features[0], features[1], left, right)
    expected = [slow_compared(one, other) for one in ones for other in others]
    assert quotients(between) == expected
    assert between.numerators.dtype == between.denominators.dtype == np.int64
    probe = ITEMS.features([ITEMS.encode(ones[0])])
    alone = COMPARING.compare_probe(probe, features[1])
    assert quotients(alone) == expected[: len(others)]


@given(st.lists(records, min_size=2, max_size=8))
def test_within_one_batch_a_record_equals_itself_and_order_does_not_matter(rows):
    features = ITEMS.features([ITEMS.encode(row) for row in rows])
    left, right = (part.ravel() for part in np.indices((len(rows), len(rows))))
    one = COMPARING.compare_pairs(features, left, right)
    other = COMPARING.compare_pairs(features, right, left)
    assert quotients(one) == quotients(other)
    assert quotients(one) == [
        slow_compared(rows[i], rows[j]) for i, j in zip(left, right, strict=True)
    ]


def compared(settings: Record, one: dict[str, Any], other: dict[str, Any]) -> Fraction | None:
    items = RecordItems(settings)
    features = items.features([items.encode(one), items.encode(other)])
    found = RecordMeasure(settings).compare_pairs(features, np.array([0]), np.array([1]))
    return quotients(found)[0]


@pytest.mark.parametrize(
    ("missing", "expected"),
    [(0, Fraction(1, 2)), (40, Fraction(7, 10)), ("ignore", 1)],
)
@pytest.mark.parametrize("other", [{"a": "x"}, {"a": "x", "b": None}, {"a": "x", "b": " "}])
@pytest.mark.parametrize("one", [{"a": "x", "b": "y"}, {"a": "x"}])
def test_a_missing_field_counts_what_the_settings_say(missing, expected, one, other):
    settings = Record([Field("a"), Field("b", missing=missing)])
    assert compared(settings, one, other) == expected


def test_records_without_a_common_field_are_not_similar_when_missing_is_ignored():
    settings = Record([Field("a", missing="ignore"), Field("b", missing="ignore")])
    assert compared(settings, {"a": "x"}, {"b": "x"}) is None
    items, comparing = RecordItems(settings), RecordMeasure(settings)
    features = items.features([items.encode({"a": "x"}), items.encode({})])
    found = comparing.compare_pairs(features, np.array([0]), np.array([1]))
    assert found.values().tolist() == [0.0]


def test_numbers_at_the_ends_of_the_floats_can_be_compared():
    settings = Record([Field("a", compare="numeric")])
    assert compared(settings, {"a": 1e308}, {"a": -1e308}) == 0
    assert compared(settings, {"a": 1e308}, {"a": 1e308}) == 1


def test_the_largest_weights_and_tolerances_do_not_overflow():
    settings = Record([Field("a", 1_000_000, tolerance=65_535), Field("b", 1_000_000, "words")])
    one, other = {"a": "x" * 65_535, "b": "p q"}, {"a": "y", "b": "q r"}
    assert compared(settings, one, other) == Fraction(1, 6)
    cut = 10**8 * (65_535**2 - 1) // 65_535**2  # to hundredths of a point: 2^53 is not enough
    assert compared(settings, one, {"a": "x" * 65_534}) == Fraction(cut, 2 * 10**8)


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
    assert quotients(found) == [Fraction(1, 2)] * 19


def test_words_of_every_letter_there_is_are_compared():
    settings = Record([Field("a", compare="words")])
    items, comparing = RecordItems(settings), RecordMeasure(settings)
    # More than 0xD800 words, so that some are written as halves of surrogate pairs.
    rows = [{"a": " ".join(map(str, range(n, n + 200)))} for n in range(0, 60_000, 100)]
    features = items.features([items.encode(row) for row in rows])
    left = np.arange(len(rows) - 1, dtype=np.int64)
    found = comparing.compare_pairs(features, left, left + 1)
    assert set(quotients(found)) == {Fraction(1, 3)}


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
    """30 and 38 have 36 points of 100 at the tolerance of 10; of many decimals, hundredths."""
    field = Field("n", weight, "numeric", tolerance=tolerance)
    items, comparing = RecordItems(Record([field])), RecordMeasure(Record([field]))
    generator = np.random.default_rng(weight)
    within = Fraction(str(tolerance))
    for values in ([30, 38, 2**53, 2**53 + 1], ["0.1", 0.4, 0.1], numbers_of(generator)):
        features = items.features([items.encode({"n": value}) for value in values])
        left, right = map(np.ravel, np.indices((len(values), len(values))))
        found = comparing.compare_pairs(features, left, right)
        for one, other, share in zip(left, right, quotients(found), strict=True):
            numbers = Fraction(str(values[one])), Fraction(str(values[other]))
            exact = max(0, 1 - (abs(numbers[0] - numbers[1]) / within) ** 2)
            cut = Fraction(math.floor(100 * weight * exact), 100 * weight)
            units = math.lcm(*(number.denominator for number in numbers))
            is_short = units * within.numerator <= 2**20 and max(map(abs, numbers)) < 2**20
            assert share == (exact if is_short else cut) or (not is_short and share == exact)


def test_a_pair_exactly_at_the_threshold_is_found(tmp_path):
    kind = Record([Field("age", compare="numeric", tolerance=10)])
    with simdb.open(tmp_path / "s.simdb") as database:
        people = database.collection("people", kind, threshold=0.36)
        people.add_many([(1, {"age": 30}), (2, {"age": 38}), (3, {"age": 39})])
        found = {(p.left, p.right, p.similarity) for p in people.pairs(0.36, guarantee="exact")}
        assert found == {(1, 2, 0.36), (2, 3, 0.99)}
        people.rebuild(kind.changed(fields=[Field("age", compare="numeric", tolerance=3)]))
        near = [(p.left, p.right) for p in people.pairs("8/9", guarantee="exact")]
        assert near == [(2, 3)]  # a difference of 1 gives 8/9 of the points, and not 0.8888


def test_real_shares_are_cut_to_ten_thousandths():
    fields = [Field("name", 100, "jaro-winkler"), Field("home", 100, "place", tolerance=50)]
    settings = Record(fields)
    martha = {"name": "martha", "home": "47.3769, 8.5417"}
    other = {"name": "marhta", "home": "47.0502 8.3093"}
    metres = 40_345  # between Zurich and Lucerne, by the formula of haversines
    expected = (Fraction(9611, 10_000) + 1 - Fraction(metres**2, 50_000**2)) / 2
    assert compared(settings, martha, other) == pytest.approx(expected, abs=1e-4)
    assert compared(settings, martha, martha) == 1


@pytest.mark.parametrize("number", [0.00003, -5e-324, 1 / 7_001, 8.5, 1.2345678901234567e-05])
def test_a_place_or_a_number_is_read_as_python_writes_it(number):
    settings = Record([Field("at", 1, "place", tolerance=2), Field("n", 1, "numeric", tolerance=2)])
    record = {"at": f"{number}, {-number}", "n": f"{number}"}
    assert compared(settings, record, {name: text.upper() for name, text in record.items()}) == 1


def test_rare_words_weigh_more_by_frozen_frequencies():
    settings = Record([Field("a", compare="cosine", separator=";")])
    rows = [{"a": f"common thing; rare {number}"} for number in range(50)] + [{"a": None}]
    counted = settings.counted(rows)
    assert dict(counted.fields[0].frequencies) == {"": 50, "common thing": 50}
    common, rare = 1000, round(1000 * (1 + math.log(51 / 2)))
    cosine = common**2 / (common**2 + rare**2)
    assert compared(counted, rows[0], rows[1]) == Fraction(math.floor(10_000 * cosine), 10_000)
    assert compared(settings, rows[0], rows[1]) == Fraction(1, 2)
    assert restore(counted.describe()) == counted


def test_the_words_of_many_long_texts_are_not_all_multiplied_at_once(monkeypatch):
    settings = Record([Field("a", compare="cosine")])
    items, comparing = RecordItems(settings), RecordMeasure(settings)
    rows = [{"a": " ".join(f"w{n % 7 + k}" for k in range(n % 5 + 1))} for n in range(40)]
    features = items.features([items.encode(row) for row in rows])
    left, right = (part.ravel() for part in np.indices((40, 40)))
    whole = comparing.compare_pairs(features, left, right)
    sizes = []
    real = records_module._Words._products_of

    def counting(words, other, left, right):
        sizes.append(int(np.diff(words.offsets)[left].sum()))
        return real(words, other, left, right)

    monkeypatch.setattr(records_module._Words, "_products_of", counting)
    monkeypatch.setattr(records_module, "_WORDS_AT_ONCE", 16)
    found = comparing.compare_pairs(features, left, right)
    assert quotients(found) == quotients(whole)
    assert max(sizes) <= 16


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"levels": [(1, 101)]}, "levels must be pairs"),
        ({"levels": [(0.5, 10), (0.8, 5)]}, "levels must be pairs"),
        ({"levels": [(1.1, 10), (0.8, 5)]}, "levels must be pairs"),
        ({"levels": [(0.5, 10), (-0.1, 5)]}, "levels must be pairs"),
        ({"levels": [(0.5, 10), ("1/0", 5)]}, "levels must be pairs"),
        ({"levels": [0.5]}, "levels: Expected array"),
        ({"separator": ";"}, "separator is for words"),
        ({"compare": "relative"}, "must be a share of at most 1, not 10"),
    ],
)
def test_comparisons_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        Field("a", **settings)


@pytest.mark.parametrize("compare", ["edit", "exact", "jaro-winkler", "numeric"])
def test_equality_of_a_frequent_value_gets_less(compare):
    fields = [Field("a", 100, compare, tolerance=2, frequent={"7": 30}), Field("b", 60, "exact")]
    usual = [fields[0].changed(frequent=()), fields[1]]
    items = RecordItems(Record(fields))
    rows = [{"a": "7", "b": "x"}, {"a": "8", "b": "x"}]
    features = items.features(list(map(items.encode, rows)))
    pairs = features, features, np.array([0, 1, 0]), np.array([0, 1, 1])
    found, expected = (
        RecordMeasure(Record(some)).compare_between(*pairs).values() for some in (fields, usual)
    )
    assert found.tolist() == [130 / 160, 1, expected[2]]


@pytest.mark.parametrize("tolerance", [1 / 3, 0.1 + 0.2, 12345.678901, 5e-324, 999_999.999])
def test_any_tolerance_of_places_gives_points(tolerance):
    """Its square need not fit into 64 bits as it is written."""
    kind = Record([Field("home", 100, "place", tolerance=tolerance)])
    items = RecordItems(kind)
    rows = [{"home": "47.38, 8.54"}, {"home": "47.38, 8.541"}]
    features = items.features([items.encode(row) for row in rows])
    found = RecordMeasure(kind).compare_pairs(features, np.array([0, 0]), np.array([0, 1]))
    same, near = found.values().tolist()
    assert same == 1
    metres = 75
    assert near == pytest.approx(max(0, 1 - (metres / 1000 / tolerance) ** 2), abs=0.01)


def test_a_number_and_an_equal_one_of_another_type_are_read_each_by_itself():
    kind = Record([Field("code", 100, "exact", invalid="missing")])
    items = RecordItems(kind)
    rows: list[dict[str, Any]] = [{"code": 1}, {"code": 1.0}, {"code": None}, {"code": 1}]
    for some in (rows, rows[::-1]):
        column = items.features([items.encode(row) for row in some]).columns["code"]
        read = [None if code < 0 else column.values[code] for code in column.codes.tolist()]
        assert read == ["1" if type(row["code"]) is int else None for row in some]
