"""The log: what small commits changed, kept beside the tables until a later commit folds it in.

A commit copies a page of every table that it changes, and the pages above it: 37 kB for one small
item. So what changes little is written as one record of LMDB's main table, whose only page every
commit writes anyhow. Transactions read the tables through it (``environment``), and nothing above
them knows of it.

The *head* holds the changes of the last commits. A commit writes it anew with its own changes
added, as long as LMDB keeps so much within that page; then it becomes a *segment*, which lies on
pages of its own and stays as it is, and an empty head follows. When there are many segments, or a
commit is large, or little room is left, a commit *folds* the log: it writes all to the tables.

So until it is folded a log only grows: what an earlier one changes, with the later segments and
the later head on top, is what the later one changes.
"""

from __future__ import annotations

import struct
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct, structs

from simdb.errors import CorruptionError
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table

HEAD_KEY = b"log"
LARGEST_HEAD = 2_024  # bytes; in a page of 4 KiB LMDB keeps it, and no segment, which is longer
MOST_SEGMENTS = 48  # which that page leads to, beside the tables
MOST_BYTES = 2**18  # in segments
MOST_RECORDS = 1_024  # that are changed
LARGEST_COMMIT = 2**16  # bytes; what changes more is written to the tables
COST = 64  # bytes that a change counts for, beside its key and its value
PAGE = 4_096  # bytes, mostly
LONGEST_KEY = 511  # bytes, of any table of LMDB's
CHECKSUM_SEED = 255  # in the place of a table's number
_PLACE = struct.Struct("<QIII")
_NUMBER = struct.Struct(">I")
assert (_PLACE.size, _NUMBER.size) == (20, 4)

# Table, key, and the value, or None where the record is deleted.
Change: TypeAlias = tuple[
    Annotated[int, Meta(ge=0, lt=len(Table))],
    Annotated[bytes, Meta(min_length=1, max_length=LONGEST_KEY)],
    bytes | None,
]
_decoder = msgspec.msgpack.Decoder(list[Change])


def is_log(key: bytes) -> bool:
    """Whether a key of LMDB's main table is that of the head or a segment."""
    return key.startswith(HEAD_KEY) and len(key) in {len(HEAD_KEY), len(HEAD_KEY) + _NUMBER.size}


def segment_key(number: int) -> bytes:
    """Return the key of a segment in LMDB's main table."""
    return HEAD_KEY + _NUMBER.pack(number)


class Place(Struct, frozen=True):
    """What the head says beside its changes."""

    commit: int  # that wrote it
    first: int  # segment
    end: int  # one past the last segment
    size: int  # bytes of all segments


def decode(key: bytes, record: bytes) -> tuple[Place, list[Change]]:
    """Return what the head or a segment says; CorruptionError if it is damaged."""
    try:
        payload = layout.unseal(CHECKSUM_SEED, key, memoryview(record))
        place = Place(*_PLACE.unpack_from(payload))
        return place, _decoder.decode(payload[_PLACE.size :])
    except (CorruptionError, struct.error, msgspec.DecodeError) as error:
        raise layout.damage("the log of the last commits is damaged") from error


def encode(key: bytes, place: Place, changes: list[Change]) -> bytes:
    """Return the record that ``decode`` reads."""
    return _sealed(key, place, msgspec.msgpack.encode(changes))


def _sealed(key: bytes, place: Place, packed: bytes) -> bytes:
    return layout.seal(CHECKSUM_SEED, key, _PLACE.pack(*structs.astuple(place)) + packed)


class Changed:
    """What the log changes in one table: values by key, None where a record is deleted."""

    __slots__ = ("keys", "values")

    def __init__(self) -> None:
        self.values: dict[bytes, memoryview | None] = {}
        self.keys: list[bytes] = []  # sorted

    def copy(self) -> Changed:
        """Return one that can be changed without the other."""
        copied = Changed()
        copied.values, copied.keys = self.values.copy(), self.keys.copy()
        return copied

    def set(self, key: bytes, value: bytes | None) -> None:
        """Store a record, or delete it."""
        if key not in self.values:
            insort(self.keys, key)
        self.values[key] = None if value is None else memoryview(value)


_NOTHING = tuple(Changed() for _ in Table)


class Log:
    """The log as one commit left it, with all that it changes in the tables.

    Snapshots share it: a writer changes a copy.
    """

    __slots__ = ("_head", "_own", "checksum", "is_begun", "place", "tables")

    def __init__(self, tables: Sequence[Changed] = _NOTHING) -> None:
        self.tables = [*tables]
        self._own: dict[int, Changed] = {}  # the tables that no other log has
        self.checksum = b""  # of the stored head, by which a log is known; none without one
        self.place = Place(0, 0, 0, 0)
        self.is_begun = False  # something of it is stored
        self._head: dict[tuple[int, bytes], bytes | None] = {}

    @classmethod
    def load(cls, record: bytes, known: Log, segment: Callable[[bytes], bytes]) -> Log:
        """Return the log of a stored head.

        ``known`` is one of the same file, of any commit; ``segment`` reads the record of a key.
        """
        place, head = decode(HEAD_KEY, record)
        grew = known.place.first == place.first and known.place.commit <= place.commit
        log = known.copy() if grew else cls()
        for number in range(log.place.end if grew else place.first, place.end):
            key = segment_key(number)
            log._apply(decode(key, segment(key))[1])
        log._apply(head)
        log.checksum, log.place = record[: layout.CHECKSUM_SIZE], place
        log.is_begun = place.first < place.end or bool(head)
        log._head = {(table, key): value for table, key, value in head}
        return log

    def copy(self) -> Log:
        """Return one that can be changed without the other."""
        copied, self._own = Log(self.tables), {}
        copied.checksum, copied.place, copied._head = self.checksum, self.place, self._head.copy()
        copied.is_begun = self.is_begun
        return copied

    def _apply(self, changes: list[Change]) -> None:
        for table, key, value in changes:
            self._changed(table).set(key, value)

    def _changed(self, table: int) -> Changed:
        """What it changes in a table, to be changed."""
        if table not in self._own:
            self._own[table] = self.tables[table] = self.tables[table].copy()
        return self._own[table]

    # -- writing -----------------------------------------------------------------------------

    def set(self, table: Table, key: bytes, value: bytes | None) -> None:
        """Store a record, or delete it."""
        self._head[table, key] = value
        own = self._own[table] if table in self._own else self._changed(table)
        own.set(key, value)

    @property
    def is_full(self) -> bool:
        """Whether the next commit is to fold it."""
        segments = self.place.end - self.place.first
        return (
            segments >= MOST_SEGMENTS
            or self.place.size >= MOST_BYTES
            or self._records >= MOST_RECORDS
        )

    @property
    def folded_bytes(self) -> int:
        """Bytes that folding it writes, about: a page for each record, and what is long."""
        return self._records * PAGE + 2 * self.place.size

    @property
    def _records(self) -> int:
        return sum(map(len, [changed.keys for changed in self.tables]))

    def written(self, commit: int) -> list[tuple[bytes, bytes]]:
        """Return the records of the main table that a commit writes for what was set."""
        place, records = structs.replace(self.place, commit=commit), []
        changes: list[Change] = [(table, key, value) for (table, key), value in self._head.items()]
        packed = msgspec.msgpack.encode(changes)
        length = layout.CHECKSUM_SIZE + _PLACE.size + len(packed)
        if length > LARGEST_HEAD:
            key = segment_key(place.end)
            records.append((key, _sealed(key, place, packed)))
            place = structs.replace(place, end=place.end + 1, size=place.size + length)
            self._head, packed = {}, msgspec.msgpack.encode([])
        head = _sealed(HEAD_KEY, place, packed)
        self.place, self.checksum, self.is_begun = place, head[: layout.CHECKSUM_SIZE], True
        return [*records, (HEAD_KEY, head)]

    def emptied(self, commit: int) -> tuple[Log, bytes]:
        """Return the log after it was folded, and its head's record."""
        log = Log()
        begin = self.place.end + 1  # another than before, which tells the next log from this one
        log.place = Place(commit, begin, begin, 0)
        head = encode(HEAD_KEY, log.place, [])
        log.checksum = head[: layout.CHECKSUM_SIZE]
        return log, head

    def segments(self) -> Iterator[bytes]:
        """Yield the keys of its segments."""
        return map(segment_key, range(self.place.first, self.place.end))
