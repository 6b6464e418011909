"""Typed views of the tables of one collection: state, keys, documents, signatures, marks, bands.

A document record is its key, its item in canonical bytes, and its metadata:

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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.errors import CorruptionError, StorageError
from simdb.storage import values
from simdb.storage.blocks import BlockReader, BlockWriter, Tail
from simdb.storage.epochs import ExactState, postings_writer
from simdb.storage.item_blocks import ItemBlocks, item_blocks
from simdb.storage.keys import Table, owner_prefix, pack_numbered, state_key
from simdb.storage.run_views import RunView
from simdb.storage.runs import RunDirectory, RunWriter
from simdb.storage.transactions import ReadTransaction, WriteTransaction

ITEM_BLOCK_BYTES = 2**21  # items of one width are scanned, in few and long blocks
LARGEST_WIDTH = 2**30  # bytes of an item; far past any kind's
LEAST_ROOM_TO_MERGE = 2**23  # bytes: chunks at every level, of both indexes
LEAST_REWRITTEN = 2**19  # bytes by a step where room is short; a block more at most
FEW = 16  # items that are read one by one
MARKS_PER_RECORD = 8_192
MARK_BYTES = MARKS_PER_RECORD // 8
LARGEST_NUMBER = 2**32 - 2
_NUMBER = struct.Struct("<I")
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
    """Return the parts of a document record."""
    item_size, key_size = DOCUMENT_HEADER.unpack_from(record)
    item = DOCUMENT_HEADER.size + key_size
    end = item + item_size
    if len(record) < end:
        raise CorruptionError(f"item number {number}: the record is cut short")
    return Document(number, record[DOCUMENT_HEADER.size : item], record[item:end], record[end:])


@dataclass(slots=True)
class IndexState:
    """What an index knows of itself; a rebuild makes a second one beside the first.

    Attributes:
        number: owner of its signatures and bucket runs.
        signature_width: bytes of a signature; 0 without a probable index.
        bands: runs of bucket keys.
        signature_tail: small blocks of signatures at the end.
        entries_per_item: bucket keys of an item.
        exact: the exact index, if there is one.
    """

    number: int
    signature_width: int
    entries_per_item: int
    bands: RunDirectory = field(default_factory=RunDirectory)
    signature_tail: Tail = field(default_factory=Tail)
    exact: ExactState | None = None

    @property
    def owners(self) -> list[int]:
        """Its own number and those of the epochs of its exact index."""
        return [self.number] if self.exact is None else [self.number, *self.exact.owners]

    def encode(self) -> list[Any]:
        """Return it as plain lists."""
        return [
            self.number,
            self.signature_width,
            self.entries_per_item,
            self.bands.encode(),
            self.signature_tail.blocks,
            None if self.exact is None else self.exact.encode(),
        ]

    @classmethod
    def decode(cls, stored: list[Any]) -> IndexState:
        """Return what ``encode`` stored."""
        number, width, entries, bands, tail, exact = stored
        return cls(
            number,
            width,
            entries,
            RunDirectory.decode(bands),
            Tail.decode(tail),
            None if exact is None else ExactState.decode(exact),
        )


@dataclass(slots=True)
class CollectionState:
    """What changes with every commit of a collection; one small record.

    Attributes:
        next_number: the item number that the next item gets.
        live: items stored.
        marked: deletion marks set.
        item_bytes: bytes of all live items in canonical form.
        changes: counts commits that changed this collection.
        index: the index in use.
        document_tail: small blocks of documents at the end.
        item_width: bytes of every item, where all have as many: they lie in blocks of their own,
            one after the other, and documents are without them; else 0.
        item_tail: small blocks of items at the end.
    """

    next_number: int
    live: int
    marked: int
    item_bytes: int
    changes: int
    index: IndexState
    document_tail: Tail = field(default_factory=Tail)
    item_width: int = 0
    item_tail: Tail = field(default_factory=Tail)

    def encode(self) -> bytes:
        """Return the payload of the state record."""
        return values.pack(
            [
                self.next_number,
                self.live,
                self.marked,
                self.item_bytes,
                self.changes,
                self.index.encode(),
                self.document_tail.blocks,
                self.item_width,
                self.item_tail.blocks,
            ]
        )

    @classmethod
    def decode(cls, payload: memoryview) -> CollectionState:
        """Return what ``encode`` stored."""
        stored = values.unpack(payload)
        try:
            stored[5:7] = IndexState.decode(stored[5]), Tail.decode(stored[6])
            stored[8] = Tail.decode(stored[8])
            return cls(*stored).within_bounds()
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise CorruptionError(f"the state of a collection cannot be read: {error}") from error

    def within_bounds(self) -> Self:
        """Return the state itself if its numbers can be those of one.

        Raises:
            ValueError: one cannot.
        """
        counts = self.next_number, self.live, self.marked, self.item_bytes, self.changes
        if min(counts) < 0 or not 0 <= self.item_width <= LARGEST_WIDTH:
            raise ValueError(f"counts {counts}, items of {self.item_width} bytes")
        return self


class CollectionReader:
    """One collection as a transaction sees it.

    Attributes:
        transaction: the snapshot.
        number: the collection's number.
        state: its state.
        documents: its blocks of documents.
        items: its blocks of items of one width; None where items are in the documents.
        signatures: the blocks of signatures of its index.
    """

    def __init__(self, transaction: ReadTransaction, number: int) -> None:
        self.transaction = transaction
        self.number = number
        self.state = self._read_state()
        self.documents = self._open_documents()
        self.items = self._open_items() if self.state.item_width else None
        self.signatures = self._open_signatures()
        self._verified_items: set[bytes] = set()
        self._bands: RunView | None = None
        self._marks: npt.NDArray[np.uint8] | None = None

    def _read_state(self) -> CollectionState:
        """Read the state, or take it from the cache if there was no commit since."""
        caches = self.transaction.environment.caches
        name = f"state {self.number}"
        commit = self.transaction.identity
        known: tuple[int, CollectionState] | None = caches.get(name)
        if known is None or known[0] != commit:
            known = commit, self._load_state()
            caches[name] = known
        return known[1]

    def _load_state(self) -> CollectionState:
        key = state_key(self.number)
        value = self.transaction.get(Table.META, key)
        if value is None:
            raise CorruptionError(f"the state of collection {self.number} is missing")
        return CollectionState.decode(values.unseal(Table.META, key, value))

    def _open_documents(self) -> BlockReader:
        return BlockReader(self.transaction, Table.DOCUMENTS, self.number, width=0)

    def _open_items(self) -> BlockReader:
        return BlockReader(self.transaction, Table.ITEMS, self.number, width=self.state.item_width)

    def _open_signatures(self) -> BlockReader:
        index = self.state.index
        return BlockReader(
            self.transaction, Table.SIGNATURES, index.number, width=index.signature_width
        )

    @property
    def bands(self) -> RunView:
        """The bucket runs, ready to be probed or swept."""
        if self._bands is None:
            index = self.state.index
            self._bands = RunView(self.transaction, Table.BANDS, index.number, index.bands)
        return self._bands

    # -- keys and documents ----------------------------------------------------------------

    def find(self, key: bytes) -> int | None:
        """Return the item number of an encoded user key, or None."""
        name = owner_prefix(self.number) + key
        value = self.transaction.get(Table.KEYS, name)
        if value is None:
            return None
        number: int = _NUMBER.unpack(values.unseal(Table.KEYS, name, value))[0]
        return number

    def find_many(self, keys: list[bytes]) -> list[int | None]:
        """Return the item numbers of many encoded user keys, None for those not stored."""
        prefix = owner_prefix(self.number)
        names = [prefix + key for key in keys]
        found = {
            bytes(name): values.unseal(Table.KEYS, bytes(name), value)
            for name, value in self.transaction.get_many(Table.KEYS, names)
        }
        if not found:
            return [None] * len(keys)
        return [_NUMBER.unpack(found[name])[0] if name in found else None for name in names]

    def document(self, number: int) -> Document | None:
        """Return the document of an item number, or None if no block holds it."""
        block = self.documents.find(number)
        place = None if block is None else block.place(number)
        if block is None or place is None:
            return None
        return self._whole(decode_document(number, block.verified_record(place)))

    def _whole(self, document: Document) -> Document:
        """Return a document with its item, wherever that lies."""
        if self.items is None:
            return document
        block = self.items.find(document.number)
        place = None if block is None else block.place(document.number)
        if block is None or place is None:
            raise CorruptionError(
                f"the item of item number {document.number} is missing; run 'simdb check'"
            )
        if block.key not in self._verified_items:  # once a snapshot: documents are handed out
            self.items.verify(block.key)
            self._verified_items.add(block.key)
        return document._replace(item=block.record(place))

    def item_rows(
        self, numbers: npt.NDArray[np.uint32]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """Read items of one width.

        Args:
            numbers: item numbers, ascending.

        Returns:
            the positions in ``numbers`` of those that are stored, and a copy of these, uint8
            (n, width).
        """
        assert self.items is not None
        block_count = self.state.next_number * self.state.item_width // ITEM_BLOCK_BYTES
        blocks = self.item_blocks(only_known=numbers.size <= max(FEW, block_count))
        if blocks is not None:
            return blocks.pick(numbers)
        positions, rows = [], []
        for block, wanted, places in self.items.locate(numbers):
            positions.append(wanted)
            rows.append(block.as_rows(np.uint8)[places])
        if not rows:
            return np.empty(0, np.int64), np.empty((0, self.state.item_width), np.uint8)
        return np.concatenate(positions), np.concatenate(rows)

    def item_blocks(self, *, only_known: bool = False) -> ItemBlocks | None:
        """Return all blocks of items of one width; see ``storage.item_blocks``.

        Raises:
            CorruptionError: a block is damaged, or one is missing.
        """
        assert self.items is not None
        return item_blocks(
            self.transaction,
            self.items,
            self.number,
            require_all=self._require_all_of,
            only_known=only_known,
        )

    def _require_all_of(self, blocks: ItemBlocks | None) -> None:
        parts = blocks or ()
        self.require_all(sum(int(np.count_nonzero(self.alive(part.numbers))) for part in parts))

    def documents_of(self, numbers: npt.NDArray[np.uint32]) -> Iterator[tuple[int, Document]]:
        """Yield position and document of ascending item numbers; absent ones are left out."""
        if numbers.size <= FEW:
            for position, number in enumerate(numbers.tolist()):
                document = self.document(number)
                if document is not None:
                    yield position, document
            return
        for block, wanted, places in self.documents.locate(numbers):
            for position, place in zip(wanted.tolist(), places.tolist(), strict=True):
                number = int(block.numbers[place])
                record = block.verified_record(place)
                yield position, self._whole(decode_document(number, record))

    def live_documents(self, start: int = 0) -> Iterator[Document]:
        """Yield the documents of live items in the order of their numbers."""
        marks = self.marks
        live = 0
        for block in self.documents.scan(start):
            dead = marked(marks, block.numbers)
            live += int(np.count_nonzero(~dead))
            for place, number in enumerate(block.numbers.tolist()):
                if number >= start and not dead[place]:
                    yield self._whole(decode_document(number, block.verified_record(place)))
        if not start:
            self.require_all(live)

    def require_all(self, live: int) -> None:
        """Raise unless so many items are stored: a lost page takes records with it unseen.

        Raises:
            CorruptionError: there are more or less.
        """
        if live != self.state.live:
            raise CorruptionError(
                f"{live:,} of {self.state.live:,} items of collection {self.number} can be read; "
                "run 'simdb check', then 'simdb repair' or restore a backup"
            )

    def live_numbers(self) -> npt.NDArray[np.uint32]:
        """Return the numbers of all live items, ascending; reads the heads of all blocks."""
        parts = [block.numbers.copy() for block in self.documents.scan()]
        numbers = np.concatenate([np.empty(0, np.uint32), *parts])
        alive = numbers[self.alive(numbers)]
        self.require_all(alive.size)
        return alive

    # -- deletion marks --------------------------------------------------------------------

    @property
    def marks(self) -> npt.NDArray[np.uint8]:
        """Bitmap of the deleted items by number; empty when none is marked."""
        if self._marks is None:
            self._marks = self._load_marks()
        return self._marks

    def _load_marks(self) -> npt.NDArray[np.uint8]:
        if not self.state.marked:
            return np.empty(0, np.uint8)
        marks = np.zeros(-(-self.state.next_number // MARKS_PER_RECORD) * MARK_BYTES, np.uint8)
        prefix = owner_prefix(self.number)
        for key, value in self.transaction.scan(Table.MARKS, prefix):
            record = int.from_bytes(key[4:8], "big")
            payload = values.unseal(Table.MARKS, bytes(key), value)
            marks[record * MARK_BYTES : (record + 1) * MARK_BYTES] = np.frombuffer(
                payload, np.uint8
            )
        return marks

    def alive(self, numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Return which of the item numbers are not marked as deleted."""
        if not self.state.marked:
            return np.ones(numbers.size, np.bool_)
        if numbers.size > MARKS_PER_RECORD or self._marks is not None:
            return ~marked(self.marks, numbers)
        alive = np.ones(numbers.size, np.bool_)
        for record in np.unique(numbers // MARKS_PER_RECORD).tolist():
            inside = np.flatnonzero(numbers // MARKS_PER_RECORD == record)
            bitmap = self.read_marks(record)
            alive[inside] = ~marked(bitmap, numbers[inside] % MARKS_PER_RECORD)
        return alive

    def read_marks(self, record: int) -> npt.NDArray[np.uint8]:
        """Return a copy of one record of marks."""
        key = pack_numbered(self.number, record)
        value = self.transaction.get(Table.MARKS, key)
        if value is None:
            return np.zeros(MARK_BYTES, np.uint8)
        return np.frombuffer(values.unseal(Table.MARKS, key, value), np.uint8).copy()


def marked(marks: npt.NDArray[np.uint8], numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Return which item numbers have their bit set; numbers past the bitmap have not."""
    if not marks.size:
        return np.zeros(numbers.size, np.bool_)
    byte = np.minimum(numbers >> 3, marks.size - 1)
    bits = (marks[byte] >> (numbers & 7).astype(np.uint8)) & 1
    found: npt.NDArray[np.bool_] = (bits != 0) & (numbers >> 3 < marks.size)
    return found


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
        return self._load_state()

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
            target_bytes=ITEM_BLOCK_BYTES,
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
        numbers = map(_NUMBER.pack, range(first, first + len(keys)))
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
        self._mark(ordered)
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

    def _mark(self, numbers: npt.NDArray[np.uint32]) -> None:
        for record in np.unique(numbers // MARKS_PER_RECORD).tolist():
            inside = numbers[numbers // MARKS_PER_RECORD == record] % MARKS_PER_RECORD
            bitmap = self.read_marks(record)
            np.bitwise_or.at(bitmap, inside >> 3, np.uint8(1) << (inside & 7).astype(np.uint8))
            self._write_marks(record, bitmap)
        self.state.marked += numbers.size
        self._marks = None

    def _write_marks(self, record: int, bitmap: npt.NDArray[np.uint8]) -> None:
        key = pack_numbered(self.number, record)
        if bitmap.any():
            value = values.seal(Table.MARKS, key, bitmap.tobytes())
            self.transaction.put(Table.MARKS, key, value)
        else:
            self.transaction.delete(Table.MARKS, key)

    def clear_marks(self, cleared: npt.NDArray[np.uint8]) -> None:
        """Take back the marks of items that no run and no block holds any more."""
        marks = self.marks
        common = marks[: cleared.size] & cleared[: marks.size]
        for record in np.unique(np.flatnonzero(common) // MARK_BYTES).tolist():
            part = slice(record * MARK_BYTES, (record + 1) * MARK_BYTES)
            self._write_marks(record, marks[part] & ~common[part])
        self.state.marked -= int(np.unpackbits(common).sum())
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


class IndexWriter:
    """Writes signatures and bucket keys of one index."""

    def __init__(
        self, transaction: WriteTransaction, index: IndexState, collection: CollectionWriter
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
        numbers: npt.NDArray[np.uint32],
        signatures: npt.NDArray[np.uint16],
        bucket_keys: npt.NDArray[np.uint64],
        keys_of_item: npt.NDArray[np.int64],
    ) -> None:
        """Store the signatures and buckets of items, past every earlier one.

        Args:
            numbers: uint32 (items,), ascending.
            signatures: uint16 (items, words).
            bucket_keys: uint64 (m,), those of each item after those of the one before.
            keys_of_item: int64 (items,), how many each item has.
        """
        width = self._index.signature_width
        self._transaction.note_insertion()
        if not width:
            return
        self.signatures.append_rows(numbers, signatures)
        if bucket_keys.size:
            items = np.repeat(numbers, keys_of_item)
            order = np.empty(bucket_keys.size, np.int64)
            if not kernels.runs.sort_by_key(bucket_keys, order):
                order = np.argsort(bucket_keys, kind="stable")
            self.bands.append(
                bucket_keys[order], items[order][np.newaxis, :], int(items[0]), int(items[-1])
            )

    def step(self) -> bool:
        """Do one step of a merge under way; return whether there was one."""
        return any(runs.step(lambda: self._collection.marks) for runs in self._writers())

    def start_full_merge(self) -> None:
        """Start merging all bucket runs into one, and all runs of postings into another."""
        for runs in self._writers():
            runs.start_full_merge()

    def _writers(self) -> list[RunWriter]:
        return [self.bands] if self.postings is None else [self.bands, self.postings]

    def merge_after_deleting(self, items: int) -> None:
        """Do the merging that is due after a deletion, which must not fail in a full map."""
        if self._transaction.room_to_rewrite() >= LEAST_ROOM_TO_MERGE:
            self.merge_after(items)

    def merge_after(self, changed_items: int) -> None:
        """Do the merging that is due after so many items were added or deleted."""
        self.bands.merge_after(
            changed_items * self._index.entries_per_item, lambda: self._collection.marks
        )
        if self.postings is not None and self._index.exact is not None:
            self.postings.merge_after(
                changed_items * self._index.exact.entries_per_item, lambda: self._collection.marks
            )
