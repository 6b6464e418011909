"""AND and OR constructions, and what MMDS 3.6.1 to 3.6.4 say of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdb.errors import ConfigurationError
from simdb.lsh.amplification import (
    And,
    Construction,
    Or,
    Single,
    fixed_point,
    s_curve,
    steepest,
)
from simdb.lsh.curves import JaccardCurve, Sensitivity

AND_THEN_OR = Or(4, And(4))
OR_THEN_AND = And(4, Or(4))

# Exercise 3.6.1 (a) to (d), each beside its formula.
EXERCISE_3_6_1: list[tuple[Construction, object]] = [
    (Or(3, And(2)), lambda p: 1 - (1 - p**2) ** 3),
    (And(2, Or(3)), lambda p: (1 - (1 - p) ** 3) ** 2),
    (And(2, Or(2, And(2))), lambda p: (1 - (1 - p**2) ** 2) ** 2),
    (And(2, Or(2, And(2, Or(2)))), lambda p: (1 - (1 - (1 - (1 - p) ** 2) ** 2) ** 2) ** 2),
]

trees = st.recursive(
    st.just(Single()),
    lambda inner: (
        st.builds(And, st.integers(1, 5), inner) | st.builds(Or, st.integers(1, 5), inner)
    ),
    max_leaves=4,
)


def test_example_3_17_minhash_is_sensitive_by_one_minus_the_distances():
    family = JaccardCurve().sensitivity(0.3, 0.6)
    assert (family.near, family.far) == (0.3, 0.6)
    assert family.near_probability == pytest.approx(0.7)
    assert family.far_probability == pytest.approx(0.4)


def test_figure_3_10_and_then_or():
    table = [0.0064, 0.0320, 0.0985, 0.2275, 0.4260, 0.6666, 0.8785, 0.9860]
    for tenths, expected in enumerate(table, 2):
        assert AND_THEN_OR.probability(tenths / 10) == pytest.approx(expected, abs=5.1e-5)


def test_figure_3_11_or_then_and():
    table = [0.0140, 0.1215, 0.3334, 0.5740, 0.7725, 0.9015, 0.9680, 0.9936]
    for tenths, expected in enumerate(table, 1):
        assert OR_THEN_AND.probability(tenths / 10) == pytest.approx(expected, abs=1.1e-4)


def test_example_3_18_sensitivity_and_fixed_point_of_and_then_or():
    family = JaccardCurve().sensitivity(0.2, 0.6).amplified(AND_THEN_OR)
    assert (family.near, family.far) == (0.2, 0.6)
    assert family.near_probability == pytest.approx(0.8785, abs=5e-5)
    assert family.far_probability == pytest.approx(0.0985, abs=5e-5)
    point = fixed_point(AND_THEN_OR)
    assert point is not None
    assert 0.7 < point < 0.8
    assert AND_THEN_OR.probability(point - 0.01) < point - 0.01
    assert AND_THEN_OR.probability(point + 0.01) > point + 0.01
    assert 2 < steepest(AND_THEN_OR)[1] < 2.5  # "never gets much higher than 2"


def test_example_3_19_sensitivity_of_or_then_and():
    family = JaccardCurve().sensitivity(0.2, 0.6).amplified(OR_THEN_AND)
    assert family.near_probability == pytest.approx(0.9936, abs=5e-5)
    assert family.far_probability == pytest.approx(0.5740, abs=5e-5)


def test_example_3_20_cascade_of_both():
    cascade = And(4, Or(4, AND_THEN_OR))
    family = JaccardCurve().sensitivity(0.2, 0.8).amplified(cascade)
    assert family.near_probability == pytest.approx(0.9991285, abs=5e-8)
    assert family.far_probability == pytest.approx(0.0000004, abs=5e-8)


@pytest.mark.parametrize(("construction", "formula"), EXERCISE_3_6_1)
def test_exercise_3_6_1_formulas(construction, formula):
    for tenths in range(11):
        single = Fraction(tenths, 10)
        assert construction.probability(single) == formula(single)


@pytest.mark.parametrize(("construction", "formula"), EXERCISE_3_6_1)
def test_exercise_3_6_2_fixed_points(construction, formula):
    point = fixed_point(construction)
    assert point is not None
    assert 0 < point < 1
    assert formula(point) == pytest.approx(point, abs=1e-12)
    assert construction.slope(point) > 1


@pytest.mark.parametrize(("bands", "rows"), [(4, 4), (20, 5), (16, 6), (3, 2)])
def test_exercises_3_6_3_and_3_6_4_steepest_points(bands, rows):
    """Setting the second derivative to 0 gives p^rows = (rows - 1) / (bands rows - 1)."""
    expected = ((rows - 1) / (bands * rows - 1)) ** (1 / rows)
    point, slope = steepest(Or(bands, And(rows)))
    assert point == pytest.approx(expected, abs=1e-6)
    assert slope == pytest.approx(Or(bands, And(rows)).slope(expected), rel=1e-9)
    # The other order is the mirror image: (1 - (1 - p)^b)^r = 1 - f(1 - p) with b and r swapped.
    mirrored, mirrored_slope = steepest(And(bands, Or(rows)))
    assert mirrored == pytest.approx(1 - expected, abs=1e-6)
    assert mirrored_slope == pytest.approx(slope, rel=1e-9)


@given(trees, st.floats(0.01, 0.99))
def test_the_slope_is_the_derivative(tree, single):
    step = 1e-6
    difference = (tree.probability(single + step) - tree.probability(single - step)) / (2 * step)
    assert tree.slope(single) == pytest.approx(difference, rel=1e-3, abs=1e-4)


def test_distances_beyond_the_largest_have_no_probability_below_0():
    assert JaccardCurve().sensitivity(0.2, 1.5).far_probability == 0


@given(trees)
def test_every_construction_keeps_the_ends_and_never_falls(tree):
    curve = s_curve(tree, 11)
    assert curve.shape == (11, 2)
    assert curve[0].tolist() == [0, 0]
    assert curve[-1].tolist() == [1, 1]
    assert (np.diff(curve[:, 1]) >= 0).all()


def test_a_single_function_an_and_and_an_or_have_no_fixed_point():
    assert fixed_point(Single()) is None
    assert fixed_point(And(3)) is None
    assert fixed_point(Or(3)) is None


def test_impossible_constructions_are_refused():
    with pytest.raises(ConfigurationError, match="And needs at least one member, not 0"):
        And(0)
    with pytest.raises(ConfigurationError, match="Or needs at least one member, not -1"):
        Or(-1)
    with pytest.raises(ConfigurationError, match=r"near distance 0\.5 must be below the far one"):
        Sensitivity(0.5, 0.5, 0.9, 0.1)
