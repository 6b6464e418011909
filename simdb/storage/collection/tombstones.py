"""Tombstones of deleted items (table ``marks``): one bit an item number, in records of 8,192 bits.

A bitmap is uint8; the bit of a number is that of value ``1 << number % 8`` in byte ``number // 8``.
"""

from __future__ import annotations

import numpy as np

from simdb.arrays import Bools, UInt8s, UInt32s
from simdb.ragged import distinct_of
from simdb.storage.file.environment import ReadTransaction, WriteTransaction
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table, owner_prefix, pack_numbered, unpack_numbered

TOMBSTONES_PER_RECORD = 8_192
TOMBSTONE_BYTES = TOMBSTONES_PER_RECORD // 8
AT_ONCE = 2**18  # bytes of a bitmap


def deleted(tombstones: UInt8s, numbers: UInt32s) -> Bools:
    """Return which item numbers have their bit set; numbers past the bitmap have not."""
    if not tombstones.size:
        return np.zeros(numbers.size, np.bool_)
    byte = np.minimum(numbers >> 3, tombstones.size - 1)
    bits = (tombstones[byte] >> (numbers & 7).astype(np.uint8)) & 1
    found: Bools = (bits != 0) & (numbers >> 3 < tombstones.size)
    return found


def count_of(tombstones: UInt8s) -> int:
    """Return how many bits are set; a bitmap may be large, and its counts are not held at once."""
    parts = (tombstones[begin : begin + AT_ONCE] for begin in range(0, tombstones.size, AT_ONCE))
    return sum(int(np.bitwise_count(part).sum(dtype=np.int64)) for part in parts)


def read_all(transaction: ReadTransaction, owner: int, next_number: int) -> UInt8s:
    """Return the bitmap of all item numbers of a collection below ``next_number``."""
    tombstones = np.zeros(-(-next_number // TOMBSTONES_PER_RECORD) * TOMBSTONE_BYTES, np.uint8)
    for key, value in transaction.scan(Table.MARKS, owner_prefix(owner)):
        _, record = unpack_numbered(key)
        part = tombstones[record * TOMBSTONE_BYTES : (record + 1) * TOMBSTONE_BYTES]
        part[:] = _bitmap(bytes(key), value, part.size)
    return tombstones


def deleted_among(transaction: ReadTransaction, owner: int, numbers: UInt32s) -> Bools:
    """Return which item numbers have a tombstone; reads only the records that these lie in."""
    found = np.zeros(numbers.size, np.bool_)
    for record in distinct_of(numbers // TOMBSTONES_PER_RECORD)[0].tolist():
        inside = np.flatnonzero(numbers // TOMBSTONES_PER_RECORD == record)
        bitmap = _read_record(transaction, owner, record)
        found[inside] = deleted(bitmap, numbers[inside] % TOMBSTONES_PER_RECORD)
    return found


def set_tombstones(transaction: WriteTransaction, owner: int, numbers: UInt32s) -> None:
    """Set the tombstones of item numbers."""
    for record in distinct_of(numbers // TOMBSTONES_PER_RECORD)[0].tolist():
        inside = numbers[numbers // TOMBSTONES_PER_RECORD == record] % TOMBSTONES_PER_RECORD
        bitmap = _read_record(transaction, owner, record)
        np.bitwise_or.at(bitmap, inside >> 3, np.uint8(1) << (inside & 7).astype(np.uint8))
        _write_record(transaction, owner, record, bitmap)


def clear_tombstones(
    transaction: WriteTransaction, owner: int, tombstones: UInt8s, cleared: UInt8s
) -> int:
    """Take back those of all tombstones that are set in ``cleared``; return how many."""
    count = 0
    records = cleared[: tombstones.size].reshape(-1, TOMBSTONE_BYTES)
    for record in np.flatnonzero(records.any(axis=1)).tolist():
        part = tombstones[record * TOMBSTONE_BYTES : (record + 1) * TOMBSTONE_BYTES]
        taken_back = part & records[record]
        if taken_back.any():
            _write_record(transaction, owner, record, part & ~taken_back)
            count += count_of(taken_back)
    return count


def _read_record(transaction: ReadTransaction, owner: int, record: int) -> UInt8s:
    """Return a copy of one record of tombstones."""
    key = pack_numbered(owner, record)
    value = transaction.get(Table.MARKS, key)
    if value is None:
        return np.zeros(TOMBSTONE_BYTES, np.uint8)
    return _bitmap(key, value).copy()


def _bitmap(key: bytes, value: memoryview, expected: int = TOMBSTONE_BYTES) -> UInt8s:
    payload = layout.unseal(Table.MARKS, key, value)
    if not len(payload) == expected == TOMBSTONE_BYTES:
        raise layout.damage(f"tombstones are damaged (key {key.hex()})")
    return np.frombuffer(payload, np.uint8)


def _write_record(transaction: WriteTransaction, owner: int, record: int, bitmap: UInt8s) -> None:
    key = pack_numbered(owner, record)
    if bitmap.any():
        value = layout.seal(Table.MARKS, key, bitmap.tobytes())
        transaction.put(Table.MARKS, key, value)
    else:
        transaction.delete(Table.MARKS, key)
