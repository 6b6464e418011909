"""Labels: what people said of pairs, whether the two are the same; kept beside the settings.

A label is of two keys, not of items: it stays when an item is replaced, and when one is deleted.
Who reads labels says which of them have lost a key. They go when one of their collections that this
store has is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import xxhash

from simdb.errors import BadItemError, CorruptionError
from simdb.results import Key
from simdb.storage.file.environment import ReadTransaction, WriteTransaction
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table, encode_user_key


class Label(NamedTuple):
    """What was said of a pair.

    Attributes:
        other: the name of the collection of the right key, with a line end if another store has
            it; empty if it is the collection of the left one.
        left, right: the keys; of one collection in the order of their bytes.
        match: whether the two are the same.
    """

    other: str
    left: Key
    right: Key
    match: bool

    @classmethod
    def of(cls, other: str, left: Key, right: Key, *, match: bool) -> Label:
        """Make one; it is the same which of two keys of one collection comes first."""
        if not other and encode_user_key(right) < encode_user_key(left):
            left, right = right, left
        return cls(other, left, right, match)

    @property
    def name(self) -> bytes:
        """What tells it from others: of two labels of one pair there is one."""
        return xxhash.xxh3_128_digest(layout.pack([self.other, self.left, self.right]))

    @classmethod
    def decode(cls, payload: bytes | memoryview) -> Label:
        """Read one; CorruptionError if nobody could have stored it."""
        plain: Any = layout.unpack(payload)
        fits = isinstance(plain, list) and list(map(type, plain[:1] + plain[3:])) == [str, bool]
        if not fits or not all(type(key) in (int, str) for key in plain[1:3]):
            raise CorruptionError("a stored label is not one")
        try:
            deque(map(encode_user_key, plain[1:3]), 0)
        except BadItemError as error:
            raise CorruptionError(f"a stored label is not one: {error}") from error
        return cls(*plain)


def put(transaction: WriteTransaction, collection: int, labels: Iterable[Label]) -> None:
    """Keep labels, in the place of earlier ones of the same pairs."""
    for label in labels:
        key = layout.label_key(collection, label.name)
        transaction.put(Table.META, key, layout.seal(Table.META, key, layout.pack(list(label))))


def forget(transaction: WriteTransaction, collection: int, labels: Iterable[Label]) -> None:
    """Drop labels of pairs, if there are any."""
    for label in labels:
        transaction.delete(Table.META, layout.label_key(collection, label.name))


def rename(transaction: WriteTransaction, collection: int, name: str, new: str) -> None:
    """Let labels of a collection's pairs with another one follow the new name of that."""
    followed = forget_with(transaction, collection, name)
    put(transaction, collection, [one._replace(other=new) for one in followed])


def forget_with(transaction: WriteTransaction, collection: int, name: str) -> list[Label]:
    """Drop labels of a collection's pairs with another one, by its name; return them."""
    found = [one for one in of_collection(transaction, collection) if one.other == name]
    forget(transaction, collection, found)
    return found


def of_collection(transaction: ReadTransaction, collection: int) -> Iterator[Label]:
    """Yield the labels of a collection's pairs, of it alone and with others, in no given order."""
    for key, value in transaction.scan(Table.META, layout.label_key(collection)):
        yield Label.decode(layout.unseal(Table.META, bytes(key), value))
