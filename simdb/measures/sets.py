"""Jaccard similarity of sets of symbols, exactly (MMDS 3.1.1)."""

from __future__ import annotations

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
