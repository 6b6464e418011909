"""Blocks in a damaged file.

Of documents the records are verified and the heads are not; blocks of items of one width are
verified as a whole.
"""

from __future__ import annotations

import struct

from simdb.errors import CorruptionError
from simdb.storage.tables import values
from simdb.storage.tables.block_format import HEADER_SIZE, Block, split_block
from simdb.storage.tables.keys import Table, pack_numbered

_COUNT_WIDTH = struct.Struct("<8x II")


def block_of(key: bytes, value: bytes) -> Block | None:
    """Return a block of variable width as it stands in a damaged file, or None if it is none.

    Its head is not verified: each record has a checksum of its own, which names its number too.
    """
    try:
        return split_block(key, memoryview(value), 0)[0]
    except (struct.error, ValueError, IndexError):
        return None


def block_within(owner: int, content: bytes) -> Block | None:
    """Return the block of an owner that content begins with, or None if it is none.

    For values whose keys are lost: the first record's checksum tells whose it is.
    """
    try:
        count, width = _COUNT_WIDTH.unpack_from(content)
        head = HEADER_SIZE + 4 * count + 4 * (count % 2)
        end = struct.unpack_from("<Q", content, head + 8 * (count - 1))[0]
        key = pack_numbered(owner, struct.unpack_from("<I", content, HEADER_SIZE)[0])
        block = block_of(key, content[: head + 16 * count + end])
        if width or block is None:
            return None
        block.verified_record(0)
    except (struct.error, CorruptionError):
        return None
    return block


def rows_of(key: bytes, value: bytes, width: int) -> Block | None:
    """Return a block of items of one width if its checksum holds, else None."""
    try:
        values.unseal(Table.ITEMS, key, memoryview(value))
        return split_block(key, memoryview(value), width)[0]
    except (struct.error, ValueError, IndexError, CorruptionError):
        return None


def rows_within(owner: int, width: int, content: bytes) -> Block | None:
    """Return the block of items of an owner that content begins with, or None if it is none.

    For values whose keys are lost: the checksum tells whose it is.
    """
    try:
        count, stored_width = _COUNT_WIDTH.unpack_from(content)
        key = pack_numbered(owner, struct.unpack_from("<I", content, HEADER_SIZE)[0])
    except struct.error:
        return None
    size = HEADER_SIZE + 4 * count + 4 * (count % 2) + count * width
    if stored_width != width or size > len(content):
        return None
    return rows_of(key, content[:size], width)
