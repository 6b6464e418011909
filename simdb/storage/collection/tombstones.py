"""The marks of deleted items (table ``marks``): one bit for each item number, in records of 8,192.

A bitmap is uint8; the bit of a number is that of value ``1 << number % 8`` in byte ``number // 8``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simdb.storage.file.transactions import ReadTransaction, WriteTransaction
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table, owner_prefix, pack_numbered

MARKS_PER_RECORD = 8_192
MARK_BYTES = MARKS_PER_RECORD // 8

Bitmap = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint32]


def marked(marks: Bitmap, numbers: Numbers) -> npt.NDArray[np.bool_]:
    """Return which item numbers have their bit set; numbers past the bitmap have not."""
    if not marks.size:
        return np.zeros(numbers.size, np.bool_)
    byte = np.minimum(numbers >> 3, marks.size - 1)
    bits = (marks[byte] >> (numbers & 7).astype(np.uint8)) & 1
    found: npt.NDArray[np.bool_] = (bits != 0) & (numbers >> 3 < marks.size)
    return found


def read_all(transaction: ReadTransaction, owner: int, next_number: int) -> Bitmap:
    """Return the bitmap of all item numbers of a collection below ``next_number``."""
    marks = np.zeros(-(-next_number // MARKS_PER_RECORD) * MARK_BYTES, np.uint8)
    for key, value in transaction.scan(Table.MARKS, owner_prefix(owner)):
        record = int.from_bytes(key[4:8], "big")
        payload = layout.unseal(Table.MARKS, bytes(key), value)
        marks[record * MARK_BYTES : (record + 1) * MARK_BYTES] = np.frombuffer(payload, np.uint8)
    return marks


def marked_among(
    transaction: ReadTransaction, owner: int, numbers: Numbers
) -> npt.NDArray[np.bool_]:
    """Return which item numbers are marked; reads only the records that these lie in."""
    found = np.zeros(numbers.size, np.bool_)
    for record in np.unique(numbers // MARKS_PER_RECORD).tolist():
        inside = np.flatnonzero(numbers // MARKS_PER_RECORD == record)
        bitmap = _read_record(transaction, owner, record)
        found[inside] = marked(bitmap, numbers[inside] % MARKS_PER_RECORD)
    return found


def set_marks(transaction: WriteTransaction, owner: int, numbers: Numbers) -> None:
    """Mark item numbers."""
    for record in np.unique(numbers // MARKS_PER_RECORD).tolist():
        inside = numbers[numbers // MARKS_PER_RECORD == record] % MARKS_PER_RECORD
        bitmap = _read_record(transaction, owner, record)
        np.bitwise_or.at(bitmap, inside >> 3, np.uint8(1) << (inside & 7).astype(np.uint8))
        _write_record(transaction, owner, record, bitmap)


def clear_marks(transaction: WriteTransaction, owner: int, marks: Bitmap, cleared: Bitmap) -> int:
    """Take back those of all marks that are set in ``cleared``; return how many."""
    common = marks[: cleared.size] & cleared[: marks.size]
    for record in np.unique(np.flatnonzero(common) // MARK_BYTES).tolist():
        part = slice(record * MARK_BYTES, (record + 1) * MARK_BYTES)
        _write_record(transaction, owner, record, marks[part] & ~common[part])
    return int(np.unpackbits(common).sum())


def _read_record(transaction: ReadTransaction, owner: int, record: int) -> Bitmap:
    """Return a copy of one record of marks."""
    key = pack_numbered(owner, record)
    value = transaction.get(Table.MARKS, key)
    if value is None:
        return np.zeros(MARK_BYTES, np.uint8)
    return np.frombuffer(layout.unseal(Table.MARKS, key, value), np.uint8).copy()


def _write_record(transaction: WriteTransaction, owner: int, record: int, bitmap: Bitmap) -> None:
    key = pack_numbered(owner, record)
    if bitmap.any():
        value = layout.seal(Table.MARKS, key, bitmap.tobytes())
        transaction.put(Table.MARKS, key, value)
    else:
        transaction.delete(Table.MARKS, key)
