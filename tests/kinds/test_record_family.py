"""Rules of equality: signatures, bucket keys, candidates, and what cannot be missed."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdb.arrays import UInt64s
from simdb.kinds.records import (
    Edits,
    Equal,
    Field,
    Record,
    RecordFamily,
)
from simdb.kinds.records.items import RecordItems
from simdb.kinds.records.points import RecordMeasure
from tests.support.record_stores import candidate_pairs

RULES = (
    "phone",
    Equal("name", "last-word"),
    ("name", "city"),
    (Equal("city", "first:1"), Equal("phone", "digits")),
)
SETTINGS = Record(
    fields=[Field("name", equivalents=[("bob", "rob")]), Field("city"), Field("phone")],
    candidates=RULES,
)
ITEMS, FAMILY = RecordItems(SETTINGS), RecordFamily(SETTINGS, b"secret")
rows_of = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "name": st.sampled_from(["bob lee", "Rob  Lee", "ann lee", "ann", "", None]),
            "city": st.sampled_from(["rome", "ROME", "riga", "oslo"]),
            "phone": st.sampled_from(["1-2", "12", "3", "none"]),
        },
    ),
    max_size=12,
)


def made_of(row: dict[str, Any]) -> list[tuple[str, ...] | None]:
    """What the four rules make of a row, the obvious way; None if something is missing."""
    name, city, phone = (
        " ".join((row.get(field) or "").lower().split()) for field in ("name", "city", "phone")
    )
    name = name.replace("rob", "bob")
    parts = [
        (phone,),
        (name.split(" ")[-1],),
        (name, city),
        (city[:1], "".join(letter for letter in phone if letter.isdigit())),
    ]
    return [part if all(part) else None for part in parts]


def keys_of(
    rows: list[dict[str, Any]], family: RecordFamily = FAMILY, items: RecordItems = ITEMS
) -> UInt64s:
    return family.keys(family.sign(items.features([items.encode(row) for row in rows])))


def all_pairs(
    left: UInt64s, right: UInt64s | None = None, most: int = 1000
) -> list[tuple[int, int]]:
    batches = list(candidate_pairs(left, right, most=most))
    return [
        (int(one), int(other))
        for ones, others in batches
        for one, other in zip(ones, others, strict=True)
    ]


def agree(one: dict[str, Any], other: dict[str, Any]) -> bool:
    pairs = zip(made_of(one), made_of(other), strict=True)
    return any(left is not None and left == right for left, right in pairs)


@given(rows_of)
def test_hashes_are_equal_where_a_rule_makes_the_same_of_two_records(rows):
    signatures = FAMILY.sign(ITEMS.features([ITEMS.encode(row) for row in rows]))
    assert signatures.shape == (len(rows), FAMILY.words) == (len(rows), 16)
    assert signatures.dtype == np.uint16
    keys = FAMILY.keys(signatures)
    made = [made_of(row) for row in rows]
    for one, other, rule in product(range(len(rows)), range(len(rows)), range(4)):
        here, there = made[one][rule], made[other][rule]
        assert (keys[one, rule] == 0) == (here is None)
        if here is not None and there is not None:
            assert (keys[one, rule] == keys[other, rule]) == (here == there)
    bucket_keys = FAMILY.bucket_keys(signatures)
    for row in range(len(rows)):
        own = bucket_keys.values[bucket_keys.offsets[row] : bucket_keys.offsets[row + 1]]
        assert own.tolist() == [key for key in keys[row].tolist() if key]


@given(rows_of, st.integers(1, 30))
def test_candidates_within_are_the_pairs_that_agree_in_a_rule_each_once(rows, most):
    expected = [
        (one, other)
        for one, other in combinations(range(len(rows)), 2)
        if agree(rows[one], rows[other])
    ]
    assert sorted(all_pairs(keys_of(rows), most=most)) == expected


@given(rows_of, rows_of, st.integers(1, 30))
def test_candidates_between_are_the_pairs_that_agree_in_a_rule_each_once(ones, others, most):
    expected = [
        (one, other)
        for one, other in product(range(len(ones)), range(len(others)))
        if agree(ones[one], others[other])
    ]
    assert sorted(all_pairs(keys_of(ones), keys_of(others), most=most)) == expected


def test_batches_are_bounded():
    keys = np.ones((100, 1), np.uint64)
    batches = list(candidate_pairs(keys, most=250))
    assert max(left.size for left, _ in batches) <= 250
    assert sum(left.size for left, _ in batches) == 100 * 99 // 2


def test_rules_and_secrets_have_keys_of_their_own():
    settings = Record([Field("a"), Field("b")], ["a", "b", ("a", "b"), ("b", "a"), ("a", "a")])
    items = RecordItems(settings)
    rows = [{"a": "x", "b": "x"}]
    keys = [keys_of(rows, RecordFamily(settings, secret), items) for secret in (b"one", b"two")]
    assert len(set(np.concatenate(keys).ravel().tolist())) == 10
    assert (keys[0] == keys_of(rows, RecordFamily(settings, b"one"), items)).all()


def test_keys_do_not_change_between_versions():
    keys = keys_of([{"name": "Bob Lee", "city": "Rome", "phone": "1-2"}])
    expected = [
        0x864227731E05143F,
        0x02E660B689D34DC4,
        0x4309D1A69D848912,
        0x4879CA9EB4271E19,
    ]
    assert keys.tolist() == [expected]


def test_numbers_and_dates_agree_however_they_are_written():
    settings = Record([Field("day", compare="date"), Field("size", compare="numeric")])
    items, family = RecordItems(settings), RecordFamily(settings, b"secret")
    rows: list[dict[str, Any]] = [
        {"day": "2001-12-31", "size": "1.50"},
        {"day": 20011231, "size": 1.5},
    ]
    keys = keys_of(rows, family, items)
    assert (keys[0] == keys[1]).all()
    assert keys.all()


def described(settings: Record, keys: UInt64s) -> dict[str, Any]:
    """What the statistics say of records whose keys lie in two parts of the signatures."""
    parts = np.array_split(keys.view(np.uint16), 2)
    family = RecordFamily(settings, b"")
    return settings.candidate_stats(family, lambda: iter(parts), len(keys))


@given(rows_of)
def test_costs_count_what_each_rule_makes_candidates_of(rows):
    everything = [made_of(row) for row in rows]
    costs = described(SETTINGS, keys_of(rows))["rules"]
    for rule, cost in enumerate(costs):
        values = [made[rule] for made in everything if made[rule] is not None]
        assert (cost["records"], cost["buckets"]) == (len(values), len(set(values)))
        assert cost["largest"] == max(map(values.count, values), default=0)
        assert cost["pairs"] == sum(one == other for one, other in combinations(values, 2))
    assert [cost["rule"] for cost in costs] == [
        "phone",
        "name last-word",
        "name and city",
        "city first:1 and phone digits",
    ]


def test_a_large_bucket_is_warned_of_and_nothing_of_it_is_left_out():
    settings = Record([Field("city"), Field("name")], ["city", "name"], large_bucket=9)
    items, family = RecordItems(settings), RecordFamily(settings, b"secret")
    keys = keys_of([{"city": "rome", "name": str(n)} for n in range(10)], family, items)
    (warning,) = described(settings, keys)["warnings"]
    assert warning == (
        "10 records are equal in city: that rule compares 45 pairs; ask for a second field in the "
        "same rule, or leave it out"
    )
    assert len(all_pairs(keys)) == 45
    assert not described(settings, keys[:9])["warnings"]


@pytest.mark.parametrize(
    ("settings", "certain"),
    [
        # One letter in each field: 297 of 300 points are the most without an equal field.
        (Record([Field("a"), Field("b"), Field("c")]), 297 / 300),
        (Record([Field("a"), Field("b"), Field("c", 0)], ["a", ("a", "c")]), 199 / 200),
        (Record([Field("a"), Field("b", 50)], [("a", "b")]), 149.5 / 150),
        (Record([Field("a", tolerance=2), Field("b")], ["a"]), 175 / 200),
        (Record([Field("a", tolerance=2, missing=90), Field("b")], ["a"]), 190 / 200),
        (Record([Field("a", missing="ignore"), Field("b")], ["a"]), 1),
        (Record([Field("a", compare="words"), Field("b")], ["a"]), 1),
        (Record([Field("a"), Field("b")], [Equal("a", "digits")]), 1),
        (Record([Field("a"), Field("b")], [Equal("a", "first:9")]), 199 / 200),
        (Record([Field(f"f{n}") for n in range(13)]), 1),
        (Record([Field("a", compare="exact"), Field("b", compare="exact")]), 0),
        (Record([Field("a", compare="exact", missing=20), Field("b")]), 119 / 200),
        (Record([Field("a", compare="exact"), Field("b")], [Edits("a", 2)]), 1 / 2),
    ],
)
def test_a_pair_more_similar_than_that_is_a_candidate(settings, certain):
    assert float(settings.certain_above()) == certain
    curve = settings.make_curve(Fraction(1))
    assert math.isnan(curve.probability(certain))
    assert curve.probability(1.1) == 1


texts = st.text("ab ", max_size=4)


@given(
    st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys("xyz", texts)), max_size=8),
    st.sampled_from([("x", "y", "z"), ("x", ("y", "z")), (("x", "y"), ("y", "z"))]),
)
def test_no_pair_above_what_is_certain_is_missed(rows, rules):
    fields = [Field("x"), Field("y", 30, "exact"), Field("z", 50, "damerau", tolerance=3)]
    settings = Record(fields, rules)
    items, family = RecordItems(settings), RecordFamily(settings, b"secret")
    features = items.features([items.encode(row) for row in rows])
    found = set(all_pairs(family.keys(family.sign(features))))
    left, right = np.triu_indices(len(rows), 1)
    compared = RecordMeasure(settings).compare_pairs(features, left, right)
    certain = settings.certain_above()
    for one, other, points, whole in zip(left, right, *compared, strict=True):
        if points > certain * int(whole):
            assert (int(one), int(other)) in found
