"""Every value: encoding, decoding, checksums. The only module that imports msgpack.

A small record is ``checksum (8 bytes) + payload``; chunks and blocks carry theirs in a header
of their own (``blocks``, ``runs``). The checksum is XXH3-64 over the payload, seeded with the
XXH3-64 of table and key, so that a record moved to another key or table is caught as well as a
changed one. It guards against damage, not against an attacker who may write to the file.

Packing: ``use_bin_type`` keeps str and bytes apart; floats are stored as doubles. Unpacking:
map keys must be str or bytes (``strict_map_key``), extension types are refused, and lengths
claimed by the bytes are bounded by their own size. What is packed here never executes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import repeat
from typing import Any

import msgpack
import xxhash

from simdb.errors import CorruptionError

CHECKSUM = struct.Struct("<Q")
CHECKSUM_SIZE = CHECKSUM.size
assert CHECKSUM_SIZE == 8

DEEPEST_NESTING = 64
LARGEST_METADATA = 2**20  # bytes, packed
_TEXTS = (str, bytes, bytearray, memoryview)


def checksum(table: int, key: bytes, payload: bytes | memoryview) -> int:
    """Return the 64-bit checksum of a payload stored under a key of a table."""
    return xxhash.xxh3_64_intdigest(payload, seed=xxhash.xxh3_64_intdigest(key, seed=table))


def seal(table: int, key: bytes, payload: bytes) -> bytes:
    """Return the payload with its checksum in front."""
    return CHECKSUM.pack(checksum(table, key, payload)) + payload


def seal_many(table: int, keys: Iterable[bytes], payloads: Iterable[bytes]) -> list[bytes]:
    """Return ``seal`` of many records."""
    digest = xxhash.xxh3_64_intdigest
    kept = list(payloads)
    seeds = map(digest, keys, repeat(table))
    checksums = map(CHECKSUM.pack, map(digest, kept, seeds))
    return list(map(bytes.__add__, checksums, kept))


def unseal(table: int, key: bytes, value: memoryview) -> memoryview:
    """Return the payload of a sealed value.

    Raises:
        CorruptionError: the payload does not match its checksum.
    """
    payload = value[CHECKSUM_SIZE:]
    if len(value) < CHECKSUM_SIZE or CHECKSUM.unpack_from(value)[0] != checksum(
        table, key, payload
    ):
        raise CorruptionError(
            f"a record of table {table} is damaged (key {bytes(key).hex()}); "
            "run 'simdb check', then 'simdb repair' or restore a backup"
        )
    return payload


def pack(value: Any) -> bytes:
    """Encode a JSON-like value.

    Raises:
        TypeError, ValueError, OverflowError: it holds something that cannot be stored.
    """
    return msgpack.packb(value, use_bin_type=True)


def unpack(data: bytes | memoryview) -> Any:
    """Decode a value that ``pack`` encoded.

    Raises:
        CorruptionError: the bytes are not such a value.
    """
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=True, ext_hook=_refuse_extension)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise CorruptionError(f"a stored value cannot be decoded: {error}") from error


def _refuse_extension(code: int, _data: bytes) -> Any:
    raise ValueError(f"extension type {code} is not stored by simdb")


def nesting(value: Any, deepest: int = DEEPEST_NESTING) -> int:
    """Return how deeply lists and maps are nested, at most ``deepest + 1``.

    A value that refers to itself, or to one part in many places, is endless, or far larger than
    what it takes in memory. So the bytes that it takes at least are counted on the way down.

    Raises:
        ValueError: packed, it would take more than ``LARGEST_METADATA``.
        TypeError: it holds an extension type, which could not be unpacked.
    """
    depth = least_bytes = 0
    level = [value]
    while depth <= deepest:
        containers = [part for part in level if isinstance(part, dict | list | tuple)]
        if not containers:
            break
        depth += 1
        level = []
        for container in containers:
            if isinstance(container, msgpack.ExtType):
                raise TypeError("extension types of msgpack are not stored")
            least_bytes += len(container)
            if least_bytes <= LARGEST_METADATA:
                level.extend(container.values() if isinstance(container, dict) else container)
                least_bytes += _least_text(container)
            if least_bytes > LARGEST_METADATA:
                raise ValueError(f"it takes more than {LARGEST_METADATA:,} bytes")
    return depth


def _least_text(container: dict[Any, Any] | list[Any] | tuple[Any, ...]) -> int:
    """Return the characters and bytes of what lies directly in a container, names included."""
    parts = [*container, *container.values()] if isinstance(container, dict) else container
    return sum(len(part) for part in parts if isinstance(part, _TEXTS))
