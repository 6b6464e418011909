"""Blocks of documents in a damaged file: their records are verified, their heads are not."""

from __future__ import annotations

import struct

from simdb.errors import CorruptionError
from simdb.storage.blocks import HEADER_SIZE, Block, split_block
from simdb.storage.keys import pack_numbered

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
