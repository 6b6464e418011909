"""Epochs of an exact index: each an order of symbols, with the postings written in that order.

An epoch owns a record of table SYMBOLS, its frequent symbols by rank (checksum and uint64 values),
and runs of table POSTINGS. A posting is a key (the place of a symbol in the order) with three
columns: size of the set, position of the symbol in it (from 1), item number. Runs are sorted by
(key, size), so that the postings of one symbol stand by the size of their sets; the suffix length
is size - position. Keys of different epochs are never compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from simdb.errors import CorruptionError
from simdb.storage.file.transactions import ReadTransaction, WriteTransaction
from simdb.storage.tables import values
from simdb.storage.tables.chunks import POSTING_COLUMNS
from simdb.storage.tables.keys import Table, pack_numbered
from simdb.storage.tables.run_views import RunView
from simdb.storage.tables.runs import RunDirectory, RunWriter

COLUMNS = POSTING_COLUMNS
SIZE, POSITION, ITEM = range(COLUMNS)


@dataclass(slots=True)
class EpochState:
    """One epoch.

    Attributes:
        number: owner of its postings and of its table of frequent symbols.
        frequent: symbols in that table; without any there is no record.
        made_at: live items when its order was made from a sample of them; 0 if by value alone.
        position: while it is being built, the item number up to which items are posted.
        postings: its runs.
    """

    number: int
    frequent: int = 0
    made_at: int = 0
    position: int = 0
    postings: RunDirectory = field(default_factory=RunDirectory)

    def encode(self) -> list[Any]:
        """Return it as plain lists."""
        return [
            self.number,
            self.frequent,
            self.made_at,
            self.position,
            self.postings.encode(),
        ]

    @classmethod
    def decode(cls, stored: list[Any]) -> EpochState:
        """Return what ``encode`` stored."""
        number, frequent, made_at, position, postings = stored
        return cls(number, frequent, made_at, position, RunDirectory.decode(postings))


@dataclass(slots=True)
class ExactState:
    """What an exact index knows of itself.

    Attributes:
        current: the epoch that answers.
        building: the epoch that will be next, being filled by the commits.
        retired: epochs that are being removed, by number.
        posted_items, posted_entries: items and postings written to current epochs, ever: their
            ratio is how many postings a deleted item leaves.
        probes: measurements in the current epoch.
        scanned: moving average of the postings that a probe scans, for each stored item.
        baseline: the lowest such average so far, doubled at each new epoch; 0 before the first.
    """

    current: EpochState
    building: EpochState | None = None
    retired: list[int] = field(default_factory=list)
    posted_items: int = 0
    posted_entries: int = 0
    probes: int = 0
    scanned: float = 0.0
    baseline: float = 0.0

    def encode(self) -> list[Any]:
        """Return it as plain lists."""
        return [
            self.current.encode(),
            None if self.building is None else self.building.encode(),
            self.retired,
            self.posted_items,
            self.posted_entries,
            self.probes,
            self.scanned,
            self.baseline,
        ]

    @classmethod
    def decode(cls, stored: list[Any]) -> ExactState:
        """Return what ``encode`` stored."""
        current, building, *others = stored
        return cls(
            EpochState.decode(current),
            None if building is None else EpochState.decode(building),
            *others,
        )

    @property
    def epochs(self) -> list[EpochState]:
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


def open_postings(transaction: ReadTransaction, epoch: EpochState) -> RunView:
    """Return the postings of an epoch, ready to be probed or swept."""
    return RunView(transaction, Table.POSTINGS, epoch.number, epoch.postings, column_count=COLUMNS)


def postings_writer(transaction: WriteTransaction, epoch: EpochState) -> RunWriter:
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
    epoch: EpochState,
    frequent: npt.NDArray[np.uint64],
    made_at: int,
) -> None:
    """Store the table of frequent symbols of a new epoch, made when so many items were live."""
    epoch.made_at = made_at
    epoch.frequent = frequent.size
    if frequent.size:
        key = pack_numbered(epoch.number, 0)
        sealed = values.seal(Table.SYMBOLS, key, frequent.tobytes())
        transaction.put(Table.SYMBOLS, key, sealed)


def frequent_record(transaction: ReadTransaction, epoch: EpochState) -> memoryview:
    """Return the table of frequent symbols as it is stored, checksum first; empty if absent."""
    value = transaction.get(Table.SYMBOLS, pack_numbered(epoch.number, 0))
    return memoryview(b"") if value is None else value


def decode_frequent(epoch: EpochState, record: memoryview) -> npt.NDArray[np.uint64]:
    """Return the frequent symbols by rank.

    Raises:
        CorruptionError: the record is damaged, or is not that of the epoch.
    """
    payload = values.unseal(Table.SYMBOLS, pack_numbered(epoch.number, 0), record)
    if len(payload) != 8 * epoch.frequent:
        raise CorruptionError(
            f"the order of symbols of epoch {epoch.number} is cut short; rebuild the index"
        )
    return np.frombuffer(payload, np.uint64).copy()
