"""What is stored of an item under its key and its number: tables ``keys`` and ``documents``.

A key leads to the item number, 4 bytes. A document record is the key, the item in canonical bytes,
and the metadata:

====== ===== ==============================================
offset bytes field
====== ===== ==============================================
0      4     length of the item
4      2     length of the key
6            the key (``keys.encode_user_key``), the item, and the
             metadata in MessagePack (nothing when there is none)
====== ===== ==============================================
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from simdb.errors import CorruptionError

ITEM_NUMBER = struct.Struct("<I")
DOCUMENT_HEADER = struct.Struct("<IH")
assert DOCUMENT_HEADER.size == 6


class Document(NamedTuple):
    """A stored document; views end with the transaction."""

    number: int
    key: memoryview
    item: memoryview
    metadata: memoryview


def encode_document(key: bytes, item: bytes, metadata: bytes) -> bytes:
    """Return the record of a document."""
    return b"".join((DOCUMENT_HEADER.pack(len(item), len(key)), key, item, metadata))


def decode_document(number: int, record: memoryview) -> Document:
    """Return the parts of a document record.

    Raises:
        CorruptionError: it is shorter than it says.
    """
    item = end = DOCUMENT_HEADER.size
    if len(record) >= end:
        item_size, key_size = DOCUMENT_HEADER.unpack_from(record)
        item += key_size
        end = item + item_size
    if len(record) < end:
        raise CorruptionError(f"item number {number}: the record is cut short")
    return Document(number, record[DOCUMENT_HEADER.size : item], record[item:end], record[end:])
