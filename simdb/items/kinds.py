"""What every kind of item can do, and the class that does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from simdb import config
from simdb.items.symbols import SymbolSets


class Items(Protocol):
    """The items of one collection, under its settings and its secret.

    Attributes:
        width: bytes of every item in stored form; 0 when it varies.
    """

    width: int

    def encode(self, item: object) -> bytes:
        """Return the stored form of an item; equal items are equal bytes.

        Raises:
            BadItemError: it is no item of this kind, or too large.
        """

    def decode(self, data: bytes | memoryview) -> Any:
        """Return the item of its stored form."""

    def features(self, items: Sequence[bytes | memoryview]) -> Any:
        """Return what items in stored form are hashed and compared by, as one batch."""


class SymbolItems(Protocol):
    """Items that are compared as sets of symbols."""

    def symbols(self, items: Sequence[bytes | memoryview]) -> SymbolSets:
        """Return the symbols of items in stored form; repeats count once."""


class RowItems(Protocol):
    """Items of one width, which lie one after the other."""

    def features_of_rows(self, rows: npt.NDArray[np.uint8]) -> Any:
        """Return the features of items, uint8 (n, width), without a copy of each."""


def encode_many(items: Items, given: Sequence[object]) -> list[bytes]:
    """Return the stored form of many items, all at once where the kind can do that.

    Raises:
        BadItemError: of one that is no item of the kind.
    """
    many = getattr(items, "encode_many", None)
    encoded: list[bytes] = list(map(items.encode, given)) if many is None else many(given)
    return encoded


def symbols_of(items: Items, encoded: Sequence[bytes | memoryview]) -> SymbolSets:
    """Return the symbols of items in stored form, of a kind that has symbols."""
    return cast("SymbolItems", items).symbols(encoded)


def items_of(kind: config.Kind, secret: bytes) -> Items:  # noqa: PLR0911 - one line a kind
    """Return what encodes the items of a kind and makes features of them."""
    if isinstance(kind, config.Text):
        from simdb.items.text import TextItems

        return TextItems(kind, secret)
    if isinstance(kind, config.Set):
        from simdb.items.sets import SetItems

        return SetItems(secret)
    if isinstance(kind, config.Bag):
        from simdb.items.bags import BagItems

        return BagItems(secret)
    if isinstance(kind, config.Bits):
        from simdb.items.bits import BitsItems

        return BitsItems(kind, secret)
    if isinstance(kind, config.Fingerprint):
        from simdb.items.fingerprints import FingerprintItems

        return FingerprintItems(kind)
    if isinstance(kind, config.Record):
        from simdb.items.records import RecordItems

        return RecordItems(kind)
    from simdb.items.vectors import VectorItems

    return VectorItems(kind)
