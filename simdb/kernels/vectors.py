"""Distances of float32 vectors in float64, and scans for the near ones (MMDS 3.5.2, 3.5.4).

Every sum runs over the components in one fixed order, so that a distance is the same in whatever
batch and on whatever machine it is computed. Differences of float32 in float64 lose at most the
last bit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simdb.kernels.compiling import kernel

ANGLE, EUCLIDEAN, MANHATTAN, MAXIMUM = range(4)

_LANES = 32
_DEGREES = 180.0 / np.pi
_EPSILON = 2.0**-52


@kernel
def _total(sums: npt.NDArray[np.float64]) -> np.float64:
    """Return the sum of the lanes, in pairs that lie 16, 8, 4, 2 and 1 apart."""
    apart = _LANES // 2
    while apart:
        for lane in range(apart):
            sums[lane] += sums[lane + apart]
        apart //= 2
    return np.float64(sums[0])


@kernel
def _square_of_difference(
    one: npt.NDArray[np.float32],
    other: npt.NDArray[np.float32],
    one_factor: float,
    other_factor: float,
    sums: npt.NDArray[np.float64],
) -> np.float64:
    """Return the squared length of one_factor * one - other_factor * other."""
    sums[:] = 0.0
    whole = one.size - one.size % _LANES
    for start in range(0, whole, _LANES):
        left, right = one[start : start + _LANES], other[start : start + _LANES]
        for lane in range(_LANES):
            apart = one_factor * np.float64(left[lane]) - other_factor * np.float64(right[lane])
            sums[lane] += apart * apart
    for place in range(whole, one.size):
        apart = one_factor * np.float64(one[place]) - other_factor * np.float64(other[place])
        sums[place - whole] += apart * apart
    return _total(sums)


@kernel
def _sum_of_differences(
    one: npt.NDArray[np.float32], other: npt.NDArray[np.float32], sums: npt.NDArray[np.float64]
) -> np.float64:
    """Return how far two vectors are apart in all components together."""
    sums[:] = 0.0
    whole = one.size - one.size % _LANES
    for start in range(0, whole, _LANES):
        left, right = one[start : start + _LANES], other[start : start + _LANES]
        for lane in range(_LANES):
            sums[lane] += abs(np.float64(left[lane]) - np.float64(right[lane]))
    for place in range(whole, one.size):
        sums[place - whole] += abs(np.float64(one[place]) - np.float64(other[place]))
    return _total(sums)


@kernel
def _largest_difference(
    one: npt.NDArray[np.float32], other: npt.NDArray[np.float32], largest: npt.NDArray[np.float64]
) -> np.float64:
    """Return how far two vectors are apart in the component where they are farthest."""
    largest[:] = 0.0
    whole = one.size - one.size % _LANES
    for start in range(0, whole, _LANES):
        left, right = one[start : start + _LANES], other[start : start + _LANES]
        for lane in range(_LANES):
            apart = abs(np.float64(left[lane]) - np.float64(right[lane]))
            largest[lane] = apart if apart > largest[lane] else largest[lane]
    for place in range(whole, one.size):
        apart = abs(np.float64(one[place]) - np.float64(other[place]))
        largest[0] = apart if apart > largest[0] else largest[0]
    for lane in range(_LANES):
        largest[0] = largest[lane] if largest[lane] > largest[0] else largest[0]
    return np.float64(largest[0])


@kernel
def _product_and_square(
    one: npt.NDArray[np.float32],
    other: npt.NDArray[np.float32],
    products: npt.NDArray[np.float64],
    squares: npt.NDArray[np.float64],
) -> tuple[np.float64, np.float64]:
    """Return the dot product, and the squared length of the second vector."""
    products[:] = 0.0
    squares[:] = 0.0
    whole = one.size - one.size % _LANES
    for start in range(0, whole, _LANES):
        left, right = one[start : start + _LANES], other[start : start + _LANES]
        for lane in range(_LANES):
            products[lane] += np.float64(left[lane]) * np.float64(right[lane])
            squares[lane] += np.float64(right[lane]) * np.float64(right[lane])
    for place in range(whole, one.size):
        products[place - whole] += np.float64(one[place]) * np.float64(other[place])
        squares[place - whole] += np.float64(other[place]) * np.float64(other[place])
    return _total(products), _total(squares)


@kernel
def distance(
    one: npt.NDArray[np.float32],
    other: npt.NDArray[np.float32],
    measure: int,
    sums: npt.NDArray[np.float64],
) -> np.float64:
    """Return the distance of two vectors by the measure of that number.

    An angle is in degrees, 0 to 180, as 2 atan2(|x' - y'|, |x' + y'|) of x and y brought to one
    length (W. Kahan, How Futile are Mindless Assessments of Roundoff, 2006): the arc cosine has no
    digits left below a millionth of a degree. With a zero vector it is 0.
    """
    if measure == EUCLIDEAN:
        return np.float64(np.sqrt(_square_of_difference(one, other, 1.0, 1.0, sums)))
    if measure == MANHATTAN:
        return _sum_of_differences(one, other, sums)
    if measure == MAXIMUM:
        return _largest_difference(one, other, sums)
    one_length = np.sqrt(_square_of_difference(one, one, 1.0, 0.0, sums))
    other_length = np.sqrt(_square_of_difference(other, other, 1.0, 0.0, sums))
    apart = np.sqrt(_square_of_difference(one, other, other_length, one_length, sums))
    along = np.sqrt(_square_of_difference(one, other, other_length, -one_length, sums))
    return np.float64(2.0 * np.arctan2(apart, along) * _DEGREES)


@kernel
def compare_rows(
    left: npt.NDArray[np.float32],
    right: npt.NDArray[np.float32],
    left_rows: npt.NDArray[np.int64],
    right_rows: npt.NDArray[np.int64],
    measure: int,
) -> npt.NDArray[np.float64]:
    """Return the distances, float64 (m,), of vectors ``left_rows[i]`` and ``right_rows[i]``."""
    distances = np.empty(left_rows.size, np.float64)
    sums = np.empty(_LANES, np.float64)
    for pair in range(left_rows.size):
        one, other = left[left_rows[pair]], right[right_rows[pair]]
        distances[pair] = distance(one, other, measure, sums)
    return distances


@kernel
def scan(
    probe: npt.NDArray[np.float32], vectors: npt.NDArray[np.float32], measure: int, limit: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Find every vector at most ``limit`` from the probe, exactly as ``compare_rows`` has it.

    Of angles only those are computed whose cosine, which takes one reading, is not below that of
    the limit by more than its error.

    Returns:
        int64 (m,), their rows, rising; float64 (m,), their distances.
    """
    rows = np.empty(vectors.shape[0], np.int64)
    distances = np.empty(vectors.shape[0], np.float64)
    sums = np.empty(_LANES, np.float64)
    others = np.empty(_LANES, np.float64)
    length = np.sqrt(_square_of_difference(probe, probe, 1.0, 0.0, sums))
    error = (probe.size + 16.0) * _EPSILON
    least = np.cos(min(limit, 180.0) / _DEGREES) - error
    found = 0
    for row in range(vectors.shape[0]):
        if measure == ANGLE:
            along, square = _product_and_square(probe, vectors[row], sums, others)
            if along < least * length * np.sqrt(square):
                continue
        value = distance(probe, vectors[row], measure, sums)
        if value <= limit:
            rows[found] = row
            distances[found] = value
            found += 1
    return rows[:found].copy(), distances[:found].copy()
