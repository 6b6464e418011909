"""From the caller's rows to batches that can be signed and stored; bad rows are set aside."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, time
from math import isfinite
from typing import Any, overload

import numpy as np

from simdb import arrow, kernels
from simdb.arguments import short
from simdb.arrays import Int64s
from simdb.errors import BadItemError, KeyExistsError, UsageError
from simdb.kinds import Items
from simdb.kinds.base import Stored
from simdb.ragged import ByteStrings, picked, slices_of
from simdb.results import Entry, Key
from simdb.storage.tables import layout
from simdb.storage.tables.layout import encode_user_key, encode_user_keys

BATCH_ITEMS = 10_000
PART_ROWS = 500  # rows read column by column
LARGEST_METADATA = layout.LARGEST_METADATA
LEAST_INTEGER, GREATEST_INTEGER = -(2**63), 2**64 - 1  # of metadata
WEIGHED = 8  # bytes in one of a weight
_SOUND = frozenset((str, int, bool, float, type(None)))
ELEMENT_BYTES = 64  # about what Python takes for an element of a set
_PLAIN = frozenset((list, tuple, set, frozenset))  # collections whose elements are looked at


@dataclass(frozen=True, slots=True)
class DecodedKeys(Sequence[Key]):
    """Keys as they were given, which become objects where they are asked for."""

    encoded: ByteStrings

    def __len__(self) -> int:
        return len(self.encoded)

    def __iter__(self) -> Iterator[Key]:
        return iter(layout.decoded_keys(self.encoded))

    def at(self, places: Int64s) -> list[Key]:
        """Return the keys at some places."""
        return layout.decoded_keys(picked(self.encoded, places))

    @overload
    def __getitem__(self, place: int) -> Key: ...
    @overload
    def __getitem__(self, place: slice) -> DecodedKeys: ...
    def __getitem__(self, place: int | slice) -> Key | DecodedKeys:
        if isinstance(place, slice):
            return DecodedKeys(self.encoded[place])
        return layout.decode_user_key(self.encoded[place])


@dataclass(slots=True)
class RowBatch:
    """Rows in canonical form, as columns, and the bad rows among them."""

    rows: Sequence[int] = field(default_factory=list)  # positions in the input
    user_keys: Sequence[Key] = field(default_factory=list)  # as they were given
    keys: Sequence[Stored] = field(default_factory=list)  # as they are stored
    items: Sequence[Stored] = field(default_factory=list)
    metadata: list[bytes] = field(default_factory=list)  # packed, empty where there is none
    # Position, key if it could be read, and problem of the rows that cannot be stored.
    bad: list[tuple[int, Key | None, str]] = field(default_factory=list)
    error: Exception | None = None  # of the first bad row, with the frames in which it arose
    weight: int = 0  # of the items, as ``Items.weights`` has it, and of problems
    packed: layout.Packed | None = None  # items and metadata as they are stored, if compressed

    @property
    def columns(self) -> tuple[Any, ...]:
        """What is known of the good rows."""
        return self.rows, self.user_keys, self.keys, self.items, self.metadata

    def extend(self, *columns: Sequence[Any], weight: int) -> None:
        """Add good rows, given as columns."""
        for own, more in zip(self.columns, columns, strict=True):
            own.extend(more)
        self.weight += weight

    def refuse(self, row: int, key: Key | None, error: Exception) -> None:
        """Set a bad row aside.

        An error holds the item, by its frames or by itself: only that of the first row is kept, as
        no other is raised.
        """
        if not self.bad:
            self.error = error
        problem = str(error)
        self.bad.append((row, key, problem))
        self.weight += len(problem) // WEIGHED

    def keys_at(self, places: Sequence[int]) -> list[Key]:
        """Return the keys of some rows, as they were given."""
        if isinstance(self.user_keys, DecodedKeys):
            return self.user_keys.at(np.array(places, np.int64))
        return [self.user_keys[place] for place in places]

    def cut(self, some: slice) -> RowBatch:
        """Return some of the good rows."""
        return RowBatch(*(column[some] for column in self.columns))

    def is_full(self, most_items: int, most_bytes: int) -> bool:
        """Whether it is to be stored before more is added."""
        return len(self.rows) + len(self.bad) >= most_items or self.weight >= most_bytes


def weights_of(items: Items, stored: Sequence[Stored], metadata: Sequence[bytes]) -> Int64s:
    """Return what each of some rows adds to the weight of a batch."""
    beside = np.fromiter(map(len, metadata), np.int64, len(metadata))
    return items.weights(stored) + beside // WEIGHED


def read_batches(
    rows: Iterable[Any], items: Items, *, batch_items: int, batch_bytes: int
) -> Iterator[RowBatch]:
    """Cut rows, or those of a table, into batches of limited size in which no key comes twice."""
    if not isinstance(rows, arrow.Parts):
        yield from _batches_of_rows(rows, 0, items, batch_items, batch_bytes)
        return
    for part in rows.parts(batch_items, batch_bytes):
        batch = _batch_of_table(part, items)
        if batch is None:  # row by row, to tell which of them is bad
            yield from _batches_of_rows(part.rows(), part.first, items, batch_items, batch_bytes)
        else:
            yield from map(batch.cut, slices_of(items.weights(batch.items), batch_bytes))


def read_whole(rows: Iterable[Any], items: Items) -> Iterator[RowBatch]:
    """Read rows as one batch, of any size; one whose key came before is bad."""
    if isinstance(rows, arrow.Parts):
        rows = (row for part in rows.parts(sys.maxsize, sys.maxsize) for row in part.rows())
    yield from _batches_of_rows(rows, 0, items, sys.maxsize, sys.maxsize, is_whole=True)


def joined(rows: Iterable[RowBatch], batch_items: int, batch_bytes: int) -> Iterator[RowBatch]:
    """Make of rows that were read one by one batches such as ``read_batches`` cuts."""
    batch = RowBatch()
    for place, row in enumerate(rows):
        is_full = batch.is_full(batch_items, batch_bytes + 1 - row.weight)
        if batch.rows and (is_full or row.keys[0] in batch.keys):
            yield batch
            batch = RowBatch()
        batch.extend([place], *row.columns[1:], weight=row.weight)
    if batch.rows:
        yield batch


def _batch_of_table(part: arrow.Part, items: Items) -> RowBatch | None:
    """Return rows of a table as they lie in it, None unless all are good and their keys differ."""
    columns = part.columns()
    if columns is None:
        return None
    user_keys, column, metadata = columns
    encoded = items.encode_column(column)
    if encoded is None:
        return None
    try:
        keys = _encoded_keys(user_keys)
        packed = [b""] * len(encoded) if metadata is None else list(map(encode_metadata, metadata))
    except (UsageError, TypeError, ValueError, OverflowError):
        return None
    if keys is None or not kernels.columns.order(keys.values, keys.offsets)[1]:
        return None
    rows = range(part.first, part.first + len(keys))
    return RowBatch(rows, DecodedKeys(keys), keys, encoded, packed)


def _encoded_keys(keys: arrow.Keys) -> ByteStrings | None:
    """Return the keys of a table as they are stored; None, or an error, where one cannot be."""
    if isinstance(keys, np.ndarray | ByteStrings):
        return layout.encode_key_column(keys)
    values: Sequence[Any] = keys
    return ByteStrings.of(encode_user_keys(values))


def _batches_of_rows(
    rows: Iterable[Any],
    first_row: int,
    items: Items,
    batch_items: int,
    batch_bytes: int,
    *,
    is_whole: bool = False,
) -> Iterator[RowBatch]:
    batch = RowBatch()
    seen: set[bytes] = set()
    for first, part in _parts(rows, first_row, min(PART_ROWS, batch_items), batch_bytes):
        if _take_plain(part, first, items, batch, seen, most=batch_bytes):
            if batch.is_full(batch_items, batch_bytes):
                yield batch
                batch, seen = RowBatch(), set()
            continue
        for position, row in enumerate(part, first):
            try:
                user_key, key, item, metadata = _read_row(row, items)
            except (UsageError, TypeError, ValueError, OverflowError) as error:
                batch.refuse(position, _key_of(row), error)
            else:
                if key in seen and is_whole:
                    problem = f"key {user_key!r} came before, and all rows are one transaction"
                    twice = KeyExistsError(problem, row=position, key=user_key, within_input=True)
                    batch.refuse(position, user_key, twice)
                    continue
                if key in seen:
                    yield batch
                    batch, seen = RowBatch(), set()
                seen.add(key)
                weight = int(items.weights([item])[0]) + len(metadata) // WEIGHED
                if batch.rows and batch.weight + weight > batch_bytes:
                    yield batch
                    batch, seen = RowBatch(), {key}
                batch.extend([position], [user_key], [key], [item], [metadata], weight=weight)
            if batch.is_full(batch_items, batch_bytes):
                yield batch
                batch, seen = RowBatch(), set()
    if batch.rows or batch.bad:
        yield batch


def _parts(
    rows: Iterable[Any], position: int, most_rows: int, most_bytes: int
) -> Iterator[tuple[int, list[Any]]]:
    """Cut rows, the first at a position, into short lists, each with that of its first row."""
    part: list[Any] = []
    rows_left, bytes_left = most_rows, most_bytes
    for row in rows:
        part.append(row)
        rows_left -= 1
        if type(row) is not tuple:
            bytes_left = 0  # of any form
        elif len(row) > 1:
            item = row[1]
            bytes_left -= len(item) if type(item) is str else _bytes_of(item)
            if len(row) > 2 and (type(row[2]) is not dict or row[2]):
                bytes_left -= LARGEST_METADATA
        if rows_left <= 0 or bytes_left <= 0:
            yield position, part
            position += len(part)
            part = []
            rows_left, bytes_left = most_rows, most_bytes
    if part:
        yield position, part


def _bytes_of(item: Any) -> int:
    """Return about what Python takes for an item that is given, and is no text."""
    form = type(item)
    if form is int:
        return int(item.bit_length()) >> 3
    if form is dict:
        values = sum([len(value) for value in item.values() if type(value) is str])
        return ELEMENT_BYTES * len(item) + _lengths(item) + values
    if form in _PLAIN:
        return ELEMENT_BYTES * len(item) + _lengths(item)
    try:
        return ELEMENT_BYTES * len(item)
    except TypeError:  # an array without a dimension has no length; it is refused as an item
        return 0


def _lengths(elements: Iterable[Any]) -> int:
    """Return the length of all elements together; 0 unless they are strings, as of no item."""
    if type(next(iter(elements), 0)) is not str:
        return 0
    try:
        return sum(map(len, elements))
    except TypeError:
        return 0


def _take_plain(
    part: list[Any], first: int, items: Items, batch: RowBatch, seen: set[bytes], *, most: int
) -> bool:
    """Add rows of one length with new keys of one type, column by column.

    Changes nothing where they are not, where one of them is bad, or where they would be too much.
    """
    if set(map(type, part)) != {tuple} or set(map(len, part)) not in ({2}, {3}):
        return False
    user_keys, given, *others = zip(*part, strict=True)
    if set(map(type, user_keys)) not in ({str}, {int}):
        return False
    try:
        keys = encode_user_keys(user_keys)
        encoded = items.encode_many(given)
        metadata = list(map(encode_metadata, others[0])) if others else [b""] * len(part)
    except (UsageError, TypeError, ValueError, OverflowError):
        return False
    weight = int(weights_of(items, encoded, metadata).sum())
    if len(set(keys)) < len(keys) or not seen.isdisjoint(keys) or weight > most:
        return False
    seen.update(keys)
    positions = range(first, first + len(part))
    batch.extend(positions, user_keys, keys, encoded, metadata, weight=weight)
    return True


def _read_row(row: Any, items: Items) -> tuple[Key, bytes, bytes, bytes]:
    if isinstance(row, BaseException):
        # A reader of files hands on what was wrong with a line.
        raise row
    if isinstance(row, Entry):
        row = row.key, row.item, row.metadata
    if isinstance(row, str | bytes | dict) or not hasattr(row, "__len__") or not 2 <= len(row) <= 3:
        raise BadItemError(
            f"a row must be (key, item) or (key, item, metadata), not {str(row)[:60]!r}"
        )
    key = encode_user_key(row[0])
    item = items.encode(row[1])
    metadata = encode_metadata(row[2]) if len(row) == 3 else b""
    return _plain_key(row[0]), key, item, metadata


def _plain_key(key: Key) -> Key:
    """Return a key that can be stored as ``get`` gives it back: no NumPy scalar, no subclass."""
    return str.__str__(key) if isinstance(key, str) else operator.index(key)


class PackedMetadata(bytes):
    """Metadata as a store has them, maybe of an earlier version, to be stored as they are."""


def encode_metadata(metadata: Any, *, as_json: bool = True) -> bytes:
    """Return packed metadata, a dict; empty for None.

    ``as_json`` refuses what JSON cannot express, which stores of earlier versions may hold.
    BadItemError: not a dict, too large, too deep, or with values that cannot be stored.
    """
    if metadata is None:
        return b""
    if not isinstance(metadata, dict):
        if isinstance(metadata, PackedMetadata):
            return metadata
        raise BadItemError(f"metadata must be a dict or None, not {type(metadata).__name__}")
    try:
        if not _is_flat(metadata):
            if layout.nesting(metadata) > layout.DEEPEST_NESTING:
                raise BadItemError(f"metadata is nested deeper than {layout.DEEPEST_NESTING}")
            _require_storable(metadata, "metadata", as_json=as_json)
        packed = layout.pack(metadata)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, OverflowError):  # whose words name no field
            _require_storable(metadata, "metadata", as_json=as_json)
        told = "text that is not UTF-8" if isinstance(error, UnicodeEncodeError) else str(error)
        raise BadItemError(f"metadata cannot be stored: {told}") from error
    if len(packed) > LARGEST_METADATA:
        raise BadItemError(f"metadata takes {len(packed):,} bytes; at most {LARGEST_METADATA:,}")
    return packed


def _is_flat(metadata: dict[Any, Any]) -> bool:
    """Whether nothing can be wrong with metadata but their size: the quick answer for most."""
    values = metadata.values()
    return (
        set(map(type, metadata)) == {str}
        and _SOUND.issuperset(map(type, values))
        and all(isfinite(value) for value in values if type(value) is float)
    )


def _require_storable(value: Any, path: str, *, as_json: bool) -> None:
    """Raise unless names are str, and values what JSON can express; the message has the path."""
    if isinstance(value, dict):
        for name, child in value.items():
            if not isinstance(name, str):
                raise BadItemError(
                    f"the names of metadata must be str, not {short(name)} in {path}"
                )
            _require_storable(child, f"{path}[{name!r}]", as_json=as_json)
    elif isinstance(value, list | tuple):
        for place, child in enumerate(value):
            _require_storable(child, f"{path}[{place}]", as_json=as_json)
    elif as_json and isinstance(value, bytes | bytearray | memoryview):
        raise BadItemError(f"{path} is bytes, which JSON cannot express; store text, as of base64")
    elif as_json and isinstance(value, float) and not isfinite(value):
        raise BadItemError(f"{path} is {value}, which JSON cannot express; store None, or text")
    elif isinstance(value, int):
        if not LEAST_INTEGER <= value <= GREATEST_INTEGER:
            raise BadItemError(f"{path} is a number of more than 64 bits; store text")
    elif as_json and value is not None and not isinstance(value, str | float):
        raise BadItemError(
            f"{path} is {type(value).__name__}, which JSON cannot express{_instead_of(value)}"
        )


def _instead_of(value: Any) -> str:
    """Return what to store in place of a value, as the end of a message."""
    if isinstance(value, np.ndarray):
        return "; store its .tolist()"
    if arrow.is_nothing(value):
        return "; store None"
    if isinstance(value, np.integer | np.bool_ | np.float16 | np.float32):
        return "; store its .item()"
    if isinstance(value, np.datetime64 | np.timedelta64):
        return "; store text, as of str()"
    return "; store text, as of .isoformat()" if isinstance(value, date | time) else ""


def _key_of(row: Any) -> Key | None:
    try:
        key = row.key if isinstance(row, BadItemError | Entry) else row[0]
        encode_user_key(key)
    except (UsageError, TypeError, ValueError, IndexError, KeyError):
        return None
    return _plain_key(key)
