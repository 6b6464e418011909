"""Hamming distance and Tanimoto similarity of many packed bit vectors at once (MMDS 3.5.6)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from simdb.errors import ConfigurationError
from simdb.measures.compared import Compared

BitsMeasureName: TypeAlias = Literal["hamming", "tanimoto"]
Words: TypeAlias = npt.NDArray[np.uint64]

BITS_MEASURES: tuple[BitsMeasureName, ...] = ("hamming", "tanimoto")


class BitsMeasure:
    """Compare bit vectors by one measure, exactly.

    ``"hamming"`` is a distance, the number of bits that differ, over 1. ``"tanimoto"`` is a
    similarity, the common set bits over all set bits: the Jaccard similarity of the sets of their
    positions; of two vectors without a set bit it is 0 / 0.
    """

    def __init__(self, measure: BitsMeasureName) -> None:
        if measure not in BITS_MEASURES:
            raise ConfigurationError(f"measure must be one of {BITS_MEASURES}, not {measure!r}")
        self._hamming = measure == "hamming"

    def compare_probe(self, probe: Words, features: Words) -> Compared:
        """Compare the one vector of ``probe``, uint64 (1, words), with each of ``features``."""
        rows = np.arange(len(features), dtype=np.int64)
        return self._compare(probe, features, np.zeros_like(rows), rows)

    def compare_pairs(
        self, features: Words, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
    ) -> Compared:
        """Compare ``features[left[i]]`` with ``features[right[i]]``, both of uint64 (n, words)."""
        return self._compare(features, features, left, right)

    def scan(
        self, probe: Words, features: Words, limit: int
    ) -> tuple[npt.NDArray[np.int64], Compared]:
        """Find all of ``features`` in which at most ``limit`` bits differ: exact, by reading all.

        Args:
            probe: uint64 (1, words).
            features: uint64 (n, words), contiguous.
            limit: Hamming distance, whatever the measure.

        Returns:
            int64, their rows, rising; their distances.
        """
        from simdb.kernels import bits

        rows, distances = bits.scan_hamming(probe[0], features, limit)
        return rows, Compared(distances, np.ones_like(distances))

    def scan_tanimoto(
        self,
        probe: Words,
        features: Words,
        needed: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64] | None = None,
    ) -> tuple[npt.NDArray[np.int64], Compared]:
        """Find all of ``features`` that have enough set bits in common with the probe: exact.

        Args:
            probe: uint64 (1, words).
            features: uint64 (n, words), contiguous.
            needed: int64, how many bits must be common to two vectors that have so many set in
                all: ``exact.thresholds.Threshold.needed_overlap_table(2 * length)``.
            counts: of the set bits of ``features``, int64 (n,), as ``set_bits`` returns them; with
                them vectors that have too few or too many are not read. Without, all are, once.

        Returns:
            int64, their rows, rising; their similarities.
        """
        from simdb.kernels import bits

        if counts is None:
            rows, common, united = bits.scan_tanimoto_uncounted(probe[0], features, needed)
        else:
            rows, common, united = bits.scan_tanimoto(probe[0], features, counts, needed)
        return rows, Compared(common, united)

    def set_bits(self, features: Words) -> npt.NDArray[np.int64]:
        """Return how many bits of each vector are set, int64 (n,)."""
        from simdb.kernels import bits

        return bits.counts_of_rows(features)

    def _compare(
        self,
        one: Words,
        other: Words,
        left: npt.NDArray[np.int64],
        right: npt.NDArray[np.int64],
    ) -> Compared:
        from simdb.kernels import bits

        common, united = bits.compare_rows(one, other, left, right)
        if self._hamming:
            return Compared(united - common, np.ones_like(common))
        return Compared(common, united)
