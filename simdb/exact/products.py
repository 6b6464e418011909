"""Near pairs of vectors by matrix products: what may be near, none missing, block by block.

The square of a distance is |a|^2 + |b|^2 - 2 a.b, so of two blocks of vectors all are one product
of two matrices, which takes a small part of the time of comparing pair by pair. It is rounded, and
nobody knows in which order a library adds. So a block is asked for what is *at most* the limit and
a bound of the error, and who asks compares those pairs anew, by the definition.

The bound. Let u = 2^-53, and let a and b be the vectors less a common centre, of lengths |a| and
|b|; the product has d + 2 terms, the two squares among them. A sum of n products in any order,
fused or not, is off by at most g(n) = n u / (1 - n u) times the sum of the sizes of its terms
(Higham, Accuracy and Stability of Numerical Algorithms, 3.1), which here is at most
2 (|a|^2 + |b|^2), since 2 |a.b| <= |a|^2 + |b|^2. The squares that go in are off by g(d) of
themselves. To take the centre away rounds each component once, which moves a vector by at most
u |a|, and the square of a distance by at most 4 u (|a|^2 + |b|^2) and terms of u^2. Unit vectors
are off by (d / 2 + 4) u, which moves that square by at most (4 d + 32) u, and
|a|^2 + |b|^2 is 2. All of it together is at most 4 (d + 18) u (|a|^2 + |b|^2), of which twice as
much is allowed; so is twice what the definition's own roundings can be, of the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from simdb.arrays import Float32s, Float64s, Int64s

ROWS_AT_ONCE = 256  # vectors of the left side in a product
NUMBERS_AT_ONCE = 2**20  # of a product

_UNIT = 2.0**-53
_ROUNDINGS_BESIDE = 18
_ROUNDINGS_OF_DEFINITION = 256  # beside one a component


class MayBeNear(NamedTuple):
    """Rows of both sides that may be near, and how many pairs were looked at to find them."""

    left: Int64s
    right: Int64s
    looked_at: int


def may_be_near(
    ones: Float32s, others: Float32s | None, limit: float, *, directions: bool
) -> Iterator[MayBeNear]:
    """Yield all pairs of vectors that can be at most a limit apart, and some that are not.

    Of ``ones``, (n, d), with ``others``, or with later ones if these are None. ``directions`` are
    compared at length 1: the limit is at most 2 then, and no vector may be zero.
    """
    right_side = ones if others is None else others
    if not len(ones) or not len(right_side):
        return
    dimension = ones.shape[1]
    width = max(1, NUMBERS_AT_ONCE // ROWS_AT_ONCE)
    centre = None if directions else ones[:ROWS_AT_ONCE].mean(axis=0, dtype=np.float64)
    slack = 8 * (dimension + _ROUNDINGS_BESIDE) * _UNIT
    allowed = limit * limit * (1 + 8 * (dimension + _ROUNDINGS_OF_DEFINITION) * _UNIT)
    for begin in range(0, len(ones), ROWS_AT_ONCE):
        left, left_squares = _placed(ones[begin : begin + ROWS_AT_ONCE], centre)
        terms = np.column_stack([-2 * left, left_squares, np.ones(len(left))])
        for start in range(begin if others is None else 0, len(right_side), width):
            right, squares = _placed(right_side[start : start + width], centre)
            products = terms @ np.column_stack([right, np.ones(len(right)), squares]).T
            most = allowed + slack * float(left_squares.max() + squares.max())
            rows, columns = np.divmod(np.flatnonzero(products <= most), len(right))
            rows, columns = rows + begin, columns + start
            looked_at = products.size
            if others is None and start < begin + len(left):
                later = columns > rows
                rows, columns = rows[later], columns[later]
                own = np.arange(begin, begin + len(left))
                after = start + len(right) - np.maximum(start, own + 1)
                looked_at = int(after.clip(min=0).sum())
            yield MayBeNear(rows, columns, looked_at)


def _placed(vectors: Float32s, centre: Float64s | None) -> tuple[Float64s, Float64s]:
    """Return vectors about a centre, or else at length 1, and their squared lengths."""
    placed = vectors.astype(np.float64)
    if centre is None:
        placed /= np.sqrt(np.vecdot(placed, placed))[:, np.newaxis]
    else:
        placed -= centre
    return placed, np.vecdot(placed, placed)
