"""Changes one collection within a write transaction: items come, go, and leave room behind."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from simdb.errors import CorruptionError, StorageError
from simdb.storage.collection import tombstones as deletion_marks
from simdb.storage.collection.index_writer import IndexWriter
from simdb.storage.collection.manifest import CollectionState, IndexState
from simdb.storage.collection.reader import CollectionReader
from simdb.storage.file.transactions import WriteTransaction
from simdb.storage.tables import item_blocks, values
from simdb.storage.tables.blocks import BlockReader, BlockWriter
from simdb.storage.tables.documents import DOCUMENT_HEADER, ITEM_NUMBER
from simdb.storage.tables.keys import Table, owner_prefix, state_key

LEAST_REWRITTEN = 2**19  # bytes by a step where room is short; a block more at most
LARGEST_NUMBER = 2**32 - 2


class CollectionWriter(CollectionReader):
    """One collection within a write transaction; ``save`` stores its state at the end."""

    transaction: WriteTransaction

    def __init__(self, transaction: WriteTransaction, number: int) -> None:
        super().__init__(transaction, number)
        self.transaction = transaction

    def _read_state(self) -> CollectionState:
        """Read the state; it will be changed, so it cannot be one that readers share."""
        written = self.transaction.environment.caches.pop("written states", None)
        if written is not None and written[0] + 1 == self.transaction.identity:
            state: CollectionState | None = written[1].get(self.number)
            if state is not None:
                return state
        return self._load_state(self._state_record())

    def _open_documents(self) -> BlockWriter:
        assert isinstance(self.transaction, WriteTransaction)
        return BlockWriter(
            self.transaction, Table.DOCUMENTS, self.number, self.state.document_tail, width=0
        )

    def _open_items(self) -> BlockWriter:
        assert isinstance(self.transaction, WriteTransaction)
        state = self.state
        return BlockWriter(
            self.transaction,
            Table.ITEMS,
            self.number,
            state.item_tail,
            width=state.item_width,
            target_bytes=item_blocks.ITEM_BLOCK_BYTES,
        )

    def save(self) -> None:
        """Store the state; the last step of every change."""
        self.state.changes += 1
        self.transaction.written_states[self.number] = self.state
        key = state_key(self.number)
        self.transaction.put(Table.META, key, values.seal(Table.META, key, self.state.encode()))

    def index_writer(self, index: IndexState) -> IndexWriter:
        """Return a writer of one of the collection's indexes."""
        return IndexWriter(self.transaction, index, self)

    def take_numbers(self, count: int) -> int:
        """Return the first of so many new item numbers.

        Raises:
            StorageError: the numbers are used up.
        """
        first = self.state.next_number
        if first + count > LARGEST_NUMBER:
            raise StorageError(
                f"collection {self.number} has used up its 2^32 item numbers; "
                "export it and add it to a new collection"
            )
        self.state.next_number += count
        return first

    def insert(self, keys: list[bytes], items: list[bytes], metadata: list[bytes]) -> int:
        """Store items under new item numbers; return the first of these.

        Args:
            keys: encoded user keys, none of them stored.
            items: in canonical form.
            metadata: packed, empty where there is none.
        """
        first = self.take_numbers(len(keys))
        self.transaction.note_insertion()
        prefix = owner_prefix(self.number)
        names = [prefix + key for key in keys]
        numbers = map(ITEM_NUMBER.pack, range(first, first + len(keys)))
        sealed = values.seal_many(Table.KEYS, names, numbers)
        self.transaction.put_many(Table.KEYS, sorted(zip(names, sealed, strict=True)))
        places = np.arange(first, first + len(keys), dtype=np.uint32)
        in_documents = items
        if self.items is not None:
            assert isinstance(self.items, BlockWriter)
            self.items.append(places, items)
            in_documents = [b""] * len(items)
        documents = self.documents
        assert isinstance(documents, BlockWriter)
        heads = list(map(DOCUMENT_HEADER.pack, map(len, in_documents), map(len, keys)))
        documents.append(places, heads, keys, in_documents, metadata)
        self.state.live += len(keys)
        self.state.item_bytes += sum(map(len, items))
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
            self.state.item_bytes -= size
        deletion_marks.set_marks(self.transaction, self.number, ordered)
        self.state.marked += ordered.size
        self._marks = None
        self.state.live -= ordered.size
        self._drop_dead(self.documents, ordered)
        if self.items is not None:
            self._drop_dead(self.items, ordered)
        index = self.state.index
        for number in ordered.tolist():
            index.bands.note_deleted(number, index.entries_per_item)
            if index.exact is not None:
                index.exact.note_deleted(number)
        self._drop_dead(self.index_writer(index).signatures, ordered)

    def clear_marks(self, cleared: npt.NDArray[np.uint8]) -> None:
        """Take back the marks of items that no run and no block holds any more."""
        self.state.marked -= deletion_marks.clear_marks(
            self.transaction, self.number, self.marks, cleared
        )
        self._marks = None

    def _drop_dead(self, blocks: BlockReader, numbers: npt.NDArray[np.uint32]) -> None:
        """Rewrite blocks of deleted items that are dead enough, as far as there is room.

        In a full map they stay as they are until nothing in them is alive, or ``compact`` is asked
        for: deleting an item must not fail for want of room to rewrite its neighbours.
        """
        assert isinstance(blocks, BlockWriter)
        most = self._most_rewritten()
        begin = 0
        while begin < numbers.size:
            block = blocks.find(int(numbers[begin]))
            if block is None:
                begin += 1
                continue
            begin = int(np.searchsorted(numbers, block.numbers[-1], side="right"))
            alive = self.alive(block.numbers)
            size = len(block.records) * int(np.count_nonzero(alive)) // alive.size
            if not size or blocks.bytes_written + size <= most:
                blocks.drop_dead(block, ~alive)

    def _most_rewritten(self) -> int:
        """Return the bytes of one table that a commit may rewrite to give others free.

        The pages that it frees can be used by later commits only, so in a full map all that it
        writes comes out of what is kept for deleting.
        """
        return self.transaction.room_to_rewrite() // 8

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
