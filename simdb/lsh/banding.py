"""Banding: signatures to bucket keys, and the rows that a similar pair must share (MMDS 3.4)."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.items.symbols import polynomial_base, secret_words

FILTER_LOSS = Fraction(1, 10_000)


class Banding:
    """Hash each band of a signature to a 64-bit bucket key under a secret.

    Two items share the key of a band if and (but for a probability below (rows + 1) / 2^58) only
    if they agree in all its rows (MMDS 3.4.1). Different bands have different keys.
    """

    def __init__(self, bands: int, rows: int, secret: bytes) -> None:
        self.bands = bands
        self.rows = rows
        words = secret_words(secret, b"simdb.bucket", 2)
        self._base = np.uint64(polynomial_base(int(words[0])))
        self._secret = words[1]

    def bucket_keys(self, signatures: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint64]:
        """Return the bucket keys, uint64 (n, bands), of signatures, uint16 (n, bands * rows)."""
        if signatures.ndim != 2 or signatures.shape[1] != self.bands * self.rows:
            raise ValueError(
                f"signatures of shape {signatures.shape} do not have "
                f"{self.bands} x {self.rows} rows"
            )
        return kernels.sketches.bucket_keys(signatures, self.bands, self._base, self._secret)


def minimum_matches(threshold: Fraction, rows: int, loss: Fraction = FILTER_LOSS) -> int:
    """Return how many of ``rows`` rows a similar pair must share not to be dropped.

    It is the largest m such that a pair *at* the threshold has fewer than m equal rows with
    probability at most ``loss``; a more similar pair has them less often still. The number of equal
    rows is binomial (MMDS 3.3.3); the tail is summed in integers.
    """
    numerator, denominator = threshold.numerator, threshold.denominator
    allowed = loss * denominator**rows
    tail = 0
    for matches in range(rows):
        others = rows - matches
        tail += comb(rows, matches) * numerator**matches * (denominator - numerator) ** others
        if tail > allowed:
            return matches
    return rows
