"""The manifest of a collection: the small record that every commit changes.

It counts items and lists what belongs to the collection: its indexes, their runs, the small blocks
at the end of its tables, and the epochs of an exact index.

An epoch is an order of symbols with the postings written in that order. It owns a record of table
SYMBOLS, its frequent symbols by rank (checksum and uint64 values), and runs of table POSTINGS. A
posting is a key (the place of a symbol in the order) with three columns: size of the set, position
of the symbol in it (from 1), item number. Runs are sorted by (key, size), so that the postings of
one symbol stand by the size of their sets; the suffix length is size - position. Keys of different
epochs are never compared.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from simdb.arrays import UInt64s
from simdb.errors import CorruptionError
from simdb.storage.file.environment import ReadTransaction, WriteTransaction
from simdb.storage.tables import layout
from simdb.storage.tables.blocks import Tail
from simdb.storage.tables.layout import Table, pack_numbered
from simdb.storage.tables.runs import POSTING_COLUMNS, Count, Fields, RunDirectory, RunWriter
from simdb.storage.tables.views import RunView

LARGEST_WIDTH = 2**30  # bytes of an item; far past any kind's
COLUMNS = POSTING_COLUMNS
SIZE, POSITION, ITEM = range(COLUMNS)


class EpochManifest(Fields):
    """One epoch."""

    number: int  # owner of its postings and of its table of frequent symbols
    frequent: int = 0  # symbols in that table; without any there is no record
    made_at: int = 0  # live items when its order was made of a sample of them; 0 if by value alone
    position: int = 0  # while it is being built, the number up to which items are posted
    postings: RunDirectory = msgspec.field(default_factory=RunDirectory)


class ExactManifest(Fields):
    """What an exact index knows of itself."""

    current: EpochManifest  # the one that answers
    building: EpochManifest | None = None  # that will be next, being filled by the commits
    retired: list[int] = msgspec.field(default_factory=list)  # epochs that are being removed
    # Ever written to current epochs: their ratio is how many postings a deleted item leaves.
    posted_items: int = 0
    posted_entries: int = 0
    probes: int = 0  # measurements in the current epoch
    scanned: float = 0.0  # moving average of the postings that a probe scans, for each stored item
    baseline: float = 0.0  # the lowest so far, doubled at each new epoch; 0 before the first

    @property
    def epochs(self) -> list[EpochManifest]:
        """The epochs that hold postings in use."""
        return [self.current] if self.building is None else [self.current, self.building]

    @property
    def owners(self) -> list[int]:
        """Numbers of all epochs that have records."""
        return [epoch.number for epoch in self.epochs] + self.retired

    @property
    def entries_per_item(self) -> int:
        """Postings of an item, on average."""
        return -(-self.posted_entries // self.posted_items) if self.posted_items else 0

    def note_deleted(self, number: int) -> None:
        """Count the postings of a deleted item as dead."""
        for epoch in self.epochs:
            epoch.postings.note_deleted(number, self.entries_per_item)


def open_postings(transaction: ReadTransaction, epoch: EpochManifest) -> RunView:
    """Return the postings of an epoch, ready to be probed or swept."""
    return RunView(transaction, Table.POSTINGS, epoch.number, epoch.postings, column_count=COLUMNS)


def postings_writer(transaction: WriteTransaction, epoch: EpochManifest) -> RunWriter:
    """Return a writer of the postings of an epoch."""
    return RunWriter(
        transaction,
        Table.POSTINGS,
        epoch.number,
        epoch.postings,
        column_count=COLUMNS,
        item_column=ITEM,
    )


def write_frequent(
    transaction: WriteTransaction,
    epoch: EpochManifest,
    frequent: UInt64s,
    made_at: int,
) -> None:
    """Store the table of frequent symbols of a new epoch, made when so many items were live."""
    epoch.made_at = made_at
    epoch.frequent = frequent.size
    if frequent.size:
        key = pack_numbered(epoch.number, 0)
        sealed = layout.seal(Table.SYMBOLS, key, frequent.tobytes())
        transaction.put(Table.SYMBOLS, key, sealed)


def frequent_record(transaction: ReadTransaction, epoch: EpochManifest) -> memoryview:
    """Return the table of frequent symbols as it is stored, checksum first; empty if absent."""
    value = transaction.get(Table.SYMBOLS, pack_numbered(epoch.number, 0))
    return memoryview(b"") if value is None else value


def decode_frequent(epoch: EpochManifest, record: memoryview) -> UInt64s:
    """Return the frequent symbols by rank; CorruptionError if the record is not the epoch's."""
    payload = layout.unseal(Table.SYMBOLS, pack_numbered(epoch.number, 0), record)
    if len(payload) != 8 * epoch.frequent:
        raise CorruptionError(
            f"the order of symbols of epoch {epoch.number} is cut short; rebuild the index"
        )
    return np.frombuffer(payload, np.uint64).copy()


class IndexManifest(Fields):
    """What an index knows of itself; a rebuild makes a second one beside the first."""

    number: int  # owner of its signatures and bucket runs
    signature_width: int  # bytes of a signature; 0 without a probable index
    entries_per_item: int  # bucket keys of an item
    bands: RunDirectory = msgspec.field(default_factory=RunDirectory)
    signature_tail: Tail = msgspec.field(default_factory=list)  # small blocks at the end
    exact: ExactManifest | None = None

    @property
    def owners(self) -> list[int]:
        """Its own number and those of the epochs of its exact index."""
        return [self.number] if self.exact is None else [self.number, *self.exact.owners]


class Manifest(Fields):
    """What changes with every commit of a collection; one small record."""

    next_number: Annotated[int, Meta(ge=0, le=2**32)]  # the item number that the next item gets
    live: Count  # items stored
    tombstones: Count  # items that have one
    item_bytes: Count  # of all live items in canonical form
    changes: Count  # commits that changed this collection
    index: IndexManifest
    document_tail: Tail = msgspec.field(default_factory=list)  # small blocks at the end
    # Bytes of every item, where all have as many: they lie in blocks of their own, one after the
    # other, and documents are without them; else 0.
    item_width: Annotated[int, Meta(ge=0, le=LARGEST_WIDTH)] = 0
    item_tail: Tail = msgspec.field(default_factory=list)
