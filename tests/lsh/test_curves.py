"""Collision probabilities of families: what is stated, and that nothing is made up for the rest."""

from __future__ import annotations

from fractions import Fraction
from math import isnan
from typing import Any

import numpy as np
import pytest

from simdb.errors import ConfigurationError
from simdb.lsh.curves import (
    CertainCurve,
    Curve,
    HammingCurve,
    JaccardCurve,
    SumCurve,
    UnstatedCurve,
)
from simdb.lsh.planning import Plan, PlanRequest, plan


@pytest.mark.parametrize("counts", [(1, 1), (3, 2), (5, 7), (0, 4), (4, 4)])
def test_bags_agree_as_often_as_the_occurrences_are_similar(counts):
    """S has the sum of both bags below the line, J the union: S = J / (1 + J) (MMDS 3.1.3)."""
    shared, apart = counts
    jaccard = Fraction(shared, shared + apart)
    by_sum = Fraction(shared, 2 * shared + apart)
    assert SumCurve().probability(float(by_sum)) == pytest.approx(float(jaccard))


def test_no_similarity_of_bags_agrees_more_often_than_always():
    assert [SumCurve().probability(value) for value in (0.5, 0.6, 1.0)] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("curve", [UnstatedCurve(is_distance=False), CertainCurve(0.7)])
def test_what_is_not_stated_is_no_number(curve):
    assert isnan(curve.probability(0.5))
    assert isnan(curve.unrelated(0.5))
    assert isnan(Plan(Fraction(1, 2), 4, 3, curve).expected_recall(0.5))
    assert isnan(Plan(Fraction(1, 2), 4, 3, curve).false_candidates())


@pytest.mark.parametrize("value", [-1, 1.01, 2, float("nan"), "x", None])
def test_what_no_similarity_can_be_has_no_recall(value):
    planned = plan(Fraction(4, 5))
    with pytest.raises(ConfigurationError, match="a similarity must be a number between 0 and 1"):
        planned.expected_recall(value)
    with pytest.raises(ConfigurationError, match="a distance must be a number between 0 and 1"):
        planned.sensitivity(0.2, value)
    allowed: list[Any] = [0, Fraction(1), np.float32(1)]
    assert list(map(planned.expected_recall, allowed)) == [0, 1, 1]


@pytest.mark.parametrize("value", [-0.5, float("nan"), "x"])
def test_what_no_distance_can_be_has_no_recall(value):
    planned = Plan(Fraction(4), 4, 3, HammingCurve(64))
    with pytest.raises(ConfigurationError, match="a distance must be a number of at least 0"):
        planned.expected_recall(value)
    with pytest.raises(ConfigurationError, match="a distance must be a number of at least 0"):
        planned.sensitivity(value, 5)
    assert planned.expected_recall(100) == 0


def test_what_rules_find_for_certain_is_found_for_certain():
    chosen = Plan(Fraction(1, 2), 3, 1, CertainCurve(0.7))
    assert chosen.expected_recall(0.71) == 1
    assert isnan(chosen.expected_recall(0.7))


def test_no_plan_is_made_of_a_family_that_states_nothing():
    with pytest.raises(ConfigurationError, match="give both"):
        plan(Fraction(1, 2), PlanRequest(bands=5), UnstatedCurve(is_distance=True))
    assert (
        plan(Fraction(1, 2), PlanRequest(bands=5, rows=2), UnstatedCurve(is_distance=True)).bands
        == 5
    )


def test_false_candidates_are_the_mean_of_the_curve_below_the_threshold():
    chosen = Plan(Fraction(4, 5), 16, 6, JaccardCurve())
    steps = 2_000
    middles = (0.8 * (step + 0.5) / steps for step in range(steps))
    mean = sum(1 - (1 - value**6) ** 16 for value in middles) / steps
    assert chosen.false_candidates() == pytest.approx(mean, rel=1e-4)


class OneOfTen(Curve, frozen=True):
    """A curve of one's own that states what it must and nothing else."""

    falls = True
    row_budget = 256

    def probability(self, value):
        return max(0.0, 1 - value / 10)


def test_a_curve_that_says_nothing_of_unrelated_items_is_planned():
    chosen = plan(Fraction(1), PlanRequest(), OneOfTen())
    assert chosen.expected_recall(Fraction(1)) >= 0.99
    assert chosen.false_candidates() < 0.5
