"""Documents are compressed on the threads that sign, before the lock of the writers is taken.

The first batch that is large enough trains the collection's dictionary, which a commit of its own
stores: so whoever writes afterwards, in whatever process, compresses by that one. A collection has
one for ever, since any of its records may refer to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simdb import zstandard
from simdb.arrays import UInt8s
from simdb.ingest.rows import RowBatch
from simdb.opened.catalogue import CollectionSettings, present_settings
from simdb.opened.opened import WriteAccess
from simdb.ragged import ByteStrings, slices_of
from simdb.storage.collection.reader import CollectionReader
from simdb.storage.collection.writer import CollectionWriter
from simdb.storage.tables.layout import ALONE, BY_DICTIONARY, Packed
from simdb.zstandard import Codec

if TYPE_CHECKING:
    from simdb.threads import Pool, Task

PART_BYTES = 2**18  # of items that one thread compresses at a time
Bodies = tuple[list[bytes], UInt8s]


@dataclass(frozen=True, slots=True)
class Packing:
    """A batch that is being compressed."""

    running: list[Task[Bodies]]
    done: list[Bodies]
    collection: int

    def result(self) -> Packed:
        """Wait for the documents."""
        parts = self.done + [task.result() for task in self.running]
        bodies = [body for some, _ in parts for body in some]
        flags = np.concatenate([np.empty(0, np.uint8), *(flags for _, flags in parts)])
        return Packed(ByteStrings.of(bodies), flags, self.collection)


class Packer:
    """Compresses the documents of one input, if the collection's settings say so."""

    def __init__(self, access: WriteAccess, settings: CollectionSettings) -> None:
        self._access = access
        self._settings = settings
        self._codec: Codec | None = None

    def start(self, batch: RowBatch, pool: Pool | None) -> Packing | None:
        """Begin to compress a batch; without a pool it is done on return."""
        if self._settings.compression is None or not len(batch.items):
            return None
        if self._codec is None:
            self._codec = self._stored()
        dictionary = b"" if self._codec.dictionary else zstandard.trained(batch.items)
        if dictionary:
            with self._access.write() as transaction:
                present = present_settings(transaction, self._settings)
                CollectionWriter(transaction, present.number).add_dictionary(dictionary)
            self._codec = self._stored()  # another writer may have been first
        return started(batch, self._settings.number, self._codec, pool)

    def _stored(self) -> Codec:
        with self._access.read() as snapshot:
            self._settings = present_settings(snapshot, self._settings)
            return CollectionReader(snapshot, self._settings.number).codec()


def started(batch: RowBatch, collection: int, codec: Codec, pool: Pool | None = None) -> Packing:
    """Begin to compress documents for a collection."""
    sizes = np.fromiter(map(len, batch.items), np.int64, len(batch.items))
    parts = [batch.cut(some) for some in slices_of(sizes, PART_BYTES)]
    if pool is None or len(parts) == 1:
        return Packing([], [_bodies(part, codec) for part in parts], collection)
    return Packing([pool.submit(_bodies, part, codec) for part in parts], [], collection)


def _bodies(batch: RowBatch, codec: Codec) -> Bodies:
    """Return a frame of each document, or its item and metadata where that is no longer."""
    flag = BY_DICTIONARY if codec.dictionary else ALONE
    flags = np.zeros(len(batch.items), np.uint8)
    bodies = []
    both = zip(_plain(batch), codec.frames(_plain(batch)), strict=True)
    for place, (plain, frame) in enumerate(both):
        flags[place] = flag if len(frame) < len(plain) else 0
        bodies.append(frame if flags[place] else bytes(plain))
    return bodies, flags


def _plain(batch: RowBatch) -> Iterator[bytes | memoryview]:
    """Yield items with their metadata."""
    for item, metadata in zip(batch.items, batch.metadata, strict=True):
        yield b"".join((item, metadata)) if metadata else item
