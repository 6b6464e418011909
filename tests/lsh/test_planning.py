"""Bands and rows for a threshold and a recall."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdb
from simdb.errors import ConfigurationError
from simdb.lsh import planning
from simdb.lsh.amplification import candidate_shares
from simdb.lsh.fast_sketches import agreements
from simdb.lsh.planning import JACCARD, Plan, PlanRequest

LOSS = 1e-4  # of the row filter


def plan(threshold: Fraction, recall: Fraction = Fraction(99, 100), **asked: Any) -> Plan:
    return planning.plan(threshold, PlanRequest(recall, **asked))


def exact_recall(similarity: Fraction, bands: int, rows: int) -> float:
    return float(1 - (1 - similarity**rows) ** bands)


def false_share(threshold: Fraction, bands: int, rows: int) -> float:
    """Return the mean of the S-curve below the threshold, by the midpoint rule."""
    steps = 400
    middles = (float(threshold) * (step + 0.5) / steps for step in range(steps))
    return sum(1 - (1 - s**rows) ** bands for s in middles) / steps


def test_the_default_plan_is_16_bands_of_6_rows():
    chosen = plan(Fraction(4, 5))
    assert (chosen.bands, chosen.rows, chosen.signature_rows) == (16, 6, 96)
    assert chosen.expected_recall(Fraction(4, 5)) == pytest.approx(0.99218, abs=1e-5)
    assert chosen.expected_recall(0.7) == pytest.approx(0.865, abs=5e-4)
    assert chosen.expected_recall(0.6) == pytest.approx(0.534, abs=5e-4)


@given(
    st.fractions(Fraction(3, 10), Fraction(99, 100), max_denominator=100),
    st.fractions(Fraction(1, 2), Fraction(99, 100), max_denominator=100),
)
def test_a_plan_reaches_the_recall_within_the_budget_and_wastes_nothing(threshold, recall):
    chosen = plan(threshold, recall)
    assert chosen.signature_rows <= JACCARD.row_budget
    assert chosen.rows >= 2
    assert exact_recall(threshold, chosen.bands, chosen.rows) - LOSS >= recall
    mine = false_share(threshold, chosen.bands, chosen.rows)
    for bands in range(1, chosen.bands + 1):
        for rows in range(2, chosen.signature_rows // bands + 1):
            if exact_recall(threshold, bands, rows) - LOSS >= recall:
                assert false_share(threshold, bands, rows) >= mine - 1e-4


def test_a_higher_threshold_leaves_fewer_false_candidates():
    shares = [plan(Fraction(tenths, 10)).false_candidates() for tenths in range(4, 11)]
    assert shares == sorted(shares, reverse=True)
    assert shares[4] == pytest.approx(false_share(Fraction(4, 5), 16, 6), abs=1e-4)


def test_expected_recall_is_that_of_the_s_curve_less_the_loss_of_the_filter():
    chosen = Plan(Fraction(4, 5), 20, 5)
    for tenths in range(1, 10):
        similarity = Fraction(tenths, 10)
        expected = max(0.0, exact_recall(similarity, 20, 5) - LOSS)
        assert chosen.expected_recall(similarity) == pytest.approx(expected, abs=1e-12)
        assert chosen.expected_recall(float(similarity)) == pytest.approx(expected, abs=1e-12)
    assert chosen.expected_recall(0) == 0
    assert chosen.expected_recall(1) == 1


WRONG_ARGUMENTS = [
    ((Decimal("sNaN"),), "a similarity must be a number"),
    ((5,), "a similarity must be a number between 0 and 1, not 5"),
    ((-1,), "a similarity must be a number"),
    ((math.nan,), "a similarity must be a number"),
    ((Decimal("NaN"),), "a similarity must be a number"),
    ((10**400,), "a similarity must be a number"),
    ((True,), "a similarity must be a number"),
    (("0.8",), "a similarity must be a number"),
    ((0.8, -1), "needed must be a whole number between 0 and 96, not -1"),
    ((0.8, 97), "needed must be a whole number"),
    ((0.8, 0, 0), "union must be a whole number between 1"),
    ((0.8, 0, 1.5), "union must be a whole number"),
    ((0.8, 0, 10**30), "union must be a whole number"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG_ARGUMENTS)
def test_probabilities_of_what_cannot_be_are_refused(arguments, message):
    chosen = plan(Fraction(4, 5))
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        chosen.candidate_probability(*arguments)
    if arguments[1:] in [(), arguments[2:]]:
        with pytest.raises(ConfigurationError, match=re.escape(message)):
            chosen.expected_recall(*arguments)


@pytest.mark.parametrize(
    "value", [0.8, Fraction(4, 5), Decimal("0.8"), np.float64(0.8), np.array(0.8)]
)
def test_numbers_of_every_type_are_numbers(value):
    chosen, many = plan(Fraction(4, 5)), cast("Any", np.int64(100))
    assert chosen.expected_recall(value) == chosen.expected_recall(0.8)
    assert chosen.expected_recall(value, many) == chosen.expected_recall(0.8, 100)
    assert chosen.sensitivity(value, 1) == chosen.sensitivity(0.8, 1)


def test_of_many_rows_the_probability_is_near_that_of_counting(monkeypatch):
    monkeypatch.setattr(planning, "_MOST_COUNTED", 1_024)
    many = Plan(Fraction(4, 5), 65, 16)
    shares = candidate_shares(many.construction, 1_040)
    for similarity in (0.5, 0.6, 0.7, 0.8):
        law = agreements(similarity, 1_040)
        for needed in (500, 650, 750, 850):
            stated = many.candidate_probability(similarity, needed)
            assert stated == pytest.approx(float(law[needed:] @ shares[needed:]), abs=0.02)


def test_the_curve_is_data():
    curve = Plan(Fraction(4, 5), 20, 5).curve(11)
    assert curve.dtype == np.float64
    assert curve[:, 0] == pytest.approx(np.arange(11) / 10)
    assert curve[5, 1] == pytest.approx(exact_recall(Fraction(1, 2), 20, 5))


def test_numbers_of_points_and_of_items_are_whole():
    chosen: Any = Plan(Fraction(4, 5), 20, 5)
    assert chosen.curve(np.int64(3)).shape == (3, 2)
    assert chosen.chance_meetings(0) == 0
    for wrong in (-3, "x", None, 2.5, True):
        with pytest.raises(ConfigurationError, match="points must be a whole number"):
            chosen.curve(points=wrong)
        with pytest.raises(ConfigurationError, match="items must be a whole number"):
            chosen.chance_meetings(wrong)


def test_threshold_one_needs_one_band():
    chosen = plan(Fraction(1))
    assert chosen.bands == 1
    assert chosen.expected_recall(1) == 1


def test_given_bands_and_rows_are_used_as_they_are():
    assert plan(Fraction(4, 5), bands=2, rows=50) == Plan(Fraction(4, 5), 2, 50)
    assert plan(Fraction(4, 5), bands=200, rows=10).signature_rows == 2000
    assert plan(Fraction(1, 2), bands=40).bands == 40
    assert plan(Fraction(1, 2), rows=1).rows == 1
    chosen = plan(Fraction(4, 5), rows=5)
    assert (chosen.bands, chosen.rows) == (12, 5)


@pytest.mark.parametrize("threshold", [Fraction(1, 20), Fraction(1, 10), Fraction(1, 5)])
@pytest.mark.parametrize("budget", [96, 256, 1_024])
def test_a_low_threshold_is_planned_within_a_budget_of_the_caller(threshold, budget):
    chosen = plan(threshold, row_budget=budget)
    assert chosen.signature_rows <= budget
    assert exact_recall(threshold, chosen.bands, chosen.rows) - LOSS >= Fraction(99, 100)


def test_a_larger_budget_has_fewer_false_candidates_if_these_are_asked_for():
    threshold, usual = Fraction(4, 5), plan(Fraction(4, 5))
    few = plan(threshold, row_budget=1_024, false_candidates=Fraction(1, 6))
    assert few.false_candidates() <= 1 / 6 < usual.false_candidates()
    assert few.expected_recall(threshold) >= 0.99
    assert usual.signature_rows < few.signature_rows <= 1_024
    assert plan(threshold, false_candidates=Fraction(1, 2)) == usual


@pytest.mark.parametrize(
    ("threshold", "recall"), [("1/10", "9/10"), ("1/10", "99/100"), ("1/5", "9/10")]
)
def test_the_budgets_that_a_refusal_names_are_the_least_that_are_enough(threshold, recall):
    threshold, recall = Fraction(threshold), Fraction(recall)
    with pytest.raises(ConfigurationError) as refused:
        plan(threshold, recall=recall, row_budget=5)
    several, single = map(int, re.findall(r"(?<=of )\d+(?=, or| for bands)", str(refused.value)))
    for budget, rows in ((several, {"rows": 2}), (single, {})):
        assert plan(threshold, recall=recall, row_budget=budget, **rows).bands
        with pytest.raises(ConfigurationError):
            plan(threshold, recall=recall, row_budget=budget - 1, **rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": Fraction(0)}, "threshold must be above 0 and at most 1, not 0"),
        ({"threshold": Fraction(11, 10)}, "threshold must be above 0 and at most 1, not 11/10"),
        ({"recall": Fraction(0)}, r"above 0 and below 1, or 1 for .*, not 0\.0"),
        ({"recall": Fraction(1)}, r"above 0 and below 1, or 1 for .*, not 1\.0"),
        ({"bands": 0}, "bands must be a whole number of at least 1, not 0"),
        ({"rows": True}, "rows must be a whole number of at least 1, not True"),
        ({"rows": 2.0}, r"rows must be a whole number of at least 1, not 2\.0"),
        ({"bands": 100, "rows": 100}, "bands \\* rows is 10,000, more than the 4,096"),
        ({"bands": 100}, "bands=100, rows=None leaves no plan within 128 rows"),
        (
            {"threshold": Fraction(1, 5)},
            r"128 rows of signature and two or more a band .*; 64 bands of 2 rows reach 0\.9265: "
            "lower .* row budget of 228, or of 21 for bands of a single row, or give bands",
        ),
        (
            {"threshold": Fraction(1, 20)},
            "reach 0.1479: lower the recall, give a row budget of 3688, or of 90 for bands of a",
        ),
        ({"threshold": Fraction(1, 1_000)}, "reach 0.0000: lower the recall, or give bands"),
        ({"row_budget": 5_000}, "row_budget is 5000, more than the 4,096"),
        ({"row_budget": 2}, r"recall 0\.99 at threshold 0\.8 cannot be reached .* row budget of "),
        ({"false_candidates": Fraction(1, 50)}, r"16 bands of 6 rows have 0\.2741: ask for more"),
        ({"threshold": 0.5, "recall": 0.9999}, r"64 bands of 2 rows reach 0\.9998: lower"),
        ({"rows": 20}, r"recall 0\.99 at threshold 0\.8 cannot be reached .* 6 bands of 20 rows"),
    ],
)
def test_what_cannot_be_had_is_refused_with_its_reason(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        plan(**{"threshold": Fraction(4, 5), **arguments})


@pytest.mark.parametrize("recall", [0, -0.1, 1, 1.5, "x", True])
def test_a_recall_that_cannot_be_had_is_always_refused_in_the_same_words(recall):
    words = "recall must be a number above 0 and below 1, or 1 for an index that misses nothing"
    with pytest.raises(ConfigurationError, match=words):
        simdb.plan(recall=recall)


def test_from_0_264_on_128_rows_suffice():
    """As docs/kinds.md and docs/command-line.md say."""
    assert simdb.plan(0.264).signature_rows == 128
    with pytest.raises(ConfigurationError, match="row budget of 130"):
        simdb.plan(0.263)


def test_bands_and_rows_that_are_both_given_are_taken_whatever_they_find_or_meet():
    given = simdb.plan(0.8, bands=2, rows=1, items=10**9)
    assert (given.bands, given.rows) == (2, 1)
    assert given.expected_recall(0.8) < 0.99
    assert given.chance_meetings(10**9) > 2


def test_how_many_items_there_will_be_is_nothing_asked_of_an_index():
    """Of kinds that plan by themselves it is no contradiction, and chooses as without it."""
    for kind in (simdb.String(), simdb.Bits(64), simdb.Record([simdb.Field("a")])):
        bound = {"max_distance": 2} if kind.is_distance else {"threshold": 0.8}
        made = [simdb.Recipe.of(kind, **bound, seed=1, items=items) for items in (None, 1_000)]
        assert made[0] == made[1]
    many = simdb.Recipe.of(simdb.Bits(64), max_distance=8, seed=1, items=10**8)
    assert many == simdb.Recipe.of(simdb.Bits(64), max_distance=8, seed=1)
    cascade = simdb.Or(20, simdb.And(3))
    assert simdb.plan(0.8, cascade=cascade, items=10) == simdb.plan(0.8, cascade=cascade)
    with pytest.raises(ConfigurationError, match="a number of items needs a threshold"):
        simdb.Recipe.of(simdb.Set(), threshold=None, exact_floor=0.5, items=10)
