"""Calibration of scores that are given as arrays, and mean differences over all pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simdb.arrays import Float64s
from simdb.errors import ConfigurationError
from simdb.upkeep.calibrate import Calibration, Mean, Sums, calibrate_sums, require_edges


def mean_difference(
    left: Sequence[float] | Float64s, right: Sequence[float] | Float64s | None = None
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
    scores: Sequence[float] | Float64s,
    differences: Sequence[float] | Float64s,
    *,
    matched: float | Sequence[float] | Float64s,
    random: float | Sequence[float] | Float64s,
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


def _mean_of(name: str, given: float | Sequence[float] | Float64s) -> Mean:
    """Return a known mean, or the mean of differences with its error."""
    values = _finite(name, np.atleast_1d(np.asarray(given, np.float64)))
    if not values.size:
        raise ConfigurationError(f"{name} must be a mean difference, or differences, not empty")
    if np.ndim(given) == 0:
        return Mean(float(values[0]))
    return Sums.of(values).mean


def _finite(name: str, given: Sequence[float] | Float64s) -> Float64s:
    values = np.asarray(given, np.float64)
    if values.ndim != 1:
        raise ConfigurationError(f"{name} must be numbers in a row, not {given!r}")
    kept: Float64s = values[np.isfinite(values)]
    return kept
