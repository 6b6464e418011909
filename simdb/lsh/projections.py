"""Families of bit vectors and vectors: coordinates, sides of hyperplanes, buckets of lines (3.7).

What a projection is in truth, ``kernels.vectors`` says; a matrix product is near it, and by the
bound given here a kernel knows where near is not enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.arrays import Float32s, Float64s, Floats, UInt16s, UInt64s
from simdb.lsh.family import BandedFamily, derived_words
from simdb.ragged import read_only

_WORD_BITS = 16
_SINGLE_SUFFICES = 0.02  # error of a float32 projection in bucket widths

_STRETCH = 512  # components that one matrix product takes
# Vectors that are projected together: few enough for them and their projections to stay in the
# cache, and so many that what is done once for all of them does not count.
_LEAST_PORTION, _LARGEST_PORTION = 384, 1024
_PORTION_NUMBERS = 262_144  # of vectors and projections together
# OpenBLAS takes matrices as they lie, without a copy in another order, up to a million products of
# two numbers. That is quicker, if they are of many vectors.
_SMALL_PRODUCT, _FEWEST_OF_SMALL = 1_000_000, 96
_CACHE_LINE = 16  # float32 in it
DERIVED_AT_ONCE = 2**16  # numbers of directions

_SINGLE_ROUNDING = 2.0**-24
_DOUBLE_ROUNDING = 2.0**-53
_LANES = 32  # of kernels.vectors.product
# Components below it may vanish when they are squared in float32. As a length it also stands for
# what products below the normal numbers of float32 lose.
_VANISHING = 2.0**-60
_SURELY_FINITE = 2.0**126  # the largest float32 is below 2^128


class BitSampling(BandedFamily):
    """Bits at random positions (MMDS 3.7.1).

    Two vectors of d bits agree in one of them with probability 1 - h / d, h their Hamming distance.
    Positions are drawn independently, also within a band, where they may repeat: so the
    probability of AND and OR is exactly that of the formulas, and does not end with d functions.
    """

    def __init__(self, length: int, bands: int, rows: int, secret: bytes) -> None:
        super().__init__(bands, rows, rows // _WORD_BITS + 1, secret)
        words = derived_words(secret, b"simdb.positions", bands * rows)
        self.positions = np.array([int(word) * length >> 64 for word in words], np.int64)

    def sign(self, features: UInt64s) -> UInt16s:
        """Return the signatures of packed bit vectors, uint64 (n, words)."""
        return kernels.bits.sampled_bits(read_only(features), self.positions, self.bands)


class RandomHyperplanes(BandedFamily):
    """The side of random hyperplanes through the origin (MMDS 3.7.2, 3.7.3).

    With Gaussian normals, whose directions are evenly spread, two vectors lie on one side of a
    hyperplane with probability 1 - angle / 180. Normals of +1 and -1 come near it in many
    dimensions, in few they are quite wrong (MMDS, example 3.21), and have no stated probability.
    """

    def __init__(
        self, dimension: int, bands: int, rows: int, secret: bytes, *, gaussian: bool = True
    ) -> None:
        super().__init__(bands, rows, rows // _WORD_BITS + 1, secret)
        shape = (bands * rows, dimension)
        self.directions = (derived_gaussians if gaussian else derived_signs)(secret, shape)
        by_row = self.directions.reshape(bands, rows, -1).swapaxes(0, 1)
        self._projector = Projector(by_row.reshape(shape))

    def sign(self, features: Float32s) -> UInt16s:
        """Return the signatures of vectors, float32 (n, d).

        Equal vectors have equal signatures, in every batch and on every machine, and so have a
        vector and its multiple by a power of two.
        """
        signatures = np.empty((len(features), self.words), np.uint16)
        for portion, some, projected, errors in self._projector.portions(features):
            signatures[portion] = kernels.vectors.sign_words(
                projected, errors, some, self.directions, self.bands
            )
        return signatures


class RandomLines(BandedFamily):
    """Buckets of one width on randomly shifted lines of Gaussian direction (MMDS 3.7.4, 3.7.5).

    How often two vectors share a bucket follows from their Euclidean distance: see ``LineCurve``.
    """

    def __init__(self, dimension: int, width: float, bands: int, rows: int, secret: bytes) -> None:
        super().__init__(bands, rows, rows, secret)
        self._width = float(width)
        self.directions = derived_gaussians(secret, (bands * rows, dimension))
        shares = derived_words(secret, b"simdb.shifts", bands * rows) >> np.uint64(11)
        self.shifts = shares.astype(np.float64) * 2.0**-53 * self._width
        self._projector = Projector(self.directions)

    def sign(self, features: Float32s) -> UInt16s:
        """Return the signatures of vectors, float32 (n, d): a word a base function.

        Equal vectors have equal signatures, in every batch and on every machine. Where the bucket
        width is very small beside the vectors themselves it takes longer.
        """
        signatures = np.empty((len(features), self.words), np.uint16)
        allowed = _SINGLE_SUFFICES * self._width
        for portion, some, projected, errors in self._projector.portions(features, allowed):
            signatures[portion] = kernels.vectors.line_words(
                projected, errors, some, self.directions, self.shifts, self._width
            )
        return signatures


# -- projections by matrix products --------------------------------------------------------------


class Projector:
    """Projects vectors onto directions, float32 (functions, d); any number of threads may."""

    def __init__(self, directions: Float32s) -> None:
        self._columns = np.ascontiguousarray(directions.T)
        squares = (np.square(one, dtype=np.float64).sum() for one in directions)
        self._longest = math.sqrt(max(map(float, squares)))
        dimension, functions = self._columns.shape
        fitting = _PORTION_NUMBERS // (dimension + functions)
        self._portion = min(max(fitting, _LEAST_PORTION), _LARGEST_PORTION)
        small = _SMALL_PRODUCT // (dimension * functions)
        self._rows = small if _FEWEST_OF_SMALL <= small < self._portion else self._portion
        self._portion -= self._portion % self._rows

    def portions(
        self, vectors: Float32s, allowed: float = math.inf
    ) -> Iterator[tuple[slice, Float32s, Floats, Floats]]:
        """Yield portions: which vectors, they, and ``project`` of them until the next one."""
        buffer = _aligned(min(len(vectors), self._portion), self._columns.shape[1])
        for start in range(0, len(vectors), self._portion):
            portion = slice(start, start + self._portion)
            some = np.ascontiguousarray(vectors[portion])
            yield portion, some, *self.project(some, allowed, buffer[: len(some)])

    def project(
        self, vectors: Float32s, allowed: float = math.inf, out: Float32s | None = None
    ) -> tuple[Floats, Floats]:
        """Return projections, (n, functions), and how far each vector's are from true, (n,).

        float32, written to ``out``, or float64 where most errors would be above what is allowed.
        An error is infinity where float32 may overflow.
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

    def _errors(self, vectors: npt.NDArray[Any], rounding: float) -> Floats:
        """The largest error of the projections of each vector, beside ``product``, (n,).

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
        errors: Floats = np.sqrt(np.vecdot(vectors, vectors))
        errors += _VANISHING * math.sqrt(dimension)
        errors *= relative * self._longest
        errors[errors >= relative * _SURELY_FINITE] = np.inf
        return errors


def _aligned(count: int, functions: int) -> Float32s:
    """Return room for projections that begins where a line of the cache does."""
    room = np.empty(count * functions + _CACHE_LINE, np.float32)
    begin = -(room.ctypes.data // room.itemsize) % _CACHE_LINE
    return room[begin : begin + count * functions].reshape(count, functions)


# -- directions ----------------------------------------------------------------------------------


def derived_signs(secret: bytes, shape: tuple[int, int]) -> Float32s:
    """Derive vectors of +1 and -1, float32, from the lowest bit of each word."""
    signs = np.empty(shape[0] * shape[1], np.float32)
    for part in _parts(signs.size):
        words = derived_words(secret, b"simdb.signs", part.stop - part.start, part.start)
        signs[part] = np.where(words & np.uint64(1), np.float32(1), np.float32(-1))
    return signs.reshape(shape)


def derived_gaussians(secret: bytes, shape: tuple[int, int]) -> Float32s:
    """Derive independent standard Gaussians, float32, two from two words (Box and Muller 1958).

    With u in (0, 1] and v in [0, 1) of 53 bits they are sqrt(-2 log u) cos(2 pi v) and the same
    with sin. Only sums, products, quotients and square roots of float64 are used, which IEEE 754
    defines to the last bit: logarithm, sine and cosine are the series below, and not a library's.
    """
    count = shape[0] * shape[1]
    pairs = -(-count // 2)
    both = np.empty(2 * pairs, np.float32)
    for part in _parts(pairs):
        lengths, turns = (
            derived_words(secret, b"simdb.gaussian", part.stop - part.start, first + part.start)
            >> np.uint64(11)
            for first in (0, pairs)
        )
        uniform = (lengths.astype(np.float64) + 1.0) * 2.0**-53
        length = np.sqrt(-2.0 * _logarithm(uniform))
        cosine, sine = _circle(turns.astype(np.float64) * 2.0**-53)
        both[part] = length * cosine
        both[pairs + part.start : pairs + part.stop] = length * sine
    return both[:count].reshape(shape)


def _parts(count: int) -> Iterator[slice]:
    """Cut so many numbers into parts: what is computed with them is many times their size."""
    for begin in range(0, count, DERIVED_AT_ONCE):
        yield slice(begin, min(begin + DERIVED_AT_ONCE, count))


def _logarithm(values: Float64s) -> Float64s:
    """Return natural logarithms: 2 atanh((m - 1) / (m + 1)) + e log 2 for m 2^e, m about 1."""
    mantissa, exponent = np.frexp(values)
    low = mantissa < math.sqrt(0.5)
    mantissa = np.where(low, 2.0 * mantissa, mantissa)
    exponent = exponent - low
    share = (mantissa - 1.0) / (mantissa + 1.0)
    square = share * share
    series = np.zeros_like(share)
    for power in range(27, 0, -2):  # 0.172^29 / 29 is below the last bit
        series = series * square + 1.0 / power
    return 2.0 * share * series + exponent * 0.6931471805599453


def _circle(turns: Float64s) -> tuple[Float64s, Float64s]:
    """Return cosine and sine of so many turns: Taylor series within an eighth of a turn."""
    quarter = np.floor(4.0 * turns + 0.5)
    angle = (turns - 0.25 * quarter) * 6.283185307179586
    square = angle * angle
    cosine, sine = np.ones_like(angle), np.ones_like(angle)
    for power in range(18, 0, -2):  # (pi / 4)^20 / 20! is below the last bit
        cosine = 1.0 - cosine * square / (power * (power - 1))
        sine = 1.0 - sine * square / (power * (power + 1))
    sine = sine * angle
    odd, half = quarter % 2 == 1, quarter % 4
    turned = np.where(odd, -sine, cosine), np.where(odd, cosine, sine)
    negative = half >= 2
    return np.where(negative, -turned[0], turned[0]), np.where(negative, -turned[1], turned[1])
