"""Repair: a new store with all that can be read of a damaged one.

Only settings, dictionaries, labels, keys, tombstones, documents and items are read; signatures,
buckets and postings follow from the items. A record is believed if its checksum holds. An item
number is never used for another item, so an old copy of a lost document is the document itself;
whether it is still stored is what the keys say (key to item number), or else the tombstones.

Nothing is read through LMDB, which damage can make end the process (``recovery.pages``).
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from simdb.arguments import OWNER_MAY
from simdb.database import Database, open_database
from simdb.errors import (
    BadItemError,
    ConfigurationError,
    CorruptionError,
    DatabaseNotFoundError,
    NotADatabaseError,
    StorageError,
    ThresholdTooLowError,
)
from simdb.ingest.rows import PackedMetadata, encode_metadata
from simdb.opened import catalogue, labels
from simdb.opened.catalogue import CollectionSettings
from simdb.opened.labels import Label
from simdb.recovery.pages import (
    DamagedFile,
    RawRecord,
    SoundRecord,
    block_of,
    block_within,
    is_user_key,
    records_in,
)
from simdb.results import GroupsRepaired, Problem, Progress, RepairedCollection, RepairReport
from simdb.storage.collection.groups import GroupReader
from simdb.storage.collection.tombstones import TOMBSTONE_BYTES, TOMBSTONES_PER_RECORD
from simdb.storage.file import creation
from simdb.storage.file.errors import translated
from simdb.storage.file.preflight import file_mode, no_writer, parse_path, require_regular
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table
from simdb.upkeep.regroup import plain_of, regroup, restore_groups
from simdb.zstandard import Codec

LOST_KEYS_KEPT = 1_000
_NUMBER = struct.Struct("<I")
# What records of groups that cannot be read, or have other contents, may raise.
_NOT_TOLD = (CorruptionError, ConfigurationError, LookupError, ValueError, TypeError, struct.error)
_KEYED = 8  # bytes of a key of owner and number


def repair(
    damaged: str | os.PathLike[str],
    new: str | os.PathLike[str],
    *,
    threads: int | None = None,
    memory: int = 2**30,
    progress: Callable[[Progress], None] | None = None,
) -> RepairReport:
    """Write a new store with all that can be read of a damaged one, which does not change.

    Items, keys and metadata are read page by page, and kept if their checksums are right. Indexes
    are made anew from the items, with the settings and the secret of the old store. The new store
    is checked before it gets its name. Items keep their order; their numbers change. An item that
    its collection refuses is lost, for example a text on which its tokeniser fails. Kept groups are
    made anew too. They have their ids, aliases and changes if all of these and the keys could be
    read, and new ones otherwise; the report says which.

    Args:
        damaged: the file; nobody may be writing to it.
        new: a file that does not exist yet.
        threads: threads that sign; by default as many as there are processors.
        memory: bytes that this may take, whatever the number of items, in addition to the map.
        progress: called now and then.

    Raises:
        DatabaseNotFoundError: there is no damaged file.
        NotADatabaseError: the damaged file is not a store, or nothing of one can be read in it.
        DatabaseBusyError: somebody writes to it.
        StorageError: the new file exists, or cannot be written.
        UnknownKindError: this process does not know a kind, or a tokeniser, in the file.
    """
    source, target = parse_path(damaged), parse_path(new)
    if not source.exists():
        raise DatabaseNotFoundError(f"{source} does not exist")
    require_regular(source)
    if target.exists():
        raise StorageError(f"{target} already exists; name a new file")
    mode = file_mode(source) | OWNER_MAY  # what was private stays private
    with creation.temporary_beside(target) as temporary:
        with translated(target):
            creation.create(temporary, mode)
        with translated(source), no_writer(source), DamagedFile(source) as file:
            salvage = Salvage(file, progress)
            if not (salvage.certain or salvage.collections or salvage.lost):
                raise NotADatabaseError(f"{source}: nothing of a store can be read in it")
            with (
                translated(target),
                open_database(
                    temporary, threads=threads, memory=memory, busy_timeout=None
                ) as database,
            ):
                found = [
                    _copy(database, salvage, number, progress)
                    for number in sorted(salvage.collections)
                ]
                problems = database.check(deep=True, progress=progress).problems
        if problems:
            raise StorageError(f"the repaired store is not sound: {problems[0].problem}")
        creation.link_into_place(temporary, target)
    return RepairReport(
        tuple(found), tuple(salvage.lost), salvage.certain, tuple(salvage.problems())
    )


def _copy(
    database: Database,
    salvage: Salvage,
    number: int,
    progress: Callable[[Progress], None] | None,
) -> RepairedCollection:
    collection = salvage.collections[number]
    with database._handle.write() as transaction:
        settings = catalogue.create(transaction, replace(collection.settings, groups=None))
        labels.put(transaction, settings.number, salvage.labels.get(number, {}).values())
    items = settings.make_items()
    missing = dict(collection.numbers)
    uncertain = 0

    def rows() -> Iterator[tuple[Any, ...]]:
        nonlocal uncertain
        for document, certain in salvage.stored(number):
            try:
                row = layout.decode_user_key(document.key), items.decode(document.item)
                noted = (PackedMetadata(document.metadata),) if document.metadata else ()
                for metadata in noted:
                    encode_metadata(layout.unpack(metadata), as_json=False)
            except (CorruptionError, BadItemError):  # whose checksum holds: of no simdb
                continue
            missing.pop(document.key, None)
            uncertain += not certain
            yield (*row, *noted)

    made = database[settings.name]
    report = made.add_many(rows(), on_bad="skip", progress=progress)
    if report.bad:  # as a text that the tokeniser of this process refuses
        missing = {
            key: place
            for key, place in collection.numbers.items()
            if not is_user_key(key) or layout.decode_user_key(key) not in made
        }
    ordered = sorted(missing, key=missing.__getitem__)[:LOST_KEYS_KEPT]
    lost = tuple(layout.decode_user_key(key) for key in ordered if is_user_key(key))
    groups = _regroup(
        database, salvage, number, replace(settings, groups=collection.settings.groups)
    )
    return RepairedCollection(settings.name, report.added, len(missing), lost, uncertain, groups)


def _regroup(
    database: Database, salvage: Salvage, number: int, settings: CollectionSettings
) -> GroupsRepaired:
    """Make the groups that a collection keeps; with their ids and changes if all can be read."""
    if settings.groups is None:
        return "none"
    with database._handle.writing() as access:
        if salvage.certain:
            tables = GroupReader(salvage.owned(number), number)
            keys = {item: key for key, item in salvage.collections[number].numbers.items()}
            with suppress(*_NOT_TOLD):
                told = plain_of(
                    tables,
                    settings.groups,
                    lambda items: [layout.decode_user_key(keys[item]) for item in items],
                )
                restore_groups(access, settings, told)
                return "kept"
        with suppress(ConfigurationError, ThresholdTooLowError):  # no index serves their bounds
            regroup(access, settings, settings.groups)
            return "new"
    return "none"


@dataclass(slots=True)
class SalvagedCollection:
    """What can still be read of a collection."""

    settings: CollectionSettings
    numbers: dict[bytes, int] = field(default_factory=dict)  # of each encoded key that was read
    tombstones: dict[int, bytes] = field(default_factory=dict)  # bitmaps by record, if read
    width: int = 0  # bytes of an item, where all have as many and lie beside the documents
    # Documents, and such items, on pages to which their table does not lead, by number.
    elsewhere: dict[Table, dict[int, SoundRecord]] = field(
        default_factory=lambda: {Table.DOCUMENTS: {}, Table.ITEMS: {}}
    )


class _Records:
    """Records of table META, as a transaction has them."""

    def __init__(self, records: dict[bytes, memoryview]) -> None:
        self._records = records
        self._keys = sorted(records)

    def get(self, table: Table, key: bytes) -> memoryview | None:
        assert table is Table.META
        return self._records.get(key)

    def scan(
        self, table: Table, prefix: bytes, start: bytes | None = None
    ) -> Iterator[tuple[bytes, memoryview]]:
        assert table is Table.META
        for key in self._keys[bisect_left(self._keys, max(prefix, start or prefix)) :]:
            if not key.startswith(prefix):
                return
            yield key, self._records[key]


class Salvage:
    """Reads all collections of a damaged file.

    Memory grows with the number of keys, about 150 bytes each, and with the documents that are
    found outside of their table; not with those within it.
    """

    def __init__(
        self, file: DamagedFile, progress: Callable[[Progress], None] | None = None
    ) -> None:
        self._file = file
        self._progress = progress
        self.collections: dict[int, SalvagedCollection] = {}  # whose settings could be read
        self.lost: list[str] = []  # names, or numbers, of those whose settings could not
        self._removed: set[tuple[int, int]] = set()
        self._owners: set[int] = set()
        self.labels: dict[int, dict[bytes, Label]] = {}  # by number of collection, and by key
        self._codecs: dict[int, Codec] = {}  # of the collections that have a dictionary
        self._read_settings()
        self._read_keys()
        self._read_marks()
        self._find_missing(Table.DOCUMENTS)
        self._find_missing(Table.ITEMS)
        if self._is_damaged(Table.META):
            for owner in sorted(self._owners - set(self.collections)):
                if (int(Table.DOCUMENTS), owner) not in self._removed:
                    self.lost.append(f"number {owner}")

    def problems(self) -> list[Problem]:
        """Return the damage that was met."""
        noted = dict.fromkeys(self._file.problems)
        return [Problem(table or "file", "", problem) for table, problem in noted]

    @property
    def certain(self) -> bool:
        """Whether all settings and keys could be read: so it is known what is lost."""
        return not (self._is_damaged(Table.META) or self._is_damaged(Table.KEYS))

    def owned(self, number: int) -> _Records:
        """Return the records of table META that are a collection's, as those of its groups are."""
        prefix = layout.owner_prefix(number)
        found = self._file.records(Table.META)
        return _Records({key: memoryview(value) for key, value in found if key.startswith(prefix)})

    # -- settings, keys and marks ------------------------------------------------------------

    def _read_settings(self) -> None:
        for key, value in self._file.records(Table.META):
            if not self._take_meta(key, value):
                of_documents = key.startswith(layout.DICTIONARY_PREFIX)
                self._note(Table.DOCUMENTS if of_documents else Table.META, key)
                if key.startswith(layout.COLLECTION_PREFIX):
                    self.lost.append(key[1:].decode(errors="replace"))
        if self._is_damaged(Table.META):
            # The last settings of a number are not told from earlier ones, nor dropped collections
            # from others: better one collection too many than one too few.
            for key, value in self._file.scattered():
                self._take_meta(key, value)
        self.lost = [name for name in self.lost if name not in self._names()]

    def _names(self) -> set[str]:
        return {found.settings.name for found in self.collections.values()}

    def _take_meta(self, key: bytes, value: bytes) -> bool:
        """Take settings, garbage or a dictionary; return whether the record's checksum holds."""
        payload = _unsealed(Table.META, key, value)
        if payload is None:
            return False
        try:
            if key == layout.GARBAGE_KEY:
                self._removed |= {tuple(entry) for entry in layout.unpack(payload)}
            elif key.startswith(layout.LABEL_PREFIX):
                self.labels.setdefault(int.from_bytes(key[1:5], "big"), {}).setdefault(
                    key, Label.decode(payload)
                )
            elif key.startswith(layout.DICTIONARY_PREFIX):
                self._codecs.setdefault(int.from_bytes(key[1:5], "big"), Codec(payload))
            elif key.startswith(layout.COLLECTION_PREFIX):
                settings = CollectionSettings.decode(key[1:].decode(), payload)
                if settings.name not in self._names():
                    width = settings.make_items().width
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
            owner, record = layout.unpack_numbered(key)
            if owner in self.collections:
                self.collections[owner].tombstones[record] = payload

    def _note(self, table: Table, key: bytes) -> None:
        self._file.problems.append((table.name.lower(), f"the record of key {key.hex()}"))

    def _is_damaged(self, table: Table) -> bool:
        """Whether something of a table could not be read.

        With a meta page, or the end of the file, the last commit may be lost, which changed any.
        """
        noted = {name for name, _ in self._file.problems}
        return table not in self._file.roots or not noted.isdisjoint(("", table.name.lower()))

    # -- documents, and items of one width ---------------------------------------------------

    def _width(self, table: Table, owner: int) -> int | None:
        """Bytes of an owner's record in a table, 0 where it varies; None if it has none there."""
        if table is Table.DOCUMENTS:
            return 0
        return self.collections[owner].width or None if owner in self.collections else None

    def _found(
        self, table: Table, record: RawRecord, *, note: bool
    ) -> Iterator[tuple[int, SoundRecord]]:
        """Yield owner and record of what a block holds whose checksums hold."""
        owner = int.from_bytes(record.key[:4], "big")
        width = self._width(table, owner)
        if width is None:
            return
        block = block_of(record.key, record.value, width) if len(record.key) == _KEYED else None
        codec = self._codecs.get(owner, Codec())
        found = [] if block is None else records_in(block, codec)
        if note and (block is None or len(found) < block.numbers.size):
            self._note(table, record.key)
        yield from ((owner, document) for document in found)

    def _find_missing(self, table: Table) -> None:
        """Read all of a table once; look for what is missing on pages that no table leads to."""
        seen: dict[int, set[int]] = {number: set() for number in self.collections}
        for done, record in enumerate(self._file.records(table)):
            for owner, found in self._found(table, record, note=True):
                seen.setdefault(owner, set()).add(found.number)
            if self._progress is not None:
                self._progress(Progress(f"reading {table.name.lower()}", done + 1, None))
        self._owners |= set(seen)
        missing = {
            owner: set(collection.numbers.values()) - seen[owner]
            for owner, collection in self.collections.items()
            if self._width(table, owner) is not None
        }
        keys_are_damaged = self._is_damaged(Table.KEYS)
        if not (keys_are_damaged or self._is_damaged(table) or any(missing.values())):
            return
        for owner, found in self._scattered(table):
            self._owners.add(owner)
            unseen = keys_are_damaged and found.number not in seen.get(owner, ())
            if owner in missing and (found.number in missing[owner] or unseen):
                self.collections[owner].elsewhere[table][found.number] = found

    def _scattered(self, table: Table) -> Iterator[tuple[int, SoundRecord]]:
        for record in self._file.scattered():
            yield from self._found(table, record, note=False)
        widths = {owner: self._width(table, owner) for owner in self.collections}
        for content in self._file.scattered_values():
            for owner, width in widths.items():
                block = None if width is None else block_within(owner, content, width)
                if block is not None:
                    codec = self._codecs.get(owner, Codec())
                    yield from ((owner, found) for found in records_in(block, codec))

    def _all(self, table: Table, number: int) -> Iterator[SoundRecord]:
        """Yield what there is of a collection in a table, or elsewhere, by item number."""
        within = (
            found
            for record in self._file.records(table)
            if record.key[:4] == layout.owner_prefix(number)
            for _, found in sorted(self._found(table, record, note=False))
        )
        elsewhere = sorted(self.collections[number].elsewhere[table].values())
        by_number = attrgetter("number")
        for _, same in groupby(merge(within, elsewhere, key=by_number), key=by_number):
            yield next(same)

    def documents(self, number: int) -> Iterator[SoundRecord]:
        """Yield documents by item number, also deleted ones, of which the item can be read."""
        documents = self._all(Table.DOCUMENTS, number)
        if not self.collections[number].width:
            yield from documents
            return
        items = self._all(Table.ITEMS, number)
        item = next(items, None)
        for document in documents:
            while item is not None and item.number < document.number:
                item = next(items, None)
            if item is not None and item.number == document.number:
                yield document._replace(item=item.item)

    # -- what is still stored ----------------------------------------------------------------

    def stored(self, number: int) -> Iterator[tuple[SoundRecord, bool]]:
        """Yield the stored documents of a collection, and whether that is certain.

        Where the log of the last commits is damaged, any may have been deleted or replaced since.
        """
        collection = self.collections[number]
        last: dict[bytes, int] = {}
        if self._is_damaged(Table.KEYS):
            # A key that was lost leads to its last item, if any.
            last = {document.key: document.number for document in self.documents(number)}
        marks_are_whole = not self._is_damaged(Table.MARKS)
        for document in self.documents(number):
            known = collection.numbers.get(document.key)
            if known is not None:
                if not self._file.log_is_whole:
                    known = max(known, last[document.key])
                if known == document.number:
                    yield document, self._file.log_is_whole
            elif last.get(document.key) == document.number:
                marked = _marked(collection.tombstones, document.number)
                if marked is not True:
                    in_table = document.number not in collection.elsewhere[Table.DOCUMENTS]
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
