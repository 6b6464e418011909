"""Sets as 64-bit symbols, and the secret words that their hash functions are keyed with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simdb.ragged import Ragged

_WORDS_A_DIGEST = 8


@dataclass(frozen=True, slots=True, eq=False)
class SymbolSets(Ragged):
    """The symbols of items in order of occurrence, repeats possible."""


def secret_words(secret: bytes, purpose: bytes, count: int) -> npt.NDArray[np.uint64]:
    """Derive ``count`` uint64 words from a secret; other purposes give unrelated words.

    Word 8 i and the seven after it are the BLAKE2b digest of i (8 bytes, little-endian) and the
    secret, personalised with the purpose (at most 16 bytes), in little-endian order. The first
    words do not depend on ``count``.
    """
    digests = (
        hashlib.blake2b(number.to_bytes(8, "little") + secret, person=purpose).digest()
        for number in range(-(-count // _WORDS_A_DIGEST))
    )
    return np.frombuffer(b"".join(digests), "<u8")[:count].astype(np.uint64)


def polynomial_base(word: int) -> int:
    """Return the base of a keyed polynomial: 58 bits of the word, in [2^58, 2^59)."""
    return (word >> 6) | (1 << 58)
