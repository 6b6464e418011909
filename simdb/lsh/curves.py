"""Collision probabilities: how often one base function of a family agrees on two items.

Each is a function of their similarity or distance; AND and OR make S-curves of it (MMDS 3.6).
"""

from __future__ import annotations

import math
from typing import ClassVar

from msgspec import Struct

from simdb.errors import ConfigurationError
from simdb.lsh.amplification import Construction

_FEW_WIDTHS = 1e-6
_WIDTHS_OF_RADIUS = 4


class Sensitivity(Struct, frozen=True):
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
        near, far = map(construction.probability, (self.near_probability, self.far_probability))
        return Sensitivity(self.near, self.far, near, far)


class Curve(Struct, frozen=True):
    """The collision probability of one family.

    Attributes:
        row_budget: base functions that planning may spend on an item.
        loss: probability that a similar pair with a common bucket is dropped all the same.
    """

    row_budget: ClassVar[int] = 0
    loss: ClassVar[float] = 0.0

    @property
    def falls(self) -> bool:
        """Whether it falls with the value, which is a distance; else it rises with a similarity."""
        return False

    def probability(self, value: float) -> float:
        """Return the probability that a base function agrees on items at this value.

        By default it is not known: nan.
        """
        return math.nan

    @property
    def is_exact(self) -> bool:
        """Whether that is the probability itself, and not what it is at least."""
        return True

    def unrelated(self, value: float) -> float:
        """Return the collision probability of unrelated items, where similar ones are at a value.

        Planning weighs the false candidates between there and the value. By default unrelated items
        never agree.
        """
        return 0.0

    def chance(self, value: float) -> float:
        """Return the collision probability of items that have to do with each other by chance only.

        Their meetings in buckets grow with the square of the items; by default ``unrelated``.
        """
        return self.unrelated(value)

    def sensitivity(self, near: float, far: float) -> Sensitivity:
        """State how a base function tells items at a near distance from those at a far one.

        Of a similarity, the distance is 1 minus it (MMDS 3.6.1).

        >>> HammingCurve(10).sensitivity(1, 4)
        Sensitivity(near=1, far=4, near_probability=0.9, far_probability=0.6)
        """
        values = (near, far) if self.falls else (1 - near, 1 - far)
        return Sensitivity(near, far, *map(self.probability, values))


class JaccardCurve(Curve, frozen=True):
    """Minhash: the similarity itself (MMDS 3.3.3)."""

    row_budget: ClassVar[int] = 128
    loss: ClassVar[float] = 1e-4  # lsh.family.FILTER_LOSS

    def probability(self, value: float) -> float:
        """Return the similarity; 0 below it."""
        return max(0.0, value)

    def chance(self, value: float) -> float:
        """Return 1/20: what texts of one language share in their shingles."""
        return 0.05


class EstimateCurve(JaccardCurve, frozen=True):
    """Rows of a signature, drawn: the share that is equal, which estimates the similarity."""

    loss: ClassVar[float] = 0.0


class SumCurve(JaccardCurve, frozen=True):
    """Minhash of bags whose union adds up the counts: S / (1 - S) (MMDS 3.1.3)."""

    def probability(self, value: float) -> float:
        """Return the Jaccard similarity of the occurrences of bags that similar."""
        return min(1.0, value / (1 - value)) if value < 1 else 1.0


class HammingCurve(Curve, frozen=True):
    """Bit sampling: 1 - d / length (MMDS 3.7.1)."""

    length: int
    row_budget: ClassVar[int] = 1_024

    @property
    def falls(self) -> bool:
        """Whether the value is a distance: it is."""
        return True

    def probability(self, value: float) -> float:
        """Return the share of places in which vectors at that distance agree."""
        return max(0.0, 1 - value / self.length)

    def unrelated(self, value: float) -> float:
        """Return 1/2, that of random bits, or a little less than at the value."""
        return min(0.5, self.probability(value) / 2)


class AngleCurve(HammingCurve, frozen=True):
    """Random hyperplanes: 1 - angle / 180 degrees (MMDS 3.7.2); 1/2 at a right angle."""

    length: int = 180


class LineCurve(Curve, frozen=True):
    """Random lines cut into buckets of a width (MMDS 3.7.4).

    How often two vectors share a bucket follows from their Euclidean distance, which is that of the
    measure, or anything between two bounds of it: |x|_1 / sqrt(d) <= |x|_2 <= |x|_1, and
    |x|_inf <= |x|_2 <= sqrt(d) |x|_inf.
    """

    width: float  # of a bucket
    dimension: int  # d
    norm: float  # of the measure: 1, 2 or infinity
    row_budget: ClassVar[int] = 256

    @property
    def falls(self) -> bool:
        """Whether the value is a distance: it is."""
        return True

    @property
    def is_exact(self) -> bool:
        """Whether the distance is the Euclidean one."""
        return self.norm == 2

    def probability(self, value: float) -> float:
        """Return ``line_probability`` at that distance; at least that, but for L2."""
        return line_probability(implied_radius(value, self.dimension, self.norm), self.width)

    def unrelated(self, value: float) -> float:
        """Return the probability at three times the distance."""
        return self.probability(3 * value)

    def sensitivity(self, near: float, far: float) -> Sensitivity:
        """State how a line tells near vectors from far ones, also where L2 is only bounded."""
        nearest = far / math.sqrt(self.dimension) if self.norm < 2 else far
        return Sensitivity(near, far, self.probability(near), line_probability(nearest, self.width))


class UnstatedCurve(Curve, frozen=True):
    """A family of which no collision probability is known."""

    is_distance: bool

    @property
    def falls(self) -> bool:
        """Whether the value is a distance."""
        return self.is_distance

    def unrelated(self, value: float) -> float:
        """Return nan."""
        return math.nan


class CertainCurve(Curve, frozen=True):
    """Candidates by rules: of no stated probability but above a similarity, where all are found."""

    above: float  # what is more similar agrees in a rule for certain

    def probability(self, value: float) -> float:
        """Return 1 above, else nan."""
        return 1.0 if value > self.above else math.nan

    def unrelated(self, value: float) -> float:
        """Return nan."""
        return math.nan


class WithinCurve(Curve, frozen=True):
    """Items within a bound are found for certain; of others nothing is stated."""

    bound: float  # a distance where the curve falls, else a similarity
    is_distance: bool

    @property
    def falls(self) -> bool:
        """Whether the value is a distance."""
        return self.is_distance

    def probability(self, value: float) -> float:
        """Return 1 within the bound, nan beyond."""
        is_within = value <= self.bound if self.falls else value >= self.bound
        return 1.0 if is_within else math.nan

    def unrelated(self, value: float) -> float:
        """Return nan."""
        return math.nan


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


def implied_radius(distance: float, dimension: int, norm: float) -> float:
    """The largest distance in the L2 norm of vectors at a distance by another norm."""
    return math.sqrt(dimension) * distance if norm > 2 else distance


def bucket_width_for(distance: float, dimension: int, norm: float) -> float:
    """Return a bucket width for finding vectors at most a distance apart: 4 implied radii.

    Vectors at that radius share a bucket with probability 0.80, at twice that radius with 0.61.
    """
    return _WIDTHS_OF_RADIUS * implied_radius(distance, dimension, norm)
