"""The fraction of true matches at each score: intervals that hold, thresholds, bad input."""

from __future__ import annotations

import math
import re
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdb.errors import ConfigurationError
from simdb.upkeep.calibrate import (
    REPLICATES,
    Sums,
    Tally,
    assumption_test,
    fraction_of_matches,
    signs_of,
)
from tests.support.calibrating import calibrate, mean_difference

numbers = st.lists(st.integers(-50, 50), min_size=1, max_size=30)


@given(numbers, numbers)
def test_the_mean_difference_is_that_of_all_pairs(left, right):
    between = [abs(one - other) for one, other in product(left, right)]
    assert mean_difference(left, right) == pytest.approx(sum(between) / len(between))
    within = [abs(one - other) for one, other in product(left, left)]
    assert mean_difference(left) == pytest.approx(sum(within) / len(within))


@given(numbers, numbers)
def test_sums_of_two_parts_are_those_of_the_whole(left, right):
    parts = Sums.of(np.array([*left, math.nan], float)).plus(Sums.of(np.array(right, float)))
    whole = np.array(left + right, float)
    assert parts.count == whole.size
    assert parts.average == pytest.approx(whole.mean())
    assert parts.spread == pytest.approx(whole.std(ddof=1))
    assert parts.mean.variance == pytest.approx(whole.var(ddof=1) / whole.size)
    assert Sums().plus(parts) == parts == parts.plus(Sums())


@pytest.mark.parametrize("huge", [1e101, 1e160, 1e300, math.inf, -1e200])
def test_differences_whose_squares_cannot_be_computed_are_unknown(huge):
    some = np.array([1.0, huge, 3.0, -huge])
    assert Sums.of(some) == Sums.of(np.array([1.0, 3.0]))
    tally = Tally()
    tally.add(some, np.ones((4, REPLICATES)))
    assert tally._sums.count == 2


def drawn(generator: np.random.Generator, size: int, true_share: float) -> npt.NDArray[np.float64]:
    """Differences of pairs of which a share is true: 0 to 20 days, and 0 to 90 of the others."""
    true = generator.random(size) < true_share
    days = np.where(true, generator.integers(0, 21, size), generator.integers(0, 91, size))
    return days.astype(np.float64)


def test_intervals_hold_the_true_fraction_as_often_as_they_say():
    generator = np.random.default_rng(3)
    held = 0
    for _ in range(100):
        share = generator.random()
        result = calibrate(
            np.zeros(60),
            drawn(generator, 60, share),
            matched=drawn(generator, 200, 1.0),
            random=drawn(generator, 200, 0.0),
            edges=[0, 1],
        )
        held += result.buckets[0].fraction_low <= share <= result.buckets[0].fraction_high
    # 95 of 100, with a standard deviation of 2.2: five of them below.
    assert held >= 84


def test_pairs_fall_into_the_bucket_of_their_score():
    result = calibrate(
        [0.0, 0.49, 0.5, 0.99, 1.0, 1.01, -0.1, 0.7],
        [8, 8, 4, 2, 0, 99, 99, math.nan],
        matched=0,
        random=8,
        edges=[0, 0.25, 0.5, 1],
    )
    assert [(bucket.low, bucket.high, bucket.pairs) for bucket in result.buckets] == [
        (0, 0.25, 1),
        (0.25, 0.5, 1),
        (0.5, 1, 3),
    ]
    assert [bucket.fraction for bucket in result.buckets] == [0, 0, 0.75]
    one = result.buckets[0]
    assert (one.fraction_low, one.fraction_high) == (0, 1)  # one pair proves nothing


def test_a_bucket_without_pairs_has_no_fraction_and_does_not_stop_the_threshold():
    result = calibrate([1, 1, 3, 3], [9, 9, 0, 1], matched=0, random=10, edges=[0, 2, 2.5, 4])
    empty = result.buckets[1]
    assert empty.pairs == 0
    assert math.isnan(empty.fraction)
    assert (empty.fraction_low, empty.fraction_high) == (0, 1)
    assert result.threshold_for(0.95) == 2.5
    assert result.threshold_for(0.5) == 0
    assert result.threshold_for(0.96) is None


def test_fractions_are_never_outside_0_and_1():
    result = calibrate([0, 0, 1, 1], [50, 60, 1, 2], matched=5, random=45, edges=[0, 0.5, 1])
    assert [bucket.fraction for bucket in result.buckets] == [0, 1]
    for bucket in result.buckets:
        assert 0 <= bucket.fraction_low <= bucket.fraction <= bucket.fraction_high <= 1


def test_few_equal_differences_are_not_taken_for_certain():
    result = calibrate([0, 0], [0, 0], matched=[0, 20] * 50, random=45.0, edges=[0, 1])
    assert result.buckets[0].fraction == 1
    assert result.buckets[0].fraction_low == 0


def test_intervals_add_the_errors_of_all_three_means():
    given: dict[str, Any] = {"random": [44, 46], "edges": [0, 1], "matched": [9, 11]}
    low = calibrate([0] * 4, [10] * 4, **given).buckets[0].fraction_low
    # Student's quantile of 3 degrees of freedom; variance 2 of a difference, 1 of the mean of two.
    assert low == pytest.approx(1 - 3.182446 * math.sqrt(2 / 4 + 1) / 35)
    high = calibrate([0] * 4, [45] * 4, **given).buckets[0].fraction_high
    assert high == pytest.approx(3.182446 * math.sqrt(2 / 4 + 1) / 35)


def test_a_field_that_grows_with_matches_serves_as_well():
    assert fraction_of_matches(0.6, 0.9, 0.1) == pytest.approx(0.625)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": [1, 2, 3]}, r"of one length, not \(3,\) and \(2,\)"),
        ({"edges": [1]}, "edges must be at least two numbers in ascending order"),
        ({"edges": [1, 1]}, "edges must be at least two numbers in ascending order"),
        ({"confidence": 1}, "confidence must be between 0 and 1"),
        ({"matched": 45}, "true matches and random pairs both differ by 45"),
        ({"matched": []}, "matched must be a mean difference, or differences, not empty"),
        ({"random": [math.nan]}, "random must be .* not empty"),
        ({"random": [[1.0]]}, "random must be numbers in a row"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(change, message):
    given: dict[str, Any] = {
        "scores": [0, 1],
        "differences": [1, 2],
        "matched": 0,
        "random": 45,
        "edges": [0, 1],
    }
    given |= change
    with pytest.raises(ConfigurationError, match=message):
        calibrate(given.pop("scores"), given.pop("differences"), **given)


@pytest.mark.parametrize("precision", [0, 1.1, -1])
def test_a_precision_that_none_can_have_is_refused(precision):
    result = calibrate([0], [1], matched=0, random=45, edges=[0, 1])
    with pytest.raises(ConfigurationError, match="precision"):
        result.threshold_for(precision)


@pytest.mark.parametrize("given", [([],), ([1], []), ([math.nan],)])
def test_a_mean_difference_of_nothing_is_refused(given):
    with pytest.raises(ConfigurationError, match="needs values on both sides"):
        mean_difference(*given)


def test_a_field_that_hangs_on_the_match_alone_gives_no_warning():
    generator = np.random.default_rng(3)
    scores = generator.random(4_000)
    true = generator.random(4_000) < scores**2
    apart = np.where(true, generator.exponential(5, 4_000), generator.exponential(45, 4_000))
    options: dict[str, Any] = {"matched": 5, "random": 45, "edges": [0, 0.25, 0.5, 0.75, 1]}
    assert calibrate(scores, apart, **options, confidence=0.999).warnings == ()


@pytest.mark.parametrize(
    ("differences", "told"),
    [
        ([44, 46, 90, 92], ["from 1 to 2 differ more than random pairs"]),
        ([44, 46, 1, 2], ["from 1 to 2 differ less than true matches"]),
        (
            [10, 11, 44, 45],
            [
                "from 0 on, 99% seem to match already.*random=10.5 takes",
                r"fewer pairs seem to match from 1 on \(1%\) than from 0 on \(99%\)",
            ],
        ),
        ([37, 39, 10, 11], ["from 0 on, 20% seem to match already"]),
    ],
)
def test_pairs_that_contradict_the_assumption_are_told(differences, told):
    scores = np.repeat([0, 0, 1, 1], 200)
    options: dict[str, Any] = {"matched": 10, "random": 45, "edges": [0, 1, 2]}
    warnings = calibrate(scores, np.repeat(differences, 200), **options).warnings
    assert len(warnings) == len(told)
    assert all(map(re.search, told, warnings))


def test_pairs_of_one_score_alone_contradict_nothing():
    options: dict[str, Any] = {"matched": 10, "random": 45, "edges": [0, 1, 2]}
    assert calibrate(np.ones(200), np.full(200, 11), **options).warnings == ()


def tallied(differences: Any, left: Any, right: Any, *, is_one: bool = False) -> Sums:
    """The sums of pairs of items, added in two parts."""
    tally = Tally()
    signs = signs_of(left.astype(np.uint32), right.astype(np.uint32), 5, is_one=is_one)
    for part in (slice(None, 7), slice(7, None)):
        tally.add(differences[part], signs[part])
    return tally.sums


@pytest.mark.parametrize("is_one", [False, True])
def test_intervals_hold_where_pairs_share_items_as_often_as_they_say(is_one):
    """Differences that hang on the items: taken for independent, the intervals are too narrow."""
    generator = np.random.default_rng(4)
    held = narrow = 0
    for _ in range(200):
        count = 60 if is_one else 40
        of_left, of_right = generator.normal(size=(2, count))
        left, right = generator.integers(0, count, (2, 400))
        left, right = left[left != right], right[left != right]
        apart = of_left[left] + (of_left if is_one else of_right)[right]
        apart += generator.normal(size=left.size)
        sums = tallied(apart, left, right, is_one=is_one)
        held += abs(sums.average) < 2 * sums.mean.variance**0.5
        narrow += abs(sums.average) < 2 * (sums.spread**2 / sums.count) ** 0.5
    assert held >= 180
    assert narrow < 160


def test_pairs_that_share_nothing_count_in_full():
    generator = np.random.default_rng(6)
    designs = [
        tallied(generator.normal(size=300), np.arange(300), np.arange(300)).design
        for _ in range(40)
    ]
    assert min(designs) >= 1
    assert np.mean(designs) < 1.15


def test_fractions_that_rise_are_the_nearest_to_those_found():
    """By the formula of max and min (Robertson, Wright and Dykstra 1988)."""
    generator = np.random.default_rng(2)
    scores = generator.integers(0, 8, 500).astype(np.float64) + 0.5
    apart = np.where(generator.random(500) > 0.4 + scores / 40, 10.0, 0.0)
    result = calibrate(scores, apart, matched=0, random=10, edges=range(9))
    found = [bucket.fraction for bucket in result.buckets]
    pairs = [bucket.pairs for bucket in result.buckets]
    expected = [
        max(
            min(np.average(found[i : j + 1], weights=pairs[i : j + 1]) for j in range(place, 8))
            for i in range(place + 1)
        )
        for place in range(8)
    ]
    fitted = [bucket.fitted for bucket in result.buckets]
    assert fitted == pytest.approx(expected)
    assert fitted != found
    assert result.probability(3.2) == fitted[3]
    assert result.probability(99) == fitted[-1]
    assert math.isnan(result.probability(-1))


def test_sure_matches_that_differ_by_their_score_are_told():
    generator = np.random.default_rng(8)
    alike = [Sums.of(generator.normal(5, 1, 50)) for _ in range(4)]
    same = assumption_test(alike)
    assert same is not None
    assert (same.bins, same.pairs) == (4, 200)
    assert same.p_value > 0.05
    moved = assumption_test([*alike, Sums.of(generator.normal(6, 1, 50))])
    assert moved is not None
    assert moved.p_value < 1e-6
    # Fewer pairs in truth, as many share an item, prove less.
    shared = [Sums(own.count, own.average, own.squares, 9.0) for own in alike]
    less = assumption_test(shared)
    assert less is not None
    assert less.statistic == pytest.approx(same.statistic / 9)
    assert assumption_test([alike[0], Sums.of(np.array([3.0]))]) is None
    nothing = assumption_test([Sums.of(np.zeros(9))] * 2)
    assert nothing is not None
    assert (nothing.statistic, nothing.p_value) == (0, 1)
    all_of_it = assumption_test([Sums.of(np.zeros(9)), Sums.of(np.ones(9))])
    assert all_of_it is not None
    assert all_of_it.p_value == 0
