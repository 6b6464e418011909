"""Collision probabilities: how often one base function of a family agrees on two items.

Each is a function of their similarity or distance; AND and OR make S-curves of it (MMDS 3.6).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from simdb.lsh.amplification import (
    hamming_probability,
    hyperplane_probability,
    line_probability,
)


class Curve(ABC):
    """The collision probability of one family.

    Attributes:
        falls: it falls with the value, which is a distance; else it rises with a similarity.
        row_budget: base functions that planning may spend on an item.
        loss: probability that a similar pair with a common bucket is dropped all the same.
    """

    falls: bool
    row_budget: int
    loss: float = 0.0

    @abstractmethod
    def probability(self, value: float) -> float:
        """Return the probability that a base function agrees on items at this value."""

    @abstractmethod
    def unrelated(self, value: float) -> float:
        """Return the collision probability of unrelated items, where similar ones are at a value.

        Planning weighs the false candidates between there and the value.
        """


@dataclass(frozen=True, slots=True)
class JaccardCurve(Curve):
    """Minhash: the similarity itself (MMDS 3.3.3)."""

    falls = False
    row_budget = 128
    loss = 1e-4  # lsh.banding.FILTER_LOSS

    def probability(self, value: float) -> float:
        """Return the similarity."""
        return value

    def unrelated(self, value: float) -> float:
        """Return 0: unrelated sets share nothing."""
        return 0.0


@dataclass(frozen=True, slots=True)
class SumCurve(JaccardCurve):
    """Minhash of bags whose union adds up the counts: S / (1 - S) (MMDS 3.1.3)."""

    def probability(self, value: float) -> float:
        """Return the Jaccard similarity of the occurrences of bags that similar."""
        return min(1.0, value / (1 - value)) if value < 1 else 1.0


@dataclass(frozen=True, slots=True)
class HammingCurve(Curve):
    """Bit sampling: 1 - d / length (MMDS 3.7.1)."""

    length: int
    falls = True
    row_budget = 1_024

    def probability(self, value: float) -> float:
        """Return the share of places in which vectors at that distance agree."""
        return max(0.0, hamming_probability(value, self.length))

    def unrelated(self, value: float) -> float:
        """Return 1/2, that of random bits, or a little less than at the value."""
        return min(0.5, self.probability(value) / 2)


@dataclass(frozen=True, slots=True)
class AngleCurve(Curve):
    """Random hyperplanes: 1 - angle / 180 degrees (MMDS 3.7.2)."""

    falls = True
    row_budget = 1_024

    def probability(self, value: float) -> float:
        """Return the probability that a random hyperplane has both vectors on one side."""
        return max(0.0, hyperplane_probability(value))

    def unrelated(self, value: float) -> float:
        """Return 1/2, that of a right angle, or less where similar vectors are further apart."""
        return min(0.5, self.probability(value) / 2)


@dataclass(frozen=True, slots=True)
class LineCurve(Curve):
    """Random lines cut into buckets of a width (MMDS 3.7.4).

    Attributes:
        width: of a bucket.
        radius: how far apart by the L2 norm vectors at distance 1 by the measure can be.
    """

    width: float
    radius: float
    falls = True
    row_budget = 256

    def probability(self, value: float) -> float:
        """Return that points at that distance share a bucket of a line; at least that, but for L2.

        See ``line_probability``.
        """
        return max(0.0, line_probability(self.radius * value, self.width))

    def unrelated(self, value: float) -> float:
        """Return the probability at three times the distance."""
        return self.probability(3 * value)


@dataclass(frozen=True, slots=True)
class UnstatedCurve(Curve):
    """A family of which no collision probability is known."""

    falls: bool
    row_budget = 0

    def probability(self, value: float) -> float:
        """Return nan."""
        return math.nan

    def unrelated(self, value: float) -> float:
        """Return nan."""
        return math.nan


@dataclass(frozen=True, slots=True)
class CertainCurve(Curve):
    """Candidates by rules: of no stated probability but above a similarity, where all are found.

    Attributes:
        above: what is more similar agrees in a rule for certain.
    """

    above: float
    falls = False
    row_budget = 0

    def probability(self, value: float) -> float:
        """Return 1 above, else nan."""
        return 1.0 if value > self.above else math.nan

    def unrelated(self, value: float) -> float:
        """Return nan."""
        return math.nan
