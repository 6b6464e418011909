"""What every kind of item can do, and the class that does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from simdb import config
from simdb.items.sets import SetItems
from simdb.items.symbols import SymbolSets
from simdb.items.text import TextItems


class Items(Protocol):
    """The items of one collection, under its settings and its secret."""

    def encode(self, item: object) -> bytes:
        """Return the stored form of an item; equal items are equal bytes.

        Raises:
            BadItemError: it is no item of this kind, or too large.
        """

    def decode(self, data: bytes | memoryview) -> Any:  # noqa: ANN401 - a class a kind
        """Return the item of its stored form."""

    def symbols(self, items: Sequence[bytes | memoryview]) -> SymbolSets:
        """Return the symbols of items in stored form; repeats count once."""


def items_of(kind: config.Kind, secret: bytes) -> Items:
    """Return what encodes the items of a kind and makes symbols of them."""
    if isinstance(kind, config.Set):
        return SetItems(secret)
    return TextItems(kind, secret)
