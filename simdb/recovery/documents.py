"""Documents of the blocks of a damaged file, as far as their checksums hold."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from simdb.errors import CorruptionError
from simdb.storage.tables.block_format import Block
from simdb.storage.tables.documents import decode_document
from simdb.storage.tables.keys import decode_user_key


class Found(NamedTuple):
    """A document whose checksum holds."""

    number: int
    key: bytes
    item: bytes
    metadata: bytes


def documents_in(block: Block) -> Iterator[Found]:
    """Yield the records of a block whose checksums hold."""
    for place in range(block.numbers.size):
        document = _document(block, place)
        if document is not None:
            yield document


def _document(block: Block, place: int) -> Found | None:
    """Return a record of a block if its checksum holds and it is one of a document."""
    number = int(block.numbers[place])
    try:
        document = decode_document(number, block.verified_record(place))
        decode_user_key(document.key)
    except (CorruptionError, struct.error, ValueError):
        return None
    return Found(number, bytes(document.key), bytes(document.item), bytes(document.metadata))
