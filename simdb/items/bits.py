"""Bit vectors of one length: what is taken as one, and its stored form.

The stored form is the bits in bytes, the first in the highest bit of the first byte (as
``np.packbits`` has them), filled up with zero bits to a whole number of 8 bytes: of one width for
all, so that stored vectors are an array of uint64 as they lie.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from simdb.config import Bits
from simdb.errors import BadItemError
from simdb.items.one_width import require_sound, rows_of
from simdb.items.symbols import SymbolSets, secret_words
from simdb.items.text import MAXIMUM_ITEM_BYTES

MAXIMUM_LENGTH = 8 * MAXIMUM_ITEM_BYTES
_WORD_BITS = 64


class BitsItems:
    """Encode bit vectors of one length, and hash their set bits under a collection's secret.

    Attributes:
        width: bytes of a stored vector.
    """

    def __init__(self, settings: Bits, secret: bytes) -> None:
        self._length = settings.length
        self._bytes = -(-settings.length // 8)
        self.width = -(-settings.length // _WORD_BITS) * 8
        self._secret = secret_words(secret, b"simdb.bits", 1)[0]
        # The bits of the last word that lie past the end.
        free = np.zeros(8 * self.width, np.uint8)
        free[settings.length :] = 1
        self._past_end = np.packbits(free[-_WORD_BITS:]).view("<u8")[0]

    def encode(self, item: object) -> bytes:
        """Return the stored form of a bit vector.

        Raises:
            BadItemError: it is nothing that ``Bits`` names, or has not the collection's length.
        """
        if isinstance(item, np.ndarray):
            return self._from_array(item)
        if isinstance(item, bytes | bytearray | memoryview):
            return self._from_bytes(bytes(item))
        if isinstance(item, str):
            return self._from_text(item)
        if isinstance(item, int | np.integer) and not isinstance(item, bool):
            return self._from_number(int(item))
        if isinstance(item, list | tuple):
            return self._from_array(self._array_of(item))
        raise BadItemError(
            "a bit vector must be an array or a list of 0 and 1, a text of them, bytes or a whole "
            f"number, not {type(item).__name__} {reprlib.repr(item)}"
        )

    def decode(self, data: bytes | memoryview) -> npt.NDArray[np.uint8]:
        """Return the bits of a stored form, uint8 (length,) of 0 and 1.

        Raises:
            CorruptionError: it is no stored form of a vector of this length.
        """
        words = self.features([data])
        return np.unpackbits(words.view(np.uint8)[0])[: self._length]

    def features_of_rows(self, rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
        """Return stored vectors that lie one after the other, uint8 (n, width), as they are."""
        vectors: npt.NDArray[np.uint64] = np.ascontiguousarray(rows).view(np.uint64)
        return vectors

    def features(self, items: Sequence[bytes | memoryview]) -> npt.NDArray[np.uint64]:
        """Return stored vectors as words, uint64 (n, width / 8).

        Raises:
            CorruptionError: one of them is no stored form of a vector of this length.
        """
        words = rows_of(items, self.width, "bit vector").view("<u8")
        require_sound(words[:, -1] & self._past_end == 0, "bit vector")
        return words.astype(np.uint64, copy=False)

    def symbols(self, items: Sequence[bytes | memoryview]) -> SymbolSets:
        """Return the symbols of the set bits: different bits never share one.

        Raises:
            CorruptionError: one of them is no stored form of a vector of this length.
        """
        from simdb.kernels import bits

        return SymbolSets(*bits.bit_symbols(self.features(items), self._length, self._secret))

    # -- what is taken as a bit vector -----------------------------------------------------------

    def _from_array(self, item: npt.NDArray[Any]) -> bytes:
        if item.ndim != 1:
            raise BadItemError(f"a bit vector must be an array of one dimension, not {item.ndim}")
        if item.dtype.kind not in "biu":
            self._refuse(f"of {item.dtype} {reprlib.repr(item.tolist())}")
        if item.size != self._length:
            self._refuse_length(f"an array of {item.size:,}")
        wrong = np.flatnonzero((item != 0) & (item != 1))
        if wrong.size:
            self._refuse(f"{item[wrong[0]]} at position {wrong[0]}; packed bits are given as bytes")
        return self._filled(np.packbits(item.astype(np.bool_)).tobytes())

    def _array_of(self, item: list[Any] | tuple[Any, ...]) -> npt.NDArray[Any]:
        if len(item) != self._length:
            self._refuse_length(f"a list of {len(item):,}")
        for position, bit in enumerate(item):
            if not isinstance(bit, int | np.integer | np.bool_) or bit not in (0, 1):
                kind = type(bit).__name__
                self._refuse(f"{kind} {reprlib.repr(bit)} at position {position}")
        return np.array(item, np.bool_)

    def _from_bytes(self, item: bytes) -> bytes:
        if len(item) != self._bytes:
            self._refuse_length(f"{len(item):,} bytes", f", packed into {self._bytes:,} bytes")
        free = 8 * self._bytes - self._length
        if free and item[-1] & ((1 << free) - 1):
            raise BadItemError(
                f"the last {free} bits of the packed {self._bytes:,} bytes lie past the length of "
                f"{self._length:,} bits and must be 0, as np.packbits leaves them"
            )
        return self._filled(item)

    def _from_text(self, item: str) -> bytes:
        wrong = item.strip("01")
        if wrong:
            self._refuse(f"the character {wrong[0]!a} at position {item.index(wrong[0])}")
        if len(item) != self._length:
            self._refuse_length(f"a text of {len(item):,}")
        return self._from_number(int(item, 2))

    def _from_number(self, item: int) -> bytes:
        if item < 0 or item.bit_length() > self._length:
            raise BadItemError(
                f"a whole number of {self._length:,} bits lies between 0 and 2^{self._length} - 1, "
                f"which {reprlib.repr(item)} does not"
            )
        free = 8 * self._bytes - self._length
        return self._filled((item << free).to_bytes(self._bytes, "big"))

    def _filled(self, packed: bytes) -> bytes:
        return packed.ljust(self.width, b"\0")

    def _refuse(self, wrong: str) -> NoReturn:
        raise BadItemError(f"the bits of a vector must be 0 and 1, not {wrong}")

    def _refuse_length(self, given: str, form: str = "") -> NoReturn:
        raise BadItemError(
            f"the vectors of this collection have {self._length:,} bits{form}, "
            f"and this one is {given}"
        )
