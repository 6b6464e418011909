"""Repair: a new store with all that can be read of a damaged one.

Only settings, keys, tombstones, documents and items are read; signatures, buckets and postings
follow from the items. A record is believed if its checksum holds. An item number is never used for
another item, so an old copy of a lost document is the document itself; whether it is still stored
is what the keys say (key to item number), or else the tombstones.

Nothing is read through LMDB, which damage can make end the process (``recovery.pages``).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from operator import attrgetter

from simdb.database import Database, open_database
from simdb.errors import (
    ConfigurationError,
    CorruptionError,
    DatabaseNotFoundError,
    StorageError,
)
from simdb.ingest.add import AddPolicy, BatchAdder
from simdb.ingest.rows import BATCH_ITEMS, RowBatch
from simdb.opened import catalogue
from simdb.opened.catalogue import CollectionSettings
from simdb.opened.signer import Signer
from simdb.recovery.pages import (
    DamagedFile,
    Found,
    Record,
    block_of,
    block_within,
    documents_in,
    rows_of,
    rows_within,
)
from simdb.results import Problem, RepairedCollection, RepairReport
from simdb.storage.collection.tombstones import TOMBSTONE_BYTES, TOMBSTONES_PER_RECORD
from simdb.storage.file import creation
from simdb.storage.file.errors import translated
from simdb.storage.file.preflight import file_mode, no_writer, parse_path
from simdb.storage.tables import layout
from simdb.storage.tables.blocks import Block
from simdb.storage.tables.layout import (
    COLLECTION_PREFIX,
    GARBAGE_KEY,
    Table,
    decode_user_key,
    owner_prefix,
    unpack_numbered,
)

LOST_KEYS_KEPT = 1_000
NO_NUMBER = 2**32  # past every item number
BATCH_BYTES = 16 * 2**20
_NUMBER = struct.Struct("<I")
_KEYED = 8  # bytes of a key of owner and number


def repair(
    damaged: str | os.PathLike[str], new: str | os.PathLike[str], *, threads: int | None = None
) -> RepairReport:
    """Write a new store with all that can be read of a damaged one, which stays as it is.

    Items, keys and metadata are read page by page, and believed if their checksums hold. Indexes
    are made anew from the items, under the settings and the secret of the old store. The new store
    is checked before it gets its name. Items keep their order; their numbers change.

    Args:
        damaged: the file; nobody may be writing to it.
        new: a file that does not exist yet.
        threads: to sign with; as many as there are processors if not given.

    Raises:
        DatabaseNotFoundError: there is no damaged file.
        NotADatabaseError: it is something else.
        DatabaseBusyError: somebody writes to it.
        StorageError: the new file exists, or cannot be written.
    """
    source, target = parse_path(damaged), parse_path(new)
    if not source.exists():
        raise DatabaseNotFoundError(f"{source} does not exist")
    if target.exists():
        raise StorageError(f"{target} exists; name a file that does not")
    if not target.parent.is_dir():
        raise DatabaseNotFoundError(f"there is no folder {target.parent} for {target.name}")
    temporary = creation.temporary_beside(target)
    mode = file_mode(source)  # what was private stays private
    try:
        with translated(target):
            creation.create(temporary, mode)
        with translated(source), no_writer(source), DamagedFile(source) as file:
            salvage = Salvage(file)
            with (
                translated(target),
                open_database(temporary, threads=threads, busy_timeout=None) as database,
            ):
                found = [_copy(database, salvage, number) for number in sorted(salvage.collections)]
                problems = database.check(deep=True).problems
        if problems:
            raise StorageError(f"the repaired store is not sound: {problems[0].problem}")
        try:
            target.hardlink_to(temporary)  # fails, unlike a rename, where the target exists
        except FileExistsError as error:
            raise StorageError(f"{target} exists; name a file that does not") from error
        creation.sync_folder(target.parent)
        return RepairReport(
            tuple(found), tuple(salvage.lost), salvage.certain, tuple(salvage.problems())
        )
    finally:
        creation.discard(temporary)


def _copy(database: Database, salvage: Salvage, number: int) -> RepairedCollection:
    """Make a collection of the new store and fill it."""
    settings = salvage.collections[number].settings
    handle = database._handle
    with handle.write() as transaction:
        settings = catalogue.create(transaction, settings)
    signer = Signer(settings)
    policy = AddPolicy(on_existing="error", bound=None, drop_duplicates=False, skip_bad=False)
    rows = RepairedRows(salvage, number)
    with handle.use() as environment:
        adder = BatchAdder(
            environment,
            settings.encode(),
            settings,
            signer,
            policy=policy,
            busy_timeout=handle.busy_timeout,
        )
        for batch in rows.batches():
            adder.add(batch, signer.sign(batch.items, handle.pool()))
    return rows.report()


@dataclass(slots=True)
class SalvagedCollection:
    """What can still be read of a collection.

    Attributes:
        settings: its settings.
        numbers: item number of each encoded key that could be read.
        tombstones: bitmaps by record; those that could not be read are missing.
        elsewhere: documents found on pages that the table does not lead to, by number.
        width: bytes of an item, where all have as many and lie beside the documents; else 0.
        items_elsewhere: such items found on pages that the table does not lead to, by number.
    """

    settings: CollectionSettings
    numbers: dict[bytes, int] = field(default_factory=dict)
    tombstones: dict[int, bytes] = field(default_factory=dict)
    elsewhere: dict[int, Found] = field(default_factory=dict)
    width: int = 0
    items_elsewhere: dict[int, bytes] = field(default_factory=dict)


class Salvage:
    """Reads all collections of a damaged file.

    Memory grows with the number of keys, about 150 bytes each, and with the documents that are
    found outside of their table; not with those within it.

    Args:
        file: its pages.

    Attributes:
        collections: those whose settings could be read, by number.
        lost: names, or numbers, of those whose settings could not.
    """

    def __init__(self, file: DamagedFile) -> None:
        self._file = file
        self.collections: dict[int, SalvagedCollection] = {}
        self.lost: list[str] = []
        self._removed: set[tuple[int, int]] = set()
        self._owners: set[int] = set()
        self._damaged: set[Table] = set()
        self._read_settings()
        self._read_keys()
        self._read_marks()
        self._find_elsewhere(wanted=self._documents_are_missing())
        self._find_items_elsewhere()
        self._note_lost_collections()

    def problems(self) -> list[Problem]:
        """Return the damage that was met."""
        noted = dict.fromkeys(self._file.problems)
        return [Problem(table or "file", "", problem) for table, problem in noted]

    @property
    def certain(self) -> bool:
        """Whether all settings and keys could be read: so it is known what is lost."""
        return not (self._is_damaged(Table.META) or self._is_damaged(Table.KEYS))

    # -- settings, keys and marks ------------------------------------------------------------

    def _read_settings(self) -> None:
        for key, value in self._file.records(Table.META):
            if not self._note_meta(key, value):
                self._note(Table.META, key)
                if key.startswith(COLLECTION_PREFIX):
                    self.lost.append(key[1:].decode(errors="replace"))
        if self._is_damaged(Table.META):
            # The last settings of a number are not told from earlier ones, nor dropped collections
            # from others: better one collection too many than one too few.
            for key, value in self._file.scattered():
                self._note_meta(key, value)
        self.lost = [name for name in self.lost if name not in self._names()]

    def _names(self) -> set[str]:
        return {found.settings.name for found in self.collections.values()}

    def _note_meta(self, key: bytes, value: bytes) -> bool:
        """Take settings and garbage from a record; return whether its checksum holds."""
        payload = _unsealed(Table.META, key, value)
        if payload is None:
            return False
        try:
            if key == GARBAGE_KEY:
                self._removed |= {tuple(entry) for entry in layout.unpack(payload)}
            elif key.startswith(COLLECTION_PREFIX):
                settings = CollectionSettings.decode(key[1:].decode(), payload)
                if settings.name not in self._names():
                    width = settings.kind.make_items(settings.secret).width
                    found = SalvagedCollection(settings, width=width)
                    self.collections.setdefault(settings.number, found)
        except (CorruptionError, ConfigurationError, TypeError, UnicodeDecodeError):
            return False
        return True

    def _read_keys(self) -> None:
        for key, value in self._file.records(Table.KEYS):
            collection = self.collections.get(int.from_bytes(key[:4], "big"))
            payload = _unsealed(Table.KEYS, key, value)
            if payload is None or len(payload) != _NUMBER.size:
                self._note(Table.KEYS, key)
            elif collection is not None:
                collection.numbers[key[4:]] = _NUMBER.unpack(payload)[0]

    def _read_marks(self) -> None:
        for key, value in self._file.records(Table.MARKS):
            payload = _unsealed(Table.MARKS, key, value)
            if payload is None or len(payload) != TOMBSTONE_BYTES or len(key) != _KEYED:
                self._note(Table.MARKS, key)
                continue
            owner, record = unpack_numbered(key)
            if owner in self.collections:
                self.collections[owner].tombstones[record] = payload

    def _note(self, table: Table, key: bytes) -> None:
        self._damaged.add(table)
        self._file.problems.append((table.name.lower(), f"the record of key {key.hex()}"))

    def _is_damaged(self, table: Table) -> bool:
        """Whether something of a table could not be read.

        With a meta page, or the end of the file, the last commit may be lost, which changed any.
        """
        noted = {name for name, _ in self._file.problems}
        return (
            table in self._damaged
            or not noted.isdisjoint(("", table.name.lower()))
            or table not in self._file.roots
        )

    # -- documents ---------------------------------------------------------------------------

    def _documents_are_missing(self) -> bool:
        """Read all documents once; return whether some of those that the keys name are missing."""
        seen: dict[int, set[int]] = {number: set() for number in self.collections}
        for record in self._file.records(Table.DOCUMENTS):
            for owner, document in self._documents(record, note=True):
                seen.setdefault(owner, set()).add(document.number)
        self._owners |= set(seen)
        return self._is_damaged(Table.DOCUMENTS) or any(
            not seen[owner].issuperset(collection.numbers.values())
            for owner, collection in self.collections.items()
        )

    def _documents(self, record: Record, *, note: bool) -> Iterator[tuple[int, Found]]:
        """Yield owner and document of the records of a block whose checksums hold."""
        block = block_of(record.key, record.value) if len(record.key) == _KEYED else None
        documents = [] if block is None else list(documents_in(block))
        if note and (block is None or len(documents) < block.numbers.size):
            self._note(Table.DOCUMENTS, record.key)
        for document in documents:
            yield unpack_numbered(record.key)[0], document

    def _find_elsewhere(self, *, wanted: bool) -> None:
        """Look for missing documents, keys and marks on pages that no table leads to."""
        keys_are_damaged = self._is_damaged(Table.KEYS)
        if not wanted and not keys_are_damaged:
            return
        for owner, document in self._scattered_documents():
            self._owners.add(owner)
            collection = self.collections.get(owner)
            if collection is None:
                continue
            known = collection.numbers.get(document.key)
            if known == document.number or (known is None and keys_are_damaged):
                collection.elsewhere[document.number] = document

    def _scattered_documents(self) -> Iterator[tuple[int, Found]]:
        for record in self._file.scattered():
            yield from self._documents(record, note=False)
        for content in self._file.scattered_values():
            for owner in self.collections:
                block = block_within(owner, content)
                if block is not None:
                    yield from ((owner, document) for document in documents_in(block))

    def _note_lost_collections(self) -> None:
        for owner in sorted(self._owners - set(self.collections)):
            if (int(Table.DOCUMENTS), owner) not in self._removed and self._is_damaged(Table.META):
                self.lost.append(f"number {owner}")

    # -- items of one width ------------------------------------------------------------------

    def _find_items_elsewhere(self) -> None:
        """Look for missing items of one width on pages that their table does not lead to."""
        wanted = {number: found.width for number, found in self.collections.items() if found.width}
        if not wanted:
            return
        seen: dict[int, set[int]] = {number: set() for number in wanted}
        for owner, number, _ in self._items_in_table(wanted, note=True):
            seen[owner].add(number)
        keys_are_damaged = self._is_damaged(Table.KEYS)
        missing = {
            number: set(self.collections[number].numbers.values()) - seen[number]
            for number in wanted
        }
        if not self._is_damaged(Table.ITEMS) and not any(missing.values()):
            return
        for owner, block in self._scattered_rows(wanted):
            kept = self.collections[owner].items_elsewhere
            for place, number in enumerate(block.numbers.tolist()):
                unseen = keys_are_damaged and number not in seen[owner]
                if number in missing[owner] or unseen:
                    kept[number] = bytes(block.record(place))

    def _items_in_table(
        self, widths: dict[int, int], *, note: bool
    ) -> Iterator[tuple[int, int, bytes]]:
        """Yield owner, number and item of the blocks of some owners whose checksums hold."""
        for key, value in self._file.records(Table.ITEMS):
            owner = int.from_bytes(key[:4], "big")
            if owner not in widths:
                continue
            block = rows_of(key, value, widths[owner]) if len(key) == _KEYED else None
            if block is not None:
                for place, number in enumerate(block.numbers.tolist()):
                    yield owner, number, bytes(block.record(place))
            elif note:
                self._note(Table.ITEMS, key)

    def _scattered_rows(self, widths: dict[int, int]) -> Iterator[tuple[int, Block]]:
        for key, value in self._file.scattered():
            owner = int.from_bytes(key[:4], "big")
            block = rows_of(key, value, widths[owner]) if owner in widths else None
            if block is not None:
                yield owner, block
        for content in self._file.scattered_values():
            for owner, width in widths.items():
                block = rows_within(owner, width, content)
                if block is not None:
                    yield owner, block

    # -- documents with their items ----------------------------------------------------------

    def documents(self, number: int) -> Iterator[Found]:
        """Yield the documents of a collection by ascending item number, deleted ones among them.

        Those whose items of one width cannot be read are left out.
        """
        collection = self.collections[number]
        if not collection.width:
            yield from self._documents_of(number)
            return
        in_table = self._items_in_table({number: collection.width}, note=False)
        items = merge(
            ((place, item) for _, place, item in in_table),
            sorted(collection.items_elsewhere.items()),
        )
        place, item = next(items, (NO_NUMBER, b""))
        for document in self._documents_of(number):
            while place < document.number:
                place, item = next(items, (NO_NUMBER, b""))
            if place == document.number:
                yield document._replace(item=item)

    def _documents_of(self, number: int) -> Iterator[Found]:
        within = (
            document
            for record in self._file.records(Table.DOCUMENTS)
            if record.key[:4] == owner_prefix(number)
            for _, document in sorted(self._documents(record, note=False))
        )
        elsewhere = sorted(self.collections[number].elsewhere.values())
        by_number = attrgetter("number")
        for _, same in groupby(merge(within, elsewhere, key=by_number), key=by_number):
            yield next(same)

    # -- what is still stored ----------------------------------------------------------------

    def stored(self, number: int) -> Iterator[tuple[Found, bool]]:
        """Yield the stored documents of a collection, and whether that is certain."""
        collection = self.collections[number]
        last: dict[bytes, int] = {}
        if self._is_damaged(Table.KEYS):
            # A key that was lost leads to its last item, if any.
            last = {document.key: document.number for document in self.documents(number)}
        marks_are_whole = not self._is_damaged(Table.MARKS)
        for document in self.documents(number):
            known = collection.numbers.get(document.key)
            if known is not None:
                if known == document.number:
                    yield document, True
            elif last.get(document.key) == document.number:
                marked = _marked(collection.tombstones, document.number)
                if marked is not True:
                    in_table = document.number not in collection.elsewhere
                    yield document, marks_are_whole and in_table


def _marked(marks: dict[int, bytes], number: int) -> bool:
    record, place = divmod(number, TOMBSTONES_PER_RECORD)
    bitmap = marks.get(record)
    return bitmap is not None and bool(bitmap[place >> 3] >> (place & 7) & 1)


def _unsealed(table: Table, key: bytes, value: bytes) -> bytes | None:
    try:
        return bytes(layout.unseal(table, key, memoryview(value)))
    except CorruptionError:
        return None


class RepairedRows:
    """The stored rows of a salvaged collection in batches, and the count of what became of them.

    Args:
        salvage: the damaged file.
        number: of the collection.
    """

    def __init__(self, salvage: Salvage, number: int) -> None:
        self._salvage = salvage
        self._number = number
        self._collection = salvage.collections[number]
        self._missing = dict(self._collection.numbers)
        self._items = 0
        self._uncertain = 0

    def batches(self) -> Iterator[RowBatch]:
        """Yield the rows in order of insertion."""
        settings = self._collection.settings
        weights = settings.kind.make_items(settings.secret).weights
        batch = RowBatch()
        for document, certain in self._salvage.stored(self._number):
            self._missing.pop(document.key, None)
            self._items += 1
            self._uncertain += not certain
            batch.extend(
                [self._items - 1],
                [decode_user_key(document.key)],
                *([document.key], [document.item], [document.metadata]),
                weight=int(weights([document.item])[0]),
            )
            if batch.is_full(BATCH_ITEMS, BATCH_BYTES):
                yield batch
                batch = RowBatch()
        if batch.rows:
            yield batch

    def report(self) -> RepairedCollection:
        """Return what became of the collection, once all batches have been taken."""
        ordered = sorted(self._missing.items(), key=lambda entry: entry[1])
        return RepairedCollection(
            self._collection.settings.name,
            self._items,
            len(self._missing),
            tuple(_readable_keys(key for key, _ in ordered[:LOST_KEYS_KEPT])),
            self._uncertain,
        )


def _readable_keys(keys: Iterable[bytes]) -> Iterator[str | int]:
    for key in keys:
        try:
            yield decode_user_key(key)
        except CorruptionError:
            continue
