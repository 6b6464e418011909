"""Minhash: the family of the Jaccard similarity of sets (MMDS 3.3, 3.4)."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.errors import ConfigurationError
from simdb.lsh.family import MAXIMUM_FUNCTIONS, Banding, BucketKeys, minimum_matches
from simdb.lsh.symbols import SymbolSets, secret_words

SketchScheme: TypeAlias = Literal["fast", "classical"]

_MODULUS = 2**61 - 1


class Sketcher:
    """Sketch sets with one scheme, number of rows and secret.

    Each row of two sketches is equal with a probability equal to the Jaccard similarity of the
    sets, but for 2^-16 of the unequal rows, which agree in the 16 bits that are kept. ``"fast"``
    is fast similarity sketching (Dahlgaard, Knudsen and Thorup, FOCS 2017), ``"classical"`` has a
    hash function a row (MMDS 3.3.5). A sketch is not a prefix of one with more rows, and sketches
    of different schemes, rows or secrets must not be compared. Safe to use from several threads.
    """

    def __init__(self, scheme: SketchScheme, rows: int, secret: bytes) -> None:
        if scheme not in ("fast", "classical"):
            raise ConfigurationError(f"sketch must be 'fast' or 'classical', not {scheme!r}")
        if not 1 <= rows <= MAXIMUM_FUNCTIONS:
            raise ConfigurationError(f"a sketch has 1 to {MAXIMUM_FUNCTIONS:,} rows, not {rows}")
        self._scheme = scheme
        self._rows = rows
        self._final = secret_words(secret, b"simdb.row", 1)[0]
        self._words = secret_words(secret, b"simdb." + scheme.encode(), 2 * rows)
        if scheme == "classical":
            self._multipliers = self._words[:rows] % np.uint64(_MODULUS - 1) + np.uint64(1)
            self._addends = self._words[rows:] % np.uint64(_MODULUS)

    def sketch(self, symbols: SymbolSets) -> npt.NDArray[np.uint16]:
        """Return the sketches of the sets, uint16 (n, rows); zeros for an empty set."""
        sets = (symbols.values, symbols.offsets)
        if self._scheme == "fast":
            return kernels.sketches.fast_sketches(*sets, self._rows, self._words, self._final)
        return kernels.sketches.classical_sketches(
            *sets, self._multipliers, self._addends, self._final
        )


class MinHash:
    """Sketches of symbol sets, cut into bands of so many rows; see ``Sketcher``.

    Two sets agree in a row with a probability equal to their Jaccard similarity.
    """

    def __init__(self, scheme: SketchScheme, bands: int, rows: int, secret: bytes) -> None:
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
