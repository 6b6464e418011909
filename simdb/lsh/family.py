"""Locality-sensitive families: items to signatures, signatures to bucket keys (MMDS 3.4, 3.6.3).

A family maps an item to base hash values, its *signature*; ANDs of these become 64-bit bucket
keys, of which two items must share one to be candidates. Most families are *banded*: a signature is
cut into bands of rows, and each band has a key: AND over rows, OR over bands. What is random about
a family is derived from a secret by whole numbers, the same in every version of every library, so
that a stored signature stays true. A new family is one class.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import factorial
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.arguments import require_choice
from simdb.arrays import Bools, Int64s, UInt8s, UInt16s, UInt32s, UInt64s
from simdb.errors import ConfigurationError
from simdb.ragged import Ragged, WeightedSets, offsets_of

SketchScheme: TypeAlias = Literal["fast", "classical"]

MAXIMUM_FUNCTIONS = 4096  # the round of a fast sketch, up to twice that, has 16 bits
# What a similar pair may be dropped for sharing too few rows of a signature: see minimum_matches.
FILTER_LOSS = Fraction(1, 10_000)
_FINE = 2**32  # the largest denominator of a threshold that the filter tells from others
_PRIME = 2**61 - 1  # of kernels.hashes
_WORDS_A_DIGEST = 8
_DART_SEEDS = 256  # the bands of ranks of the lightest items are fewer
_MOST_DARTS = 20  # of a cell; 2^-64 of all have more
_TERMS_OF_E = 40  # of its series


# -- what items are signed by, and what signatures become ----------------------------------------


class SymbolSets(Ragged, frozen=True, eq=False):
    """The symbols of items in order of occurrence, repeats possible."""


class BucketKeys(Ragged, frozen=True, eq=False):
    """The bucket keys of items.

    Attributes:
        groups: uint8, of each key, or None where there is one group. Candidates must share a key
            of *every* group: an AND of the ORs (MMDS 3.8.5).
        group_count: how many groups there are; an item may have keys of fewer.
    """

    groups: UInt8s | None = None
    group_count: int = 1

    def select(self, rows: Int64s) -> BucketKeys:
        """Take the keys of some items, in ascending order of their rows."""
        return self if rows.size == len(self) else Ragged.select(self, rows)

    def _taken(self, places: Int64s, offsets: Int64s) -> BucketKeys:
        groups = None if self.groups is None else self.groups[places]
        return BucketKeys(self.values[places], offsets, groups, self.group_count)

    def sorted_within(self) -> BucketKeys:
        """Sort the keys of each item."""
        order = np.lexsort((self.values, np.repeat(np.arange(len(self)), self.sizes)))
        return self._taken(order, self.offsets)

    def owners(self, places: Int64s | UInt32s) -> Int64s:
        """Return which item the key at each place is of."""
        sizes = self.sizes
        if sizes.size and (sizes == sizes[0]).all():  # as of nearly all batches; a search is slow
            owners: Int64s = places.astype(np.int64, copy=False) // sizes[0]
            return owners
        return np.searchsorted(self.offsets, places, side="right") - 1

    @property
    def every_group(self) -> int:
        """A bit for each group."""
        return (1 << self.group_count) - 1

    @classmethod
    def of_matrix(cls, keys: UInt64s, has_keys: Bools) -> BucketKeys:
        """Make keys of the rows of a matrix (items, bands), none for items that have none."""
        items, bands = keys.shape
        if has_keys.all():
            return cls(keys.ravel(), np.arange(0, items * bands + 1, bands))
        return cls(keys[has_keys].ravel(), offsets_of(has_keys.astype(np.int64) * bands))

    @classmethod
    def of_one(cls, keys: UInt64s) -> BucketKeys:
        """Make the keys of a single item."""
        return cls(keys, np.array([0, keys.size]))

    @classmethod
    def none(cls, items: int) -> BucketKeys:
        """Make no keys for so many items."""
        return cls(np.empty(0, np.uint64), np.zeros(items + 1, np.int64))

    @classmethod
    def _other_fields(cls, parts: Sequence[BucketKeys]) -> dict[str, Any]:
        groups = [part.groups for part in parts if part.groups is not None]
        return {
            "groups": np.concatenate(groups) if groups else None,
            "group_count": parts[0].group_count,
        }


class Family(Protocol):
    """A locality-sensitive family under the settings and the secret of one collection.

    Attributes:
        words: uint16 words of a signature.
        band_words: words of a band, where each of an item's bands is so many successive words of
            its signature and one bucket key; 0 where keys come otherwise.
        looks_around: whether a probe looks into more buckets than those that it would be in.
        keys_of_probe: about how many bucket keys are made to look a probe up, where it looks
            around; 0 for as many as an item has.
        decides: whether items that share a bucket are candidates is for ``are_candidates`` to say.
        is_fast: whether rows agree by the law of fast sketches (``lsh.fast_sketches``).
    """

    words: int
    band_words: int = 0
    looks_around: bool = False
    keys_of_probe: int = 0
    decides: bool = False
    is_fast: bool = False

    @abstractmethod
    def sign(self, features: Any) -> UInt16s:
        """Return the signatures, uint16 (n, words), of a batch of items; zeros have no bucket."""

    @abstractmethod
    def bucket_keys(self, signatures: UInt16s) -> BucketKeys:
        """Return the bucket keys of signatures."""

    def key_names(self, signatures: UInt16s) -> list[str]:
        """Return in words what each bucket key of a single signature, (1, words), stands for."""
        count = self.bucket_keys(signatures).values.size
        return [f"bucket {number} of {count}" for number in range(1, count + 1)]

    def probe_keys(self, features: Any, signatures: UInt16s) -> BucketKeys:
        """Return the keys of all buckets that probes, with their signatures, look into."""
        return self.bucket_keys(signatures)

    def needed_matches(self, bound: Any) -> int:
        """Return how many equal words a similar pair has with near certainty; 0 for no such."""
        return 0

    def are_candidates(self, left: UInt16s, right: UInt16s) -> Bools:
        """Return which pairs of signatures, of items that share a bucket, are candidates."""
        return np.ones(len(left), np.bool_)


# -- banding -------------------------------------------------------------------------------------


class BandedFamily(Family):
    """A family whose signatures are bands of equal size, none of which is ever missing.

    Attributes:
        bands: bands of a signature, each with a bucket key.
        rows: base functions of a band.
        words, band_words: uint16 words of a signature, and of a band.
    """

    def __init__(self, bands: int, rows: int, words_of_band: int, secret: bytes) -> None:
        if bands < 1 or rows < 1 or bands * rows > MAXIMUM_FUNCTIONS:
            raise ConfigurationError(
                f"bands and rows must be at least 1, and bands * rows at most "
                f"{MAXIMUM_FUNCTIONS:,}, not {bands} and {rows}"
            )
        self.bands = bands
        self.rows = rows
        self.words = bands * words_of_band
        self.band_words = words_of_band
        base, self._band_secret = secret_words(secret, b"simdb.bucket", 2)
        self._base = np.uint64(polynomial_base(int(base)))

    def band_keys(self, signatures: UInt16s) -> UInt64s:
        """Hash each band of signatures, uint16 (n, words), to a bucket key: uint64 (n, bands).

        Two items share the key of a band if and (but for a probability below (band_words + 1) /
        2^58) only if they agree in all of it (MMDS 3.4.1). Different bands have different keys.
        """
        if signatures.ndim != 2 or signatures.shape[1] != self.words:
            raise ValueError(
                f"signatures of shape {signatures.shape} do not have {self.words} words"
            )
        return kernels.sketches.bucket_keys(
            np.ascontiguousarray(signatures), self.bands, self._base, self._band_secret
        )

    def bucket_keys(self, signatures: UInt16s) -> BucketKeys:
        """Return the keys of signatures, uint16 (n, words): one a band."""
        keys = self.band_keys(signatures)
        return BucketKeys.of_matrix(keys, np.ones(len(keys), np.bool_))

    def key_names(self, signatures: UInt16s) -> list[str]:
        """Return the names of the bands of a single signature."""
        if not self.bucket_keys(signatures).values.size:
            return []
        return [f"band {band} of {self.bands}" for band in range(1, self.bands + 1)]


@lru_cache(maxsize=256)
def minimum_matches(threshold: Fraction, rows: int, loss: Fraction = FILTER_LOSS) -> int:
    """Return how many of ``rows`` rows a similar pair must share not to be dropped.

    It is the largest m such that a pair *at* the threshold has fewer than m equal rows with
    probability at most ``loss``; a more similar pair has them less often still. The number of equal
    rows is binomial (MMDS 3.3.3); the tail is summed in integers. Of a threshold with a denominator
    above 2^32 it is that of the next lower multiple of 2^-32, which is never more.
    """
    if threshold.denominator > _FINE:
        threshold = Fraction(int(threshold * _FINE), _FINE)
    alike, unlike = threshold.numerator, threshold.denominator - threshold.numerator
    if not unlike:
        return rows
    allowed = loss * threshold.denominator**rows
    term = tail = unlike**rows  # the probability of so many equal rows, times denominator^rows
    for matches in range(rows):
        if tail > allowed:
            return matches
        term = term * (rows - matches) * alike // ((matches + 1) * unlike)
        tail += term
    return rows


class SimilarityRows(BandedFamily):
    """A family of sketches: a row is one value, and two are equal as often as items are similar.

    All zeros are the sketch of an item without anything, which is in no bucket.
    """

    def bucket_keys(self, signatures: UInt16s) -> BucketKeys:
        """Return one key a band; none of an empty set."""
        keys = self.band_keys(signatures)
        if len(keys) == 1:  # as of most searches
            return BucketKeys.of_one(keys[0] if signatures.nonzero()[0].size else keys[0, :0])
        return BucketKeys.of_matrix(keys, np.asarray(signatures.any(axis=1)))

    def needed_matches(self, least: Fraction) -> int:
        """Return how many rows a pair at a similarity shares but for 1 in 10,000 times."""
        return minimum_matches(least, self.words)


class MinHash(SimilarityRows):
    """Sketches of symbol sets, cut into bands of rows, under one scheme and secret.

    Each row of two sketches is equal with a probability equal to the Jaccard similarity of the
    sets, but for 2^-16 of the unequal rows, which agree in the 16 bits that are kept. ``"fast"``
    is fast similarity sketching (Dahlgaard, Knudsen and Thorup, FOCS 2017), ``"classical"`` has a
    hash function a row (MMDS 3.3.5). A sketch is not a prefix of one with more rows, and sketches
    of different schemes, rows or secrets must not be compared. Safe to use from several threads.
    """

    def __init__(self, scheme: SketchScheme, bands: int, rows: int, secret: bytes) -> None:
        super().__init__(bands, rows, rows, secret)
        require_choice("sketch", scheme, *get_args(SketchScheme))
        self._scheme = scheme
        self.is_fast = scheme == "fast"
        self._final = secret_words(secret, b"simdb.row", 1)[0]
        self._words = secret_words(secret, b"simdb." + scheme.encode(), 2 * self.words)
        if scheme == "classical":
            self._multipliers = self._words[: self.words] % np.uint64(_PRIME - 1) + np.uint64(1)
            self._addends = self._words[self.words :] % np.uint64(_PRIME)

    def sign(self, features: SymbolSets) -> UInt16s:
        """Return the sketches, uint16 (n, words); zeros of an empty set."""
        sets = (features.values, features.offsets)
        if self._scheme == "fast":
            return kernels.sketches.fast_sketches(*sets, self.words, self._words, self._final)
        return kernels.sketches.classical_sketches(
            *sets, self._multipliers, self._addends, self._final
        )

    def minima(self, features: SymbolSets) -> UInt64s:
        """Return the whole minima of sets, uint64 (n, words), of which a sketch keeps 16 bits.

        Those of a union are the least of those of its parts: so parts may be signed anywhere.
        """
        sets = (features.values, features.offsets)
        if self._scheme == "fast":
            return kernels.sketches.fast_minima(*sets, self.words, self._words)
        return kernels.sketches.classical_minima(*sets, self._multipliers, self._addends)

    def of_minima(self, minima: UInt64s) -> UInt16s:
        """Return the sketches of which ``minima`` are the minima."""
        return kernels.sketches.sketches_of_minima(minima, self._final)


class DartMinHash(SimilarityRows):
    """Sketches of weighted sets: darts of least rank (``kernels.weighted.dart_sketches``).

    Rows are independent of each other. Each is equal with a probability equal to the sum of minima
    over the sum of maxima of the weights, but for 2^-16 of the unequal ones, which agree in the
    16 bits that are kept. Safe to use from several threads.
    """

    def __init__(self, bands: int, rows: int, secret: bytes) -> None:
        super().__init__(bands, rows, rows, secret)
        self._counts = poisson_counts()
        self._seeds = derived_words(secret, b"simdb.darts", _DART_SEEDS)

    def sign(self, features: WeightedSets) -> UInt16s:
        """Return the sketches, uint16 (n, words); zeros of an empty set."""
        return kernels.weighted.dart_sketches(
            features.values,
            features.weights,
            features.offsets,
            self.words,
            self._counts,
            self._seeds,
        )


class SampledRows(BandedFamily):
    """Rows of signatures that were made elsewhere, drawn at random.

    Two signatures of n rows agree in a drawn one with a probability equal to the share of their
    rows that are equal. As positions of bits they are drawn independently (``BitSampling``), so
    that AND and OR of them have exactly the probability of the formulas. 2^-16 of the unequal ones
    agree in the 16 bits that are kept.
    """

    def __init__(self, length: int, bands: int, rows: int, secret: bytes) -> None:
        super().__init__(bands, rows, rows, secret)
        words = derived_words(secret, b"simdb.rows", bands * rows)
        self.positions = np.array([int(word) * length >> 64 for word in words], np.int64)
        self._final = secret_words(secret, b"simdb.row", 1)[0]

    def sign(self, features: npt.NDArray[Any]) -> UInt16s:
        """Return the signatures, uint16 (n, words), of others: unsigned integers (n, length)."""
        drawn = features[:, self.positions].astype(np.uint64)
        return mixed(drawn ^ self._final).astype(np.uint16)


# -- what is random ------------------------------------------------------------------------------


def poisson_counts() -> UInt64s:
    """Return the probabilities of at most 0, 1, ... events of one expected, in units of 2^-64."""
    terms = (Fraction((-1) ** term) / factorial(term) for term in range(_TERMS_OF_E))
    one_over_e = sum(terms, Fraction(0))
    cumulated = Fraction(0)
    counts = []
    for events in range(_MOST_DARTS):
        cumulated += one_over_e / factorial(events)
        counts.append(min(int(cumulated * 2**64), 2**64 - 1))
    return np.array(counts, np.uint64)


def secret_words(secret: bytes, purpose: bytes, count: int) -> UInt64s:
    """Derive ``count`` uint64 words from a secret; other purposes give unrelated words.

    Word 8 i and the seven after it are the BLAKE2b digest of i (8 bytes, little-endian) and the
    secret, personalised with the purpose (at most 16 bytes), in little-endian order. The first
    words do not depend on ``count``.
    """
    digests = (
        hashlib.blake2b(number.to_bytes(8, "little") + secret, person=purpose).digest()
        for number in range(-(-count // _WORDS_A_DIGEST))
    )
    return np.frombuffer(b"".join(digests), "<u8")[:count].astype(np.uint64)


def polynomial_base(word: int) -> int:
    """Return the base of a keyed polynomial: 58 bits of the word, in [2^58, 2^59)."""
    return (word >> 6) | (1 << 58)


def derived_words(secret: bytes, purpose: bytes, count: int, first: int = 0) -> UInt64s:
    """Derive words from a secret, from word ``first`` on: i is SplitMix64's output i + 1.

    (Steele, Lea and Flood, OOPSLA 2014.) Whole numbers only: the same on every machine.
    """
    steps = np.arange(first + 1, first + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return mixed(steps + secret_words(secret, purpose, 1)[0])


def mixed(words: UInt64s) -> UInt64s:
    """Mix the bits of each word of an array by SplitMix64's finalizer, a bijection."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
