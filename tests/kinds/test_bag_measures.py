"""Similarities of bags and sets in whole numbers, against counting; sums and Jaccard."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import simdb
from simdb.errors import ConfigurationError
from simdb.exact.thresholds import Threshold
from simdb.kinds import Compared
from simdb.kinds.bags import LARGEST_BAG, Bag, BagItems, jaccard_of_sum, sum_of_jaccard
from simdb.kinds.base import SetMeasure
from simdb.kinds.sets import SetItems
from tests.support import similarities
from tests.support.exact_oracle import meets

ITEMS = BagItems(b"secret")
SUM, MAXIMUM = Bag("sum"), Bag("maximum")

bags = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 5))
shares = st.fractions(0, 1, max_denominator=60)

pytestmark = pytest.mark.usefixtures("wrap_around")


def fractions_of(compared: Compared) -> list[Fraction]:
    assert compared.numerators.dtype == compared.denominators.dtype == np.int64
    rows = zip(compared.numerators.tolist(), compared.denominators.tolist(), strict=True)
    fractions = [Fraction(part, whole) if whole else Fraction(0) for part, whole in rows]
    assert compared.values().tolist() == [float(fraction) for fraction in fractions]
    return fractions


@given(st.lists(bags, min_size=1, max_size=6))
@example([{}, {}])
def test_measures_of_bags_are_those_of_counting(batch):
    features = ITEMS.features([ITEMS.encode(bag) for bag in batch])
    probe = ITEMS.features([ITEMS.encode(batch[-1])])
    pairs = [*combinations(range(len(batch)), 2), (0, 0)]
    left, right = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    for kind, slow in (
        (SUM, similarities.bag_jaccard_of_sums),
        (MAXIMUM, similarities.bag_jaccard_of_maxima),
    ):
        lists = [list(Counter(bag).elements()) for bag in batch]
        measure = kind.make_measure()
        found = fractions_of(measure.compare_probe(probe, features))
        assert list(map(kind.outer_similarity, found)) == [
            slow(lists[-1], other) for other in lists
        ]
        found = fractions_of(measure.compare_pairs(features, left, right))
        assert list(map(kind.outer_similarity, found)) == [
            slow(lists[one], lists[other]) for one, other in pairs
        ]


@given(st.lists(st.frozensets(st.integers(0, 9)), min_size=1, max_size=6))
def test_measures_of_sets_are_those_of_counting(batch):
    items: Any = SetItems(b"secret")
    features = items.features([items.encode(item) for item in batch])
    probe = items.features([items.encode(batch[0])])
    slow = [similarities.jaccard(batch[0], other) for other in batch]
    assert fractions_of(SetMeasure().compare_probe(probe, features)) == slow
    left, right = np.zeros(len(batch), np.int64), np.arange(len(batch))
    assert fractions_of(SetMeasure().compare_pairs(features, left, right)) == slow


@given(shares)
def test_sums_and_jaccard_turn_into_each_other_without_a_rounding(jaccard):
    assert jaccard_of_sum(sum_of_jaccard(jaccard)) == jaccard
    assert SUM.inner_similarity(SUM.outer_similarity(jaccard)) == jaccard
    assert MAXIMUM.inner_similarity(jaccard) == MAXIMUM.outer_similarity(jaccard) == jaccard


@given(bags, bags)
def test_a_sum_similarity_is_that_jaccard_similarity_of_occurrences(left, right):
    one, other = Counter(left), Counter(right)
    expanded = [{(e, k) for e in bag for k in range(bag[e])} for bag in (one, other)]
    total = similarities.bag_jaccard_of_sums(one.elements(), other.elements())
    assert jaccard_of_sum(total) == similarities.jaccard(*expanded)
    largest = similarities.bag_jaccard_of_maxima(one.elements(), other.elements())
    assert largest == similarities.jaccard(*expanded)


@given(st.integers(0, 40), st.integers(1, 60), st.fractions(Fraction(1, 60), Fraction(1, 2)))
@example(9, 27, Fraction(1, 3))
@example(1, 2, Fraction(1, 2))
def test_a_floor_for_jaccard_keeps_exactly_the_bags_at_or_above_the_sum_threshold(
    overlap, total, wanted
):
    if 2 * overlap > total:
        return
    is_similar = overlap > 0 and Fraction(overlap, total) >= wanted
    floor = Threshold(jaccard_of_sum(wanted))
    assert meets(floor.fraction, overlap, total - overlap) == is_similar
    assert (overlap >= floor.needed_overlap(total)) == is_similar


@pytest.mark.parametrize("wanted", ["0.51", "1", "501/1000", "2/3"])
def test_thresholds_above_a_half_are_refused_for_sums_only(wanted):
    threshold = Fraction(wanted)
    with pytest.raises(
        ConfigurationError, match=r"between 0 and 1/2, so the bound cannot be .*union='maximum'"
    ):
        SUM.inner_similarity(threshold)
    assert MAXIMUM.inner_similarity(threshold) == threshold


def test_a_refused_threshold_is_named_as_it_was_written():
    with pytest.raises(ConfigurationError, match=r"cannot be 0\.6: equal bags"):
        jaccard_of_sum(Fraction("0.6"))
    with pytest.raises(ConfigurationError, match="cannot be 2/3: equal bags"):
        jaccard_of_sum(Fraction("2/3"))


def test_quotients_of_floats_and_of_nothing():
    compared = Compared(np.array([1.5, 0.0]), np.array([2.0, 0.0]))
    assert compared.values().tolist() == [0.75, 0.0]


def test_a_sum_similarity_is_its_quotient_rounded_once():
    """5/12 and not 0.41666666666666663, whatever J = 5/7 was rounded to."""
    generator = np.random.default_rng(4)
    small = [(o, u) for u in range(1, 120) for o in range(u + 1)]
    unions = generator.integers(1, 2 * LARGEST_BAG, 20_000, endpoint=True)
    large = zip(generator.integers(0, unions, endpoint=True).tolist(), unions.tolist(), strict=True)
    both = np.array([*small, *large], np.int64).T
    expected = [float(Fraction(o, o + u)) for o, u in both.T.tolist()]
    assert SUM.outer_values(both[0] / both[1]).tolist() == expected
    assert SUM.outer_values(np.empty(0)).size == 0


def test_every_question_gives_a_sum_similarity_rounded_once(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as database:
        exact = database.collection("exact", SUM, threshold=None, exact_floor="1/10")
        for bags in (exact, database.collection("probable", SUM, threshold="2/5", seed=1)):
            bags.add_many([(0, {"a": 5}), (1, {"a": 5, "b": 2})])
            assert 5 / 12 in [match.similarity for match in bags.search({"a": 5}, threshold="2/5")]
            (pair,) = bags.pairs("2/5")
            assert pair.similarity == 5 / 12
            outcome = bags.add(2, {"a": 5, "b": 2, "c": 0}, find_duplicates=True)
            assert (outcome.duplicate_of, outcome.similarity) == (0, 5 / 12)


def test_the_bound_of_a_collection_holds_for_every_measure_as_it_was_given(tmp_path):
    """Sums of bags have a scale of their own inside, on which only Jaccard's similarity is."""
    rows = [(1, ["a"] * 3 + ["z"] * 3), (2, ["a"] * 3 + ["b"] * 9)]  # half of the first is shared
    with simdb.open(tmp_path / "s.simdb", threads=1) as db:
        collection = db.collection("c", simdb.Bag("sum"))
        collection.add_many(rows)
        given: dict[str, Any] = {"threshold": collection.threshold}
        for named in ("stored-in-probe", "probe-in-stored", "overlap", "cosine", "dice"):
            found = collection.search(rows[1][1], measure=named)
            assert list(found) == list(collection.search(rows[1][1], measure=named, **given)), named
        same = collection.pairs("4/9", measure="overlap")
        assert [*collection.pairs(measure="overlap")] == [*same]
        assert collection.pairs(measure="overlap").count() == 1
        report = db.collection("d", simdb.Bag("sum")).dedupe(rows, measure="containment")
        assert report.added == 1


def test_a_floor_is_told_as_it_was_given(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as database:
        bags = database.collection("exact", SUM, threshold=None, exact_floor="3/10")
        bags.add(1, ["a", "b"])
        assert bags.stats()["exact_index"]["floor"] == "0.3"
        with pytest.raises(simdb.SimdbError, match=r"threshold 0\.2 is below the floor 0\.3"):
            bags.search(["a"], threshold=0.2)
        with pytest.raises(simdb.SimdbError, match="has no probable index;"):
            bags.search(["a"], threshold=0.4, guarantee="probable")
