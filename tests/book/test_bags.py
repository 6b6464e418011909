"""Examples and exercises of MMDS 3.1, by number."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any, Literal

import numpy as np
import pytest

from simdb.kinds import Compared, Measure
from simdb.kinds.bags import Bag
from simdb.kinds.base import SetMeasure
from simdb.kinds.sets import SetItems

SECRET = b"secret"
EXAMPLE_3_2 = ("aaab", "aabbc")
FIGURE_3_1 = ({1, 2, 3, 4, 5}, {3, 4, 5, 6, 7, 8})  # S and T: 3 common elements of 8
EXERCISE_3_1_1 = ({1, 2, 3, 4}, {2, 3, 5, 7}, {2, 4, 6})
EXERCISE_3_1_2 = ([1, 1, 1, 2], [1, 1, 2, 2, 3], [1, 2, 3, 4])

pytestmark = pytest.mark.usefixtures("wrap_around")


def of_all_pairs(items: Any, measure: Measure, members: Any) -> list[Fraction]:
    """The similarity of every pair, in order of ``combinations``."""
    features = items.features([items.encode(member) for member in members])
    pairs = np.array(list(combinations(range(len(members)), 2)), np.int64).T
    compared: Compared = measure.compare_pairs(features, pairs[0].copy(), pairs[1].copy())
    return list(map(Fraction, compared.numerators.tolist(), compared.denominators.tolist()))


def of_bags(union: Literal["sum", "maximum"], members: Any) -> list[Fraction]:
    kind = Bag(union)
    inner = of_all_pairs(kind.make_items(SECRET), kind.make_measure(), members)
    return list(map(kind.outer_similarity, inner))


def test_figure_3_1_and_example_3_1_two_sets_with_similarity_3_8():
    assert of_all_pairs(SetItems(SECRET), SetMeasure(), FIGURE_3_1) == [Fraction(3, 8)]


def test_example_3_2_bag_similarity_with_the_sum_is_a_third():
    assert of_bags("sum", list(map(list, EXAMPLE_3_2))) == [Fraction(1, 3)]


def test_footnote_of_3_1_3_bag_similarity_with_the_maximum():
    # The union {a, a, a, b, b, c} has 6 members.
    assert of_bags("maximum", list(map(list, EXAMPLE_3_2))) == [Fraction(3, 6)]


def test_3_1_3_the_highest_similarity_of_bags_is_a_half_or_one():
    bag = {"a": 3, "b": 1}
    assert of_bags("sum", [bag, bag]) == [Fraction(1, 2)]
    assert of_bags("maximum", [bag, bag]) == [1]


def test_exercise_3_1_1_jaccard_similarities():
    expected = [Fraction(2, 6), Fraction(2, 5), Fraction(1, 6)]
    assert of_all_pairs(SetItems(SECRET), SetMeasure(), EXERCISE_3_1_1) == expected


def test_exercise_3_1_2_bag_similarities():
    assert of_bags("sum", EXERCISE_3_1_2) == [Fraction(3, 9), Fraction(2, 8), Fraction(3, 9)]
    expected = [Fraction(3, 6), Fraction(2, 6), Fraction(3, 6)]
    assert of_bags("maximum", EXERCISE_3_1_2) == expected


@pytest.mark.parametrize(("universe", "members"), [(4, 2), (5, 2), (5, 3), (6, 4)])
def test_exercise_3_1_3_expected_similarity_of_random_sets(universe, members):
    sets = list(combinations(range(universe), members))
    items: Any = SetItems(SECRET)
    features = items.features(list(map(items.encode, sets)))
    compared = SetMeasure().compare_probe(items.features([items.encode(sets[0])]), features)
    # Every common k has comb(m, k) comb(n - m, m - k) of the comb(n, m) sets, at k / (2m - k).
    expected = sum(
        Fraction(comb(members, k) * comb(universe - members, members - k), len(sets))
        * Fraction(k, 2 * members - k)
        for k in range(1, members + 1)
    )
    rows = zip(compared.numerators.tolist(), compared.denominators.tolist(), strict=True)
    assert sum((Fraction(*row) for row in rows), Fraction(0)) / len(sets) == expected
