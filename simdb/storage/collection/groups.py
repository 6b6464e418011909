"""The records of a collection's groups, within a transaction: who is in which, and the log.

A collection has *partitions* of its items, numbered from 0: which of them mean what, the caller
knows. In each, an item has at most one *label*, a number from 1, and a label has its items. Beside
them are *edges* of items at a *level*, aliases of labels, and a log of changes that only grows.
Where groups are dropped, and kept anew later, labels and numbers of changes go on.

All lie in table META, under the number of the collection:

====== =============================================== ===========================================
tag    key after collection and tag                    value
====== =============================================== ===========================================
``s``                                                  state: next label, next number in the log
``f``                                                  first number in the log, if it is not 1
``e``  level (1) + item (4)                            edges: flag, items, their weights
``i``  partition (1) + item (4)                        its label
``m``  partition (1) + label (8) + item (4)            nothing: the item has the label
``a``  label (8)                                       the label that it is an alias of
``l``  number (8)                                      changes from that number on, in MessagePack
====== =============================================== ===========================================
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from simdb.arrays import Float64s, UInt32s
from simdb.storage.file.environment import WriteTransaction
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table, owner_prefix

CHANGES_A_RECORD = 256
END = 2**63  # of the numbers of labels and changes
_STATE, _FIRST, _EDGES, _LABEL, _MEMBER, _ALIAS, _LOG = b"s", b"f", b"e", b"i", b"m", b"a", b"l"
_TWO_NUMBERS = struct.Struct("<QQ")
_NUMBER = struct.Struct("<Q")
_OF_ITEM = struct.Struct(">BI")
_OF_LABEL = struct.Struct(">BQ")
_LONG = struct.Struct(">Q")
_ITEM = struct.Struct(">I")
_COUNT = struct.Struct("<BI")
assert (_OF_ITEM.size, _OF_LABEL.size, _COUNT.size) == (5, 9, 5)


class Edges(NamedTuple):
    """What an item is similar to.

    Attributes:
        items: uint32, any of which may be gone since.
        weights: float64, as many, or none where nobody needs them.
        is_copy: it is equal to one of these, and similar to whatever that is similar to.
    """

    items: UInt32s
    weights: Float64s
    is_copy: bool = False

    @classmethod
    def none(cls) -> Edges:
        """Return no edges."""
        return cls(np.empty(0, np.uint32), np.empty(0))


class Records(Protocol):
    """Where groups are read: a transaction, or what could be read of a damaged file."""

    def get(self, table: Table, key: bytes) -> memoryview | None:
        """Return the value of a key, None if there is none."""

    def scan(
        self, table: Table, prefix: bytes, start: bytes | None = None
    ) -> Iterator[tuple[bytes, memoryview]]:
        """Yield the records whose keys begin with a prefix, in order, from ``start`` on."""


class GroupReader:
    """The groups of a collection, by its number."""

    def __init__(self, transaction: Records, collection: int) -> None:
        self.transaction = transaction
        self._prefix = owner_prefix(collection)

    def _get(self, key: bytes) -> memoryview | None:
        name = self._prefix + key
        value = self.transaction.get(Table.META, name)
        return None if value is None else layout.unseal(Table.META, name, value)

    def _scan(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, Any]]:
        whole = self._prefix + prefix
        begin = None if start is None else self._prefix + start
        for key, value in self.transaction.scan(Table.META, whole, begin):
            yield bytes(key[len(whole) :]), layout.unseal(Table.META, bytes(key), value)

    def state(self) -> tuple[int, int]:
        """Return the next label, and the number of the next change."""
        label, change = self._numbers(_STATE, _TWO_NUMBERS) or (1, 1)
        return label, change

    def first_change(self) -> int:
        """Return the number with which the log begins; those before were of dropped groups."""
        (first,) = self._numbers(_FIRST, _NUMBER) or (1,)
        return first

    def _numbers(self, key: bytes, form: struct.Struct) -> tuple[int, ...]:
        """Return the numbers of labels or changes in a record, none where it is not there."""
        found = self._get(key)
        if found is not None and len(found) != form.size:
            raise layout.damage("what numbers groups and their changes have had cannot be read")
        return () if found is None else form.unpack(found)

    def has_more_than_numbers(self) -> bool:
        """Whether there is more than dropped groups leave behind."""
        left = self._prefix + _STATE, self._prefix + _FIRST
        keys = self.transaction.scan(Table.META, self._prefix)
        return any(bytes(key) not in left for key, _ in keys)

    def label(self, partition: int, item: int) -> int:
        """Return the label of an item, 0 if it has none."""
        found = self._get(_LABEL + _OF_ITEM.pack(partition, item))
        return 0 if found is None else _one(_NUMBER, found)

    def members(self, partition: int, label: int) -> UInt32s:
        """Return the items of a label, ascending."""
        found = self._scan(_MEMBER + _OF_LABEL.pack(partition, label))
        return np.array([_one(_ITEM, key) for key, _ in found], np.uint32)

    def labels(self, partition: int) -> Iterator[tuple[int, int]]:
        """Yield every item that has a label, ascending, with that."""
        for key, value in self._scan(_LABEL + bytes([partition])):
            yield _one(_ITEM, key), _one(_NUMBER, value)

    def all_members(self, partition: int, after: int = 0) -> Iterator[tuple[int, int]]:
        """Yield every label greater than ``after`` with each of its items, ascending."""
        first = _OF_LABEL.pack(partition, min(after + 1, 2**64 - 1))
        for key, _ in self._scan(_MEMBER + bytes([partition]), _MEMBER + first):
            yield _one(_LONG, key[:8]), _one(_ITEM, key[8:])

    def edges(self, level: int, item: int) -> Edges:
        """Return what is noted of an item that it is similar to."""
        found = self._get(_EDGES + _OF_ITEM.pack(level, item))
        if found is None:
            return Edges.none()
        is_copy, count = _COUNT.unpack_from(found)
        items = np.frombuffer(found, "<u4", count, _COUNT.size).astype(np.uint32)
        weights = np.frombuffer(found, np.uint8, -1, _COUNT.size + 4 * count).tobytes()
        return Edges(items, np.frombuffer(weights, "<f8").astype(np.float64), bool(is_copy))

    def edge_items(self, level: int) -> Iterator[int]:
        """Yield every item of which edges are noted."""
        for key, _ in self._scan(_EDGES + bytes([level])):
            yield _one(_ITEM, key)

    def alias(self, label: int) -> int:
        """Return the label that one is an alias of, in the end; itself if of none.

        CorruptionError: one is not of an earlier label, so that they might lead round in a circle.
        """
        while (found := self._get(_ALIAS + _LONG.pack(label))) is not None:
            later, label = label, _one(_NUMBER, found)
            if label >= later:
                raise layout.damage(f"group {later:,} is an alias of {label:,}, which is no older")
        return label

    def aliases(self) -> Iterator[tuple[int, int]]:
        """Yield every alias and the earlier label that it stands for, which may be one too."""
        for key, value in self._scan(_ALIAS):
            yield _one(_LONG, key), _one(_NUMBER, value)

    def changes(self, since: int) -> Iterator[tuple[int, list[Any]]]:
        """Yield the changes from a number on, as they were logged, with their numbers."""
        first = min(max(0, since - CHANGES_A_RECORD), 2**64 - 1)
        for key, value in self._scan(_LOG, _LOG + _LONG.pack(first)):
            number, changes = _one(_LONG, key), layout.unpack(value)
            if not isinstance(changes, list) or not all(map(_is_change, changes)):
                raise layout.damage(f"the changes of groups from {number:,} on cannot be read")
            for place, change in enumerate(changes, number):
                if place >= since:
                    yield place, change


def _one(form: struct.Struct, data: memoryview | bytes) -> int:
    """Return the number that a key or a value is."""
    if len(data) != form.size:
        raise layout.damage("a record of groups is of another size than it can be")
    return int(form.unpack(data)[0])


def _is_change(change: Any) -> bool:
    """Whether something is of the form in which changes are logged, whatever they say."""
    form = [int, str, int, int, list]
    is_one = isinstance(change, list) and list(map(type, change)) == form
    return is_one and all(isinstance(key, bytes) for key in change[4])


class GroupWriter(GroupReader):
    """Changes the groups of a collection."""

    transaction: WriteTransaction

    def _put(self, key: bytes, payload: bytes) -> None:
        name = self._prefix + key
        self.transaction.put(Table.META, name, layout.seal(Table.META, name, payload))

    def _delete(self, key: bytes) -> None:
        self.transaction.delete(Table.META, self._prefix + key)

    def set_state(self, next_label: int, next_change: int) -> None:
        """Store the next label and the number of the next change."""
        self._put(_STATE, _TWO_NUMBERS.pack(next_label, next_change))

    def begin_log(self, first: int) -> None:
        """Let the log, which is empty, begin with a number."""
        if first != self.first_change():
            self._put(_FIRST, _NUMBER.pack(first))

    def set_label(self, partition: int, item: int, before: int, label: int) -> None:
        """Give an item another label than the one before; 0 is none."""
        if before:
            self._delete(_MEMBER + _OF_LABEL.pack(partition, before) + _ITEM.pack(item))
        if label:
            self._put(_MEMBER + _OF_LABEL.pack(partition, label) + _ITEM.pack(item), b"")
            self._put(_LABEL + _OF_ITEM.pack(partition, item), _NUMBER.pack(label))
        else:
            self._delete(_LABEL + _OF_ITEM.pack(partition, item))

    def set_edges(self, level: int, item: int, edges: Edges) -> None:
        """Note what an item is similar to, in the place of what was noted."""
        key = _EDGES + _OF_ITEM.pack(level, item)
        if not edges.items.size:
            self._delete(key)
            return
        head = _COUNT.pack(edges.is_copy, edges.items.size)
        items = edges.items.astype("<u4").tobytes()
        self._put(key, head + items + edges.weights.astype("<f8").tobytes())

    def add_alias(self, label: int, stands_for: int) -> None:
        """Let a label be an alias of an earlier one."""
        self._put(_ALIAS + _LONG.pack(label), _NUMBER.pack(stands_for))

    def log(self, first: int, changes: Sequence[Any]) -> None:
        """Log changes, numbered from the first on."""
        for begin in range(0, len(changes), CHANGES_A_RECORD):
            some = list(changes[begin : begin + CHANGES_A_RECORD])
            self._put(_LOG + _LONG.pack(first + begin), layout.pack(some))

    def clear(self, *, whole: bool) -> None:
        """Remove all labels and edges; the ``whole``, also aliases and the log."""
        tags = (_EDGES, _LABEL, _MEMBER, *((_ALIAS, _LOG) if whole else ()))
        for tag in tags:
            doomed = [
                bytes(key) for key, _ in self.transaction.scan(Table.META, self._prefix + tag)
            ]
            for key in doomed:
                self.transaction.delete(Table.META, key)
        if whole:
            self.begin_log(self.state()[1])
