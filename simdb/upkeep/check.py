"""Checking: everything is read, compared with its checksums, and the tables with each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from simdb.answers.buckets import stored_signatures
from simdb.arrays import Bools, Int64s, UInt16s, UInt32s, UInt64s
from simdb.errors import BadItemError, CorruptionError, SimdbError
from simdb.ingest.rows import encode_metadata
from simdb.lsh.family import BucketKeys
from simdb.opened.epochs import Epoch, open_epoch
from simdb.opened.opened import Opened
from simdb.opened.signer import Signer
from simdb.results import CheckReport, Problem, Progress
from simdb.storage.collection.manifest import ITEM, POSITION, SIZE, EpochManifest, open_postings
from simdb.storage.collection.reader import CollectionReader, live_batches
from simdb.storage.collection.tombstones import deleted
from simdb.storage.tables import layout
from simdb.storage.tables.blocks import Block
from simdb.storage.tables.layout import Document, Table, decode_document, owner_prefix, pack_chunk
from simdb.storage.tables.views import RunView

MOST_PROBLEMS = 1_000
SWEEP_ENTRIES = 262_144
RECOMPUTED_BYTES = 4 * 2**20  # of items


class Checker:
    """Checks one collection in one snapshot, step by step; collects what is wrong.

    Args:
        opened: what is checked.
        deep: also compute every signature anew from its item.
        progress: called now and then.
    """

    def __init__(
        self, opened: Opened, *, deep: bool, progress: Callable[[Progress], None] | None
    ) -> None:
        self._settings = opened.settings
        self._signer = opened.signer
        self._collection = opened.reader
        self._deep = deep
        self._progress = progress
        self._records = 0
        self._problems: list[Problem] = []
        self._entries_expected = 0
        self._live_items = np.zeros(2, np.uint64)

    def run(self) -> CheckReport:
        """Check everything; damage ends the step that met it, not the others."""
        for table, step in (
            ("documents", self._check_documents),
            ("items", self._check_items),
            ("keys", self._check_keys),
            ("signatures", self._check_signatures),
            ("bands", self._check_bands),
            ("postings", self._check_postings),
        ):
            try:
                step()
            except CorruptionError as error:
                self._note(table, "", str(error))
        return CheckReport(self._records, tuple(self._problems))

    def _note(self, table: str, record: str, problem: str) -> None:
        if len(self._problems) < MOST_PROBLEMS:
            self._problems.append(Problem(table, record, problem))

    def _advance(self, records: int) -> None:
        self._records += records
        if self._progress is not None:
            self._progress(Progress(f"checking {self._settings.name}", self._records, None))

    # -- documents and keys ------------------------------------------------------------------

    def _check_documents(self) -> None:
        state = self._collection.manifest
        live = size = 0
        last = -1
        for block in self._collection.documents.scan():
            if int(block.numbers[0]) <= last or (np.diff(block.numbers.astype(np.int64)) < 1).any():
                self._note("documents", str(int(block.numbers[0])), "item numbers do not ascend")
            last = int(block.numbers[-1])
            dead = deleted(self._collection.tombstones, block.numbers)
            for place in range(block.numbers.size):
                size += self._check_document(block, place, is_live=not dead[place])
            live += int(np.count_nonzero(~dead))
            self._live_items += _digest(block.numbers[~dead])
            self._advance(block.numbers.size)
        if last >= state.next_number:
            self._note("documents", str(last), f"past the next item number {state.next_number}")
        if (live, size) != (state.live, state.item_bytes):
            self._note(
                "documents",
                "state",
                f"{live} live items of {size} bytes, the state says "
                f"{state.live} of {state.item_bytes}",
            )

    def _check_document(self, block: Block, place: int, *, is_live: bool) -> int:
        number = int(block.numbers[place])
        try:
            document = decode_document(number, block.verified_record(place))
            if not is_live:
                return 0
            if self._collection.find(bytes(document.key)) != number:
                self._note("keys", str(number), "the key of the item does not lead to it")
            if self._deep:
                self._check_content(document)
        except BadItemError as error:
            self._note("documents", str(number), str(error))
            return 0
        except CorruptionError as error:
            self._note("documents", str(number), str(error))
            return 0
        return len(document.item) + self._collection.manifest.item_width

    def _check_content(self, document: Document) -> None:
        """Note metadata and items that nobody could have stored."""
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
        live, last = 0, -1
        for block in self._collection.items.scan():
            if int(block.numbers[0]) <= last or (block.numbers[1:] <= block.numbers[:-1]).any():
                self._note("items", str(int(block.numbers[0])), "item numbers do not ascend")
            last = int(block.numbers[-1])
            alive = ~deleted(self._collection.tombstones, block.numbers)
            live += int(np.count_nonzero(alive))
            self._live_items -= _digest(block.numbers[alive])
            if self._deep:
                self._compare_items(block)
            self._advance(block.numbers.size)
        if last >= state.next_number:
            self._note("items", str(last), f"past the next item number {state.next_number}")
        if live != state.live:
            self._note("items", "", f"{live} for {state.live} items")
        elif self._live_items.any():
            self._note("items", "", "are of other item numbers than the documents")

    def _compare_items(self, block: Block) -> None:
        for place, number in enumerate(block.numbers.tolist()):
            self._check_form(number, bytes(block.record(place)))

    def _check_form(self, number: int, item: bytes) -> None:
        """Note an item that nobody could have stored, such as a vector of what is not a number."""
        items = self._signer.items
        try:
            same = items.encode(items.decode(item)) == item
        except (SimdbError, TypeError, ValueError, OverflowError):
            same = False
        if not same:
            self._note("items", str(number), "is not an item of the collection's kind")

    def _check_keys(self) -> None:
        transaction = self._collection.transaction
        prefix = owner_prefix(self._collection.number)
        count = 0
        for key, _ in transaction.scan(Table.KEYS, prefix):
            if self._collection.find(bytes(key[4:])) is not None:
                count += 1
        self._advance(count)
        if count != self._collection.manifest.live:
            self._note("keys", "", f"{count} keys for {self._collection.manifest.live} items")

    # -- signatures and buckets --------------------------------------------------------------

    def _check_signatures(self) -> None:
        if not self._settings.is_probable:
            return
        live = 0
        for block in self._collection.signatures.scan():
            alive = ~deleted(self._collection.tombstones, block.numbers)
            rows = block.as_rows(np.uint16)
            live += int(np.count_nonzero(alive))
            self._entries_expected += self._signer.bucket_keys(rows[alive]).values.size
            if self._deep:
                self._compare_signatures(block.numbers[alive], rows[alive])
            self._advance(block.numbers.size)
        if live != self._collection.manifest.live:
            self._note("signatures", "", f"{live} for {self._collection.manifest.live} items")

    def _compare_signatures(self, numbers: UInt32s, rows: UInt16s) -> None:
        items = [b""] * numbers.size
        for position, document in self._collection.documents_of(numbers):
            items[position] = bytes(document.item)
        differs = (self._signer.sign(items).signatures != rows).any(axis=1)
        for number in numbers[differs].tolist():
            self._note("signatures", str(number), "is not the signature of the item")

    def _check_bands(self) -> None:
        if not self._settings.is_probable:
            return
        self._verify_chunks()
        found = 0
        last_key = 0
        sweep = self._collection.bands.sweep(self._collection.tombstones, room=SWEEP_ENTRIES)
        for keys, columns in sweep:
            if int(keys[0]) < last_key or (keys[1:] < keys[:-1]).any():
                self._note("bands", "", "bucket keys do not ascend")
            last_key = int(keys[-1])
            found += keys.size
            self._compare_buckets(keys, columns[0])
            self._advance(keys.size)
        if found != self._entries_expected:
            self._note("bands", "", f"{found} entries, {self._entries_expected} expected")

    def _check_postings(self) -> None:
        checker = PostingsChecker(self._signer, self._collection, deep=self._deep)
        for record, problem in checker.problems():
            self._note("postings", record, problem)
        self._advance(checker.postings)

    def _verify_chunks(self) -> None:
        """Verify every chunk, also those that this process has verified before."""
        index = self._collection.manifest.index
        for run in index.bands.runs:
            for number in range(run.first_chunk, run.end_chunk):
                key = pack_chunk(index.number, run.number, number)
                try:
                    self._collection.bands.verify_chunk(key)
                except CorruptionError as error:
                    self._note("bands", f"run {run.number} chunk {number}", str(error))

    def _compare_buckets(self, keys: UInt64s, items: UInt32s) -> None:
        """Compare every entry with the signature of its item."""
        numbers, places = np.unique(items, return_inverse=True)
        for part in _parts(numbers.size):
            inside = np.flatnonzero((places >= part.start) & (places < part.stop))
            rows, present = stored_signatures(self._collection, numbers[part])
            expected = self._signer.bucket_keys(rows)
            here = places[inside] - part.start
            wrong = ~_has_key(expected, here, keys[inside]) | ~present[here]
            for number in np.unique(items[inside[wrong]]).tolist():
                self._note("bands", str(number), "an entry does not belong to the item")


def _has_key(keys: BucketKeys, rows: Int64s, wanted: UInt64s) -> Bools:
    """Return for each row whether one of its keys is the wanted one."""
    found = np.zeros(rows.size, np.bool_)
    counts = keys.sizes[rows]
    for place in range(int(counts.max()) if counts.size else 0):
        inside = np.flatnonzero(counts > place)
        found[inside] |= keys.values[keys.offsets[rows[inside]] + place] == wanted[inside]
    return found


def _digest(numbers: UInt32s) -> UInt64s:
    """Return the sums of numbers and of their cubes, which tell most other numbers."""
    wide = numbers.astype(np.uint64)
    return np.array([wide.sum(), (wide * wide * wide).sum()], np.uint64)


def _parts(count: int, size: int = 65_536) -> Iterator[slice]:
    for begin in range(0, count, size):
        yield slice(begin, min(begin + size, count))


def check_collection(
    opened: Opened, *, deep: bool, progress: Callable[[Progress], None] | None
) -> CheckReport:
    """Check one collection in one snapshot; see ``Checker``."""
    # What this process has verified before is read and verified again.
    transaction = opened.reader.transaction
    transaction.environment.caches.clear()
    reader = CollectionReader(transaction, opened.reader.number)
    return Checker(replace(opened, reader=reader), deep=deep, progress=progress).run()


# -- the exact index ---------------------------------------------------------------------------


class PostingsChecker:
    """Checks the postings of all epochs of a collection in one snapshot.

    Args:
        signer, collection: what is checked.
        deep: also compute every posting anew from its item.

    Attributes:
        postings: how many were read.
    """

    def __init__(self, signer: Signer, collection: CollectionReader, *, deep: bool) -> None:
        self._signer = signer
        self._collection = collection
        self._deep = deep
        self.postings = 0

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong: a record and a problem each."""
        exact = self._collection.manifest.index.exact
        if exact is None:
            return
        for state in exact.epochs:
            end = self._collection.manifest.next_number
            yield from self._epoch_problems(
                state, state.position if state is exact.building else end
            )

    def _epoch_problems(self, state: EpochManifest, end: int) -> Iterator[tuple[str, str]]:
        """Yield the problems of an epoch in which the items below ``end`` are posted."""
        view = open_postings(self._collection.transaction, state)
        yield from self._chunk_problems(state, view)
        try:
            epoch = open_epoch(self._collection.transaction, state)
        except CorruptionError as error:
            yield f"epoch {state.number}", str(error)
            return
        sums = _Sums(self._collection.manifest.next_number)
        last_key = 0
        marks = self._collection.tombstones
        for keys, columns in view.sweep(marks, item_column=ITEM, room=SWEEP_ENTRIES):
            self.postings += keys.size
            if int(keys[0]) < last_key or (keys[1:] < keys[:-1]).any():
                yield f"epoch {state.number}", "postings do not ascend"
            last_key = int(keys[-1])
            yield from self._posting_problems(columns, end)
            sums.add(keys, columns)
        yield from self._item_problems(epoch, sums, end)

    def _chunk_problems(self, state: EpochManifest, view: RunView) -> Iterator[tuple[str, str]]:
        """Verify every chunk, also those that this process has verified before."""
        for run in state.postings.runs:
            for number in range(run.first_chunk, run.end_chunk):
                try:
                    view.verify_chunk(pack_chunk(state.number, run.number, number))
                except CorruptionError as error:
                    yield f"run {run.number} chunk {number}", str(error)

    @staticmethod
    def _posting_problems(columns: UInt32s, end: int) -> Iterator[tuple[str, str]]:
        impossible = (columns[POSITION] < 1) | (columns[POSITION] > columns[SIZE])
        for number in np.unique(columns[ITEM][impossible]).tolist():
            yield str(number), "a posting has an impossible position"
        for number in np.unique(columns[ITEM][columns[ITEM] >= end]).tolist():
            yield str(number), "a posting is of an item that is not posted yet"

    def _item_problems(self, epoch: Epoch, sums: _Sums, end: int) -> Iterator[tuple[str, str]]:
        """Compare the postings found with those that the items should have."""
        if self._deep:
            for batch in live_batches(self._collection, most_bytes=RECOMPUTED_BYTES):
                posted = int(np.searchsorted(batch.numbers, end))
                numbers, items = batch.numbers[:posted], batch.items[:posted]
                prefixes = self._signer.prefixes(epoch, items)
                lengths = np.diff(prefixes.offsets)
                columns = np.empty((3, prefixes.values.size), np.uint32)
                columns[SIZE] = np.repeat(prefixes.set_sizes, lengths)
                begins = np.repeat(prefixes.offsets[:-1], lengths)
                columns[POSITION] = np.arange(1, prefixes.values.size + 1) - begins
                columns[ITEM] = np.repeat(numbers, lengths)
                sums.subtract(prefixes.values, columns)
            for number in sums.remaining().tolist():
                yield str(number), "the postings are not those of the item"
            return
        floor = self._signer.settings.posted_floor
        lengths = sums.sizes if floor is None else floor.prefix_lengths(sums.sizes)
        for number in np.flatnonzero(lengths != sums.counts).tolist():
            yield str(number), f"{sums.counts[number]} postings, {lengths[number]} expected"


class _Sums:
    """The postings of every item, added up so that those expected can be subtracted again.

    Sums of mixed postings modulo 2^64 stand for them, so that memory does not grow with their
    number: other postings have the same sum with a probability of about 2^-64.
    """

    def __init__(self, items: int) -> None:
        self.counts = np.zeros(items, np.int64)
        self.sizes = np.zeros(items, np.int64)
        self._mixed = np.zeros(items, np.uint64)

    def add(self, keys: UInt64s, columns: UInt32s) -> None:
        """Add postings; those of items past the end are left out."""
        inside = np.flatnonzero(columns[ITEM] < self.counts.size)
        items = columns[ITEM][inside]
        self.sizes[items] = columns[SIZE][inside]
        np.add.at(self.counts, items, 1)
        np.add.at(self._mixed, items, _mixed(keys, columns)[inside])

    def subtract(self, keys: UInt64s, columns: UInt32s) -> None:
        """Subtract the postings that there should be."""
        np.subtract.at(self.counts, columns[ITEM], 1)
        np.subtract.at(self._mixed, columns[ITEM], _mixed(keys, columns))

    def remaining(self) -> Int64s:
        """Return the items of which more or other postings were added than subtracted."""
        return np.flatnonzero((self.counts != 0) | (self._mixed != 0))


def _mixed(keys: UInt64s, columns: UInt32s) -> UInt64s:
    """Mix key, size and position of postings (the finisher of MurmurHash3, Appleby 2011)."""
    value: UInt64s = keys ^ (columns[SIZE].astype(np.uint64) << np.uint64(32))
    value ^= columns[POSITION]
    for multiplier in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value ^= value >> np.uint64(33)
        value *= np.uint64(multiplier)
    value ^= value >> np.uint64(33)
    return value
