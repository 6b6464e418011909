"""Checking: everything is read, compared with its checksums, and the tables with each other."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from simdb.answers.kept import require_served
from simdb.arrays import Bools, Int64s, UInt16s, UInt32s, UInt64s
from simdb.batches.meeting import are_shared
from simdb.batches.signer import Epoch
from simdb.errors import (
    BadItemError,
    ConfigurationError,
    CorruptionError,
    SimdbError,
    StorageError,
    ThresholdTooLowError,
)
from simdb.ingest.postings import posting_columns
from simdb.ingest.rows import encode_metadata
from simdb.lsh.family import BucketKeys, mixed
from simdb.opened import catalogue
from simdb.opened.epochs import open_epoch
from simdb.opened.labels import Label
from simdb.opened.opened import Opened
from simdb.places import Places
from simdb.results import CheckReport, Problem, Progress
from simdb.storage.collection.groups import GroupReader
from simdb.storage.collection.manifest import ITEM, POSITION, SIZE, EpochManifest, open_postings
from simdb.storage.collection.reader import (
    CollectionReader,
    chosen_items,
    live_batches,
    stored_signatures,
)
from simdb.storage.collection.tombstones import count_of, deleted, read_all
from simdb.storage.file import creation
from simdb.storage.file.environment import ReadTransaction
from simdb.storage.tables import layout
from simdb.storage.tables.blocks import Block, BlockReader
from simdb.storage.tables.layout import (
    DICTIONARY_PREFIX,
    HEADER_KEY,
    INDEX_TABLES,
    LABEL_PREFIX,
    LARGEST_OWNER,
    MANIFEST_PREFIX,
    Document,
    Table,
    dictionary_keys,
    label_key,
    owner_prefix,
    pack_chunk,
    unpack_numbered,
)
from simdb.storage.tables.runs import RunDirectory
from simdb.storage.tables.views import RunView
from simdb.upkeep.regroup import groups_problems, problems_of_log
from simdb.zstandard import Codec

MOST_PROBLEMS = 1_000
SWEEP_ENTRIES = 262_144
RECOMPUTED_BYTES = 4 * 2**20  # of items
SIGNATURES_AT_ONCE = 65_536  # or fewer, where they and their keys are large


def store_problems(transaction: ReadTransaction) -> Iterator[str]:
    """Yield what is wrong with what is noted of all collections together."""
    file = transaction.environment
    try:  # by way of the log, which is folded into the table that openings read it in
        header = transaction.get(Table.META, HEADER_KEY)
        identity, _ = creation.identifiers_in(file.path, header)
        if identity != file.uuid:
            yield "the header among the last commits is that of another store"
    except StorageError as error:
        yield str(error)
    try:
        used, garbage = catalogue.used_numbers(transaction), catalogue.garbage(transaction)
        numbers, indexes = catalogue.numbers(transaction), catalogue.indexes(transaction)
        named = catalogue.named_numbers(transaction)
    except CorruptionError as error:
        yield str(error)
        return
    if sorted(named) != numbers:
        yield "the collections by name are not those that have a state"
    owned = [
        part
        for number, index in zip(numbers, indexes, strict=True)
        for part in catalogue.tables_of(number, index)
    ]
    if len(set(owned)) < len(owned):
        yield "two collections have the same index"
    if not set(owned).isdisjoint(garbage):
        yield "what is in use is listed to be removed"
    # Stores of earlier versions have no such note, or half of one.
    if any(0 < used[table in INDEX_TABLES] < owner for table, owner in garbage):
        yield "what is listed to be removed was never there"
    last = list(used)  # number of a collection, and of an index or an epoch
    for table, owner in (*owned, *garbage):
        last[table in INDEX_TABLES] = max(last[table in INDEX_TABLES], owner)
    for table in Table:
        after = owner_prefix(min(last[table in INDEX_TABLES] + 1, LARGEST_OWNER))
        # In META only groups begin with their owner, before all that begins with a letter.
        for kept in (b"", LABEL_PREFIX, DICTIONARY_PREFIX) if table is Table.META else (b"",):
            key = next((key for key, _ in transaction.scan(table, kept, kept + after)), None)
            if key is not None and (kept or table is not Table.META or key < MANIFEST_PREFIX):
                yield f"{table.name.lower()} has records of what is not there yet"


class Checker:
    """Checks a collection in one snapshot; ``deep`` computes its indexes from the items anew."""

    def __init__(
        self, opened: Opened, *, deep: bool, progress: Callable[[Progress], None] | None
    ) -> None:
        self._settings = opened.settings
        self._signer = opened.signer
        # What this process has verified before is read and verified again.
        transaction = opened.reader.transaction
        transaction.environment.caches.clear()
        self._collection = CollectionReader(transaction, opened.reader.number)
        self._deep = deep
        self._progress = progress
        self._of_caller: Exception | None = None  # what that has raised
        self._records = 0
        self._problems: list[Problem] = []
        self._entries_expected = 0
        self._live_items = 0  # what tells the item numbers of documents and of items apart

    def run(self) -> CheckReport:
        """Check everything; what ends a step does not end the others."""
        for table, step in (
            ("state", self._check_state),
            ("documents", self._check_documents),
            ("items", self._check_items),
            ("keys", self._check_keys),
            ("signatures", self._check_signatures),
            ("bands", self._check_bands),
            ("postings", self._check_postings),
            ("groups", self._check_groups),
        ):
            try:
                step()
            except (BadItemError, CorruptionError) as error:  # such as a tokeniser that fails
                self._note(table, "", str(error))
            except (struct.error, ValueError, TypeError, LookupError) as error:
                if isinstance(error, SimdbError) or error is self._of_caller:
                    raise
                # What has a right checksum, but not the form that simdb writes.
                told = f"a record has another form ({type(error).__name__}: {error})"
                self._note(table, "", told)
        return CheckReport(self._records, tuple(self._problems))

    def _note(self, table: str, record: str, problem: str) -> None:
        if len(self._problems) < MOST_PROBLEMS:
            self._problems.append(Problem(table, record, problem))

    def _advance(self, records: int) -> None:
        self._records += records
        if self._progress is not None:
            try:
                self._progress(Progress(f"checking {self._settings.name}", self._records, None))
            except Exception as error:
                self._of_caller = error
                raise

    def _live_blocks(self, table: str, blocks: BlockReader) -> Iterator[tuple[Block, Bools]]:
        """Yield every block with which of its records are live; note what is wrong with numbers."""
        state = self._collection.manifest
        live, last = 0, -1
        for block in blocks.scan():
            numbers = block.numbers
            if int(numbers[0]) <= last or (numbers[1:] <= numbers[:-1]).any():
                self._note(table, str(int(numbers[0])), "item numbers do not ascend")
            if unpack_numbered(block.key)[1] != int(numbers[0]):  # by which a number is looked up
                self._note(table, str(int(numbers[0])), "a block has the key of another")
            last = int(numbers[-1])
            alive = ~deleted(self._collection.tombstones, numbers)
            live += int(np.count_nonzero(alive))
            yield block, alive
            self._advance(numbers.size)
        if last >= state.next_number:
            self._note(table, str(last), f"past the next item number {state.next_number}")
        if live != state.live:
            self._note(table, "", f"{live} for {state.live} items")

    def _swept(
        self, table: str, record: str, view: RunView, owner: int, directory: RunDirectory
    ) -> Iterator[tuple[UInt64s, UInt32s]]:
        """Yield keys and columns of all runs; note what is wrong with chunks and order."""
        for run in directory.runs:
            for number in range(run.first_chunk, run.end_chunk):
                try:
                    view.verify_chunk(pack_chunk(owner, run.number, number))
                except CorruptionError as error:
                    self._note(table, f"run {run.number} chunk {number}", str(error))
        present = view.entries_present()
        for run in directory.runs:
            if run.entries != present.get(run.number, 0):
                told = f"has {present.get(run.number, 0)} entries, {run.entries} expected"
                self._note(table, f"run {run.number}", told)
        item_column, entries = (0, "bucket keys") if table == "bands" else (ITEM, "postings")
        last_key = 0
        for keys, columns in view.sweep(
            self._collection.tombstones, item_column=item_column, room=SWEEP_ENTRIES
        ):
            if int(keys[0]) < last_key or (keys[1:] < keys[:-1]).any():
                self._note(table, record, f"{entries} do not ascend")
            last_key = int(keys[-1])
            yield keys, columns
            self._advance(keys.size)

    def _check_state(self) -> None:
        """Look at what the state says that no item tells, but the next change relies on."""
        state = self._collection.manifest
        reader = self._collection
        marks = read_all(reader.transaction, reader.number, state.next_number)
        marked = count_of(marks)
        if marked != state.tombstones:
            self._note("marks", "state", f"{marked} for {state.tombstones} deleted items")
        to_come = np.arange(state.next_number, 8 * marks.size, dtype=np.uint32)
        if deleted(marks, to_come).any():
            self._note("marks", "state", "items to come are marked as deleted")
        exact = state.index.exact
        directories = [("bands", state.index.bands)]
        directories += [("postings", one.postings) for one in (exact.epochs if exact else ())]
        for table, directory in directories:
            for problem in directory.problems(state.next_number):
                self._note(table, "state", problem)

    # -- documents and keys ------------------------------------------------------------------

    def _check_documents(self) -> None:
        state, size = self._collection.manifest, 0
        self._check_dictionary()
        self._check_labels()
        for block, alive in self._live_blocks("documents", self._collection.documents):
            for place, number in enumerate(block.numbers.tolist()):
                try:
                    document = self._collection.decoded(block, place)
                    if alive[place]:
                        self._check_document(document)
                        size += len(document.item) + state.item_width
                except (BadItemError, CorruptionError) as error:
                    self._note("documents", str(number), str(error))
            self._live_items ^= _told(block.numbers[alive])
        if size != state.item_bytes:
            told = f"live items of {size} bytes, the state says {state.item_bytes}"
            self._note("documents", "state", told)

    def _check_dictionary(self) -> None:
        """Look at the copies of what documents are compressed by."""
        transaction, found = self._collection.transaction, set()
        for key in dictionary_keys(self._collection.number):
            value = transaction.get(Table.META, key)
            try:
                stored = None if value is None else bytes(layout.unseal(Table.META, key, value))
                found.add(stored)
                if stored is not None:
                    Codec(stored).require_sound()
            except CorruptionError as error:
                self._note("meta", key.hex(), str(error))
        if len(found) > 1:
            self._note("meta", self._settings.name, "the copies of its dictionary differ")

    def _check_labels(self) -> None:
        """Look at what people said of pairs."""
        prefix = label_key(self._collection.number)
        for key, value in self._collection.transaction.scan(Table.META, prefix):
            try:
                label = Label.decode(layout.unseal(Table.META, bytes(key), value))
            except CorruptionError as error:
                self._note("meta", bytes(key).hex(), str(error))
                continue
            if bytes(key) != label_key(self._collection.number, label.name):
                self._note("meta", bytes(key).hex(), "a label is kept as that of another pair")

    def _check_document(self, document: Document) -> None:
        """Note a key that leads elsewhere, and contents that nobody could have stored."""
        if self._collection.find(bytes(document.key)) != document.number:
            self._note("keys", str(document.number), "the key of the item does not lead to it")
        if self._deep:
            if len(document.metadata):
                encode_metadata(layout.unpack(document.metadata), as_json=False)
            if not self._collection.manifest.item_width:
                self._check_form(document.number, bytes(document.item))

    def _check_items(self) -> None:
        """Look through the items of one width, which lie beside the documents."""
        state, width = self._collection.manifest, self._signer.items.width
        if state.item_width != width:
            self._note("items", "state", f"items of {state.item_width} bytes, not of {width}")
        if self._collection.items is None:
            return
        for block, alive in self._live_blocks("items", self._collection.items):
            self._live_items ^= _told(block.numbers[alive])
            # Deleted ones may be of a kind that the collection was of before a rebuild.
            for place in np.flatnonzero(alive).tolist() if self._deep else ():
                self._check_form(int(block.numbers[place]), bytes(block.record(place)))
        if self._live_items:
            self._note("items", "", "are of other item numbers than the documents")

    def _check_form(self, number: int, item: bytes) -> None:
        """Note an item that nobody could have stored, such as a vector of what is not a number."""
        items = self._signer.items
        told = ""
        try:
            same = items.encode(items.decode(item)) == item
        except (SimdbError, TypeError, ValueError, OverflowError) as error:
            same, told = False, f": {error}"
        if not same:
            self._note("items", str(number), f"is not an item of the collection's kind{told}")

    def _check_keys(self) -> None:
        prefix = owner_prefix(self._collection.number)
        keys = (bytes(key[4:]) for key, _ in self._collection.transaction.scan(Table.KEYS, prefix))
        count = sum(self._collection.find(key) is not None for key in keys)
        self._advance(count)
        if count != self._collection.manifest.live:
            self._note("keys", "", f"{count} keys for {self._collection.manifest.live} items")

    # -- groups ------------------------------------------------------------------------------

    def _check_groups(self) -> None:
        """Compare the groups that are kept with their edges; deep, with those of all pairs."""
        if self._settings.groups is None:
            self._check_dropped_groups()
            return
        try:
            require_served(self._settings, self._settings.groups)
        except (ConfigurationError, ThresholdTooLowError) as error:  # of whoever adds, too
            told = f"the index does not serve the bounds of groups: {error.problem}"
            self._note("groups", "", f"{told}; rebuild(groups_at=...) keeps them at others")
            return
        opened = Opened(self._settings, self._signer, self._collection)
        # Pairs of an index that is wrong say nothing, and may take any time and memory.
        is_sound = not self._problems
        for bound, records, problem in groups_problems(opened, deep=self._deep and is_sound):
            if problem:
                self._note("groups", bound, problem)
            self._advance(records)

    def _check_dropped_groups(self) -> None:
        """Look at what groups that were dropped leave to those that are kept later."""
        tables = GroupReader(self._collection.transaction, self._collection.number)
        if tables.has_more_than_numbers():
            self._note("groups", "", "there are records of groups, and none are kept")
        else:
            for _, _, problem in problems_of_log(tables):
                if problem:
                    self._note("groups", "", problem)

    # -- signatures and buckets --------------------------------------------------------------

    def _check_signatures(self) -> None:
        if not self._settings.is_probable:
            return
        for block, alive in self._live_blocks("signatures", self._collection.signatures):
            rows = block.as_rows(np.uint16)[alive]
            self._entries_expected += self._signer.bucket_keys(rows).values.size
            if self._deep:
                self._compare_signatures(block.numbers[alive], rows)

    def _compare_signatures(self, numbers: UInt32s, rows: UInt16s) -> None:
        differs = np.ones(numbers.size, np.bool_)  # where there is no item, too
        for places, items in chosen_items(self._collection, numbers, RECOMPUTED_BYTES):
            differs[places] = (self._signer.sign(items).signatures != rows[places]).any(axis=1)
        for number in numbers[differs].tolist():
            told = "is not the signature of the item: if an earlier version made it, rebuild"
            self._note("signatures", str(number), f"{told} makes it anew")

    def _check_bands(self) -> None:
        if not self._settings.is_probable:
            return
        index, found = self._collection.manifest.index, 0
        for keys, columns in self._swept(
            "bands", "", self._collection.bands, index.number, index.bands
        ):
            found += keys.size
            self._compare_buckets(keys, columns[0])
        if found != self._entries_expected:
            self._note("bands", "", f"{found} entries, {self._entries_expected} expected")

    def _compare_buckets(self, keys: UInt64s, items: UInt32s) -> None:
        """Compare every entry with the signature of its item; it must be there once."""
        shared = are_shared(keys)
        buckets, entries = keys[shared], items[shared]
        order = np.lexsort((entries, buckets))
        again = (np.diff(buckets[order]) == 0) & (np.diff(entries[order]) == 0)
        for number in np.unique(entries[order[1:][again]]).tolist():
            self._note("bands", str(number), "an entry of the item is there twice")
        numbers, places = np.unique(items, return_inverse=True)
        at_once = min(SIGNATURES_AT_ONCE, self._signer.most_indexed(RECOMPUTED_BYTES))
        order = np.argsort(places, kind="stable")
        ends = np.searchsorted(places[order], np.arange(0, numbers.size + at_once, at_once))
        begins = range(0, numbers.size, at_once)
        for begin, (first, end) in zip(begins, pairwise(ends.tolist()), strict=True):
            inside = order[first:end]
            rows, present = stored_signatures(self._collection, numbers[begin : begin + at_once])
            here = places[inside] - begin
            wrong = ~_has_key(self._signer.bucket_keys(rows), here, keys[inside]) | ~present[here]
            for number in np.unique(items[inside[wrong]]).tolist():
                self._note("bands", str(number), "an entry does not belong to the item")

    # -- the exact index ---------------------------------------------------------------------

    def _check_postings(self) -> None:
        state = self._collection.manifest
        if (exact := state.index.exact) is not None:
            for epoch in exact.epochs:
                is_building = epoch is exact.building
                self._check_epoch(epoch, epoch.position if is_building else state.next_number)

    def _check_epoch(self, state: EpochManifest, end: int) -> None:
        """Check an epoch in which the items below ``end`` are posted."""
        transaction, name = self._collection.transaction, f"epoch {state.number}"
        view = open_postings(transaction, state)
        places = self._collection.places()
        sums = _Sums(places)
        for keys, columns in self._swept("postings", name, view, state.number, state.postings):
            impossible = (columns[POSITION] < 1) | (columns[POSITION] > columns[SIZE])
            too_late = columns[ITEM] >= end
            own, stored = places.find(columns[ITEM])
            for wrong, problem in (
                (impossible, "a posting has an impossible position"),
                (too_late, "a posting is of an item that is not posted yet"),
                (~stored & ~too_late, "a posting is of no stored item"),
            ):
                for number in np.unique(columns[ITEM][wrong]).tolist():
                    self._note("postings", str(number), problem)
            sums.add(keys[stored], columns[:, stored], own[stored])
        try:
            epoch = open_epoch(transaction, state)
        except CorruptionError as error:
            self._note("postings", name, str(error))
        else:
            self._compare_postings(epoch, sums, end)

    def _compare_postings(self, epoch: Epoch, sums: _Sums, end: int) -> None:
        """Compare the postings found with those that the items should have."""
        if self._deep:
            for numbers, items in live_batches(
                self._collection,
                most_bytes=RECOMPUTED_BYTES,
                weights=self._signer.items.weights,
            ):
                posted = int(np.searchsorted(numbers, end))
                prefixes = self._signer.prefixes(epoch, items[:posted])
                columns = posting_columns(prefixes, numbers[:posted])
                sums.subtract(prefixes.values, columns, sums.places.of(columns[ITEM]))
            for number in sums.places.numbers(sums.remaining()).tolist():
                self._note("postings", str(number), "the postings are not those of the item")
            return
        floor = self._settings.posted_floor
        lengths = sums.sizes if floor is None else floor.prefix_lengths(sums.sizes)
        wrong = np.flatnonzero(lengths != sums.counts)
        for place, number in zip(wrong, sums.places.numbers(wrong), strict=True):
            told = f"{sums.counts[place]} postings, {lengths[place]} expected"
            self._note("postings", str(number), told)


def _has_key(keys: BucketKeys, rows: Int64s, wanted: UInt64s) -> Bools:
    """Tell of each row whether one of its keys is the wanted one."""
    found = np.zeros(rows.size, np.bool_)
    counts = keys.sizes[rows]
    for place in range(int(counts.max(initial=0))):
        inside = np.flatnonzero(counts > place)
        found[inside] |= keys.values[keys.offsets[rows[inside]] + place] == wanted[inside]
    return found


# Drawn by each process, so that nobody can choose what has the sum of something else.
_SECRETS = np.frombuffer(os.urandom(16), np.uint64)


def _told(numbers: UInt32s) -> int:
    """A number that other item numbers have with a probability of about 2^-64."""
    return int(np.bitwise_xor.reduce(mixed(numbers ^ _SECRETS[0])))


class _Sums:
    """The postings of every item, added up so that those expected can be subtracted again.

    Sums of mixed postings modulo 2^64 stand for them, so that memory does not grow with their
    number: other postings have the same sum with a probability of about 2^-64.
    """

    def __init__(self, places: Places) -> None:
        self.places = places
        self.counts = np.zeros(places.size, np.int64)
        self.sizes = np.zeros(places.size, np.int64)
        self._mixed = np.zeros(places.size, np.uint64)

    def add(self, keys: UInt64s, columns: UInt32s, own: UInt32s) -> None:
        """Add postings of items at some places."""
        self.sizes[own] = columns[SIZE]
        np.add.at(self.counts, own, 1)
        np.add.at(self._mixed, own, _mixed(keys, columns))

    def subtract(self, keys: UInt64s, columns: UInt32s, own: UInt32s) -> None:
        np.subtract.at(self.counts, own, 1)
        np.subtract.at(self._mixed, own, _mixed(keys, columns))

    def remaining(self) -> Int64s:
        """Return the places of items of which more or other postings were added than subtracted."""
        return np.flatnonzero((self.counts != 0) | (self._mixed != 0))


def _mixed(keys: UInt64s, columns: UInt32s) -> UInt64s:
    """Mix key, size and position of postings."""
    place = columns[SIZE].astype(np.uint64) << np.uint64(32) | columns[POSITION]
    return mixed(mixed(keys ^ _SECRETS[0]) + mixed(place ^ _SECRETS[1]))
