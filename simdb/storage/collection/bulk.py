"""Reading the items of a collection in bulk: whole blocks, without an object for each document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from simdb.errors import CorruptionError
from simdb.storage.collection.reader import FEW, CollectionReader
from simdb.storage.collection.tombstones import marked
from simdb.storage.tables.block_format import Block
from simdb.storage.tables.documents import DOCUMENT_HEADER, decode_document

CHOSEN_AT_ONCE = 4_096


class Items(NamedTuple):
    """The live items of a block: their numbers, uint32 ascending, and their bytes."""

    numbers: npt.NDArray[np.uint32]
    items: list[bytes]


def live_items(collection: CollectionReader, start: int = 0) -> Iterator[Items]:
    """Yield the live items from a number on, block by block; every record is verified.

    Raises:
        CorruptionError: a record does not match its checksum.
    """
    marks = collection.marks
    live = 0
    if collection.items is not None:
        for block in collection.items.scan(start):
            places = np.flatnonzero(~marked(marks, block.numbers) & (block.numbers >= start))
            live += places.size
            if places.size:
                rows = block.as_rows(np.uint8)[places]
                yield Items(block.numbers[places].copy(), cut_rows(rows))
    else:
        for block in collection.documents.scan(start):
            places = np.flatnonzero(~marked(marks, block.numbers) & (block.numbers >= start))
            live += places.size
            if places.size:
                yield Items(block.numbers[places].copy(), _items(block, places))
    if not start:
        collection.require_all(live)


def chosen_items(
    collection: CollectionReader, numbers: npt.NDArray[np.uint32]
) -> Iterator[list[bytes]]:
    """Yield the items of ascending item numbers, some at a time; every record is verified.

    Raises:
        CorruptionError: a record does not match its checksum.
    """
    items: list[bytes] = []
    if collection.items is not None:
        for begin in range(0, numbers.size, CHOSEN_AT_ONCE):
            _, rows = collection.item_rows(numbers[begin : begin + CHOSEN_AT_ONCE])
            yield cut_rows(rows)
        return
    for block, _, places in collection.documents.locate(numbers):
        if places.size > FEW:
            items += _items(block, places)
        else:  # a copy of the whole block would cost more than these records
            for place in places.tolist():
                number = int(block.numbers[place])
                record = block.verified_record(place)
                items.append(bytes(decode_document(number, record).item))
        if len(items) >= CHOSEN_AT_ONCE:
            yield items
            items = []
    if items:
        yield items


def cut_rows(rows: npt.NDArray[np.uint8]) -> list[bytes]:
    """Return the rows of an array as bytes each."""
    data, width = rows.tobytes(), rows.shape[1]
    return [data[begin : begin + width] for begin in range(0, len(data), width)]


def _items(block: Block, places: npt.NDArray[np.int64]) -> list[bytes]:
    """Return the items of some records of a block."""
    data = bytes(block.records)
    all_ends = block.ends.astype(np.int64)
    ends = all_ends[places]
    begins = np.where(places > 0, all_ends[places - 1], 0)
    owner = int.from_bytes(block.key[:4], "big") << 32
    digest = xxhash.xxh3_64_intdigest
    digests = [
        digest(data[begin:end], owner | number)
        for begin, end, number in zip(
            begins.tolist(), ends.tolist(), block.numbers[places].tolist(), strict=True
        )
    ]
    damaged = np.array(digests, np.uint64) != block.checksums[places]
    raw = np.frombuffer(data, np.uint8)
    short = ends - begins < DOCUMENT_HEADER.size
    if not (damaged | short).any():
        sizes = sum(raw[begins + byte].astype(np.int64) << 8 * byte for byte in range(4))
        keys = raw[begins + 4].astype(np.int64) + (raw[begins + 5].astype(np.int64) << 8)
        item_begins = begins + DOCUMENT_HEADER.size + keys
        item_ends = item_begins + sizes
        short = item_ends > ends
    if (damaged | short).any():
        number = int(block.numbers[places][damaged | short][0])
        raise CorruptionError(
            f"item number {number} is damaged; "
            "run 'simdb check', then 'simdb repair' or restore a backup"
        )
    return [
        data[begin:end] for begin, end in zip(item_begins.tolist(), item_ends.tolist(), strict=True)
    ]
