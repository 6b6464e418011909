"""The bytes of a block: records of consecutive item numbers in one value.

====== ======== ==============================================================
offset bytes    field
====== ======== ==============================================================
0      8        checksum of the head (variable width) or of all (fixed width)
8      4        records n
12     4        width of a record, 0 when it varies
16     4 n      item numbers, uint32, ascending
..     0 or 4   zeros up to a multiple of 8
..     8 n      (variable width) end of each record, counted from the first, uint64
..     8 n      (variable width) checksum of each record, uint64
..              the records
====== ======== ==============================================================

The *head* is all before the records.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from simdb.errors import CorruptionError

HEADER = struct.Struct("<QII")
HEADER_SIZE = HEADER.size
assert HEADER_SIZE == 16

Data = bytes | memoryview


class Block(NamedTuple):
    """A block in place; its arrays end with the transaction."""

    key: bytes
    numbers: npt.NDArray[np.uint32]
    width: int
    ends: npt.NDArray[np.uint64]
    checksums: npt.NDArray[np.uint64]
    records: memoryview

    def place(self, number: int) -> int | None:
        """Return where the record of an item number stands, or None."""
        place = number - int(self.numbers[0])
        if place >= self.numbers.size or int(self.numbers[place]) != number:  # there are holes
            place = int(np.searchsorted(self.numbers, number))
            if place == self.numbers.size or int(self.numbers[place]) != number:
                return None
        return place

    def record(self, position: int) -> memoryview:
        """Return a record, not verified."""
        if self.width:
            return self.records[position * self.width : (position + 1) * self.width]
        begin = int(self.ends[position - 1]) if position else 0
        return self.records[begin : int(self.ends[position])]

    def verified_record(self, position: int) -> memoryview:
        """Return a record of variable width after comparing it with its checksum.

        Raises:
            CorruptionError: they differ.
        """
        record = self.record(position)
        number = int(self.numbers[position])
        if record_checksum(self.key[:4], number, record) != int(self.checksums[position]):
            raise CorruptionError(
                f"item number {number} is damaged; "
                "run 'simdb check', then 'simdb repair' or restore a backup"
            )
        return record

    def as_rows(self, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return the records of fixed width as the rows of an array."""
        return np.frombuffer(self.records, dtype).reshape(self.numbers.size, -1)


def record_checksum(owner: bytes, number: int, record: Data) -> int:
    """Return the checksum of a record of variable width; it does not name the block."""
    return xxhash.xxh3_64_intdigest(record, seed=(int.from_bytes(owner, "big") << 32) | number)


def record_checksums(
    records: memoryview,
    owner: bytes,
    numbers: npt.NDArray[np.uint32],
    ends: npt.NDArray[np.int64],
) -> npt.NDArray[np.uint64]:
    """Return ``record_checksum`` of records that lie one after the other."""
    seeds = (np.uint64(int.from_bytes(owner, "big") << 32) | numbers).tolist()
    begins = [0, *ends[:-1].tolist()]
    cut = [records[begin:end] for begin, end in zip(begins, ends.tolist(), strict=True)]
    return np.array(list(map(xxhash.xxh3_64_intdigest, cut, seeds)), np.uint64)


def sizes_of(columns: Sequence[Sequence[Data]]) -> npt.NDArray[np.int64]:
    """Return the sizes of records that are given in parts."""
    count = len(columns[0])
    sizes = np.zeros(count, np.int64)
    for column in columns:
        sizes += np.fromiter(map(len, column), np.int64, count)
    return sizes


def split_block(key: bytes, value: memoryview, width: int) -> tuple[Block, int]:
    """Return the arrays of a block, not verified, and the size of its head."""
    _, count, stored_width = HEADER.unpack_from(value)
    if stored_width != width or not count:
        raise ValueError(f"{count} records of width {stored_width}, expected width {width}")
    numbers = np.frombuffer(value, np.uint32, count, HEADER_SIZE)
    head = HEADER_SIZE + 4 * count + 4 * (count % 2)
    if width:
        if len(value) != head + count * width:
            raise ValueError("wrong length")
        empty = np.empty(0, np.uint64)
        return Block(key, numbers, width, empty, empty, value[head:]), head
    ends = np.frombuffer(value, np.uint64, count, head)
    checksums = np.frombuffer(value, np.uint64, count, head + 8 * count)
    head += 16 * count
    if len(value) != head + int(ends[-1]):
        raise ValueError("wrong length")
    return Block(key, numbers, 0, ends, checksums, value[head:]), head
