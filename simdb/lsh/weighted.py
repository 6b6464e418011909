"""Sketches of weighted sets: rows agree as often as the weighted Jaccard similarity says."""

from __future__ import annotations

from fractions import Fraction
from math import factorial

import numpy as np

from simdb import kernels
from simdb.arrays import UInt16s, UInt64s
from simdb.lsh.family import SimilarityRows, derived_words
from simdb.ragged import WeightedSets

_SEEDS = 256  # the bands of ranks of the lightest items are fewer
_MOST_DARTS = 20  # of a cell; 2^-64 of all have more
_TERMS = 40  # of the series of e


class DartMinHash(SimilarityRows):
    """Darts of least rank, cut into bands of rows; see ``kernels.weighted.dart_sketches``.

    Rows are independent of each other. Each is equal with a probability equal to the sum of minima
    over the sum of maxima of the weights, but for 2^-16 of the unequal ones, which agree in the
    16 bits that are kept. Safe to use from several threads.
    """

    def __init__(self, bands: int, rows: int, secret: bytes) -> None:
        super().__init__(bands, rows, rows, secret)
        self._counts = poisson_counts()
        self._seeds = derived_words(secret, b"simdb.darts", _SEEDS)

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


def poisson_counts() -> UInt64s:
    """Return the probabilities of at most 0, 1, ... events of one expected, in units of 2^-64."""
    terms = (Fraction((-1) ** term) / factorial(term) for term in range(_TERMS))
    one_over_e = sum(terms, Fraction(0))
    cumulated = Fraction(0)
    counts = []
    for events in range(_MOST_DARTS):
        cumulated += one_over_e / factorial(events)
        counts.append(min(int(cumulated * 2**64), 2**64 - 1))
    return np.array(counts, np.uint64)
