"""Chunks: the LMDB values that a sorted run is cut into.

====== ===== =============================================================
offset bytes field
====== ===== =============================================================
0      8     checksum of all that follows (``values.checksum``)
8      4     entries n
12     4     columns c
16     8 n   keys, uint64, ascending
..     4 n c columns, uint32, one column behind the other
====== ===== =============================================================

All little-endian. A chunk of more than ``COPY_BELOW`` bytes lies on overflow pages of its own,
which LMDB neither moves nor changes until the chunk is deleted; smaller ones may share a page
with other records and are copied before they are used.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simdb.errors import CorruptionError
from simdb.storage import values
from simdb.storage.keys import Table

CHUNK_ENTRIES = 65_536
COPY_BELOW = 65_536  # bytes; LMDB's largest page is as big, and only smaller values share one
_HEADER = struct.Struct("<QII")
HEADER_SIZE = _HEADER.size
assert HEADER_SIZE == 16


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
    payload = b"".join(
        (_HEADER.pack(0, keys.size, columns.shape[0])[8:], keys.tobytes(), columns.tobytes())
    )
    return values.seal(table, key, payload)


def decode(key: bytes, value: memoryview, column_count: int) -> Chunk:
    """Return the arrays of a chunk, not yet verified.

    Raises:
        CorruptionError: its size is not what its header says.
    """
    if len(value) >= HEADER_SIZE:
        _, entries, columns = _HEADER.unpack_from(value)
        if columns == column_count and len(value) == HEADER_SIZE + entries * (8 + 4 * columns):
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
