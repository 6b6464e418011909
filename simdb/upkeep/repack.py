"""Documents are compressed, or no longer, in bounded steps between which others may write.

That documents may be compressed is said before the first of them is, and until the last one is not.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from simdb import zstandard
from simdb.answers.method import ProgressCallback
from simdb.ingest import packing
from simdb.ingest.rows import RowBatch
from simdb.opened import catalogue
from simdb.opened.catalogue import CollectionSettings
from simdb.opened.opened import WriteAccess
from simdb.ragged import ByteStrings
from simdb.results import Progress
from simdb.storage.collection.reader import CollectionReader, read_items
from simdb.storage.collection.writer import CollectionWriter
from simdb.storage.tables import layout
from simdb.storage.tables.blocks import Block
from simdb.storage.tables.layout import Document

STEP_BYTES = 8 * 2**20  # of items and metadata that one commit packs


def repack(
    access: WriteAccess,
    before: CollectionSettings,
    compression: str | None,
    progress: ProgressCallback | None,
) -> None:
    """Store all documents compressed, or as they are, whichever they were.

    What is cut off leaves documents of both forms and ``compression`` in the settings. StorageError
    if the settings are no longer ``before``, or become others meanwhile.
    """
    settings = before
    if compression is not None:
        with access.read() as snapshot:
            catalogue.require_unchanged(snapshot, before)
            dictionary = _trained(CollectionReader(snapshot, before.number))
        with access.write() as transaction:
            now = catalogue.require_unchanged(transaction, before)
            settings = replace(now, compression=compression)
            catalogue.write_settings(transaction, settings)
            if dictionary:
                CollectionWriter(transaction, settings.number).add_dictionary(dictionary)
    position: int | None = 0
    done = 0
    while position is not None:
        with access.write() as transaction:
            now = catalogue.require_unchanged(transaction, settings)
            writer = CollectionWriter(transaction, settings.number)
            blocks, documents = _next_documents(writer, position)
            position = None
            if blocks:
                position = int(blocks[-1].numbers[-1]) + 1
                _store(access, writer, blocks, documents, packed=compression is not None)
            elif compression is None:
                catalogue.write_settings(transaction, replace(now, compression=None))
            writer.save()
        done += len(documents)
        if progress is not None:
            progress(Progress("packing", done, None))


def _trained(collection: CollectionReader) -> bytes:
    """Return a dictionary trained on items at equal distances; empty if they are too few."""
    manifest = collection.manifest
    average = max(1, manifest.item_bytes // max(1, manifest.live))
    wanted = max(1, zstandard.LARGEST_SAMPLE // average)
    numbers = collection.live_numbers()
    _, sample = read_items(collection, numbers[:: max(1, numbers.size // wanted)])
    return zstandard.trained(sample)


def _next_documents(
    collection: CollectionReader, position: int
) -> tuple[list[Block], list[Document]]:
    """Return the blocks from an item number on that one step packs, and the live documents."""
    blocks: list[Block] = []
    documents: list[Document] = []
    size = 0
    for block in collection.documents.scan(position):
        places = np.flatnonzero(collection.alive(block.numbers)).tolist()
        read = [collection.decoded(block, place) for place in places]
        size += sum(len(document.item) + len(document.metadata) for document in read)
        blocks.append(block)
        documents += read
        if size >= STEP_BYTES:
            break
    return blocks, documents


def _store(
    access: WriteAccess,
    writer: CollectionWriter,
    blocks: list[Block],
    documents: list[Document],
    *,
    packed: bool,
) -> None:
    """Write documents in the place of the blocks that they were read from."""
    numbers = np.array([document.number for document in documents], np.uint32)
    keys = ByteStrings.of([document.key for document in documents])
    items = [document.item for document in documents]
    metadata = [bytes(document.metadata) for document in documents]
    if packed:
        batch = RowBatch(items=items, metadata=metadata)
        made = packing.started(batch, writer.number, writer.codec(), access.pool()).result()
        sizes = np.fromiter(map(len, items), np.int64, len(items))
        records = layout.packed_records(keys, made.bodies, made.flags, sizes)
    else:
        records = layout.document_records(keys, ByteStrings.of(items), ByteStrings.of(metadata))
    writer.documents.replace([block.key for block in blocks], numbers, records)
