"""Every key: the tables, and how numbers and user keys become bytes that sort as they should.

=========== =========================================== ==================================
table       key                                         value
=========== =========================================== ==================================
META        ``simdb``                                   header of the file
META        ``c`` + name                                collection: number and settings
META        ``#`` + collection (4)                      collection: state
META        ``g``                                       what is to be removed
DOCUMENTS   collection (4) + first item number (4)      block of documents
KEYS        collection (4) + tag (1) + user's key       item number
SIGNATURES  index (4) + first item number (4)           block of signatures
MARKS       collection (4) + item number // 8192 (4)    bitmap of deleted items
BANDS       index (4) + run (8) + chunk (4)             chunk of a run of bucket keys
POSTINGS    epoch (4) + run (8) + chunk (4)             chunk of a run of postings
SYMBOLS     epoch (4) + 0 (4)                           table of the frequent symbols
ITEMS       collection (4) + first item number (4)      block of items of one width
=========== =========================================== ==================================

Numbers in keys are big-endian, so that the order of bytes is their order.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import cast

from simdb.errors import BadItemError, CorruptionError, WrongTypeError
from simdb.results import Key


class Table(IntEnum):
    """The named tables of the file; the number seeds checksums and never changes."""

    META = 0
    DOCUMENTS = 1
    KEYS = 2
    SIGNATURES = 3
    MARKS = 4
    BANDS = 5
    POSTINGS = 6
    SYMBOLS = 7
    ITEMS = 8


TABLE_NAMES = tuple(table.name.lower().encode() for table in Table)

HEADER_KEY = b"simdb"
GARBAGE_KEY = b"g"
COLLECTION_PREFIX = b"c"
STATE_PREFIX = b"#"

# LMDB's keys end at 511 bytes; collection number and tag take 5 of them.
LONGEST_KEY = 500  # bytes of UTF-8
LONGEST_NAME = 200

INTEGER_TAG = b"\x01"
TEXT_TAG = b"\x02"
SMALLEST_INTEGER = -(2**63)
LARGEST_INTEGER = 2**63 - 1

_OWNER = struct.Struct(">I")
_OWNER_NUMBER = struct.Struct(">II")
_CHUNK = struct.Struct(">IQI")
_INTEGER = struct.Struct(">Q")
assert (_OWNER.size, _OWNER_NUMBER.size, _CHUNK.size, _INTEGER.size) == (4, 8, 16, 8)

owner_prefix = _OWNER.pack
pack_numbered = _OWNER_NUMBER.pack
pack_chunk = _CHUNK.pack


def _require_size(key: bytes | memoryview, form: struct.Struct) -> None:
    if len(key) != form.size:
        raise CorruptionError(
            f"a key of {len(key)} bytes is damaged; run 'simdb check', then 'simdb repair'"
        )


def unpack_numbered(key: bytes | memoryview) -> tuple[int, int]:
    """Return owner and number of a key of ``pack_numbered``.

    Raises:
        CorruptionError: it is none; a damaged page can be one of another table.
    """
    _require_size(key, _OWNER_NUMBER)
    owner, number = _OWNER_NUMBER.unpack(key)
    return owner, number


def unpack_chunk(key: bytes | memoryview) -> tuple[int, int, int]:
    """Return index, run and chunk of a key of ``pack_chunk``.

    Raises:
        CorruptionError: it is none.
    """
    _require_size(key, _CHUNK)
    index, run, chunk = _CHUNK.unpack(key)
    return index, run, chunk


def collection_key(name: str) -> bytes:
    """Return the META key of a collection's settings."""
    return COLLECTION_PREFIX + name.encode()


def state_key(collection: int) -> bytes:
    """Return the META key of a collection's state."""
    return STATE_PREFIX + _OWNER.pack(collection)


def encode_user_key(key: object) -> bytes:
    """Return the sortable bytes of a user's key; 1 and "1" differ.

    Raises:
        BadItemError: too long, empty, beyond 64 bits, or with a lone surrogate.
        WrongTypeError: neither str nor a whole number.
    """
    if type(key) is str or isinstance(key, str):
        return TEXT_TAG + _encode_text(key)
    if type(key) is int:
        return INTEGER_TAG + _encode_integer(key)
    if isinstance(key, bool) or not hasattr(key, "__index__") or isinstance(key, bytes):
        raise WrongTypeError(
            f"a key must be str or int, not {type(key).__name__}: {str(key)[:60]!r}"
        )
    return INTEGER_TAG + _encode_integer(key.__index__())


def encode_user_keys(keys: Sequence[Key]) -> list[bytes]:
    """Return ``encode_user_key`` of many keys, all ``str`` or all ``int``; quicker than one by one.

    Raises:
        BadItemError: one of them cannot be stored.
    """
    try:
        if type(keys[0]) is str:
            encoded = [TEXT_TAG + key.encode() for key in cast("Sequence[str]", keys)]
            sizes = list(map(len, encoded))
            if min(sizes) > 1 and max(sizes) <= 1 + LONGEST_KEY:
                return encoded
        else:
            shifted = [key - SMALLEST_INTEGER for key in cast("Sequence[int]", keys)]
            return [INTEGER_TAG + packed for packed in map(_INTEGER.pack, shifted)]
    except (UnicodeEncodeError, struct.error):
        pass  # said below, with the key that it is
    return list(map(encode_user_key, keys))


def _encode_text(key: str) -> bytes:
    try:
        encoded = key.encode()
    except UnicodeEncodeError as error:
        raise BadItemError(
            f"key {key[:60]!r} holds a lone surrogate at position {error.start}"
        ) from error
    if not 1 <= len(encoded) <= LONGEST_KEY:
        raise BadItemError(
            f"key {key[:60]!r} takes {len(encoded)} bytes of UTF-8; keys have 1 to {LONGEST_KEY}"
        )
    return encoded


def _encode_integer(key: int) -> bytes:
    if not SMALLEST_INTEGER <= key <= LARGEST_INTEGER:
        raise BadItemError(f"key {key} does not fit into 64 bits; store it as text")
    return _INTEGER.pack(key - SMALLEST_INTEGER)


def decode_user_key(encoded: bytes | memoryview) -> Key:
    """Return the user's key.

    Raises:
        CorruptionError: the bytes are no encoded key.
    """
    tag, payload = bytes(encoded[:1]), bytes(encoded[1:])
    try:
        if tag == TEXT_TAG:
            return payload.decode()
        if tag == INTEGER_TAG:
            value: int = _INTEGER.unpack(payload)[0]
            return value + SMALLEST_INTEGER
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptionError(f"a stored key cannot be decoded: {error}") from error
    raise CorruptionError(f"a stored key has an unknown tag {tag.hex()}")
