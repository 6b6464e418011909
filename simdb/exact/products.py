"""Near pairs of vectors by matrix products: what may be near, none missing, block by block.

The square of a distance is |a|^2 + |b|^2 - 2 a.b, so of two blocks of vectors all are one product
of two matrices, which takes a small part of the time of comparing pair by pair. It is rounded, and
nobody knows in which order a library adds. So a block is asked for what is *at most* the limit and
a bound of the error, and who asks compares those pairs anew, by the definition.

The product is of float32, which takes half the time of float64, unless that has no room for the
squares, or its error lets many pass: then of float64.

The bound. Let u = 2^-24 or 2^-53, and let a and b be the vectors less a common centre, of lengths
|a| and |b|; the product has d + 2 terms, the two squares among them. A sum of n products in any
order, fused or not, is off by at most g(n) = n u / (1 - n u) times the sum of the sizes of its
terms (Higham, Accuracy and Stability of Numerical Algorithms, 3.1), which here is at most
2 (|a|^2 + |b|^2), since 2 |a.b| <= |a|^2 + |b|^2. The squares that go in are off by g(d) of
themselves. To take the centre away rounds each component once, which moves a vector by at most
u |a|, and the square of a distance by at most 4 u (|a|^2 + |b|^2) and terms of u^2. Unit vectors
are off by (d / 2 + 4) u, which moves that square by at most (4 d + 32) u, and
|a|^2 + |b|^2 is 2. All of it together is at most 4 (d + 18) u (|a|^2 + |b|^2), of which twice as
much is allowed; so is twice what the definition's own roundings can be, of the limit. What is below
the normal numbers, and may be lost, is at most the least of these in each of the d + 2 terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simdb.arrays import Float32s, Float64s, Int64s

ROWS_AT_ONCE = 2_048  # vectors of the left side in a product
NUMBERS_AT_ONCE = 2**21  # of a product
PAIRS_AT_ONCE = 2**17  # of those that it lets pass
MOST_PASSED = 8  # one in so many pairs that a product of float32 lets pass, before float64 is asked

_LARGEST_SQUARE = 1e30  # of lengths and distances, in float32
_MOST_TERMS = 2**15  # in float32: their number times u is small
_DOUBLE = 2.0**-53
_ROUNDINGS_BESIDE = 18
_ROUNDINGS_OF_DEFINITION = 256  # beside one a component


class MayBeNear(NamedTuple):
    """Rows of both sides that may be near, and how many pairs were newly looked at."""

    left: Int64s
    right: Int64s
    looked_at: int


def may_be_near(
    ones: Float32s, others: Float32s | None, limit: float, *, directions: bool
) -> Iterator[MayBeNear]:
    """Yield all pairs of vectors that can be at most a limit apart, and some that are not.

    At most ``PAIRS_AT_ONCE``, and block by block.

    Of ``ones``, (n, d), with ``others``, or with later ones if these are None. ``directions`` are
    compared at length 1: the limit is at most 2 then, and no vector may be zero.
    """
    right_side = ones if others is None else others
    if not len(ones) or not len(right_side):
        return
    width = max(1, NUMBERS_AT_ONCE // ROWS_AT_ONCE)
    centre = None if directions else ones[:ROWS_AT_ONCE].mean(axis=0, dtype=np.float64)
    roundings = 8 * (ones.shape[1] + _ROUNDINGS_OF_DEFINITION) * _DOUBLE
    allowed = limit * limit * (1 + roundings)
    for begin in range(0, len(ones), ROWS_AT_ONCE):
        left = _Side(ones[begin : begin + ROWS_AT_ONCE], centre)
        for start in range(begin if others is None else 0, len(right_side), width):
            right = _Side(right_side[start : start + width], centre)
            places = _passed(left, right, allowed)
            looked_at = len(left) * len(right)
            meets_itself = others is None and start < begin + len(left)
            if meets_itself:
                own = np.arange(begin, begin + len(left))
                after = start + len(right) - np.maximum(start, own + 1)
                looked_at = int(after.clip(min=0).sum())
            for first in range(0, max(1, places.size), PAIRS_AT_ONCE):
                rows, columns = np.divmod(places[first : first + PAIRS_AT_ONCE], len(right))
                rows, columns = rows + begin, columns + start
                if meets_itself:
                    later = columns > rows
                    rows, columns = rows[later], columns[later]
                yield MayBeNear(rows, columns, 0 if first else looked_at)


class _Side:
    """Vectors about a centre, or else at length 1: one side of a product."""

    def __init__(self, vectors: Float32s, centre: Float64s | None) -> None:
        placed = vectors.astype(np.float64)
        if centre is None:
            placed /= np.sqrt(np.vecdot(placed, placed))[:, np.newaxis]
        else:
            placed -= centre
        self._placed = placed
        self._squares = np.vecdot(placed, placed)
        self._terms: dict[type[np.floating[Any]], npt.NDArray[Any]] = {}
        self.largest = float(self._squares.max())  # of the squared lengths
        self.dimension = placed.shape[1]

    def __len__(self) -> int:
        return len(self._placed)

    def as_left(self, form: type[np.floating[Any]]) -> npt.NDArray[Any]:
        """Return what is multiplied with that of the right side, in that precision."""
        if form not in self._terms:
            columns = (-2 * self._placed, self._squares, np.ones(len(self)))
            self._terms[form] = np.column_stack(columns).astype(form)
        return self._terms[form]

    def as_right(self, form: type[np.floating[Any]]) -> npt.NDArray[Any]:
        """Return what that of the left side is multiplied with."""
        terms = np.empty((len(self), self.dimension + 2), form)
        terms[:, :-2], terms[:, -2], terms[:, -1] = self._placed, 1, self._squares
        return terms


def _passed(left: _Side, right: _Side, allowed: float) -> Int64s:
    """Return the pairs whose squared distance may be what is allowed, or less.

    Each as its place in the matrix of all, row by row.
    """
    terms = left.dimension + 2
    squares = left.largest + right.largest
    forms: list[type[np.floating[Any]]] = [np.float64]
    if terms <= _MOST_TERMS and squares + allowed < _LARGEST_SQUARE:
        forms.insert(0, np.float32)
    for form in forms:
        known = np.finfo(form)
        slack = 8 * (terms + _ROUNDINGS_BESIDE) * float(known.eps) / 2 * squares
        lost = 4 * (terms + _ROUNDINGS_BESIDE) * float(known.smallest_normal)
        most = np.nextafter(form(allowed + slack + lost), form(np.inf))
        products = left.as_left(form) @ right.as_right(form).T
        places = np.flatnonzero(products <= most)
        if form is forms[-1] or places.size * MOST_PASSED <= products.size:
            break
    return places
