"""Weighted sets: items, their similarity, sketches by darts, exact answers by weighted prefixes."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdb
from simdb.errors import BadItemError, CorruptionError
from simdb.exact import weighted
from simdb.exact.thresholds import Threshold
from simdb.exact.weighted import PostedSets
from simdb.kinds import weighted as kinds_weighted
from simdb.kinds.weighted import WeightedMeasure, WeightedSetItems
from simdb.lsh.family import DartMinHash, poisson_counts
from simdb.ragged import WeightedSets
from simdb.work import Work
from tests.support.similarities import weighted_jaccard

ITEMS = WeightedSetItems(b"secret")
MEASURE = WeightedMeasure()

weights = st.floats(2.0**-32, 2.0**32) | st.integers(1, 9).map(float)
weighted_sets = st.dictionaries(st.sampled_from("abcdefgh"), weights) | st.dictionaries(
    st.integers(-3, 6), weights
)


def features_of(*items: Any) -> WeightedSets:
    return ITEMS.features([ITEMS.encode(item) for item in items])


@given(weighted_sets)
def test_items_come_back_and_equal_ones_are_equal_bytes(item):
    stored = ITEMS.encode(item)
    assert ITEMS.decode(stored) == item
    assert ITEMS.encode(list(reversed([*item.items()]))) == stored
    assert len(features_of(item)[0]) == len(item)


def test_weights_are_numbers_of_any_type_and_those_of_0_are_left_out():
    item = {"a": np.float32(0.5), "b": Fraction(1, 4), "c": Decimal("0.25"), "d": 3, "e": 0}
    assert ITEMS.decode(ITEMS.encode(item)) == {"a": 0.5, "b": 0.25, "c": 0.25, "d": 3.0}
    assert ITEMS.encode({"a": 0.0}) == ITEMS.encode({}) == ITEMS.encode([]) == b""


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"a": -1}, "the weight of 'a' must not be negative, but is -1"),
        ({"a": -1e-300}, "must not be negative"),
        ({"a": float("nan")}, "the weight of 'a' must be finite, but is nan"),
        ({"a": float("-inf")}, "must be finite, but is -inf"),
        ({"a": np.float64("inf")}, "must be finite"),
        ({"a": Decimal("sNaN")}, "must be finite"),
        ({"a": 10**400}, "must be finite"),
        ({"a": True}, "must be a number, not bool True"),
        ({"a": "1"}, "must be a number, not str '1'"),
        ({"a": None}, "must be a number, not NoneType"),
        ({"a": 2.0**33}, r"must lie between 2\^-32 and 2\^32.*scale all weights"),
        ({"a": 1e-12}, r"must lie between 2\^-32 and 2\^32"),
        ({"a": Fraction(1, 10**400)}, r"must lie between"),
        ([("a", 1), ("a", 2)], "the element 'a' has two weights"),
        ({"a": 1, 2: 1}, "all integers or all strings, not both"),
        ({1.5: 1}, "must be an integer or a string, not float"),
        ({"a", "b"}, "mapping of elements to weights, or a list of pairs.*give each element"),
        (["a", "b"], "give each element its weight"),
        ([{"element": "a", "weight": 1.5}], "a column of maps holds them"),
        (np.array([{"element": "a", "weight": 1.5}]), "a column of maps holds them"),
        (zip("ab", [1, 2], strict=True), "read only once"),
        ("ab", "mapping of elements to weights"),
        (None, "mapping of elements to weights"),
    ],
)
def test_bad_items_are_told_with_their_row(tmp_path, item, message):
    with pytest.raises(BadItemError, match=message):
        ITEMS.encode(item)
    with simdb.open(tmp_path / "a.simdb") as db:
        sets = db.collection("c", simdb.WeightedSet())
        with pytest.raises(BadItemError, match="row 1: ") as told:
            sets.add_many([(1, {"a": 1}), (2, item)])
        assert told.value.row == 1
        assert len(sets) == 0


@pytest.mark.parametrize(
    "damage",
    [
        b"\x01\x00\x00\x00",
        b"\x00\x00\x00\x00\x01\x05",
        b"\xff\xff\xff\xff" + bytes(12),
        b"\x01\x00\x00\x00" + np.float64(-1).tobytes() + b"\x01\x05",
        b"\x01\x00\x00\x00" + np.float64("nan").tobytes() + b"\x01\x05",
        b"\x01\x00\x00\x00" + np.float64(1).tobytes() + b"\x01\x05\x06",
        b"\x02\x00\x00\x00" + np.ones(2).tobytes() + b"\x01\x05",
        b"\x01\x00\x00\x00" + np.float64(1).tobytes() + b"\x77\x05",
    ],
)
def test_damaged_items_are_told(damage):
    good = ITEMS.encode({"a": 1})
    with pytest.raises(CorruptionError, match="a stored weighted set, 1 of its batch"):
        ITEMS.features([good, damage])


@given(weighted_sets, weighted_sets)
def test_the_similarity_is_that_of_the_weights(one, other):
    compared = MEASURE.compare_pairs(features_of(one, other), np.zeros(1, int), np.ones(1, int))
    true = weighted_jaccard(one, other)
    assert float(compared.values()[0]) == pytest.approx(float(true), rel=2.0**-51, abs=0)
    back = MEASURE.compare_pairs(features_of(one, other), np.ones(1, int), np.zeros(1, int))
    assert compared.values().tolist() == back.values().tolist()


@given(st.lists(weighted_sets, max_size=8), st.lists(weighted_sets, max_size=8), st.data())
def test_exact_pairs_and_searches_are_those_of_every_comparison(left, right, data):
    bound = Threshold(Fraction(data.draw(st.integers(1, 20)), 20))
    ones, others = features_of(*left), features_of(*right)
    among = [
        (two, one)
        for one, two in combinations(range(len(left)), 2)
        if weighted_jaccard(left[one], left[two]) >= bound.fraction
    ]
    found = [*MEASURE.near_pairs(ones, None, bound, Work())]
    assert sorted((a, b) for near in found for a, b in zip(near.left, near.right, strict=True)) == (
        sorted(among)
    )
    across = [
        (one, two)
        for one in range(len(left))
        for two in range(len(right))
        if weighted_jaccard(left[one], right[two]) >= bound.fraction
    ]
    found = [*MEASURE.near_pairs(ones, others, bound, Work())]
    assert sorted((a, b) for near in found for a, b in zip(near.left, near.right, strict=True)) == (
        across
    )
    for one, item in enumerate(left):
        for features in (others, PostedSets(others)):
            places, compared = MEASURE.finder(features_of(item), bound)(features)
            assert places.tolist() == [two for first, two in across if first == one]
            assert compared.values().size == places.size


@pytest.mark.parametrize("limit", ["ROOM", "STEPS_AT_ONCE"])
def test_few_candidates_are_held_at_once_however_many_there_are(monkeypatch, limit):
    """In the same order as all at once; so are those of one probe."""
    ones = features_of(*({1: 1.0, 2: 1 + place / 1000} for place in range(40)))
    posted = PostedSets(ones)
    bound = Threshold(Fraction(9, 10))
    compare = WeightedMeasure.compare_between
    noted: list[int] = []
    held: list[int] = []
    note = Work.note

    def compared(self: Any, *sides: Any) -> Any:
        held.append(sides[-1].size)
        return compare(self, *sides)

    def counted(self: Work, pairs: int) -> None:
        noted.append(pairs)
        note(self, pairs)

    def asked() -> list[Any]:
        held.clear()
        noted.clear()
        sides: tuple[WeightedSets | None, ...] = (None, ones)
        pairs = [[*MEASURE.near_pairs(ones, other, bound, Work())] for other in sides]
        answers = [
            np.array([np.concatenate(one) for one in zip(*each, strict=True)]) for each in pairs
        ]
        for features in (ones, posted):
            places, values = MEASURE.finder(features_of({1: 1.0, 2: 1.02}), bound)(features)
            answers.append(np.array([places, values.values()]))
        return [answer.tolist() for answer in answers]

    monkeypatch.setattr(WeightedMeasure, "compare_between", compared)
    monkeypatch.setattr(Work, "note", counted)
    whole, seen = asked(), sum(noted)
    assert [len(one[0]) for one in whole] == [780, 1_600, 40, 40]
    assert max(held) == max(noted) == 1_600
    for module in (weighted, kinds_weighted):
        monkeypatch.setattr(module, limit, 7, raising=False)
    assert asked() == whole
    assert sum(noted) == seen
    assert max(noted) <= 7
    assert max(held) <= (7 if limit == "ROOM" else 40)


def test_rows_agree_as_often_as_sets_are_similar_and_by_themselves():
    """Pairs of equal similarity: the share of equal rows, and how it varies, are binomial."""
    generator = np.random.default_rng(3)
    rows, pairs, size = 64, 3_000, 12
    symbols = np.sort(generator.integers(0, 2**63, (pairs, size), np.uint64), axis=1)
    own = generator.exponential(size=size) + 0.05
    other = own * np.linspace(0.2, 1.6, size)
    offsets = np.arange(0, pairs * size + 1, size)
    family = DartMinHash(1, rows, b"secret")
    signed = [
        family.sign(WeightedSets(symbols.ravel(), offsets, np.tile(weights, pairs)))
        for weights in (own, other)
    ]
    true = np.minimum(own, other).sum() / np.maximum(own, other).sum()
    equal = (signed[0] == signed[1]).sum(axis=1)
    error = (true * (1 - true) / (rows * pairs)) ** 0.5
    assert abs(equal.mean() / rows - true) < 4.5 * error
    assert equal.var() == pytest.approx(rows * true * (1 - true), rel=0.12)


def test_sketches_do_not_depend_on_the_batch_and_scale_with_all_weights():
    items = [{"a": 1.0, "b": 0.3}, {}, {"c": 2.0**-32}, {"d": 2.0**32, "e": 7.0}]
    family = DartMinHash(4, 2, b"secret")
    together = family.sign(features_of(*items))
    for row, item in enumerate(items):
        assert (family.sign(features_of(item)) == together[row]).all()
    assert not together[1].any()
    assert family.bucket_keys(together).sizes.tolist() == [4, 0, 4, 4]
    counts = poisson_counts().astype(np.float64) / 2.0**64
    assert counts[:2].tolist() == pytest.approx([np.exp(-1), 2 * np.exp(-1)])


def test_sets_of_weight_1_are_as_similar_as_sets(tmp_path):
    generator = np.random.default_rng(5)
    sets = [set(generator.integers(0, 40, 12).tolist()) for _ in range(60)]
    with simdb.open(tmp_path / "a.simdb", threads=1) as db:
        plain = db.collection("plain", simdb.Set(), threshold="1/3")
        weighed = db.collection("weighed", simdb.WeightedSet(), threshold="1/3")
        plain.add_many(enumerate(sets))
        weighed.add_many((key, dict.fromkeys(one, 1)) for key, one in enumerate(sets))
        exact = [set(one.pairs(guarantee="exact")) for one in (plain, weighed)]
        assert exact[0] == exact[1]
        assert len(exact[0]) > 10
        assert set(weighed.pairs(guarantee="probable")) <= exact[0]
        assert weighed.get(3).item == dict.fromkeys(sorted(sets[3]), 1.0)


def test_slabs_of_any_size_give_the_same_pairs(tmp_path, monkeypatch):
    generator = np.random.default_rng(6)
    items = [
        {int(e): float(generator.exponential()) + 0.1 for e in generator.integers(0, 30, 8)}
        for _ in range(50)
    ]
    with simdb.open(tmp_path / "a.simdb", threads=1) as db:
        made = db.collection("c", simdb.WeightedSet(), threshold=0.4)
        made.add_many(enumerate(items))
        whole = set(made.pairs(guarantee="exact"))
        groups = {tuple(group.keys) for group in made.groups(guarantee="exact")}
        joined = {(p.left, p.right) for p in made.join(made, guarantee="exact")}
        monkeypatch.setattr(simdb.answers.slabs, "SHARE_OF_MEMORY", 2**30 // 40_000)
        assert set(made.pairs(guarantee="exact")) == whole
        assert {tuple(group.keys) for group in made.groups(guarantee="exact")} == groups
        assert {(p.left, p.right) for p in made.join(made, guarantee="exact")} == joined
    true = {
        (one, two)
        for one, two in combinations(range(50), 2)
        if weighted_jaccard(items[one], items[two]) >= Fraction(2, 5)
    }
    assert {(pair.left, pair.right) for pair in whole} == true
