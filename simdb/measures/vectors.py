"""Distances of vectors: Lr norms and the angle between directions (MMDS 3.5.2, 3.5.4).

``lr_distance`` and ``angle`` take two vectors of any numbers, one pair at a time; ``VectorMeasure``
compares many float32 vectors at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from simdb.errors import ConfigurationError
from simdb.measures.compared import Compared

VectorMeasureName: TypeAlias = Literal["cosine", "euclidean", "manhattan", "maximum"]
Vectors: TypeAlias = npt.NDArray[np.float32]

# In the order of the numbers that the kernels know them by.
VECTOR_MEASURES: tuple[VectorMeasureName, ...] = ("cosine", "euclidean", "manhattan", "maximum")


def lr_distance(left: Sequence[float], right: Sequence[float], order: float = 2) -> float:
    """Compute the distance by the Lr norm for r = ``order``, also ``math.inf`` (MMDS 3.5.2).

    Differences are scaled by the largest, so that no power overflows.

    Raises:
        ConfigurationError: r is below 1, where the triangle inequality fails.
        ValueError: the vectors have different dimensions.

    >>> lr_distance([2, 7], [6, 4]), lr_distance([2, 7], [6, 4], 1)
    (5.0, 7.0)
    >>> lr_distance([2, 7], [6, 4], math.inf)
    4.0
    """
    if not order >= 1:
        raise ConfigurationError(f"an Lr norm needs an r of at least 1, not {order!r}")
    differences = [abs(float(one) - float(other)) for one, other in zip(left, right, strict=True)]
    largest = max(differences, default=0.0)
    if order == 1:
        return math.fsum(differences)
    if largest == 0 or math.isinf(order):
        return largest
    if order == 2:
        return math.hypot(*differences)
    powers = math.fsum((each / largest) ** order for each in differences)
    return float(largest * powers ** (1 / order))


def cosine_of_angle(left: Sequence[float], right: Sequence[float]) -> float:
    """Compute the cosine of the angle between two vectors: x.y / (|x| |y|) (MMDS 3.5.4).

    Raises:
        ValueError: the vectors have different dimensions, or one has no direction.

    >>> round(cosine_of_angle([1, 2, -1], [2, 1, 1]), 12)
    0.5
    """
    one, other = _unit(left), _unit(right)
    product = math.fsum(a * b for a, b in zip(one, other, strict=True))
    return max(-1.0, min(1.0, product))


def angle(left: Sequence[float], right: Sequence[float]) -> float:
    """Compute the cosine distance: the angle between two vectors in degrees, 0 to 180 (MMDS 3.5.4).

    By half the angle's tangent, and not by the arc cosine, which is blind to small angles.

    Raises:
        ValueError: the vectors have different dimensions, or one has no direction.

    >>> round(angle([1, 2, -1], [2, 1, 1]), 12)
    60.0
    """
    one, other = _unit(left), _unit(right)
    pairs = list(zip(one, other, strict=True))
    apart = math.hypot(*(a - b for a, b in pairs))
    along = math.hypot(*(a + b for a, b in pairs))
    return math.degrees(2 * math.atan2(apart, along))


def _unit(vector: Sequence[float]) -> list[float]:
    components = [float(component) for component in vector]
    largest = max(map(abs, components), default=0.0)
    if not 0 < largest < math.inf:
        raise ValueError(f"a vector whose largest component is {largest} has no direction")
    scaled = [component / largest for component in components]
    length = math.hypot(*scaled)
    return [component / length for component in scaled]


class VectorMeasure:
    """Compare float32 vectors by one measure, in float64.

    ``"cosine"`` is the angle in degrees, ``"euclidean"``, ``"manhattan"`` and ``"maximum"`` are the
    L2, L1 and L-infinity norm of the difference; all are distances. The same two vectors have the
    same distance in every batch and on every machine, whichever comes first; equal ones have 0.
    """

    def __init__(self, measure: VectorMeasureName) -> None:
        if measure not in VECTOR_MEASURES:
            raise ConfigurationError(f"measure must be one of {VECTOR_MEASURES}, not {measure!r}")
        self._number = VECTOR_MEASURES.index(measure)

    def compare_probe(self, probe: Vectors, features: Vectors) -> Compared:
        """Return the distances of the one vector of ``probe`` to each of ``features``.

        Args:
            probe: float32 (1, d).
            features: float32 (n, d).
        """
        rows = np.arange(len(features), dtype=np.int64)
        return self._compare(probe, features, np.zeros_like(rows), rows)

    def compare_pairs(
        self, features: Vectors, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
    ) -> Compared:
        """Return the distances of ``features[left[i]]`` and ``features[right[i]]``."""
        return self._compare(features, features, left, right)

    def scan(
        self, probe: Vectors, features: Vectors, limit: float
    ) -> tuple[npt.NDArray[np.int64], Compared]:
        """Find all of ``features`` at most ``limit`` from the probe: exact, by reading all.

        Returns:
            int64, their rows, rising; their distances, each as ``compare_probe`` has it.
        """
        from simdb.kernels import vectors

        rows, distances = vectors.scan(probe[0], features, self._number, float(limit))
        return rows, Compared(distances, np.ones_like(distances))

    def _compare(
        self,
        one: Vectors,
        other: Vectors,
        left: npt.NDArray[np.int64],
        right: npt.NDArray[np.int64],
    ) -> Compared:
        from simdb.kernels import vectors

        distances = vectors.compare_rows(one, other, left, right, self._number)
        return Compared(distances, np.ones_like(distances))
