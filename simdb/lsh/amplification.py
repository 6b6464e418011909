"""AND and OR of locality-sensitive families, and the S-curves they make (MMDS 3.4.2, 3.6).

A construction is a function of the probability p that one function of the family calls two items a
candidate pair: ``And(rows)`` gives p^rows, ``Or(bands)`` gives 1 - (1 - p)^bands, and each may hold
another inside, so that banding is ``Or(bands, And(rows))``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np

from simdb.arrays import Float64s
from simdb.errors import ConfigurationError

Probability = TypeVar("Probability", float, Fraction, Float64s)

_GRID = 4096
_REFINEMENTS = 4  # of a grid between two of its points, after which these are next to each other


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


def s_curve(construction: Construction, points: int = 101) -> Float64s:
    """Return float64 (points, 2): p evenly from 0 to 1 and its candidate probability."""
    single = np.linspace(0.0, 1.0, points)
    return np.column_stack((single, construction.probability(single)))


def fixed_point(construction: Construction) -> float | None:
    """Return the p in (0, 1) that the construction leaves as it is, or None without one.

    Above it amplification raises probabilities, below it lowers them (MMDS 3.6.3). It lies between
    the first two points of ever finer grids where the curve crosses the diagonal.
    """
    single = np.linspace(0.0, 1.0, _GRID + 1)[1:-1]
    for _ in range(_REFINEMENTS):
        above = construction.probability(single) > single
        crossings = np.flatnonzero(above[1:] != above[:-1])
        if crossings.size == 0:
            return None
        single = np.linspace(single[crossings[0]], single[crossings[0] + 1], _GRID + 1)
    return float(single[0])


def steepest(construction: Construction) -> tuple[float, float]:
    """Return the p at which the S-curve is steepest, and its slope there (MMDS 3.4.2)."""
    low, high = 0.0, 1.0
    for _ in range(_REFINEMENTS):
        single = np.linspace(low, high, _GRID + 1)
        best = int(np.argmax(construction.slope(single)))
        low, high = float(single[max(best - 1, 0)]), float(single[min(best + 1, _GRID)])
    return float(single[best]), float(construction.slope(float(single[best])))
