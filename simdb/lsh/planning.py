"""Choosing bands and rows for a threshold and a wanted recall (MMDS 3.4.2, 3.4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from simdb.errors import ConfigurationError
from simdb.lsh.amplification import And, Or, s_curve
from simdb.lsh.banding import FILTER_LOSS
from simdb.lsh.sketching import MAXIMUM_ROWS

ROW_BUDGET = 128
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
        threshold: the similarity it was made for.
        bands: how many groups of rows, one bucket key each.
        rows: rows a band.
    """

    threshold: Fraction
    bands: int
    rows: int

    @property
    def signature_rows(self) -> int:
        """Rows of a signature: bands * rows."""
        return self.bands * self.rows

    def expected_recall(self, similarity: float | Fraction) -> float:
        """Return the probability that a pair of this similarity is found.

        1 - (1 - s^rows)^bands (MMDS 3.4.2), less the probability, at most 1 in 10,000, that the
        pair, when searched at or below its similarity, is dropped for sharing too few rows.
        Identical items are never lost.
        """
        if similarity >= 1:
            return 1.0
        shared = Or(self.bands, And(self.rows)).probability(float(similarity))
        return max(0.0, shared - float(FILTER_LOSS))

    def curve(self, points: int = 101) -> npt.NDArray[np.float64]:
        """Return the S-curve, float64 (points, 2): similarity, probability of a shared band."""
        return s_curve(Or(self.bands, And(self.rows)), points)

    def false_candidates(self) -> float:
        """Return the probability that a pair of a similarity below the threshold is a candidate.

        The similarity is taken as uniform over [0, threshold].
        """
        return _false_area(self.bands, self.rows, float(self.threshold)) / float(self.threshold)


def plan(
    threshold: Fraction,
    recall: Fraction = Fraction(99, 100),
    bands: int | None = None,
    rows: int | None = None,
) -> Plan:
    """Choose bands and rows such that pairs at the threshold are found with the wanted recall.

    Among at most ``ROW_BUDGET`` rows, it takes the fewest false candidates, weighed against the
    size of the index. ``bands`` or ``rows`` that are given stay; when both are, they are taken
    whatever their recall, which ``Plan.expected_recall`` tells.

    Raises:
        ConfigurationError: a value is out of range, or the budget does not reach the recall; the
            message says what it reaches.
    """
    if not 0 < threshold <= 1:
        raise ConfigurationError(f"threshold must be above 0 and at most 1, not {threshold}")
    if not 0 < recall < 1:
        raise ConfigurationError(f"recall must be above 0 and below 1, not {float(recall)}")
    _require_whole("bands", bands)
    _require_whole("rows", rows)
    if bands is not None and rows is not None:
        if bands * rows > MAXIMUM_ROWS:
            raise ConfigurationError(
                f"bands * rows is {bands * rows:,}, more than the {MAXIMUM_ROWS:,} of a signature"
            )
        return Plan(threshold, bands, rows)
    plans = [
        Plan(threshold, some_bands, some_rows)
        for some_bands in ([bands] if bands else range(1, ROW_BUDGET + 1))
        for some_rows in ([rows] if rows else range(_FEWEST_ROWS, ROW_BUDGET + 1))
        if some_bands * some_rows <= ROW_BUDGET
    ]
    if not plans:
        raise ConfigurationError(
            f"bands={bands}, rows={rows} leaves no plan within {ROW_BUDGET} rows of signature; "
            "give both to go beyond it"
        )
    enough = [choice for choice in plans if choice.expected_recall(threshold) >= recall]
    if not enough:
        best = max(plans, key=lambda choice: choice.expected_recall(threshold))
        raise ConfigurationError(
            f"recall {float(recall)} at threshold {float(threshold)} cannot be had with "
            f"{ROW_BUDGET} rows of signature; {best.bands} bands of {best.rows} rows reach "
            f"{best.expected_recall(threshold):.4f}: lower the recall, or give bands and rows"
        )
    return min(enough, key=_cost)


def _require_whole(name: str, value: int | None) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigurationError(f"{name} must be a whole number of at least 1, not {value!r}")


def _false_area(bands: int, rows: int, threshold: float) -> float:
    """Return the integral of the S-curve from 0 to the threshold (the trapezoidal rule)."""
    similarity = np.linspace(0.0, threshold, 201)
    return float(np.trapezoid(Or(bands, And(rows)).probability(similarity), similarity))


def _cost(choice: Plan) -> tuple[float, int]:
    index_bytes = _BYTES_A_BAND * choice.bands + _BYTES_A_ROW * choice.signature_rows
    cost = choice.false_candidates() + _WORTH_OF_A_BYTE * index_bytes
    return cost, choice.signature_rows
