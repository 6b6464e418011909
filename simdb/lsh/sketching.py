"""Sketches of symbol sets: short signatures whose equal rows estimate Jaccard similarity."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simdb import config, kernels
from simdb.errors import ConfigurationError
from simdb.items.symbols import SymbolSets, secret_words

MAXIMUM_ROWS = 4096  # the round of a fast sketch, up to twice that, has 16 bits
_MODULUS = 2**61 - 1


class Sketcher:
    """Sketch sets with one scheme, number of rows and secret.

    Each row of two sketches is equal with a probability equal to the Jaccard similarity of the
    sets, but for 2^-16 of the unequal rows, which agree in the 16 bits that are kept. ``"fast"``
    is fast similarity sketching (Dahlgaard, Knudsen and Thorup, FOCS 2017), ``"classical"`` has a
    hash function a row (MMDS 3.3.5). A sketch is not a prefix of one with more rows, and sketches
    of different schemes, rows or secrets must not be compared. Safe to use from several threads.
    """

    def __init__(self, scheme: config.SketchScheme, rows: int, secret: bytes) -> None:
        if scheme not in ("fast", "classical"):
            raise ConfigurationError(f"sketch must be 'fast' or 'classical', not {scheme!r}")
        if not 1 <= rows <= MAXIMUM_ROWS:
            raise ConfigurationError(f"a sketch has 1 to {MAXIMUM_ROWS:,} rows, not {rows}")
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
