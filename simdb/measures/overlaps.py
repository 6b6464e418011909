"""The Jaccard similarity of symbol sets, for all kinds that are compared as sets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.items.symbols import SymbolSets
from simdb.measures.compared import Compared


class OverlapMeasure:
    """Common symbols over all symbols (MMDS 3.1.1), in whole numbers.

    The ratios are overlap and union. A pair without symbols is 0 / 0, which no threshold takes.
    """

    def compare_probe(self, probe: SymbolSets, features: SymbolSets) -> Compared:
        """Compare one set with many."""
        shared, sizes, probe_size = kernels.overlaps.probe_overlaps(
            probe.values, features.values, features.offsets
        )
        return Compared(shared, sizes + probe_size - shared)

    def compare_pairs(
        self, features: SymbolSets, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
    ) -> Compared:
        """Compare ``features[left[i]]`` with ``features[right[i]]``."""
        order = np.argsort(left, kind="stable")
        shared, left_sizes, right_sizes = kernels.overlaps.pair_overlaps(
            features.values,
            features.offsets,
            left[order].astype(np.int64),
            right[order].astype(np.int64),
        )
        overlaps = np.empty_like(shared)
        unions = np.empty_like(shared)
        overlaps[order] = shared
        unions[order] = left_sizes + right_sizes - shared
        return Compared(overlaps, unions)
