"""What pairs of sets are worth by a measure, given their overlaps and sizes."""

from __future__ import annotations

import numpy as np

from simdb.arrays import Bools, Float64s, Int64s
from simdb.exact.measures import Criterion, Measure
from simdb.kinds import Compared


def are_within(criterion: Criterion, overlaps: Int64s, ones: Int64s, others: Int64s) -> Bools:
    """Tell which pairs of sets of these sizes, all at its floor or above, meet a criterion.

    The floor of Dice similarity is the criterion itself, d / (2 - d). That of cosine similarity is
    c^2, which a pair meets at less than c: here the overlap's square is compared with the sizes.
    """
    if criterion.measure is not Measure.COSINE or criterion.floor is None:
        return np.ones(overlaps.size, np.bool_)
    squares = overlaps.astype(np.int64) ** 2
    return criterion.floor.meets_many(squares, ones.astype(np.int64) * others)


def similarities_of(
    measure: Measure, compared: Compared, sizes: int | Int64s, stored_sizes: Int64s
) -> Float64s:
    """Compute the values of a measure as floating-point numbers, to be shown and sorted by."""
    overlaps = compared.numerators.astype(np.float64)
    if measure is Measure.JACCARD:
        return compared.values()
    if measure is Measure.DICE:
        return 2 * overlaps / (sizes + stored_sizes)
    if measure is Measure.COSINE:
        cosines: Float64s = overlaps / (np.sqrt(sizes) * np.sqrt(np.maximum(stored_sizes, 1)))
        return cosines
    if measure is Measure.STORED_IN_PROBE:
        return overlaps / np.maximum(stored_sizes, 1)
    return overlaps / sizes
