"""Collision probabilities of locality-sensitive families, and AND and OR of them (MMDS 3.4.2, 3.6).

A construction is a function of the probability p that one function of the family calls two items a
candidate pair: ``And(rows)`` gives p^rows, ``Or(bands)`` gives 1 - (1 - p)^bands, and each may hold
another inside, so that banding is ``Or(bands, And(rows))``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from simdb.errors import ConfigurationError

Probability = TypeVar("Probability", float, Fraction, npt.NDArray[np.float64])

_BISECTIONS = 60
_GRID = 4096
_FEW_WIDTHS = 1e-6


class Construction(ABC):
    """Turn the collision probability of a family into that of an amplified one."""

    @abstractmethod
    def probability(self, single: Probability) -> Probability:
        """Return the probability of a candidate pair, given that of a single function."""

    @abstractmethod
    def slope(self, single: Probability) -> Probability:
        """Return the derivative of ``probability``."""


@dataclass(frozen=True, slots=True)
class Single(Construction):
    """One function of the family as it is."""

    def probability(self, single: Probability) -> Probability:
        """Return p."""
        return single

    def slope(self, single: Probability) -> Probability:
        """Return 1, in the type of p."""
        return single * 0 + 1


@dataclass(frozen=True, slots=True)
class And(Construction):
    """``rows`` members of the inner family must all agree (MMDS 3.6.3)."""

    rows: int
    inner: Construction = Single()

    def __post_init__(self) -> None:
        _require_members("And", self.rows)

    def probability(self, single: Probability) -> Probability:
        """Return q^rows for the inner probability q."""
        return self.inner.probability(single) ** self.rows

    def slope(self, single: Probability) -> Probability:
        """Return rows q^(rows - 1) q'."""
        inner = self.inner.probability(single)
        return self.inner.slope(single) * self.rows * inner ** (self.rows - 1)


@dataclass(frozen=True, slots=True)
class Or(Construction):
    """At least one of ``bands`` members of the inner family must agree (MMDS 3.6.3)."""

    bands: int
    inner: Construction = Single()

    def __post_init__(self) -> None:
        _require_members("Or", self.bands)

    def probability(self, single: Probability) -> Probability:
        """Return 1 - (1 - q)^bands for the inner probability q."""
        return 1 - (1 - self.inner.probability(single)) ** self.bands

    def slope(self, single: Probability) -> Probability:
        """Return bands (1 - q)^(bands - 1) q'."""
        inner = self.inner.probability(single)
        return self.inner.slope(single) * self.bands * (1 - inner) ** (self.bands - 1)


def _require_members(name: str, members: int) -> None:
    if members < 1:
        raise ConfigurationError(f"{name} needs at least one member, not {members}")


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """A (d1, d2, p1, p2)-sensitive family (MMDS 3.6.1).

    Items at distance at most ``near`` are candidates with probability ``near_probability`` or more;
    items at distance at least ``far`` with probability ``far_probability`` or less.
    """

    near: float
    far: float
    near_probability: float
    far_probability: float

    def __post_init__(self) -> None:
        if not 0 <= self.near < self.far:
            raise ConfigurationError(
                f"the near distance {self.near} must be below the far one {self.far}"
            )

    def amplified(self, construction: Construction) -> Sensitivity:
        """Return the sensitivity of the family under a construction (MMDS 3.6.3)."""
        return Sensitivity(
            self.near,
            self.far,
            construction.probability(self.near_probability),
            construction.probability(self.far_probability),
        )


def minhash_sensitivity(near: float, far: float) -> Sensitivity:
    """Return the sensitivity of minhash: (d1, d2, 1 - d1, 1 - d2) (MMDS 3.6.2)."""
    return Sensitivity(near, far, 1 - near, 1 - far)


def hamming_probability(distance: float, length: int) -> float:
    """Return that two vectors of ``length`` bits agree in one of them: 1 - h / d (MMDS 3.7.1)."""
    return 1 - distance / length


def hyperplane_probability(angle: float) -> float:
    """Return that two vectors lie on one side of a hyperplane: 1 - angle / 180 (MMDS 3.7.2)."""
    return 1 - angle / 180


def line_probability(distance: float, bucket_width: float) -> float:
    """Return that two points share a bucket of a line whose direction is Gaussian (MMDS 3.7.5).

    For the Euclidean distance c and buckets of width a it is
    erf(a / (c sqrt 2)) - sqrt(2 / pi) (c / a) (1 - exp(-a^2 / (2 c^2))), whatever the dimension
    (Datar, Immorlica, Indyk and Mirrokni, SoCG 2004, 3.2). It falls with the distance.
    """
    if distance == 0:
        return 1.0
    widths = bucket_width / distance
    if widths < _FEW_WIDTHS:  # the differences below have no digits left
        return widths / math.sqrt(2 * math.pi)
    tail = -math.expm1(-widths * widths / 2) / widths
    return math.erf(widths / math.sqrt(2)) - math.sqrt(2 / math.pi) * tail


def hamming_sensitivity(length: int, near: float, far: float) -> Sensitivity:
    """Return the sensitivity of bit sampling: (d1, d2, 1 - d1/d, 1 - d2/d) (MMDS 3.7.1)."""
    return Sensitivity(
        near, far, hamming_probability(near, length), hamming_probability(far, length)
    )


def hyperplane_sensitivity(near: float, far: float) -> Sensitivity:
    """Return that of random hyperplanes: (d1, d2, (180 - d1)/180, (180 - d2)/180) (MMDS 3.7.2)."""
    return Sensitivity(near, far, hyperplane_probability(near), hyperplane_probability(far))


def line_sensitivity(bucket_width: float, near: float, far: float) -> Sensitivity:
    """Return the sensitivity of random lines in a Euclidean space (MMDS 3.7.4, 3.7.5)."""
    return Sensitivity(
        near, far, line_probability(near, bucket_width), line_probability(far, bucket_width)
    )


def s_curve(construction: Construction, points: int = 101) -> npt.NDArray[np.float64]:
    """Return float64 (points, 2): p evenly from 0 to 1 and its candidate probability."""
    single = np.linspace(0.0, 1.0, points)
    return np.column_stack((single, construction.probability(single)))


def threshold_estimate(bands: int, rows: int) -> float:
    """Return (1 / bands)^(1 / rows), where the S-curve is about steepest (MMDS 3.4.2)."""
    return float((1 / bands) ** (1 / rows))


def fixed_point(construction: Construction) -> float | None:
    """Return the p in (0, 1) that the construction leaves as it is, or None without one.

    Above it amplification raises probabilities, below it lowers them (MMDS 3.6.3). Found by
    bisection between the first two points of a grid where the curve crosses the diagonal.
    """
    single = np.linspace(0.0, 1.0, _GRID + 1)[1:-1]
    above = construction.probability(single) > single
    crossings = np.flatnonzero(above[1:] != above[:-1])
    if crossings.size == 0:
        return None
    low, high = float(single[crossings[0]]), float(single[crossings[0] + 1])
    low_is_above = bool(above[crossings[0]])
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if (construction.probability(middle) > middle) == low_is_above:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def steepest(construction: Construction) -> tuple[float, float]:
    """Return the p at which the S-curve is steepest, and its slope there (MMDS 3.4.2)."""
    low, high = 0.0, 1.0
    for _ in range(4):
        single = np.linspace(low, high, _GRID + 1)
        best = int(np.argmax(construction.slope(single)))
        low, high = float(single[max(best - 1, 0)]), float(single[min(best + 1, _GRID)])
    return float(single[best]), float(construction.slope(float(single[best])))
