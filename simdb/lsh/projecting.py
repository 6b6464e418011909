"""Vectors onto random directions by matrix products, with a bound of their error (MMDS 3.7.2).

What a projection is in truth, ``kernels.vectors`` says; a product is near it, and by the bound
given here a kernel knows where near is not enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Projections = npt.NDArray[np.floating[Any]]

_STRETCH = 512  # components that one matrix product takes
# Vectors that are projected together: few enough for them and their projections to stay in the
# cache, and so many that what is done once for all of them does not count.
_LEAST_PORTION, _LARGEST_PORTION = 384, 1024
_PORTION_NUMBERS = 262_144  # of vectors and projections together
# OpenBLAS takes matrices as they lie, without a copy in another order, up to a million products of
# two numbers. That is quicker, if they are of many vectors.
_SMALL_PRODUCT, _FEWEST_OF_SMALL = 1_000_000, 96
_CACHE_LINE = 16  # float32 in it

_SINGLE_ROUNDING = 2.0**-24
_DOUBLE_ROUNDING = 2.0**-53
_LANES = 32  # of kernels.vectors.product
# Components below it may vanish when they are squared in float32. As a length it also stands for
# what products below the normal numbers of float32 lose.
_VANISHING = 2.0**-60
_SURELY_FINITE = 2.0**126  # the largest float32 is below 2^128


class Projector:
    """Project vectors onto the same directions again and again. Safe to use from several threads.

    Args:
        directions: float32 (functions, d), one a column of the projections.
    """

    def __init__(self, directions: Vectors) -> None:
        self._columns = np.ascontiguousarray(directions.T)
        squares = np.square(directions, dtype=np.float64).sum(axis=1)
        self._longest = math.sqrt(float(squares.max()))
        dimension, functions = self._columns.shape
        fitting = _PORTION_NUMBERS // (dimension + functions)
        self._portion = min(max(fitting, _LEAST_PORTION), _LARGEST_PORTION)
        small = _SMALL_PRODUCT // (dimension * functions)
        self._rows = small if _FEWEST_OF_SMALL <= small < self._portion else self._portion
        self._portion -= self._portion % self._rows

    def portions(
        self, vectors: Vectors, allowed: float = math.inf
    ) -> Iterator[tuple[slice, Vectors, Projections, Projections]]:
        """Cut vectors into portions and project each; the next overwrites the projections.

        Yields:
            which vectors, the vectors, contiguous, and what ``project`` returns of them.
        """
        buffer = _aligned(min(len(vectors), self._portion), self._columns.shape[1])
        for start in range(0, len(vectors), self._portion):
            portion = slice(start, start + self._portion)
            some = np.ascontiguousarray(vectors[portion])
            yield portion, some, *self.project(some, allowed, buffer[: len(some)])

    def project(
        self, vectors: Vectors, allowed: float = math.inf, out: Vectors | None = None
    ) -> tuple[Projections, Projections]:
        """Return projections, (n, functions), and how far each vector's are from true, (n,).

        float32, or float64 where most errors would be above what is allowed. An error is infinity
        where float32 may overflow.

        Args:
            vectors: float32 (n, d), contiguous.
            allowed: what an error may be.
            out: float32 (n, functions), contiguous: where projections in float32 are written.
        """
        shape = len(vectors), self._columns.shape[1]
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is in doubt
            errors = self._errors(vectors, _SINGLE_ROUNDING)
            if math.isinf(allowed) or float(errors.mean()) <= allowed:
                single = np.empty(shape, np.float32) if out is None else out
                self._multiply(vectors, self._columns, single)
                return single, errors
            double = np.empty(shape, np.float64)
            exact = vectors.astype(np.float64)
            self._multiply(exact, self._columns.astype(np.float64), double)
            return double, self._errors(exact, _DOUBLE_ROUNDING)

    def _multiply(
        self, vectors: npt.NDArray[Any], columns: npt.NDArray[Any], out: npt.NDArray[Any]
    ) -> None:
        """Write the product of vectors and columns, the vectors in stacks of ``_rows``."""
        whole = len(vectors) - len(vectors) % self._rows
        for start, stop in ((0, whole), (whole, len(vectors))):
            if start < stop:
                stacks = 1 if stop > whole else whole // self._rows
                some = vectors[start:stop].reshape(stacks, -1, len(columns))
                projected = out[start:stop].reshape(stacks, -1, columns.shape[1])
                np.matmul(some[..., :_STRETCH], columns[:_STRETCH], out=projected)
                for first in range(_STRETCH, len(columns), _STRETCH):
                    stretch = slice(first, first + _STRETCH)
                    projected += some[..., stretch] @ columns[stretch]

    def _errors(self, vectors: npt.NDArray[Any], rounding: float) -> Projections:
        """Return how far the projections of each vector can be from ``product``, (n,).

        A sum of products, each of which passes through m roundings at most, in whatever order and
        fused or not, is off by at most m u |x| |y| / (1 - m u) for the unit u of a rounding
        (Higham, Accuracy and Stability of Numerical Algorithms, 3.1); ``product`` is so in float64.
        The factor is for the roundings of this bound itself, and for the denominator. No sum on the
        way is much above |x| |y|, so that none overflows where that is surely finite.
        """
        dimension = vectors.shape[1]
        roundings = min(dimension, _STRETCH) + dimension // _STRETCH + 2
        of_product = dimension // _LANES + _LANES + 8
        relative = 1.1 * (roundings * rounding + of_product * _DOUBLE_ROUNDING)
        errors: Projections = np.sqrt(np.vecdot(vectors, vectors))
        errors += _VANISHING * math.sqrt(dimension)
        errors *= relative * self._longest
        errors[errors >= relative * _SURELY_FINITE] = np.inf
        return errors


def _aligned(count: int, functions: int) -> Vectors:
    """Return room for projections that begins where a line of the cache does."""
    room = np.empty(count * functions + _CACHE_LINE, np.float32)
    begin = -(room.ctypes.data // room.itemsize) % _CACHE_LINE
    return room[begin : begin + count * functions].reshape(count, functions)
