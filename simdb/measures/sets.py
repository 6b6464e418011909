"""Jaccard similarity of sets of symbols, exactly (MMDS 3.1.1)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from collections.abc import Set as AbstractSet
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.items.symbols import SymbolSets
from simdb.measures.compared import Compared


class SetMeasure:
    """Compare sets by the symbols that they share; repeats of a symbol count once.

    The values are overlap / union in whole numbers; two empty sets are 0 / 0, which counts as 0.
    """

    def compare_probe(self, probe: SymbolSets, features: SymbolSets) -> Compared:
        """Compare one set, all of ``probe``, with many."""
        overlaps, sizes, probe_size = kernels.overlaps.probe_overlaps(
            probe.values, features.values, features.offsets
        )
        return self._compared(overlaps, sizes + probe_size)

    def compare_pairs(
        self, features: SymbolSets, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
    ) -> Compared:
        """Compare the sets at positions ``left[i]`` and ``right[i]``.

        Any order is correct; runs of pairs with equal ``left`` are the fastest.
        """
        overlaps, left_sizes, right_sizes = kernels.overlaps.pair_overlaps(
            features.values, features.offsets, left, right
        )
        return self._compared(overlaps, left_sizes + right_sizes)

    def jaccard(self, similarity: Fraction) -> Fraction:
        """Return the Jaccard similarity of symbols that a similarity amounts to: itself."""
        return similarity

    def similarity(self, jaccard: Fraction) -> Fraction:
        """Return the similarity that a Jaccard similarity of symbols amounts to: itself."""
        return jaccard

    def _compared(
        self, overlaps: npt.NDArray[np.int64], total_sizes: npt.NDArray[np.int64]
    ) -> Compared:
        return Compared(overlaps, total_sizes - overlaps)


def jaccard(left: AbstractSet[Hashable], right: AbstractSet[Hashable]) -> Fraction:
    """Compute the Jaccard similarity: common elements among all (MMDS 3.1.1).

    Two empty sets have no elements to share: 0.

    >>> jaccard({1, 2, 3}, {2, 3, 4})
    Fraction(1, 2)
    """
    return _ratio(len(left & right), len(left | right))


def dice(left: AbstractSet[Hashable], right: AbstractSet[Hashable]) -> Fraction:
    """Compute the Dice similarity: twice the common elements among both sizes added."""
    return _ratio(2 * len(left & right), len(left) + len(right))


def cosine(left: AbstractSet[Hashable], right: AbstractSet[Hashable]) -> float:
    """Compute the cosine of two sets as 0/1 vectors: common elements by the sizes' mean root."""
    common = len(left & right)
    return common / math.sqrt(len(left) * len(right)) if common else 0.0


def containment(inner: AbstractSet[Hashable], outer: AbstractSet[Hashable]) -> Fraction:
    """Compute the share of ``inner`` that ``outer`` has."""
    return _ratio(len(inner & outer), len(inner))


def overlap_coefficient(left: AbstractSet[Hashable], right: AbstractSet[Hashable]) -> Fraction:
    """Compute the share of the smaller set that the larger has."""
    return _ratio(len(left & right), min(len(left), len(right)))


def bag_jaccard_of_sums(left: Iterable[Hashable], right: Iterable[Hashable]) -> Fraction:
    """Compute the Jaccard similarity of bags whose union adds up the counts (MMDS 3.1.3).

    It is at most 1/2: a bag has that similarity to itself.

    >>> bag_jaccard_of_sums("aaab", "aabbc")
    Fraction(1, 3)
    """
    one, other = Counter(left), Counter(right)
    return _ratio((one & other).total(), one.total() + other.total())


def bag_jaccard_of_maxima(left: Iterable[Hashable], right: Iterable[Hashable]) -> Fraction:
    """Compute the Jaccard similarity of bags whose union has the larger count (3.1.3, footnote)."""
    one, other = Counter(left), Counter(right)
    return _ratio((one & other).total(), (one | other).total())


def jaccard_similarities(
    overlaps: npt.NDArray[np.integer],
    left_sizes: npt.NDArray[np.integer],
    right_sizes: npt.NDArray[np.integer],
) -> npt.NDArray[np.float64]:
    """Compute Jaccard similarities from counts, correctly rounded; 0 for two empty sets."""
    common = np.asarray(overlaps, dtype=np.int64)
    unions = np.asarray(left_sizes, np.int64) + np.asarray(right_sizes, np.int64) - common
    return np.asarray(common / np.maximum(unions, 1), dtype=np.float64)


def _ratio(part: int, whole: int) -> Fraction:
    return Fraction(part, whole) if whole else Fraction(0)
