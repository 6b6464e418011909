"""Documents are compressed, or no longer, in bounded steps between which others may write.

That documents may be compressed is said before the first of them is, and until the last one is not.
"""

from __future__ import annotations

from typing import NamedTuple

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
from simdb.storage.tables.layout import Document

STEP_BYTES = 8 * 2**20  # of documents that one commit packs
DOCUMENT_BYTES = 800  # about what Python takes for a document beside its item and metadata
MOST_SAMPLED = 100_000  # about so many items train a dictionary


class Step(NamedTuple):
    """What one commit packs.

    Attributes:
        keys: of the blocks that are written anew.
        before, after: records of these that stay as they are, under their item numbers.
        documents: the others, if they are live.
        position: the item number from which the next step goes on.
    """

    keys: list[bytes]
    before: dict[int, memoryview]
    documents: list[Document]
    after: dict[int, memoryview]
    position: int


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
            step = _next_step(writer, position)
            if step is not None:
                _store(access, writer, step, packed=compression is not None)
            elif compression is None:
                catalogue.write_settings(transaction, replace(now, compression=None))
            writer.save()
        position = None if step is None else step.position
        done += 0 if step is None else len(step.documents)
        if progress is not None:
            progress(Progress("packing", done, None))


def _trained(collection: CollectionReader) -> bytes:
    """Return a dictionary trained on items at equal distances; empty if they are too few."""
    manifest = collection.manifest
    average = max(1, manifest.item_bytes // max(1, manifest.live))
    wanted = max(1, min(MOST_SAMPLED, zstandard.LARGEST_SAMPLE // average))
    numbers = collection.live_numbers()
    _, sample = read_items(collection, numbers[:: max(1, numbers.size // wanted)])
    return zstandard.trained(sample)


def _next_step(collection: CollectionReader, position: int) -> Step | None:
    """Return what to pack from an item number on; it may begin and end within a block."""
    step = Step([], {}, [], {}, position)
    size = 0
    for block in collection.documents.scan(position):
        step.keys.append(block.key)
        for place in np.flatnonzero(collection.alive(block.numbers)).tolist():
            number = int(block.numbers[place])
            if number < position:
                step.before[number] = block.verified_record(place)
            elif size >= STEP_BYTES:
                step.after[number] = block.verified_record(place)
            else:
                document = collection.decoded(block, place)
                step.documents.append(document)
                size += len(document.item) + len(document.metadata) + DOCUMENT_BYTES
        end = step.documents[-1].number if step.after else int(block.numbers[-1])
        step = step._replace(position=end + 1)
        if size >= STEP_BYTES:
            break
    return step if step.keys else None


def _store(access: WriteAccess, writer: CollectionWriter, step: Step, *, packed: bool) -> None:
    """Write documents in the place of the blocks that they were read from."""
    documents = step.documents
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
    numbers = [*step.before, *(document.number for document in documents), *step.after]
    before, after = (ByteStrings.of(list(part.values())) for part in (step.before, step.after))
    records = ByteStrings.concatenated([before, records, after])
    writer.documents.replace(step.keys, np.array(numbers, np.uint32), records)
