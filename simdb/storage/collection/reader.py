"""Reads one collection within a transaction: keys, documents, items, signatures, bucket runs.

Items come one by one, as documents, or in bulk: whole blocks, without an object for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import compress
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from simdb import kernels
from simdb.arrays import Bools, Int64s, UInt8s, UInt16s, UInt32s
from simdb.errors import CorruptionError
from simdb.places import Places
from simdb.ragged import ByteStrings, address_of, as_bytes, picked, slices_of
from simdb.storage.collection.manifest import IndexManifest, Manifest
from simdb.storage.collection.tombstones import (
    TOMBSTONES_PER_RECORD,
    deleted,
    deleted_among,
    read_all,
)
from simdb.storage.file.caches import OwnedName
from simdb.storage.file.environment import ReadTransaction, WriteTransaction
from simdb.storage.tables import blocks, layout
from simdb.storage.tables.blocks import (
    Block,
    BlockPlaces,
    BlockReader,
    ItemBlocks,
    Tail,
)
from simdb.storage.tables.layout import (
    ITEM_NUMBER,
    Document,
    Table,
    collection_key,
    decode_document,
    dictionary_keys,
    document_key,
    manifest_key,
    owner_prefix,
)
from simdb.storage.tables.views import RunView
from simdb.zstandard import Codec

FEW = 16  # items that are read one by one
NUMBERS_AT_ONCE = 16_384
ALL_BYTES = 2**62
BYTES_AT_ONCE = 2**20  # of items; their features take about eight times as many
USED_A_LIVE = 2  # item numbers, up to which arrays have a place for every number
FEW_NUMBERS = 2**16  # or this many
BLOCKS_A_NUMBER = 4  # so many are read, and kept, rather than one looked up


class Names(Struct, frozen=True, eq=False):
    """What table KEYS has encoded user keys under: the places of these by rising name, and names.

    ``listed`` are the names in ``column``, as LMDB takes them.
    """

    order: Int64s
    column: ByteStrings
    listed: list[bytes]

    def select(self, places: Int64s) -> Names:
        """Return the names of some of the keys, given by ascending places."""
        new_places = np.full(self.order.size, -1)
        new_places[places] = np.arange(places.size)
        order = new_places[self.order]
        stays = order >= 0
        column = picked(self.column, np.flatnonzero(stays))
        return Names(order[stays], column, list(compress(self.listed, stays.tolist())))


class _State(Struct, frozen=True):
    """What tells one state of a collection from another, and whether items went in between."""

    commit: int
    changes: int
    next_number: int
    live: int
    tombstones: int

    def lasts_until(self, later: _State) -> bool:
        """Whether no block of this state, but those of the tail, can have been changed since.

        Each item that comes raises two of the numbers, and none that goes lowers both.
        """
        come = later.next_number - self.next_number
        is_later = self.commit <= later.commit  # a snapshot held open may have what compacting took
        return is_later and not self.tombstones and 0 <= come == later.live - self.live


class Documents(Struct, frozen=True, eq=False):
    """Verified documents in place; they end with the transaction, or when it writes.

    Attributes:
        positions: of those found, among the item numbers asked for.
        numbers: of the items.
        parts: where each lies, as ``kernels.columns.documents_of_blocks`` tells.
        codec: returns what reads compressed documents.
        blocks: that they lie in, which are kept for as long.
    """

    positions: Int64s
    numbers: UInt32s
    parts: Int64s
    codec: Callable[[], Codec]
    blocks: list[Block]

    @classmethod
    def of_blocks(
        cls,
        blocks: list[Block],
        owner: int,
        numbers: UInt32s,
        codec: Callable[[], Codec],
        most_bytes: int = ALL_BYTES,
    ) -> Iterator[Documents]:
        """Find the documents of ascending item numbers, about so many bytes of them at a time.

        CorruptionError: one is damaged.
        """
        places, begin = BlockPlaces.of(blocks), 0
        while begin < numbers.size:
            some = numbers[begin:]
            parts, done, is_sound = kernels.columns.documents_of_blocks(
                *places, some, most_bytes, np.uint64(owner)
            )
            if not is_sound:
                raise layout.damage(f"item number {some[done]} is damaged")
            found = np.flatnonzero(parts[0])
            yield cls(found + begin, some[found], parts.take(found, axis=1), codec, blocks)
            begin += done

    def select(self, some: slice) -> Documents:
        """Return some of them."""
        columns = self.positions[some], self.numbers[some], self.parts[:, some]
        return Documents(*columns, self.codec, self.blocks)

    @property
    def sizes(self) -> Int64s:
        """Bytes of each item, or of what is stored of it and of its metadata if that is more."""
        _, bodies, _, stops, items, _ = self.parts
        sizes: Int64s = np.maximum(items, stops - bodies)
        return sizes

    def key_column(self) -> ByteStrings:
        """Return the encoded user keys."""
        keys, bodies, *_ = self.parts
        return ByteStrings(*kernels.columns.copied(keys, bodies))

    def items(self) -> ByteStrings:
        """Return the items in stored form."""
        _, bodies, ends, *_, flags = self.parts
        items = ByteStrings(*kernels.columns.copied(bodies, ends))
        if not flags.any():
            return items
        whole: list[bytes | memoryview] = list(items)
        for place, body, size in self._unpacked():
            whole[place] = bytes(body[:size])  # and not a view, which would keep the metadata
        return ByteStrings.of(whole)

    def metadata(self) -> list[bytes]:
        """Return the encoded metadata, empty where there is none."""
        ends, stops = self.parts[2:4]
        metadata = as_bytes(ByteStrings(*kernels.columns.copied(ends, stops)))
        for place, body, size in self._unpacked():
            metadata[place] = bytes(body[size:])
        return metadata

    def _unpacked(self) -> Iterator[tuple[int, memoryview, int]]:
        """Yield the places of those that are compressed, their bodies, and the sizes of items."""
        places = np.flatnonzero(self.parts[5])
        _, bodies, _, stops, sizes, flags = self.parts.take(places, axis=1)
        frames = ByteStrings(*kernels.columns.copied(bodies, stops))
        columns = (column.tolist() for column in (places, self.numbers[places], flags, sizes))
        for frame, place, number, flag, size in zip(frames, *columns, strict=True):
            yield place, layout.unpacked(number, frame, flag, size, self.codec), size


def _led_to(stored: memoryview) -> int:
    """Return the item number that a key leads to."""
    if len(stored) != ITEM_NUMBER.size:
        raise layout.damage("a stored key leads to no item number")
    return int(ITEM_NUMBER.unpack(stored)[0])


def _state_name(number: int) -> OwnedName:
    return "state", Table.DOCUMENTS, number


class CollectionReader:
    """One collection, by its number, as a transaction sees it.

    ``items`` are its blocks of items of one width; None where items are in the documents. An
    ``index`` that is stored but does not answer yet is read in place of the one that does.
    """

    def __init__(
        self, transaction: ReadTransaction, number: int, index: IndexManifest | None = None
    ) -> None:
        self.transaction = transaction
        self.use: object = None  # the block in which it reads, which is to last as long
        self.number = number
        manifest = self._read_manifest()
        if index is not None:
            manifest = replace(manifest, index=index)
        self.manifest = manifest
        self.documents = self._open(Table.DOCUMENTS, 0)
        self.items = None
        if manifest.item_width:
            self.items = self._open(Table.ITEMS, manifest.item_width)
        self._verified_items: set[bytes] = set()
        self._bands: RunView | None = None
        self._signatures: BlockReader | None = None
        self._tombstones: UInt8s | None = None
        self._last_named: tuple[ByteStrings, Names] | None = None

    def _read_manifest(self) -> Manifest:
        """Read the manifest, or take what this commit is known to have."""
        return self.transaction.remembered(("manifest", self.number), self._load_manifest)

    def _load_manifest(self) -> Manifest:
        """Read the manifest, or take it from the cache if it has not changed, by its checksum."""
        name = _state_name(self.number)
        record = self._record()
        checksum = bytes(record[: layout.CHECKSUM_SIZE])
        known: tuple[bytes, Manifest] | None = self.transaction.environment.caches.get(name)
        if known is None or known[0] != checksum:
            known = checksum, self._decoded(record)
            self._keep(name, known)
        return known[1]

    def _keep(self, name: OwnedName, made: object) -> None:
        """Keep what is made of records; let go of what is made of some that are there no more.

        That would be kept for good where another process has removed them.
        """
        caches = self.transaction.environment.caches
        caches[name] = made
        if not caches.has_grown:
            return
        caches.note_size()  # also where a look at what is damaged ends this
        owned = caches.owned
        collections = {
            number
            for number in {owner for _, table, owner in owned if table not in layout.INDEX_TABLES}
            if self.transaction.get(Table.META, manifest_key(number)) is not None
        }
        states = filter(None, (caches.get(_state_name(number)) for number in collections))
        indexes = {owner for _, manifest in states for owner in manifest.index.owners}
        gone = {
            (table, owner)
            for _, table, owner in owned
            if owner not in (indexes if table in layout.INDEX_TABLES else collections)
        }
        caches.forget_of(gone)
        caches.note_size()

    def _record(self) -> memoryview:
        record = self.transaction.get(Table.META, manifest_key(self.number))
        if record is None:
            raise CorruptionError(f"the manifest of collection {self.number} is missing")
        return record

    def _decoded(self, record: memoryview) -> Manifest:
        return Manifest.decode(layout.unseal(Table.META, manifest_key(self.number), record))

    def _open(self, table: Table, width: int) -> BlockReader:
        return BlockReader(self.transaction, table, self.number, width=width)

    @property
    def signatures(self) -> BlockReader:
        """The blocks of signatures of the index."""
        if self._signatures is None:
            index = self.manifest.index
            self._signatures = BlockReader(
                self.transaction, Table.SIGNATURES, index.number, width=index.signature_width
            )
        return self._signatures

    @property
    def bands(self) -> RunView:
        """The bucket runs, ready to be probed or swept."""
        if self._bands is None:
            index = self.manifest.index
            self._bands = RunView(self.transaction, Table.BANDS, index.number, index.bands)
        return self._bands

    # -- keys and documents ----------------------------------------------------------------

    def find(self, key: bytes) -> int | None:
        """Return the item number of an encoded user key, or None."""
        name = owner_prefix(self.number) + key
        value = self.transaction.get(Table.KEYS, name)
        if value is None:
            return None
        return _led_to(layout.unseal(Table.KEYS, name, value))

    def has_keys(self, tag: bytes) -> bool:
        """Whether any encoded user key begins so."""
        prefix = owner_prefix(self.number) + tag
        return next(self.transaction.scan(Table.KEYS, prefix), None) is not None

    @property
    def has_number_keys(self) -> bool:
        """Whether all user keys are numbers, and there is one."""
        return self.has_keys(layout.INTEGER_TAG) and not self.has_keys(layout.TEXT_TAG)

    def _named(self, keys: ByteStrings) -> Names:
        """Return the names of encoded user keys; of the last ones they are kept."""
        if self._last_named is None or self._last_named[0] is not keys:
            order, _ = kernels.columns.order(keys.values, keys.offsets)
            names = picked(keys, order, owner_prefix(self.number))
            self._last_named = keys, Names(order, names, as_bytes(names))
        return self._last_named[1]

    def some_keys(self, keys: ByteStrings, places: Int64s) -> ByteStrings:
        """Return some encoded user keys; what is known of all serves for these."""
        some = picked(keys, places)
        self._last_named = some, self._named(keys).select(places)
        return some

    def find_many(self, keys: ByteStrings) -> list[int]:
        """Return the item numbers of many encoded user keys, -1 for those not stored."""
        names = self._named(keys)
        numbers = [-1] * len(keys)
        found = dict(self.transaction.get_many(Table.KEYS, names.listed))
        if found:
            for name, place in zip(names.listed, names.order.tolist(), strict=True):
                if name in found:
                    numbers[place] = _led_to(layout.unseal(Table.KEYS, name, found[name]))
        return numbers

    def document(self, number: int) -> Document | None:
        """Return the document of an item number, or None if no block holds it."""
        block = self.documents.find(number)
        place = None if block is None else block.place(number)
        if block is None or place is None:
            return None
        return self._whole(self.decoded(block, place))

    def decoded(self, block: Block, place: int) -> Document:
        """Return the document at a place of a block, without its item if that lies elsewhere."""
        number = int(block.numbers[place])
        return decode_document(number, block.verified_record(place), self.codec)

    def codec(self) -> Codec:
        """Return what reads compressed documents, with the dictionary if there is one.

        A collection is given one dictionary at most, and its number never to another collection.
        """
        name = "dictionary", Table.DOCUMENTS, self.number
        known: Codec | None = self.transaction.environment.caches.get(name)
        if known is None:
            key = dictionary_keys(self.number)[0]
            value = self.transaction.get(Table.META, key)
            known = Codec(b"" if value is None else bytes(layout.unseal(Table.META, key, value)))
            if known.dictionary:
                self._keep(name, known)
        return known

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

    def item_rows(self, numbers: UInt32s) -> tuple[Int64s, UInt8s]:
        """Return the positions in ascending item numbers of those stored, and a copy of these."""
        assert self.items is not None
        block_count = (
            self.manifest.next_number * self.manifest.item_width // blocks.ITEM_BLOCK_BYTES
        )
        known = self.item_blocks(only_known=numbers.size <= max(FEW, block_count))
        if known is not None:
            return known.pick(numbers)
        positions, rows = [], []
        for block, wanted, places in self.items.locate(numbers):
            positions.append(wanted)
            rows.append(block.as_rows(np.uint8)[places])
        if not rows:
            return np.empty(0, np.int64), np.empty((0, self.manifest.item_width), np.uint8)
        return np.concatenate(positions), np.concatenate(rows)

    def item_blocks(self, *, only_known: bool = False) -> ItemBlocks | None:
        """Return all blocks of items of one width, None if there are none.

        With ``only_known`` they are not looked for.
        """
        assert self.items is not None

        def require_all(found: ItemBlocks | None) -> None:
            live = (int(np.count_nonzero(self.alive(part.numbers))) for part in found or ())
            self.require_all(sum(live))

        name, tail = ("blocks", Table.ITEMS, self.number), self.manifest.item_tail
        return self._all_blocks(name, self.items, tail, only_known=only_known, check=require_all)

    def signature_rows(self, numbers: UInt32s) -> tuple[Int64s, UInt8s] | None:
        """Return the positions in ascending item numbers of the signatures stored, and a copy.

        None where to find the blocks one by one is quicker: of few, unless all blocks are known.
        """
        index = self.manifest.index
        block_count = self.manifest.next_number * index.signature_width // blocks.TARGET_BYTES
        few = max(FEW, block_count // BLOCKS_A_NUMBER)
        found = self._all_blocks(
            ("blocks", Table.SIGNATURES, index.number),
            self.signatures,
            index.signature_tail,
            only_known=numbers.size <= few,
        )
        return None if found is None else found.pick(numbers)

    def _all_blocks(
        self,
        name: OwnedName,
        reader: BlockReader,
        tail: Tail,
        *,
        only_known: bool,
        check: Callable[[ItemBlocks | None], None] = lambda _: None,
    ) -> ItemBlocks | None:
        """Return all blocks of records of one width; None if there are none, or none are known.

        They are cached by commit, and known by the state as well.
        """
        caches, manifest = self.transaction.environment.caches, self.manifest
        if isinstance(self.transaction, WriteTransaction):  # whose blocks may still change
            if only_known:
                return None
            check(found := reader.all_blocks(tail))
            return found
        seen = _State(
            *(self.transaction.identity, manifest.changes),
            *(manifest.next_number, manifest.live, manifest.tombstones),
        )
        known: tuple[_State, ItemBlocks | None] | None = caches.get(name)
        if known is not None and known[0] == seen:
            return known[1]
        lasting = None
        if known is not None and known[1] is not None and known[0].lasts_until(seen):
            lasting = known[1].lasting
        if only_known and lasting is None:
            return None
        found = reader.all_blocks(tail, lasting)
        check(found)
        self._keep(name, (seen, found))
        return found

    def documents_of(self, numbers: UInt32s) -> Iterator[tuple[int, Document]]:
        """Yield position and document of ascending item numbers; absent ones are left out.

        Up to ``FEW`` may come in any order, and repeat.
        """
        if numbers.size <= FEW:
            for position, number in enumerate(numbers.tolist()):
                found = self.document(number)
                if found is not None:
                    yield position, found
            return
        for block, positions, places in self.documents.locate(numbers):
            documents = self._documents(block, numbers[positions], places)
            for position, document in zip(positions.tolist(), documents, strict=True):
                yield position, self._whole(document)

    def _documents(self, block: Block, numbers: UInt32s, places: Int64s) -> Iterator[Document]:
        """Yield documents of a block as they lie there; many are verified by one kernel."""
        if places.size <= FEW:
            for place in places.tolist():
                yield self.decoded(block, place)
            return
        (found,) = Documents.of_blocks([block], self.number, numbers, self.codec)
        data = block.records
        keys, bodies, _, stops, *told = found.parts
        begins = address_of(np.frombuffer(data, np.uint8))
        bounds = (column - begins for column in (keys, bodies, stops))
        columns = (column.tolist() for column in (found.numbers, *bounds, *told))
        for number, key, begin, stop, size, flags in zip(*columns, strict=True):
            body = data[begin:stop]
            if flags:
                body = layout.unpacked(number, body, flags, size, self.codec)
            yield Document(number, data[key:begin], body[:size], body[size:])

    def documents_in_columns(
        self, numbers: UInt32s, most_bytes: int = BYTES_AT_ONCE
    ) -> Iterator[Documents]:
        """Yield what is stored of ascending item numbers, by about so many bytes.

        All is verified; what is wanted of it is copied before the next is asked for, or anything
        is written.
        """
        for begin in range(0, numbers.size, NUMBERS_AT_ONCE):
            some = numbers[begin : begin + NUMBERS_AT_ONCE]
            blocks = [block for block, _, _ in self.documents.holding(some)]
            where = blocks, self.number, some, self.codec, most_bytes
            for found in Documents.of_blocks(*where):
                placed, sizes = replace(found, positions=found.positions + begin), found.sizes
                are_few = int(sizes.sum()) <= most_bytes
                for part in [slice(None)] if are_few else slices_of(sizes, most_bytes):
                    self.transaction.require_open()
                    yield placed.select(part)

    def keys_of(self, numbers: UInt32s) -> tuple[Int64s, ByteStrings]:
        """Return the positions in ascending item numbers of those stored, and their encoded keys.

        Every record is verified, without an object for each.
        """
        return _together(
            [(found.positions, found.key_column()) for found in self.documents_in_columns(numbers)]
        )

    def each_key(self, numbers: UInt32s) -> Iterator[tuple[int, bytes | memoryview]]:
        """Yield position and encoded key of ascending item numbers; absent ones are left out.

        Up to ``FEW`` may come in any order, and repeat. No document is unpacked.
        """
        if numbers.size > FEW:
            positions, keys = self.keys_of(numbers)
            yield from zip(positions.tolist(), as_bytes(keys), strict=True)
            return
        for position, key in enumerate(self.known_keys(numbers)):
            if key:
                yield position, key
                continue
            number = int(numbers[position])
            block = self.documents.find(number)
            place = None if block is None else block.place(number)
            if block is not None and place is not None:
                yield position, document_key(number, block.verified_record(place))

    def known_keys(self, numbers: UInt32s) -> list[bytes]:
        """Return encoded keys of items in blocks that are known, empty ones of the others.

        They are empty from the first on that is damaged, too, which is told when it is read.
        """
        known = self.documents.known()
        if known is None:
            return [b""] * numbers.size
        _kept, places = known.placed
        values, bounds = kernels.columns.keys_of_documents(*places, numbers, np.uint64(self.number))
        whole, ends = values.tobytes(), bounds.tolist()
        return list(map(whole.__getitem__, map(slice, ends, ends[1:])))

    def metadata_of(self, numbers: UInt32s) -> tuple[Int64s, list[bytes]]:
        """Return the positions in ascending item numbers of those stored, and encoded metadata.

        Every record is verified; empty bytes stand for no metadata.
        """
        positions, metadata = [np.empty(0, np.int64)], []
        for found in self.documents_in_columns(numbers):
            positions.append(found.positions)
            metadata += found.metadata()
        return np.concatenate(positions), metadata

    def live_documents(self) -> Iterator[Document]:
        """Yield the documents of live items in the order of their numbers."""
        self.load_tombstones()
        live = 0
        for block in self.documents.scan():
            places = np.flatnonzero(self.alive(block.numbers))
            live += places.size
            for place in places.tolist():
                yield self._whole(self.decoded(block, place))
        self.require_all(live)

    def require_all(self, live: int) -> None:
        """Raise CorruptionError unless so many are stored: a lost page hides records unseen."""
        if live != self.manifest.live:
            counted = f"{live:,} of {self.manifest.live:,} items"
            raise layout.damage(f"{counted} of collection {self.number} can be read")

    def live_numbers(self) -> UInt32s:
        """Return the numbers of all live items, ascending; reads the heads of all blocks."""
        parts = [block.numbers.copy() for block in self.documents.scan()]
        numbers = np.concatenate([np.empty(0, np.uint32), *parts])
        alive = numbers[self.alive(numbers)]
        self.require_all(alive.size)
        return alive

    def places(self) -> Places:
        """Return where live items have their places in arrays: their ranks, if most are deleted."""
        used = self.manifest.next_number
        if used <= max(USED_A_LIVE * self.manifest.live, FEW_NUMBERS):
            return Places(used)
        live = self.live_numbers()
        return Places(live.size, live)

    # -- tombstones --------------------------------------------------------------------

    @property
    def tombstones(self) -> UInt8s:
        """Bytes of the deleted items by number; empty when none has one."""
        self.load_tombstones()
        assert self._tombstones is not None
        return self._tombstones

    def load_tombstones(self) -> None:
        """Read all tombstones, for calls of ``alive`` about many items."""
        if self._tombstones is None:
            self._tombstones = np.empty(0, np.uint8)
            if self.manifest.tombstones:
                self._tombstones = read_all(
                    self.transaction, self.number, self.manifest.next_number
                )

    def without(self, numbers: UInt32s, item_bytes: int) -> CollectionReader:
        """Return a reader to which some live items, of so many bytes in all, are deleted ones."""
        other, size = copy(self), numbers.size
        if size:
            other._tombstones = np.zeros(-(-self.manifest.next_number // 8), np.uint8)
            other._tombstones[: self.tombstones.size] = self.tombstones[: other._tombstones.size]
            bits = np.uint8(1) << (numbers & 7).astype(np.uint8)
            np.bitwise_or.at(other._tombstones, numbers >> 3, bits)
            other.manifest = replace(
                self.manifest,
                live=self.manifest.live - size,
                tombstones=self.manifest.tombstones + size,
                item_bytes=self.manifest.item_bytes - item_bytes,
            )
        return other

    def alive(self, numbers: UInt32s) -> Bools:
        """Return which of the item numbers have no tombstone."""
        if not self.manifest.tombstones:
            alive = np.empty(numbers.size, np.bool_)
            alive[:] = True  # sooner than ``ones``
            return alive
        if numbers.size > TOMBSTONES_PER_RECORD or self._tombstones is not None:
            return ~deleted(self.tombstones, numbers)
        return ~deleted_among(self.transaction, self.number, numbers)


class LiveBatch(NamedTuple):
    """Some live items: their numbers, uint32 ascending, and their bytes."""

    numbers: UInt32s
    items: ByteStrings


def live_batches(
    collection: CollectionReader,
    start: int = 0,
    *,
    most_items: int | None = None,
    most_bytes: int = BYTES_AT_ONCE,
    weights: Callable[[ByteStrings], Int64s] | None = None,
) -> Iterator[LiveBatch]:
    """Yield the live items from a number on in batches of bounded size; every one is verified.

    A batch has at most so many items, and bytes, unless a block of the store has more. Where
    ``weights`` say what the items become, these count in place of their bytes, and a batch ends
    within a block.
    """
    parts: list[LiveBatch] = []
    count = size = 0
    for block in _live_blocks(collection, start):
        taken = 0
        while taken < len(block.items):
            room = None if most_items is None else most_items - count
            part = block.items[taken:] if room is None else block.items[taken : taken + room]
            if weights is None:
                added = part.values.size
            else:
                ends = np.cumsum(weights(part))
                part = part[: int(np.searchsorted(ends, most_bytes - size)) + 1]
                added = int(ends[len(part) - 1])
            parts.append(LiveBatch(block.numbers[taken : taken + len(part)], part))
            count += len(part)
            size += added
            taken += len(part)
            if size >= most_bytes or count == most_items:
                yield _one_batch(parts)
                parts, count, size = [], 0, 0
    if parts:
        yield _one_batch(parts)


def _one_batch(parts: Sequence[LiveBatch]) -> LiveBatch:
    numbers, items = zip(*parts, strict=True)
    return LiveBatch(np.concatenate(numbers), ByteStrings.concatenated(items))


def _live_blocks(collection: CollectionReader, start: int) -> Iterator[LiveBatch]:
    collection.load_tombstones()
    live = 0
    blocks = collection.documents if collection.items is None else collection.items
    for block in blocks.scan(start):
        places = np.flatnonzero(collection.alive(block.numbers) & (block.numbers >= start))
        live += places.size
        if not places.size:
            continue
        if collection.items is None:
            wanted = block.numbers[places]
            where = [block], collection.number, wanted, collection.codec
            (found,) = Documents.of_blocks(*where)
            for some in slices_of(found.sizes, BYTES_AT_ONCE):  # compressed they may be few
                collection.transaction.require_open()
                yield LiveBatch(wanted[some], found.select(some).items())
        else:
            collection.items.verify(block.key)
            rows = np.ascontiguousarray(block.as_rows(np.uint8)[places])
            yield LiveBatch(block.numbers[places], ByteStrings.of_rows(rows))
    if not start:
        collection.require_all(live)


def chosen_items(
    collection: CollectionReader, numbers: UInt32s, most_bytes: int = BYTES_AT_ONCE
) -> Iterator[tuple[Int64s, ByteStrings]]:
    """Yield the positions in ascending item numbers of items that are stored, and these.

    Some at a time, of about so many bytes; every record is verified.
    """
    if collection.items is None:
        for found in collection.documents_in_columns(numbers, most_bytes):
            yield found.positions, found.items()
        return
    at_once = max(1, most_bytes // collection.manifest.item_width)
    for begin in range(0, numbers.size, at_once):
        positions, rows = collection.item_rows(numbers[begin : begin + at_once])
        yield positions + begin, ByteStrings.of_rows(rows)


def read_items(collection: CollectionReader, numbers: UInt32s) -> tuple[Int64s, ByteStrings]:
    """Read items of ascending numbers: the positions of those stored, and their items."""
    return _together(list(chosen_items(collection, numbers)))


def _together(parts: list[tuple[Int64s, ByteStrings]]) -> tuple[Int64s, ByteStrings]:
    """Put the positions and strings of several parts together, or of none."""
    if len(parts) == 1:
        return parts[0]
    positions, strings = zip((np.empty(0, np.int64), ByteStrings.of([])), *parts, strict=True)
    return np.concatenate(positions), ByteStrings.concatenated(strings)


def stored_signatures(collection: CollectionReader, numbers: UInt32s) -> tuple[UInt16s, Bools]:
    """Return the signatures of ascending item numbers, uint16 (n, rows), and which there are."""
    width = collection.manifest.index.signature_width // 2
    rows = np.zeros((numbers.size, width), np.uint16)
    present = np.zeros(numbers.size, np.bool_)
    if numbers.size <= FEW:
        for position, number in enumerate(numbers.tolist()):
            block = collection.signatures.find(number)
            place = None if block is None else block.place(number)
            if block is not None and place is not None:
                rows[position] = np.frombuffer(block.record(place), np.uint16)
                present[position] = True
        return rows, present
    known = collection.signature_rows(numbers)
    if known is not None:
        positions, found = known
        if positions.size == numbers.size:
            return found.view(np.uint16), np.ones(numbers.size, np.bool_)
        rows[positions], present[positions] = found.view(np.uint16), True
        return rows, present
    for block, wanted, places in collection.signatures.locate(numbers):
        rows[wanted] = block.as_rows(np.uint16)[places]
        present[wanted] = True
    return rows, present


def stored_settings(transaction: ReadTransaction, name: str) -> bytes | None:
    """Read the settings of a collection as they are stored, to be compared; None without one."""

    def read() -> bytes | None:
        key = collection_key(name)
        value = transaction.get(Table.META, key)
        return None if value is None else bytes(layout.unseal(Table.META, key, value))

    return transaction.remembered(("settings", name), read)
