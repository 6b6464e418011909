"""Similarity of fingerprints: of their grid squares, or of their minutiae laid on each other."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from simdb.measures.compared import Compared

Integers = npt.NDArray[np.int64]


class Settings(Protocol):
    """The settings of a kind: ``items.fingerprints.Fingerprint``."""

    @property
    def measure(self) -> str:
        """``"minutiae"`` or ``"squares"``."""

    @property
    def aligning(self) -> tuple[int, int, int, int, int]:
        """Both tolerances, the largest turn, width and height in the units of minutiae."""


class Prints(Protocol):
    """Fingerprints as arrays: ``items.fingerprints.Prints``."""

    @property
    def grids(self) -> npt.NDArray[np.uint64]:
        """The occupied squares of each print, uint64 (n, words)."""

    @property
    def minutiae(self) -> npt.NDArray[np.int32]:
        """The minutiae of all prints, int32 (m, 3), one print after the other."""

    @property
    def offsets(self) -> Integers:
        """Where each print begins, and where the last ends."""


class FingerprintMeasure:
    """Compare prints by the measure of their settings.

    ``"squares"`` is the Jaccard similarity of the occupied squares on the plate (MMDS 3.8.4):
    exact, some nanoseconds a pair.

    ``"minutiae"`` lays one print on the other by a turn and a shift (MMDS leaves "the best ways to
    normalize" open) and is matched / (n1 + n2 - matched): n1 and n2 minutiae, of which as many as
    ``matched`` couples, each in one couple, lie within the tolerances of distance and direction.
    The pose is found by votes of all couples (a Hough transform), of which the two most voted are
    fitted by least squares; a better one may exist. It is 1 for equal prints and the same for
    either order of a pair. Turning or shifting a print changes it little. It takes some 0.08 ms for
    prints of 50 minutiae, and grows with the product of their numbers.
    """

    def __init__(self, kind: Settings) -> None:
        self._squares = kind.measure == "squares"
        self._settings = np.array(kind.aligning, np.int64)

    def compare_probe(self, probe: Prints, features: Prints) -> Compared:
        """Compare the one print of ``probe`` with each of ``features``."""
        count = features.offsets.size - 1
        positions = np.arange(count, dtype=np.int64)
        if self._squares:
            from simdb.kernels import bits

            return Compared(
                *bits.compare_rows(probe.grids, features.grids, np.zeros_like(positions), positions)
            )
        minutiae = np.concatenate((features.minutiae, probe.minutiae))
        offsets = np.append(features.offsets, len(minutiae))
        return self._align(minutiae, offsets, np.full(count, count, np.int64), positions)

    def compare_pairs(
        self, features: Prints, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
    ) -> Compared:
        """Compare ``features[left[i]]`` with ``features[right[i]]``."""
        if self._squares:
            from simdb.kernels import bits

            return Compared(*bits.compare_rows(features.grids, features.grids, left, right))
        return self._align(features.minutiae, features.offsets, left, right)

    def _align(
        self,
        minutiae: npt.NDArray[np.int32],
        offsets: Integers,
        left: Integers,
        right: Integers,
    ) -> Compared:
        from simdb.kernels import fingerprints

        matched = fingerprints.matched_minutiae(minutiae, offsets, left, right, self._settings)
        sizes = np.diff(offsets)
        return Compared(matched, sizes[left] + sizes[right] - matched)
