"""The layout of the tables: every key, and how values are packed and sealed.

=========== =========================================== ==================================
table       key                                         value
=========== =========================================== ==================================
META        ``simdb``                                   header of the file
META        ``c`` + name                                collection: number and settings
META        ``#`` + collection (4)                      collection: manifest
META        ``g``                                       what is to be removed
META        ``z`` + collection (4) + copy (1)           dictionary of compressed documents
META        ``y`` + collection (4) + hash of pair (16)  label: what was said of a pair
META        ``n``                                       the highest numbers ever given
META        collection (4) + tag (1) + ...              groups that a collection keeps
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

A small record is ``checksum (8 bytes) + payload``; chunks and blocks carry theirs in a header
of their own (``blocks``, ``runs``). The checksum is XXH3-64 over the payload, seeded with the
XXH3-64 of table and key, so that a record moved to another key or table is caught as well as a
changed one. It guards against damage, not against an attacker who may write to the file.

Packing: ``use_bin_type`` keeps str and bytes apart; floats are stored as doubles. Unpacking:
map keys must be str or bytes (``strict_map_key``), extension types are refused, and lengths
claimed by the bytes are bounded by their own size. What is packed here never executes.

A key leads to the item number, 4 bytes. A document record is the lengths of item and key (4 and 2
bytes), the key (``encode_user_key``), the item in canonical bytes, and the metadata in MessagePack
(nothing when there is none). In a *packed* record a frame of Zstandard holds item and metadata;
bits of the key's length, which takes nine, say so (``ALONE``, ``BY_DICTIONARY``).

The only module that imports msgpack.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from enum import IntEnum
from itertools import chain, pairwise
from operator import index
from typing import Any, NamedTuple, cast

import msgpack
import numpy as np
import xxhash
from msgspec import Struct
from msgspec.structs import replace

from simdb import kernels
from simdb.arguments import short
from simdb.arrays import Int64s, UInt8s, UInt32s, UInt64s
from simdb.errors import BadItemError, CorruptionError, WrongTypeError
from simdb.ragged import ByteStrings, cut_rows, picked, sizes_of
from simdb.results import Key, KeyColumn
from simdb.zstandard import Codec


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


# Whose records have an index, or an epoch of one, for owner; those of all others have a collection.
INDEX_TABLES = (Table.SIGNATURES, Table.BANDS, Table.POSTINGS, Table.SYMBOLS)

TABLE_NAMES = tuple(table.name.lower().encode() for table in Table)

HEADER_KEY = b"simdb"
GARBAGE_KEY = b"g"
NUMBERS_KEY = b"n"
COLLECTION_PREFIX = b"c"
MANIFEST_PREFIX = b"#"
DICTIONARY_PREFIX = b"z"
DICTIONARY_COPIES = (b"\0", b"\1")  # without it no record could be read
LABEL_PREFIX = b"y"

# LMDB's keys end at 511 bytes; collection number and tag take 5 of them.
LONGEST_KEY = 500  # bytes of UTF-8
LONGEST_NAME = 200

INTEGER_TAG = b"\x01"
TEXT_TAG = b"\x02"
SMALLEST_INTEGER = -(2**63)
LARGEST_INTEGER = 2**63 - 1

LARGEST_OWNER = 2**32 - 1  # number of an index or an epoch
# Number of a collection: in META its groups come before all that begins with a letter.
LARGEST_COLLECTION = int.from_bytes(MANIFEST_PREFIX + bytes(3)) - 1

_OWNER = struct.Struct(">I")
_OWNER_NUMBER = struct.Struct(">II")
_CHUNK = struct.Struct(">IQI")
_INTEGER = struct.Struct(">Q")
assert (_OWNER.size, _OWNER_NUMBER.size, _CHUNK.size, _INTEGER.size) == (4, 8, 16, 8)

owner_prefix = _OWNER.pack
pack_numbered = _OWNER_NUMBER.pack
pack_chunk = _CHUNK.pack


def unpack_numbered(key: bytes | memoryview) -> tuple[int, int]:
    """Return owner and number of a key of ``pack_numbered``; a damaged page can hold others."""
    if len(key) != _OWNER_NUMBER.size:
        raise CorruptionError(
            f"a key of {len(key)} bytes is damaged; run 'simdb check', then 'simdb repair'"
        )
    owner, number = _OWNER_NUMBER.unpack(key)
    return owner, number


def collection_key(name: str) -> bytes:
    """Return the META key of a collection's settings."""
    return COLLECTION_PREFIX + name.encode()


def manifest_key(collection: int) -> bytes:
    """Return the META key of a collection's state."""
    return MANIFEST_PREFIX + _OWNER.pack(collection)


def dictionary_keys(collection: int) -> list[bytes]:
    """Return the META keys of a collection's dictionary."""
    return [DICTIONARY_PREFIX + _OWNER.pack(collection) + copy for copy in DICTIONARY_COPIES]


def label_key(collection: int, pair: bytes = b"") -> bytes:
    """Return the META key of the label of a pair, or what those of a collection begin with."""
    return LABEL_PREFIX + _OWNER.pack(collection) + pair


def encode_user_key(key: object) -> bytes:
    """Return the sortable bytes of a user's key; 1 and "1" differ.

    Raises:
        BadItemError: too long, empty, beyond 64 bits, or with a lone surrogate.
        WrongTypeError: neither str nor a whole number.
    """
    if isinstance(key, str):
        return TEXT_TAG + _encode_text(key)
    given: Any = None if isinstance(key, bool | np.bool_) else key
    try:
        number = index(given)
    except TypeError:
        problem = f"a key must be str or int, not {type(key).__name__}: {short(key)}"
        raise WrongTypeError(problem) from None
    if not SMALLEST_INTEGER <= number <= LARGEST_INTEGER:
        raise BadItemError(f"key {short(number)} does not fit into 64 bits; store it as text")
    return INTEGER_TAG + _INTEGER.pack(number - SMALLEST_INTEGER)


def encode_user_keys(keys: Sequence[Key]) -> list[bytes]:
    """Return ``encode_user_key`` of many keys; quicker than each if all are of one type."""
    try:
        if type(keys[0]) is str:
            encoded = [TEXT_TAG + key.encode() for key in cast("Sequence[str]", keys)]
            sizes = list(map(len, encoded))
            if min(sizes) > 1 and max(sizes) <= 1 + LONGEST_KEY:
                return encoded
        else:
            shifted = [key - SMALLEST_INTEGER for key in cast("Sequence[int]", keys)]
            return [INTEGER_TAG + packed for packed in map(_INTEGER.pack, shifted)]
    except (UnicodeEncodeError, struct.error, AttributeError, TypeError):
        pass  # of two types; or said below, with the key that it is
    return list(map(encode_user_key, keys))


def encode_key_column(keys: Int64s | ByteStrings) -> ByteStrings | None:
    """Return ``encode_user_key`` of a column of numbers, or of UTF-8; None if one is no key."""
    if isinstance(keys, ByteStrings):
        sizes = sizes_of(keys.offsets)
        if sizes.size and not 1 <= int(sizes.min()) <= int(sizes.max()) <= LONGEST_KEY:
            return None
        return picked(keys, np.arange(len(keys)), TEXT_TAG)
    shifted = (keys.view(np.uint64) ^ np.uint64(1 << 63)).astype(">u8")
    rows = np.full((keys.size, 1 + _INTEGER.size), INTEGER_TAG[0], np.uint8)
    rows[:, 1:] = shifted.view(np.uint8).reshape(keys.size, -1)
    return ByteStrings.of_rows(rows)


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


def decode_user_key(encoded: bytes | memoryview) -> Key:
    """Return the user's key; CorruptionError if the bytes are no encoded key."""
    whole = bytes(encoded)
    tag, payload = whole[:1], whole[1:]
    try:
        if tag == TEXT_TAG:
            return payload.decode()
        if tag == INTEGER_TAG:
            value: int = _INTEGER.unpack(payload)[0]
            return value + SMALLEST_INTEGER
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptionError(f"a stored key cannot be decoded: {error}") from error
    raise CorruptionError(f"a stored key has an unknown tag {tag.hex()}")


def decode_user_keys(encoded: ByteStrings) -> KeyColumn:
    """Return many keys: int64 if all are numbers, their UTF-8 if all are texts, else a list."""
    values, offsets = encoded.values, encoded.offsets
    sizes = np.diff(offsets)
    if sizes.size and sizes.min() > 1:
        tags = values[offsets[:-1]]
        if (tags == INTEGER_TAG[0]).all() and (sizes == 1 + _INTEGER.size).all():
            shifted = values.reshape(-1, 1 + _INTEGER.size)[:, 1:].copy().view(">u8").ravel()
            return (shifted.astype(np.uint64) ^ np.uint64(1 << 63)).view(np.int64)
        if (tags == TEXT_TAG[0]).all():
            bounds = values.ctypes.data + offsets
            texts = ByteStrings(*kernels.columns.copied(bounds[:-1] + 1, bounds[1:]))
            if texts.are_utf8():
                return texts
    return list(map(decode_user_key, encoded))


def decoded_keys(encoded: ByteStrings) -> list[Key]:
    """Return ``decode_user_key`` of many keys."""
    keys = decode_user_keys(encoded)
    if isinstance(keys, ByteStrings):
        text, bounds = keys.values.tobytes(), keys.offsets.tolist()
        return [text[begin:end].decode() for begin, end in pairwise(bounds)]
    return keys.tolist() if isinstance(keys, np.ndarray) else list(keys)


CHECKSUM = struct.Struct("<Q")
CHECKSUM_SIZE = CHECKSUM.size
assert CHECKSUM_SIZE == 8

MOST_REMEMBERED = 65_536  # blocks and chunks known to be verified
DEEPEST_NESTING = 64
LARGEST_METADATA = 2**20  # bytes, packed
_TEXTS = (str, bytes, bytearray, memoryview)


def damage(what: str) -> CorruptionError:
    """The error that says what is damaged, and what to do."""
    return CorruptionError(f"{what}; run 'simdb check', then 'simdb repair' or restore a backup")


def checksum(table: int, key: bytes, payload: bytes | memoryview) -> int:
    """Return the 64-bit checksum of a payload stored under a key of a table."""
    return xxhash.xxh3_64_intdigest(payload, seed=xxhash.xxh3_64_intdigest(key, seed=table))


def seal(table: int, key: bytes, payload: bytes) -> bytes:
    """Return the payload with its checksum in front."""
    return CHECKSUM.pack(checksum(table, key, payload)) + payload


def seal_parts(table: int, key: bytes, *parts: bytes | memoryview) -> bytes:
    """Return ``seal`` of what contiguous parts are one behind the other, which it copies once."""
    digest = xxhash.xxh3_64(seed=xxhash.xxh3_64_intdigest(key, seed=table))
    for part in parts:
        digest.update(part)
    return b"".join((CHECKSUM.pack(digest.intdigest()), *parts))


def seal_numbers(table: int, keys: ByteStrings, numbers: UInt32s) -> list[bytes]:
    """Return ``seal`` of item numbers, each under a key."""
    seeds = checksums_of(keys, np.array([table], np.uint64).repeat(numbers.size))
    sealed = np.empty((numbers.size, CHECKSUM_SIZE + ITEM_NUMBER.size), np.uint8)
    sealed[:, CHECKSUM_SIZE:] = numbers[:, np.newaxis].view(np.uint8)
    begins = np.arange(CHECKSUM_SIZE, sealed.size, sealed.shape[1])
    columns = sealed.reshape(-1), begins, begins + ITEM_NUMBER.size, seeds
    checksums = kernels.checksums.checksums(*columns)
    sealed[:, :CHECKSUM_SIZE] = checksums[:, np.newaxis].view(np.uint8)
    return cut_rows(sealed)


def checksums_of(strings: ByteStrings, seeds: UInt64s) -> UInt64s:
    """Return the 64-bit checksum of each byte string, with a seed for each."""
    begins, ends = strings.offsets[:-1], strings.offsets[1:]
    return kernels.checksums.checksums(strings.values, begins, ends, seeds)


def unseal(table: int, key: bytes, value: memoryview) -> memoryview:
    """Return the payload of a sealed value; CorruptionError if its checksum is another's."""
    payload = value[CHECKSUM_SIZE:]
    if len(value) < CHECKSUM_SIZE or CHECKSUM.unpack_from(value)[0] != checksum(
        table, key, payload
    ):
        raise damage(f"a record of table {table} is damaged (key {bytes(key).hex()})")
    return payload


def verify_once(
    caches: dict[Any, Any], name: tuple[Table, bytes, int], verify: Callable[[], object]
) -> None:
    """Verify what a table has under a key with a checksum, unless this process has before."""
    verified = caches.setdefault("verified", set())
    if name not in verified:
        verify()
        if len(verified) >= MOST_REMEMBERED:  # small blocks come and go with every commit
            verified.clear()
        verified.add(name)


def pack(value: Any) -> bytes:
    """Encode a JSON-like value.

    Raises:
        TypeError, ValueError, OverflowError: it holds something that cannot be stored.
    """
    return msgpack.packb(value, use_bin_type=True)


def unpack(data: bytes | memoryview) -> Any:
    """Decode a value that ``pack`` encoded; CorruptionError if the bytes are not such a value."""
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=True, ext_hook=_refuse_extension)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise CorruptionError(f"a stored value cannot be decoded: {error}") from error


def _refuse_extension(code: int, _data: bytes) -> Any:
    raise ValueError(f"extension type {code} is not stored by simdb")


def nesting(value: Any, deepest: int = DEEPEST_NESTING) -> int:
    """Return how deeply lists and maps are nested, at most ``deepest + 1``.

    A value that refers to itself, or to one part in many places, is endless, or far larger than
    what it takes in memory. So the bytes that it takes at least are counted on the way down:
    ValueError if they are more than ``LARGEST_METADATA``. TypeError for an extension type.
    """
    depth = least_bytes = 0
    level = [value]
    while depth <= deepest:
        containers = [part for part in level if isinstance(part, dict | list | tuple)]
        if not containers:
            break
        depth += 1
        level = []
        names: list[Any] = []
        for container in containers:
            if isinstance(container, msgpack.ExtType):
                raise TypeError("extension types of msgpack are not stored")
            least_bytes += len(container)
            if least_bytes > LARGEST_METADATA:
                break
            if isinstance(container, dict):
                level.extend(container.values())
                names.extend(container)
            else:
                level.extend(container)
        texts = [part for part in chain(level, names) if isinstance(part, _TEXTS)]
        least_bytes += sum(map(len, texts))
        if least_bytes > LARGEST_METADATA:
            raise ValueError(f"it takes more than {LARGEST_METADATA:,} bytes")
    return depth


ITEM_NUMBER = struct.Struct("<I")
DOCUMENT_HEADER = struct.Struct("<IH")
assert DOCUMENT_HEADER.size == 6


class Document(NamedTuple):
    """A stored document; views end with the transaction."""

    number: int
    key: memoryview
    item: memoryview
    metadata: memoryview


# In the higher of the two bytes of a key's length: item and metadata are a frame,
ALONE = 0x80  # to be read without a dictionary
BY_DICTIONARY = 0x40  # or with that of the collection


class Packed(Struct, frozen=True, eq=False):
    """What is stored of documents beside their keys, of which some of it is compressed.

    Attributes:
        bodies: a frame of item and metadata, or these as they are.
        flags: which it is, uint8: ``ALONE``, ``BY_DICTIONARY``, or 0 where it is no frame.
        collection: the number of that whose dictionary the frames may refer to.
    """

    bodies: ByteStrings
    flags: UInt8s
    collection: int

    def select(self, rows: Int64s) -> Packed:
        """Take what is stored of some documents."""
        return replace(self, bodies=picked(self.bodies, rows), flags=self.flags[rows])


def document_records(keys: ByteStrings, items: ByteStrings, metadata: ByteStrings) -> ByteStrings:
    """Return the records of documents."""
    return ByteStrings(*_records(keys, items, metadata))


def packed_records(
    keys: ByteStrings, bodies: ByteStrings, flags: UInt8s, item_sizes: Int64s
) -> ByteStrings:
    """Return the records of documents with such bodies and flags, and items of such sizes."""
    none = ByteStrings(bodies.values[:0], np.zeros_like(bodies.offsets))
    records, offsets = _records(keys, bodies, none)
    begins = offsets[:-1]
    for byte in range(4):
        records[begins + byte] = (item_sizes >> 8 * byte) & 0xFF
    records[begins + 5] |= flags
    return ByteStrings(records, offsets)


def _records(
    keys: ByteStrings, bodies: ByteStrings, metadata: ByteStrings
) -> tuple[UInt8s, Int64s]:
    """Return the records of documents as an array that may be written to, and their bounds."""
    columns = (keys.values, keys.offsets, bodies.values, bodies.offsets)
    return kernels.columns.documents(*columns, metadata.values, metadata.offsets)


def decode_document(
    number: int, record: memoryview, codec: Callable[[], Codec] = Codec
) -> Document:
    """Return the parts of a document record; CorruptionError if it is not what it says.

    ``codec`` returns what reads frames that refer to a dictionary.
    """
    key, body, flags, item_size = _cut_document(number, record)
    if flags:
        body = unpacked(number, body, flags, item_size, codec)
    return Document(number, key, body[:item_size], body[item_size:])


def document_key(number: int, record: memoryview) -> memoryview:
    """Return the encoded key of a document record; the item may be compressed."""
    return _cut_document(number, record)[0]


def _cut_document(number: int, record: memoryview) -> tuple[memoryview, memoryview, int, int]:
    """Return key and body of a document record, the flags, and the size of the item."""
    item = end = DOCUMENT_HEADER.size
    flags = item_size = 0
    if len(record) >= end:
        item_size, key_size = DOCUMENT_HEADER.unpack_from(record)
        flags = key_size >> 8 & (ALONE | BY_DICTIONARY)
        item += key_size & ~(flags << 8)
        end = item if flags else item + item_size
    if len(record) < end:
        raise CorruptionError(f"item number {number}: the record is cut short")
    return record[DOCUMENT_HEADER.size : item], record[item:], flags, item_size


def unpacked(
    number: int, frame: memoryview, flags: int, item_size: int, codec: Callable[[], Codec]
) -> memoryview:
    """Return item and metadata of a packed record; CorruptionError if they are not what it says."""
    reader = codec() if flags & BY_DICTIONARY else Codec()
    try:
        body = reader.record(frame, item_size + LARGEST_METADATA)
    except CorruptionError as error:
        raise damage(f"item number {number}: {error}") from error
    if len(body) < item_size:
        raise damage(f"item number {number}: the compressed record is cut short")
    return memoryview(body)
