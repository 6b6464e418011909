"""Locality-sensitive families of bit vectors and vectors (MMDS 3.7).

A family signs items: a signature has a number of *bands*, each of which holds the values of *rows*
base functions in some 16-bit words. Items whose bands of one number are equal share a bucket: AND
over rows, OR over bands (MMDS 3.6.3). What is random about the functions is derived from a secret
by arithmetic that is the same in every version of every library, so that a stored signature stays
true; see ``derived_words`` and ``derived_gaussians``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from simdb.config import Bits, Vector
from simdb.errors import ConfigurationError
from simdb.items.symbols import secret_words
from simdb.lsh.amplification import (
    Sensitivity,
    hamming_probability,
    hyperplane_probability,
    line_probability,
)
from simdb.lsh.banding import Banding
from simdb.lsh.family import BucketKeys
from simdb.lsh.projecting import Projector, Vectors

Signatures = npt.NDArray[np.uint16]

MAXIMUM_FUNCTIONS = 4096
_WORD_BITS = 16
_WIDTHS_OF_RADIUS = 4
_SINGLE_SUFFICES = 0.02  # error of a float32 projection in bucket widths


class BandedFamily(ABC):
    """A family whose signatures are bands of equal size, none of which is ever missing.

    Attributes:
        bands: bands of a signature, each with a bucket key.
        rows: base functions of a band.
        words: uint16 words of a signature.
        band_words: those of a band.
    """

    def __init__(self, bands: int, rows: int, words_of_band: int, secret: bytes) -> None:
        self.bands = bands
        self.rows = rows
        self.words = bands * words_of_band
        self.band_words = words_of_band
        self._banding = Banding(bands, words_of_band, secret)

    def bucket_keys(self, signatures: Signatures) -> BucketKeys:
        """Return the keys of signatures, uint16 (n, words): one a band."""
        keys = self._banding.bucket_keys(signatures)
        offsets = np.arange(len(keys) + 1, dtype=np.int64) * self.bands
        return BucketKeys(keys.reshape(-1), offsets)

    def needed_matches(self, bound: object) -> int:
        """Return 0: no candidate is dropped before it is compared."""
        return 0

    @abstractmethod
    def sign(self, features: Any) -> Signatures:
        """Return the signatures, uint16 (n, words), of a batch of items."""

    @abstractmethod
    def probability(self, value: float) -> float:
        """Return with which probability two items at a distance agree in one base function."""

    def sensitivity(self, near: float, far: float) -> Sensitivity:
        """Return that one base function is (d1, d2, p1, p2)-sensitive (MMDS 3.6.1).

        ``amplified`` of it has any cascade of AND and OR.
        """
        return Sensitivity(near, far, self.probability(near), self.probability(far))


class BitSampling(BandedFamily):
    """Bits at random positions (MMDS 3.7.1).

    Two vectors of d bits agree in one of them with probability 1 - h / d, h their Hamming distance.
    Positions are drawn independently, also within a band, where they may repeat: so the
    probability of AND and OR is exactly that of the formulas, and does not end with d functions.
    """

    def __init__(self, settings: Bits, bands: int, rows: int, secret: bytes) -> None:
        _require_functions(bands, rows)
        super().__init__(bands, rows, rows // _WORD_BITS + 1, secret)
        self._length = settings.length
        words = derived_words(secret, b"simdb.positions", bands * rows)
        drawn = [int(word) * settings.length >> 64 for word in words]
        self.positions = np.array(drawn, np.int64)

    def sign(self, features: npt.NDArray[np.uint64]) -> Signatures:
        """Return the signatures of bit vectors, uint64 (n, words of ``BitsItems``)."""
        from simdb.kernels import bits

        return bits.sampled_bits(features, self.positions, self.bands)

    def probability(self, value: float) -> float:
        """Return 1 - h / d for the Hamming distance h."""
        return hamming_probability(value, self._length)


class RandomHyperplanes(BandedFamily):
    """The side of random hyperplanes through the origin (MMDS 3.7.2, 3.7.3).

    With Gaussian normals, whose directions are evenly spread, two vectors lie on one side of a
    hyperplane with probability 1 - angle / 180. Normals of +1 and -1 come near it in many
    dimensions, in few they are quite wrong (MMDS, example 3.21), and have no stated probability.
    """

    def __init__(self, settings: Vector, bands: int, rows: int, secret: bytes) -> None:
        _require_functions(bands, rows)
        if settings.measure != "cosine":
            raise ConfigurationError(f"hyperplanes do not serve the measure {settings.measure!r}")
        super().__init__(bands, rows, rows // _WORD_BITS + 1, secret)
        self._gaussian = settings.directions == "gaussian"
        shape = (bands * rows, settings.dimension)
        self.directions = (derived_gaussians if self._gaussian else derived_signs)(secret, shape)
        by_row = self.directions.reshape(bands, rows, -1).swapaxes(0, 1)
        self._projector = Projector(by_row.reshape(shape))

    def sign(self, features: Vectors) -> Signatures:
        """Return the signatures of vectors, float32 (n, d).

        Equal vectors have equal signatures, in every batch and on every machine, and so have a
        vector and its multiple by a power of two.
        """
        from simdb.kernels import vectors

        signatures = np.empty((len(features), self.words), np.uint16)
        for portion, some, projected, errors in self._projector.portions(features):
            words = signatures[portion]
            vectors.sign_words(projected, errors, some, self.directions, self.bands, words)
        return signatures

    def probability(self, value: float) -> float:
        """Return 1 - angle / 180 for an angle in degrees.

        Raises:
            ConfigurationError: the normals are of +1 and -1, and the angle is not 0.
        """
        if not self._gaussian and value != 0:
            raise ConfigurationError(
                "hyperplanes with directions='signs' have no stated probability: take "
                "directions='gaussian', or give bands and rows"
            )
        return hyperplane_probability(value)


class RandomLines(BandedFamily):
    """Buckets of one width on randomly shifted lines of Gaussian direction (MMDS 3.7.4, 3.7.5).

    At the Euclidean distance c two vectors share a bucket with the probability of
    ``line_probability``. By the L1 norm c they are at most c apart in the L2 norm, by the
    L-infinity norm c at most sqrt(d) c: so at least with the probability at that *implied radius*.
    """

    def __init__(self, settings: Vector, bands: int, rows: int, secret: bytes) -> None:
        _require_functions(bands, rows)
        if settings.measure == "cosine":
            raise ConfigurationError("random lines do not serve the measure 'cosine'")
        if settings.bucket_width is None:
            raise ConfigurationError("random lines need Vector.bucket_width")
        super().__init__(bands, rows, rows, secret)
        self._settings = settings
        self._bucket_width = float(settings.bucket_width)
        self.directions = derived_gaussians(secret, (bands * rows, settings.dimension))
        shares = derived_words(secret, b"simdb.shifts", bands * rows) >> np.uint64(11)
        self.shifts = shares.astype(np.float64) * 2.0**-53 * self._bucket_width
        self._projector = Projector(self.directions)

    def sign(self, features: Vectors) -> Signatures:
        """Return the signatures of vectors, float32 (n, d): a word a base function.

        Equal vectors have equal signatures, in every batch and on every machine. Where the bucket
        width is very small beside the vectors themselves it takes longer.
        """
        from simdb.kernels import vectors

        signatures = np.empty((len(features), self.words), np.uint16)
        allowed = _SINGLE_SUFFICES * self._bucket_width
        for portion, some, projected, errors in self._projector.portions(features, allowed):
            directions, width, words = self.directions, self._bucket_width, signatures[portion]
            vectors.line_words(projected, errors, some, directions, self.shifts, width, words)
        return signatures

    def probability(self, value: float) -> float:
        """Return that of one shared bucket at a distance: exact for L2, else a lower bound."""
        radius = implied_radius(self._settings, value)
        return line_probability(radius, self._bucket_width)

    def sensitivity(self, near: float, far: float) -> Sensitivity:
        """Return that one base function is (d1, d2, p1, p2)-sensitive (MMDS 3.6.1).

        What is at least ``far`` apart by the L1 norm is so by far / sqrt(d) in the L2 norm, and by
        the L-infinity norm by ``far``.
        """
        roots = math.sqrt(self._settings.dimension)
        nearest = far / roots if self._settings.measure == "manhattan" else far
        return Sensitivity(
            near, far, self.probability(near), line_probability(nearest, self._bucket_width)
        )


def implied_radius(settings: Vector, distance: float) -> float:
    """Return how far apart vectors of a distance by the measure can be in the L2 norm.

    |x|_2 <= |x|_1, and |x|_2 <= sqrt(d) |x|_inf.
    """
    roots = math.sqrt(settings.dimension) if settings.measure == "maximum" else 1.0
    return roots * distance


def bucket_width_for(settings: Vector, distance: float) -> float:
    """Return a bucket width for finding vectors at most a distance apart: 4 implied radii.

    Then two vectors at that radius share a bucket of a line with probability 0.80, and at twice
    that radius with 0.61.
    """
    return _WIDTHS_OF_RADIUS * implied_radius(settings, distance)


# -- what is random ------------------------------------------------------------------------------


def derived_words(secret: bytes, purpose: bytes, count: int) -> npt.NDArray[np.uint64]:
    """Derive ``count`` words from a secret: word i is SplitMix64's output i under a secret state.

    (Steele, Lea and Flood, OOPSLA 2014.) Whole numbers only: the same on every machine.
    """
    with np.errstate(over="ignore"):
        state = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        state += secret_words(secret, purpose, 1)[0]
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))


def derived_signs(secret: bytes, shape: tuple[int, int]) -> Vectors:
    """Derive vectors of +1 and -1, float32, from the lowest bit of each word."""
    words = derived_words(secret, b"simdb.signs", shape[0] * shape[1])
    return np.where(words & np.uint64(1), np.float32(1), np.float32(-1)).reshape(shape)


def derived_gaussians(secret: bytes, shape: tuple[int, int]) -> Vectors:
    """Derive independent standard Gaussians, float32, two from two words (Box and Muller 1958).

    With u in (0, 1] and v in [0, 1) of 53 bits they are sqrt(-2 log u) cos(2 pi v) and the same
    with sin. Only sums, products, quotients and square roots of float64 are used, which IEEE 754
    defines to the last bit: logarithm, sine and cosine are the series below, and not a library's.
    """
    count = shape[0] * shape[1]
    pairs = -(-count // 2)
    words = derived_words(secret, b"simdb.gaussian", 2 * pairs) >> np.uint64(11)
    uniform = (words.astype(np.float64) + 1.0) * 2.0**-53
    length = np.sqrt(-2.0 * _logarithm(uniform[:pairs]))
    cosine, sine = _circle(words[pairs:].astype(np.float64) * 2.0**-53)
    both = np.concatenate((length * cosine, length * sine))
    return both[:count].astype(np.float32).reshape(shape)


def _logarithm(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
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


def _circle(
    turns: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
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


def _require_functions(bands: int, rows: int) -> None:
    if bands < 1 or rows < 1 or bands * rows > MAXIMUM_FUNCTIONS:
        raise ConfigurationError(
            f"bands and rows must be at least 1, and bands * rows at most {MAXIMUM_FUNCTIONS:,}, "
            f"not {bands} and {rows}"
        )
