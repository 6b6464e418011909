"""Changes one collection within a write transaction: what one commit writes.

Items come and go, each with its key, document, signature and bucket keys; what they leave behind
is rewritten, and the merging of runs that is due is paid for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from simdb.arrays import Int64s, UInt8s, UInt16s, UInt32s, UInt64s
from simdb.errors import CorruptionError, StorageError
from simdb.ragged import ByteStrings, sizes_of
from simdb.storage.collection.manifest import IndexManifest, Manifest, postings_writer
from simdb.storage.collection.reader import CollectionReader
from simdb.storage.collection.tombstones import clear_tombstones, set_tombstones
from simdb.storage.file.environment import WriteTransaction
from simdb.storage.tables import blocks, layout
from simdb.storage.tables.blocks import BlockWriter
from simdb.storage.tables.layout import Packed, Table, manifest_key, owner_prefix
from simdb.storage.tables.runs import RunWriter

if TYPE_CHECKING:
    from simdb.threads import Pool

LEAST_ROOM_TO_MERGE = 2**23  # bytes: chunks at every level, of both indexes


class IndexWriter:
    """Writes signatures and bucket keys of one index."""

    def __init__(
        self, transaction: WriteTransaction, index: IndexManifest, collection: CollectionReader
    ) -> None:
        self._collection = collection
        self._transaction = transaction
        self._index = index
        self.signatures = BlockWriter(
            transaction,
            Table.SIGNATURES,
            index.number,
            index.signature_tail,
            width=index.signature_width,
        )
        self.bands = RunWriter(transaction, Table.BANDS, index.number, index.bands)
        exact = index.exact
        self.postings = None if exact is None else postings_writer(transaction, exact.current)

    def insert(
        self,
        numbers: UInt32s,
        signatures: UInt16s,
        bucket_keys: UInt64s,
        keys_of_item: Int64s,
        order: Int64s,
    ) -> None:
        """Store the signatures and buckets of items, past every earlier one.

        ``keys_of_item`` of the bucket keys are those of each item, one after the other; ``order``
        is their places by rising key; signatures have the shape (items, words).
        """
        width = self._index.signature_width
        self._transaction.note_insertion()
        if not width:
            return
        self.signatures.append_rows(numbers, signatures)
        if bucket_keys.size:
            items = numbers.repeat(keys_of_item)
            self.bands.append(
                bucket_keys[order], items[order][np.newaxis, :], int(items[0]), int(items[-1])
            )

    def step(self) -> bool:
        """Do one step of a merge under way; return whether there was one."""
        return any(runs.step(lambda: self._collection.tombstones) for runs in self._writers())

    def start_full_merge(self) -> None:
        """Start merging all bucket runs into one, and all runs of postings into another."""
        for runs in self._writers():
            runs.start_full_merge(may_hold_dead=self._collection.manifest.tombstones > 0)

    def _writers(self) -> list[RunWriter]:
        return [self.bands] if self.postings is None else [self.bands, self.postings]

    def merge_after_deleting(self, items: int) -> None:
        """Do the merging that is due after a deletion, which must not fail in a full map."""
        if self._transaction.room().to_rewrite >= LEAST_ROOM_TO_MERGE:
            self.merge_after(items)

    def merge_after(self, changed_items: int) -> None:
        """Do the merging that is due after so many items were added or deleted."""
        self.bands.merge_after(
            changed_items * self._index.entries_per_item, lambda: self._collection.tombstones
        )
        if self.postings is not None and self._index.exact is not None:
            self.postings.merge_after(
                changed_items * self._index.exact.entries_per_item,
                lambda: self._collection.tombstones,
            )


LEAST_REWRITTEN = 2**19  # bytes by a step where room is short; a block more at most
LARGEST_NUMBER = 2**32 - 2


class CollectionWriter(CollectionReader):
    """One collection within a write transaction; ``save`` stores its state at the end."""

    transaction: WriteTransaction
    documents: BlockWriter
    items: BlockWriter | None

    def _read_manifest(self) -> Manifest:
        """Read the manifest; it will be changed, so it cannot be one that readers share."""
        manifest: Manifest | None = self.transaction.manifest_before(self.number)
        return self._decoded(self._record()) if manifest is None else manifest

    def _open(self, table: Table, width: int) -> BlockWriter:
        tail, size = self.manifest.document_tail, blocks.TARGET_BYTES
        if table is Table.ITEMS:
            tail, size = self.manifest.item_tail, blocks.ITEM_BLOCK_BYTES
        return BlockWriter(
            self.transaction, table, self.number, tail, width=width, target_bytes=size
        )

    def save(self) -> None:
        """Store the state; the last step of every change."""
        self.manifest.changes += 1
        self.transaction.written_manifests[self.number] = self.manifest
        key = manifest_key(self.number)
        self.transaction.put(Table.META, key, layout.seal(Table.META, key, self.manifest.encode()))

    def index_writer(self, index: IndexManifest) -> IndexWriter:
        """Return a writer of one of the collection's indexes."""
        return IndexWriter(self.transaction, index, self)

    def add_dictionary(self, dictionary: bytes) -> None:
        """Store what documents are compressed by, unless there is such a dictionary already."""
        if not self.codec().dictionary:
            for key in layout.dictionary_keys(self.number):
                self.transaction.put(Table.META, key, layout.seal(Table.META, key, dictionary))

    def take_numbers(self, count: int) -> int:
        """Return the first of so many new item numbers; StorageError if they are used up."""
        first = self.manifest.next_number
        if first + count > LARGEST_NUMBER:
            raise StorageError(
                f"collection {self.number} has used up its 2^32 item numbers; "
                "export it and add it to a new collection"
            )
        self.manifest.next_number += count
        return first

    def insert(
        self,
        keys: ByteStrings,
        items: ByteStrings,
        metadata: ByteStrings,
        pool: Pool | None = None,
        packed: Packed | None = None,
    ) -> int:
        """Store items in canonical form under new item numbers; return the first of these.

        The keys are encoded, none of them stored; metadata is packed, empty where there is none.
        The threads of a pool make the records, if one is given. What is compressed of items and
        metadata is stored in place of them.
        """
        first = self.take_numbers(len(keys))
        self.transaction.note_insertion()
        numbers = np.arange(first, first + len(keys), dtype=np.uint32)
        names = self._named(keys)
        sealed = layout.seal_numbers(Table.KEYS, names.column, numbers[names.order])
        self.transaction.put_many(Table.KEYS, names.listed, sealed)
        in_documents = items
        if self.items is not None:
            self.items.append(numbers, items)
            in_documents = ByteStrings(items.values[:0], np.zeros_like(items.offsets))
        item_sizes = sizes_of(items.offsets)

        def documents(some: slice) -> ByteStrings:
            if packed is None:
                return layout.document_records(keys[some], in_documents[some], metadata[some])
            bodies, flags = packed.bodies[some], packed.flags[some]
            return layout.packed_records(keys[some], bodies, flags, item_sizes[some])

        ends = in_documents.offsets + metadata.offsets if packed is None else packed.bodies.offsets
        sizes = sizes_of(keys.offsets + ends) + layout.DOCUMENT_HEADER.size
        self.documents.append_made(numbers, sizes, documents, pool)
        self.manifest.live += len(keys)
        self.manifest.item_bytes += items.values.size
        return first

    def remove(self, numbers: Iterable[int]) -> None:
        """Delete live items: their keys now, their bytes when enough of a block is dead."""
        ordered = np.array(sorted(numbers), np.uint32)
        prefix = owner_prefix(self.number)
        gone = []
        for _, document in self.documents_of(ordered):
            gone.append((bytes(document.key), len(document.item)))
        if len(gone) != ordered.size:
            raise CorruptionError("a document that is to be deleted is missing; run 'simdb check'")
        for key, size in gone:
            self.transaction.delete(Table.KEYS, prefix + key)
            self.manifest.item_bytes -= size
        set_tombstones(self.transaction, self.number, ordered)
        self.manifest.tombstones += ordered.size
        self._tombstones = None
        self.manifest.live -= ordered.size
        self._drop_dead(self.documents, ordered)
        if self.items is not None:
            self._drop_dead(self.items, ordered)
        index = self.manifest.index
        for number in ordered.tolist():
            index.bands.note_deleted(number, index.entries_per_item)
            if index.exact is not None:
                index.exact.note_deleted(number)
        self._drop_dead(self.index_writer(index).signatures, ordered)

    def clear_tombstones(self, cleared: UInt8s) -> None:
        """Take back the tombstones of items that no run and no block holds any more."""
        self.manifest.tombstones -= clear_tombstones(
            self.transaction, self.number, self.tombstones, cleared
        )
        self._tombstones = None

    def _drop_dead(self, blocks: BlockWriter, numbers: UInt32s) -> None:
        """Rewrite blocks of deleted items that are dead enough, as far as there is room.

        In a full map they stay as they are until nothing in them is alive, or ``compact`` is asked
        for: deleting an item must not fail for want of room to rewrite its neighbours.
        """
        most = self._most_rewritten()
        for block, _, _ in blocks.locate(numbers):
            alive = self.alive(block.numbers)
            size = len(block.records) * int(np.count_nonzero(alive)) // alive.size
            if not size or blocks.bytes_written + size <= most:
                blocks.drop_dead(block, ~alive)

    def _most_rewritten(self) -> int:
        """Return the bytes of one table that a commit may rewrite to give others free.

        The pages that it frees are for later commits: in a full map it uses up what is kept.
        """
        return self.transaction.room().to_rewrite // 8

    def drop_dead_step(self, blocks: BlockWriter, start: int, most_bytes: int) -> int | None:
        """Rewrite blocks with any dead record; return where to go on, or None at the end."""
        spent = 0
        position = start
        short = self._most_rewritten() < most_bytes
        most_bytes = LEAST_REWRITTEN if short else most_bytes
        while spent < most_bytes:
            block = next(blocks.scan(position), None)
            if block is None:
                return None
            position = int(block.numbers[-1]) + 1
            size = len(block.records)
            dead = ~self.alive(block.numbers)
            dropped = blocks.drop_dead(block, dead, share=0, in_pieces=short)
            spent += size if dropped else 1_024
        return position
