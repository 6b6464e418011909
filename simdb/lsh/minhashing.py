"""Minhash: the family of the Jaccard similarity of sets (MMDS 3.3, 3.4)."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from simdb import config
from simdb.items.symbols import SymbolSets
from simdb.lsh.banding import Banding, minimum_matches
from simdb.lsh.family import BucketKeys
from simdb.lsh.sketching import Sketcher


class MinHash:
    """Sketches of symbol sets, cut into bands of so many rows; see ``Sketcher``.

    Two sets agree in a row with a probability equal to their Jaccard similarity.
    """

    def __init__(self, scheme: config.SketchScheme, bands: int, rows: int, secret: bytes) -> None:
        self.words = bands * rows
        self.band_words = rows
        self._sketcher = Sketcher(scheme, self.words, secret)
        self._banding = Banding(bands, rows, secret)

    def sign(self, features: SymbolSets) -> npt.NDArray[np.uint16]:
        """Return the sketches, uint16 (n, words); zeros of an empty set."""
        return self._sketcher.sketch(features)

    def bucket_keys(self, signatures: npt.NDArray[np.uint16]) -> BucketKeys:
        """Return one key a band; none of an empty set."""
        keys = self._banding.bucket_keys(signatures)
        return BucketKeys.of_matrix(keys, np.asarray(signatures.any(axis=1)))

    def needed_matches(self, least: Fraction) -> int:
        """Return how many rows a pair at a similarity shares but for 1 in 10,000 times."""
        return _needed_matches(least, self.words)


@lru_cache(maxsize=256)
def _needed_matches(least: Fraction, rows: int) -> int:
    return minimum_matches(least, rows)
