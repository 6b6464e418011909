"""Choosing bands and rows for a threshold and a wanted recall (MMDS 3.4.2, 3.4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf, isnan, nan, nextafter

import numpy as np

from simdb.arrays import Float64s
from simdb.errors import ConfigurationError
from simdb.lsh.amplification import And, Or, s_curve
from simdb.lsh.curves import Curve, JaccardCurve, UnstatedCurve
from simdb.lsh.family import MAXIMUM_FUNCTIONS

JACCARD = JaccardCurve()
_MOST_BANDS = 128
_MOST_ROWS = 128
_FEWEST_ROWS = 2  # with one row a band every pair of not quite unlike items is a candidate
_BYTES_A_BAND = 12  # a bucket entry: key and item number
_BYTES_A_ROW = 2  # a stored row

# What a byte of index an item is worth in probability that a dissimilar pair is a candidate. It
# decides only among plans whose false candidates hardly differ: at 0.8 and 0.99 12 x 5 saves 120
# bytes of 16 x 6 and has 0.02 more.
_WORTH_OF_A_BYTE = 5e-5


@dataclass(frozen=True, slots=True)
class Plan:
    """Bands and rows for a threshold.

    Attributes:
        threshold: the similarity, or the distance, that it was made for.
        bands, rows: groups of base functions, one bucket key each, and functions of a group.
        family: the collision probability of a base function.
    """

    threshold: Fraction
    bands: int
    rows: int
    family: Curve = JACCARD

    @property
    def signature_rows(self) -> int:
        """Base functions of a signature: bands * rows."""
        return self.bands * self.rows

    def expected_recall(self, value: float | Fraction) -> float:
        """Return the probability that a pair of this similarity, or distance, is found.

        1 - (1 - p^rows)^bands (MMDS 3.4.2), p being the collision probability of the family; less
        the probability, at most 1 in 10,000, that the pair, when searched at or below its
        similarity, is dropped for sharing too few rows. Identical items are never lost. nan where
        the family states no probability.
        """
        single = self.family.probability(float(value))
        if isnan(single):
            return nan
        if single >= 1:
            return 1.0
        shared = Or(self.bands, And(self.rows)).probability(single)
        return max(0.0, shared - self.family.loss)

    def curve(self, points: int = 101) -> Float64s:
        """Return the S-curve, float64 (points, 2): collision and candidate probability.

        For Jaccard similarity the collision probability is the similarity itself.
        """
        return s_curve(Or(self.bands, And(self.rows)), points)

    def false_candidates(self) -> float:
        """Return the probability that a pair that is not similar enough is a candidate.

        The collision probability is taken as uniform between that of unrelated items and that at
        the threshold, and the S-curve integrated by the trapezoidal rule.
        """
        near = self.family.probability(float(self.threshold))
        far = self.family.unrelated(float(self.threshold))
        single = np.linspace(far, near, 201)
        area = np.trapezoid(Or(self.bands, And(self.rows)).probability(single), single)
        return float(area) / max(near - far, 1e-9)


@lru_cache(maxsize=64, typed=True)
def plan(
    threshold: Fraction,
    recall: Fraction = Fraction(99, 100),
    bands: int | None = None,
    rows: int | None = None,
    family: Curve = JACCARD,
) -> Plan:
    """Choose bands and rows such that pairs at the threshold are found with the wanted recall.

    Within the family's budget of rows, it takes the fewest false candidates, weighed against the
    size of the index. ``bands`` or ``rows`` that are given stay; when both are, they are taken
    whatever their recall, which ``Plan.expected_recall`` tells. ConfigurationError: a value is out
    of range, or the budget does not reach the recall; the message says what it reaches.
    """
    if not family.falls and not 0 < threshold <= 1:
        raise ConfigurationError(f"threshold must be above 0 and at most 1, not {threshold}")
    if not 0 < recall < 1:
        raise ConfigurationError(f"recall must be above 0 and below 1, not {float(recall)}")
    for name, value in (("bands", bands), ("rows", rows)):
        if value is not None and (type(value) is not int or value < 1):
            raise ConfigurationError(f"{name} must be a whole number of at least 1, not {value!r}")
    if bands is not None and rows is not None:
        if bands * rows > MAXIMUM_FUNCTIONS:
            raise ConfigurationError(
                f"bands * rows is {bands * rows:,}, more than the {MAXIMUM_FUNCTIONS:,} of a "
                "signature"
            )
        return Plan(threshold, bands, rows, family)
    if isinstance(family, UnstatedCurve):
        raise ConfigurationError(
            "no probability is known by which bands and rows could be planned: give both"
        )
    budget = family.row_budget
    plans = [
        Plan(threshold, some_bands, some_rows, family)
        for some_bands in ([bands] if bands else range(1, min(budget, _MOST_BANDS) + 1))
        for some_rows in ([rows] if rows else range(_FEWEST_ROWS, min(budget, _MOST_ROWS) + 1))
        if some_bands * some_rows <= budget
    ]
    if not plans:
        raise ConfigurationError(
            f"bands={bands}, rows={rows} leaves no plan within {budget} rows of signature; "
            "give both to go beyond it"
        )
    least = float(recall)  # not below the recall, so that comparing with it is as good and quicker
    least = least if least >= recall else nextafter(least, inf)
    enough = [choice for choice in plans if choice.expected_recall(threshold) >= least]
    if not enough:
        best = max(plans, key=lambda choice: choice.expected_recall(threshold))
        raise ConfigurationError(
            f"recall {float(recall)} at {'distance' if family.falls else 'threshold'} "
            f"{float(threshold)} cannot be had with "
            f"{budget} rows of signature; {best.bands} bands of {best.rows} rows reach "
            f"{best.expected_recall(threshold):.4f}: lower the recall, or give bands and rows"
        )
    return min(enough, key=_cost)


def _cost(choice: Plan) -> tuple[float, int]:
    index_bytes = _BYTES_A_BAND * choice.bands + _BYTES_A_ROW * choice.signature_rows
    cost = choice.false_candidates() + _WORTH_OF_A_BYTE * index_bytes
    return cost, choice.signature_rows
