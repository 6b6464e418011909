"""Searches by Dice, cosine and containment: criteria, bounds and floors, against fractions."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest

from simdb.exact.measures import Criterion, SetSimilarity
from simdb.exact.thresholds import Threshold
from tests.support import similarities
from tests.support.exact_oracle import THRESHOLDS, adversarial_sets, columns, similarity
from tests.support.exact_stores import slow_search, some_order

pytestmark = pytest.mark.usefixtures("wrap_around")


MEASURES = [
    (SetSimilarity.JACCARD, similarities.jaccard),
    (SetSimilarity.DICE, similarities.dice),
    (
        SetSimilarity.COSINE,
        lambda probe, stored: Fraction(len(probe & stored) ** 2, len(probe) * len(stored)),
    ),
    (SetSimilarity.STORED_IN_PROBE, lambda probe, stored: similarities.containment(stored, probe)),
    (SetSimilarity.PROBE_IN_STORED, similarities.containment),
    (
        SetSimilarity.OVERLAP,
        lambda probe, stored: Fraction(len(probe & stored), min(len(probe), len(stored))),
    ),
]


@pytest.mark.parametrize(("measure", "slow"), MEASURES)
def test_searches_by_other_measures_miss_nothing_on_the_floor_they_ask_for(
    measure, slow, long_form
):
    generator = random.Random(11)
    on_threshold = 0
    cases = 60 if long_form else 6
    for case in range(cases):
        threshold = THRESHOLDS[3 * case % len(THRESHOLDS)]
        wanted = threshold**2 if measure is SetSimilarity.COSINE else threshold
        sets = [one for one in adversarial_sets(generator, wanted) if one]
        sets += [one for one in adversarial_sets(generator, wanted / (2 - wanted)) if one]
        arranged = some_order(generator, sets).arrange(*columns(sets))
        criterion = Criterion(measure, Threshold(threshold))
        for place, probe in enumerate(sets):
            span = slice(arranged.offsets[place], arranged.offsets[place + 1])
            keys = arranged.values[span].tolist()
            candidates = slow_search(arranged, keys, criterion, criterion.floor)
            for item, stored in enumerate(sets):
                exact = slow(probe, stored)
                overlap, sizes = len(probe & stored), (len(probe), len(stored))
                assert similarity(measure, overlap, *sizes) == exact
                assert (overlap >= criterion.needed_overlap(*sizes)) == (exact >= wanted)
                assert item in candidates or exact < wanted
                on_threshold += exact == wanted
    assert on_threshold >= cases


def test_needed_overlaps_of_arrays_equal_the_scalar_form():
    sizes = np.arange(1, 60)
    for measure, threshold in itertools.product(SetSimilarity, ["1/3", "0.8", "1"]):
        criterion = Criterion(measure, Threshold.parse(threshold))
        for probe in (1, 7, 40):
            assert criterion.needed_overlaps(probe, sizes).tolist() == [
                criterion.needed_overlap(probe, size) for size in sizes.tolist()
            ]


@pytest.mark.parametrize(
    ("measure", "threshold", "floor", "served"),
    [
        (SetSimilarity.JACCARD, "0.7", "0.7", True),
        (SetSimilarity.JACCARD, "0.69", "0.7", False),
        (SetSimilarity.DICE, "14/17", "0.7", True),
        (SetSimilarity.DICE, "0.82", "0.7", False),
        (SetSimilarity.COSINE, "0.9", "0.81", True),
        (SetSimilarity.COSINE, "0.89", "0.8", False),
        (SetSimilarity.STORED_IN_PROBE, "0.7", "0.7", True),
        (SetSimilarity.STORED_IN_PROBE, "0.6", "0.7", False),
        (SetSimilarity.PROBE_IN_STORED, "1", "0.01", False),
    ],
)
def test_an_index_serves_a_measure_up_to_the_floor_it_asks_for(measure, threshold, floor, served):
    criterion = Criterion(measure, Threshold.parse(threshold))
    assert (criterion.floor is not None and Threshold.parse(floor) <= criterion.floor) == served


def test_measures_of_sets_and_bags_follow_their_definitions():
    left, right = {1, 2, 3, 4}, {3, 4, 5}
    assert similarities.jaccard(left, right) == Fraction(2, 5)
    assert similarities.dice(left, right) == Fraction(4, 7)
    assert similarities.cosine(left, right) == pytest.approx(2 / 12**0.5)
    assert similarities.containment(right, left) == Fraction(2, 3)
    assert similarities.overlap_coefficient(left, right) == Fraction(2, 3)
    # MMDS example 3.2 and the footnote of 3.1.3.
    assert similarities.bag_jaccard_of_sums("aaab", "aabbc") == Fraction(1, 3)
    assert similarities.bag_jaccard_of_maxima("aaab", "aabbc") == Fraction(1, 2)
    empty: set[int] = set()
    assert similarities.jaccard(empty, empty) == similarities.cosine(empty, empty) == 0
