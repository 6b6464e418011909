"""Chunks: the LMDB values that a sorted run is cut into.

====== ===== =============================================================
offset bytes field
====== ===== =============================================================
0      8     checksum of all that follows (``values.checksum``)
8      8     checksum of the next 16 bytes
16     4     entries n, at least 1
20     4     columns c
24     8     the first key
32     8 n   keys, uint64, ascending
..     4 n c columns, uint32, one column behind the other
====== ===== =============================================================

A probe decides by the first keys which chunks it reads. So these are verified whenever a chunk
is decoded, and the whole of it only when it is first used.

All little-endian. A chunk of more than ``COPY_BELOW`` bytes lies on overflow pages of its own,
which LMDB neither moves nor changes until the chunk is deleted; smaller ones may share a page
with other records and are copied before they are used.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simdb.errors import CorruptionError
from simdb.storage.tables import values
from simdb.storage.tables.keys import Table

CHUNK_ENTRIES = 65_536
POSTING_COLUMNS = 3  # size of the set, position of the symbol, item number
POSTING_BYTES = 8 + 4 * POSTING_COLUMNS
COPY_BELOW = 65_536  # bytes; LMDB's largest page is as big, and only smaller values share one
MOST_REMEMBERED = 4_096  # chunks known to be verified
_SUMMARY = struct.Struct("<IIQ")
_HEADER = struct.Struct("<QQIIQ")
HEADER_SIZE = _HEADER.size
assert (_SUMMARY.size, HEADER_SIZE) == (16, 32)


class Chunk(NamedTuple):
    """A chunk in place: arrays over the map or over a copy, valid as long as those are."""

    keys: npt.NDArray[np.uint64]
    columns: npt.NDArray[np.uint32]  # one behind the other, n * c values

    @property
    def key_address(self) -> int:
        """Where the keys lie."""
        return int(self.keys.__array_interface__["data"][0])

    @property
    def column_address(self) -> int:
        """Where the columns lie."""
        return int(self.columns.__array_interface__["data"][0])


def encode(
    table: Table,
    key: bytes,
    keys: npt.NDArray[np.uint64],
    columns: npt.NDArray[np.uint32],
) -> bytes:
    """Return the value of a chunk; ``columns`` has the shape (columns, entries)."""
    summary = _SUMMARY.pack(keys.size, columns.shape[0], int(keys[0]))
    payload = b"".join((values.seal(table, key, summary), keys.tobytes(), columns.tobytes()))
    return values.seal(table, key, payload)


def decode(table: Table, key: bytes, value: memoryview, column_count: int) -> Chunk:
    """Return the arrays of a chunk, of which only the header and the first key are verified.

    Raises:
        CorruptionError: the header is damaged, or is not that of such a chunk.
    """
    if len(value) >= HEADER_SIZE + 8:
        values.unseal(table, key, value[values.CHECKSUM_SIZE : HEADER_SIZE])
        _, _, entries, columns, first = _HEADER.unpack_from(value)
        size = HEADER_SIZE + entries * (8 + 4 * columns)
        stored = int.from_bytes(value[HEADER_SIZE : HEADER_SIZE + 8], "little")
        if (columns, size, first) == (column_count, len(value), stored):
            if len(value) < COPY_BELOW:
                value = memoryview(bytes(value))
            return Chunk(
                np.frombuffer(value, np.uint64, entries, HEADER_SIZE),
                np.frombuffer(value, np.uint32, entries * columns, HEADER_SIZE + 8 * entries),
            )
    raise CorruptionError(
        f"an index chunk is damaged (key {key.hex()}); run 'simdb check', then rebuild the index"
    )


def verify(table: Table, key: bytes, value: memoryview) -> None:
    """Compare a chunk with its checksum.

    Raises:
        CorruptionError: they differ.
    """
    values.unseal(table, key, value)


def verify_once(caches: dict[str, Any], table: Table, key: bytes, value: memoryview) -> None:
    """Compare a chunk with its checksum unless this process has: merges come back to one often.

    Raises:
        CorruptionError: they differ.
    """
    verified = caches.setdefault("verified chunks", set())
    name = (table, key, bytes(value[: values.CHECKSUM_SIZE]))
    if name not in verified:
        verify(table, key, value)
        if len(verified) >= MOST_REMEMBERED:
            verified.clear()
        verified.add(name)
