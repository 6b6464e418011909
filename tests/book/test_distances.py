"""Distances of MMDS 3.5: its examples and exercises by number, and the four axioms."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from simdb.errors import ConfigurationError
from simdb.kinds.distances import (
    angle,
    hamming_distance,
    jaccard_distance,
    lr_distance,
)

FOUR_VECTORS = ("000000", "110011", "010101", "011100")

whole = st.integers(-1000, 1000)
triples = st.integers(1, 5).flatmap(
    lambda size: st.tuples(*[st.lists(whole, min_size=size, max_size=size)] * 3)
)
sets = st.frozensets(st.integers(0, 8))
orders = st.sampled_from([1, 1.5, 2, 3, 7, 40, math.inf])


def is_a_distance(function: Callable[[Any, Any], Any], points: Any, slack: float) -> None:
    """Assert the four axioms of MMDS 3.5.1; ``slack`` is for the rounding of the third side."""
    x, y, z = points
    for one, other in ((x, y), (y, z), (x, z)):
        assert function(one, other) >= 0
        assert (function(one, other) == 0) == (one == other)
        assert function(one, other) == function(other, one)
    assert all(function(point, point) == 0 for point in (x, y, z))
    assert function(x, y) <= (function(x, z) + function(z, y)) * (1 + slack)


# --------------------------------------------------------------------------------------- examples


def test_example_3_12_three_norms_of_the_plane():
    assert lr_distance((2, 7), (6, 4)) == 5
    assert lr_distance((2, 7), (6, 4), 1) == 7
    assert lr_distance((2, 7), (6, 4), math.inf) == 4


def test_section_3_5_2_the_norms_approach_the_largest_difference():
    distances = [lr_distance((2, 7), (6, 4), order) for order in (1, 2, 4, 8, 64)]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] == pytest.approx(4, abs=1e-6)


def test_example_3_13_an_angle_of_60_degrees():
    assert angle((1, 2, -1), (2, 1, 1)) == pytest.approx(60, abs=1e-13)


def test_footnote_4_multiples_are_the_same_direction():
    assert angle((1, 2), (3, 6)) == 0
    assert angle((1, 2), (-3, -6)) == 180


def test_example_3_16_hamming_distance():
    assert hamming_distance("10101", "11110") == 3


# -------------------------------------------------------------------------------------- exercises


def test_exercise_3_5_1_which_functions_are_distances():
    points = range(4)
    for x in points:
        for y in points:
            for z in points:
                is_a_distance(lambda one, other: abs(one - other), (x, y, z), 0)
    with pytest.raises(AssertionError):
        is_a_distance(max, (1, 2, 3), 0)  # max(1, 1) is 1
    with pytest.raises(AssertionError):
        is_a_distance(lambda one, other: one + other, (1, 2, 3), 0)  # and 1 + 1 is 2


def test_exercise_3_5_2_two_norms():
    assert lr_distance((5, 6, 7), (8, 2, 4), 1) == 10
    assert lr_distance((5, 6, 7), (8, 2, 4), 2) == pytest.approx(math.sqrt(34), rel=1e-15)


@given(triples, st.integers(1, 6), st.integers(1, 6))
def test_exercise_3_5_3_norms_fall_with_their_order(points, one, other):
    low, high = sorted((one, other))
    x, y, _ = points
    assert lr_distance(x, y, low) >= lr_distance(x, y, high) * (1 - 1e-14)
    if low < high and sum(a != b for a, b in zip(x, y, strict=True)) > 1:
        assert lr_distance(x, y, low) > lr_distance(x, y, high)


def test_exercise_3_5_4_jaccard_distances():
    assert jaccard_distance({1, 2, 3, 4}, {2, 3, 4, 5}) == Fraction(2, 5)
    assert jaccard_distance({1, 2, 3}, {4, 5, 6}) == 1


@pytest.mark.parametrize(
    ("left", "right", "cosine"),
    [
        ((3, -1, 2), (-2, 3, 1), -7 / 14),
        ((1, 2, 3), (2, 4, 6), 1),
        ((5, 0, -4), (-1, -6, 2), -13 / 41),
        ((0, 1, 1, 0, 1, 1), (0, 0, 1, 0, 0, 0), 1 / 2),
    ],
)
def test_exercise_3_5_5_cosines(left, right, cosine):
    assert math.cos(math.radians(angle(left, right))) == pytest.approx(cosine, abs=1e-15)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=12))
def test_exercise_3_5_6_vectors_of_0_and_1_are_at_most_90_degrees_apart(pairs):
    left, right = zip(*pairs, strict=True)
    assume(any(left) and any(right))
    assert angle(left, right) <= 90 + 1e-12


def test_exercise_3_5_10_hamming_distances():
    distances = [hamming_distance(*pair) for pair in combinations(FOUR_VECTORS, 2)]
    assert distances == [4, 3, 3, 3, 5, 2]


# ----------------------------------------------------------------------------------------- axioms


@given(triples, orders)
def test_every_lr_norm_is_a_distance(points, order):
    is_a_distance(lambda x, y: lr_distance(x, y, order), points, 1e-13)


@given(sets, sets, sets)
def test_jaccard_distance_is_a_distance(x, y, z):
    is_a_distance(jaccard_distance, (x, y, z), 0)


@given(triples)
def test_the_angle_is_a_distance_of_directions(points):
    assume(all(any(point) for point in points))
    directions = [tuple(component // math.gcd(*point) for component in point) for point in points]
    is_a_distance(angle, directions, 1e-13)
    assert all(0 <= angle(x, y) <= 180 for x, y in combinations(directions, 2))


@given(triples)
def test_hamming_distance_is_a_distance(points):
    is_a_distance(hamming_distance, points, 0)


@given(
    st.integers(1, 4).flatmap(lambda n: st.tuples(*[st.text("abc", min_size=n, max_size=n)] * 3))
)
def test_hamming_distance_of_any_components(points):
    is_a_distance(hamming_distance, points, 0)
    x, y, _ = points
    assert hamming_distance(x, y) == len([i for i in range(len(x)) if x[i] != y[i]])


# ------------------------------------------------------------------------------ where it could fail


@pytest.mark.parametrize("order", [0, 0.5, -1, math.nan])
def test_an_order_below_1_is_no_norm(order):
    with pytest.raises(ConfigurationError, match="r must be at least 1, not"):
        lr_distance((1, 2), (3, 4), order)


def test_the_triangle_inequality_fails_below_order_1():
    """Why it is refused: by the square root of r = 1/2 the detour over a corner is shorter."""
    corner = (math.sqrt(1) + math.sqrt(1)) ** 2  # from (0, 0) to (1, 1)
    assert corner > 1 + 1  # by way of (0, 1)


def test_different_dimensions_are_refused():
    for function in (lr_distance, angle, hamming_distance):
        with pytest.raises(ValueError, match="2 and 3 components"):
            function((1, 2), (1, 2, 3))


def test_a_vector_without_a_direction_has_no_angle():
    with pytest.raises(ValueError, match=r"largest component is 0\.0 has no direction"):
        angle((0, 0), (1, 2))
    with pytest.raises(ValueError, match="largest component is inf has no direction"):
        angle((1, 2), (1, math.inf))


@pytest.mark.parametrize("order", [1, 1.5, 2, 3, math.inf])
def test_what_is_no_number_has_no_distance_and_what_is_infinite_an_infinite_one(order):
    nan, inf = math.nan, math.inf
    for wrong in ((1, nan), (nan, 1), (inf, nan), (nan, inf)):
        assert math.isnan(lr_distance(wrong, (0, 0), order))
        assert math.isnan(lr_distance((0, 0), wrong, order))
    for far in ((inf, 1), (1, -inf), (inf, -inf)):
        assert lr_distance(far, (0, 0), order) == inf
    assert math.isnan(lr_distance((inf, 1), (inf, 2), order))  # as inf - inf is


def test_the_angle_of_what_is_no_number_is_none():
    for wrong in ((1, math.nan), (math.nan, 1), (0, math.nan), (math.nan, math.inf)):
        assert math.isnan(angle(wrong, (1, 2)))
        assert math.isnan(angle((1, 2), wrong))


def test_nothing_overflows_and_small_angles_have_their_digits():
    assert lr_distance((1e300, 0), (0, 1e300), 3) == pytest.approx(1e300 * 2 ** (1 / 3))
    assert lr_distance((1e300, 0), (0, 1e300)) == pytest.approx(1e300 * math.sqrt(2))
    assert angle((1e300, 1e300), (1e-300, 0)) == pytest.approx(45)
    tiny = math.degrees(1e-12)
    assert angle((1, 0), (1, 1e-12)) == pytest.approx(tiny, rel=1e-12)
    assert np.degrees(np.arccos(1 / math.hypot(1, 1e-12))) == 0  # what the arc cosine says
