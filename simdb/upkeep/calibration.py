"""How many pairs of a score are true matches, from a field that was not scored (MMDS 3.8.3).

Of true matches the field differs by h0 on average, of random pairs by h1. If the pairs of a score
differ by h, a fraction f of them are true: h = f h0 + (1 - f) h1, so f = (h1 - h) / (h1 - h0). No
pair need be labelled. It holds if the field depends on the score only by way of the match: papers
of the same authors are of similar years though they are different papers, and a year then promises
more matches among them than there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from simdb.errors import ConfigurationError

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean of differences and how sure it is.

    Attributes:
        value: the mean; one that is known and not estimated has the variance 0.
        variance: of the mean, not of the single difference.
        spread: the standard deviation of the single difference.
    """

    value: float
    variance: float = 0.0
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class Sums:
    """What is kept of many differences: their number, mean, and squares about the mean."""

    count: int = 0
    average: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, differences: Floats) -> Sums:
        """Return the sums of differences; those that are not finite are left out."""
        known = differences[np.isfinite(differences)]
        if not known.size:
            return cls()
        average = float(known.mean())
        return cls(known.size, average, float(np.square(known - average).sum()))

    def plus(self, other: Sums) -> Sums:
        """Return the sums of both together (Chan, Golub and LeVeque 1983)."""
        count = self.count + other.count
        if not self.count or not other.count:
            return self if self.count else other
        shift = other.average - self.average
        return Sums(
            count,
            self.average + shift * (other.count / count),
            self.squares + other.squares + shift**2 * (self.count * other.count / count),
        )

    @property
    def spread(self) -> float:
        """The standard deviation of the single difference; 0 of a single one."""
        return math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else 0.0

    @property
    def mean(self) -> Mean:
        """The mean and how sure it is."""
        spread = self.spread
        return Mean(self.average, spread**2 / max(1, self.count), spread)


@dataclass(frozen=True, slots=True)
class ScoreBucket:
    """The pairs whose scores lie in one interval.

    Attributes:
        low: the lowest score; it belongs to the bucket.
        high: the score above; it does not, but in the last bucket.
        pairs: how many, those without a difference not counted.
        difference: their mean difference, h; nan without pairs.
        fraction: of true matches, in [0, 1]; nan without pairs.
        fraction_low: the lower end of its confidence interval.
        fraction_high: the upper end.
    """

    low: float
    high: float
    pairs: int
    difference: float
    fraction: float
    fraction_low: float
    fraction_high: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The fraction of true matches at each score.

    Attributes:
        buckets: by ascending score.
        matched: the mean difference of true matches, h0.
        random: that of random pairs, h1.
        confidence: of the intervals.
    """

    buckets: tuple[ScoreBucket, ...]
    matched: Mean
    random: Mean
    confidence: float

    def threshold_for(self, precision: float) -> float | None:
        """Return the lowest score at which the pairs of it and above have a wanted precision.

        Returns:
            the low end of a bucket; None if not even the highest scores have that precision.

        Raises:
            ConfigurationError: the precision is not in (0, 1].
        """
        if not 0 < precision <= 1:
            raise ConfigurationError(f"the precision must be above 0 and at most 1: {precision!r}")
        lowest: float | None = None
        pairs, total = 0, 0.0
        for bucket in reversed(self.buckets):
            if not bucket.pairs:
                continue
            pairs += bucket.pairs
            total += bucket.pairs * bucket.difference
            if (
                fraction_of_matches(total / pairs, self.matched.value, self.random.value)
                < precision
            ):
                continue
            lowest = bucket.low
        return lowest


def fraction_of_matches(difference: Any, matched: Any, random: Any) -> Any:
    """Compute the fraction of true matches, (h1 - h) / (h1 - h0) (MMDS 3.8.3).

    Of numbers or arrays; exact for ``Fraction``. It may lie outside [0, 1] where the means are
    estimates.

    >>> fraction_of_matches(45, 10, 45)
    0.0

    Args:
        difference: the mean of the pairs in question, h.
        matched: of true matches, h0.
        random: of random pairs, h1.

    Raises:
        ConfigurationError: true matches differ as much as random pairs: the field tells nothing.
    """
    if matched == random:
        raise ConfigurationError(
            f"true matches and random pairs both differ by {matched} on average: this field "
            "cannot tell them apart"
        )
    return (random - difference) / (random - matched)


def mean_difference(
    left: Sequence[float] | Floats, right: Sequence[float] | Floats | None = None
) -> float:
    """Compute how much two values differ that are drawn at random, in O(n log n).

    One value is drawn from ``left`` and one from ``right``; without ``right`` both from ``left``,
    the same value possibly twice. It is exact: the mean over all pairs.

    >>> round(mean_difference(range(1, 11)), 12)  # ten years, each as likely as the others
    3.3

    Raises:
        ConfigurationError: there are no values.
    """
    one = np.sort(_finite("left", left))
    other = one if right is None else np.sort(_finite("right", right))
    if not one.size or not other.size:
        raise ConfigurationError("a mean difference needs values on both sides")
    sums = np.concatenate(([0.0], np.cumsum(other)))
    below = np.searchsorted(other, one)
    total = one * below - sums[below] + (sums[-1] - sums[below]) - one * (other.size - below)
    return float(total.sum() / (one.size * other.size))


def calibrate(
    scores: Sequence[float] | Floats,
    differences: Sequence[float] | Floats,
    *,
    matched: float | Sequence[float] | Floats,
    random: float | Sequence[float] | Floats,
    edges: Sequence[float],
    confidence: float = 0.95,
) -> Calibration:
    """Estimate the fraction of true matches among the pairs of each score (MMDS 3.8.3).

    Args:
        scores: of m pairs.
        differences: of the same pairs in the field that was not scored, such as the days between
            two dates, or 0 and 1 for equal and different; nan where a value is missing, which
            leaves the pair out.
        matched: the mean difference of true matches, h0, as a number, or the differences of pairs
            that surely match, such as those of the highest score.
        random: that of random pairs, h1, as a number (``mean_difference``) or as differences.
        edges: of the buckets, ascending; scores outside are left out.
        confidence: of the intervals, by Student's distribution and the propagation of errors. The
            interval of a bucket of one pair is all of [0, 1].

    Raises:
        ConfigurationError: the arrays differ in length, an array is empty, the edges do not ascend,
            or h0 and h1 are equal.
    """
    values, apart = np.asarray(scores, np.float64), np.asarray(differences, np.float64)
    if values.ndim != 1 or values.shape != apart.shape:
        raise ConfigurationError(
            f"scores and differences must be of one length, not {values.shape} and {apart.shape}"
        )
    bounds = require_edges(edges)
    places = np.searchsorted(bounds, values, side="right") - 1
    places[values == bounds[-1]] = bounds.size - 2
    return calibrate_sums(
        bounds,
        [Sums.of(apart[places == place]) for place in range(bounds.size - 1)],
        matched=_mean_of("matched", matched),
        random=_mean_of("random", random),
        confidence=confidence,
    )


def require_edges(edges: Sequence[float] | Floats) -> Floats:
    """Return the edges of buckets of scores.

    Raises:
        ConfigurationError: they do not ascend, or are less than two.
    """
    bounds = np.asarray(edges, np.float64)
    if bounds.ndim != 1 or bounds.size < 2 or not (np.diff(bounds) > 0).all():
        raise ConfigurationError(f"edges must ascend, two at least: {edges!r}")
    return bounds


def calibrate_sums(
    edges: Floats, sums: Sequence[Sums], *, matched: Mean, random: Mean, confidence: float
) -> Calibration:
    """Do as ``calibrate`` with the sums of each bucket instead of its differences."""
    if not 0 < confidence < 1:
        raise ConfigurationError(f"the confidence must lie between 0 and 1: {confidence!r}")
    buckets = tuple(
        _bucket(low, high, own, matched=matched, random=random, confidence=confidence)
        for own, (low, high) in zip(sums, pairwise(edges.tolist()), strict=True)
    )
    return Calibration(buckets, matched, random, confidence)


def _bucket(
    low: float, high: float, sums: Sums, *, matched: Mean, random: Mean, confidence: float
) -> ScoreBucket:
    """Return the fraction of a bucket and its interval."""
    if not sums.count:
        return ScoreBucket(low, high, 0, math.nan, math.nan, 0.0, 1.0)
    fraction = float(fraction_of_matches(sums.average, matched.value, random.value))
    around = math.inf
    if sums.count > 1:
        from scipy.special import stdtrit

        # A few pairs may agree by chance; even true matches spread as much as those of h0.
        spread = max(sums.spread, matched.spread)
        width = random.value - matched.value
        variance = (
            spread**2 / sums.count
            + fraction**2 * matched.variance
            + (1.0 - fraction) ** 2 * random.variance
        ) / width**2
        quantile = float(stdtrit(sums.count - 1, (1.0 + confidence) / 2))
        around = quantile * math.sqrt(variance)
    kept = min(max(fraction, 0.0), 1.0)
    lowest, highest = max(fraction - around, 0.0), min(fraction + around, 1.0)
    return ScoreBucket(
        low, high, sums.count, sums.average, kept, min(lowest, kept), max(highest, kept)
    )


def _mean_of(name: str, given: float | Sequence[float] | Floats) -> Mean:
    """Return a known mean, or the mean of differences with its error."""
    values = _finite(name, np.atleast_1d(np.asarray(given, np.float64)))
    if not values.size:
        raise ConfigurationError(f"{name} must be a mean difference, or differences, not empty")
    if np.ndim(given) == 0:
        return Mean(float(values[0]))
    return Sums.of(values).mean


def _finite(name: str, given: Sequence[float] | Floats) -> Floats:
    values = np.asarray(given, np.float64)
    if values.ndim != 1:
        raise ConfigurationError(f"{name} must be numbers in a row, not {given!r}")
    kept: Floats = values[np.isfinite(values)]
    return kept
