"""Sorted runs of an index: written by every commit, merged in bounded steps.

A run is an immutable sorted multimap from 64-bit keys to rows of uint32 columns. Every commit
appends one. Runs of like size are merged, so that an entry is rewritten O(log n) times and the
number of runs stays small: at most ``FAN_IN - 1`` idle ones of each level, plus those being merged.

A merge moves entries: each step takes the smallest entries off the inputs, writes them as the
next chunk of the output and, in the same transaction, deletes the input chunks that are used up
and notes how far the rest is consumed (``offset``). So at every commit each entry is in exactly
one run, no step is larger than a chunk, and a merge needs no room for a second copy.

Invariants:

- Runs cover disjoint ranges of item numbers and are listed in the order of these.
- Within a run rows are ordered by (key, column 0); equal rows of two runs by the order of runs.
- A run's number is never used again, so its chunks can be cached by it; but only as seen by a
  committed snapshot, since a transaction that is undone gives its numbers back.

A run is cut into chunks, one value each, all little-endian:

====== ===== =============================================================
offset bytes field
====== ===== =============================================================
0      8     checksum of all that follows (``layout.checksum``)
8      8     checksum of the next 16 bytes
16     4     entries n, at least 1
20     4     columns c
24     8     the first key
32     8 n   keys, uint64, ascending
..     4 n c columns, uint32, one column behind the other
====== ===== =============================================================

A probe decides by the first keys which chunks it reads. So these are verified whenever a chunk
is decoded, and the whole of it only when it is first used. A chunk of more than ``COPY_BELOW``
bytes lies on overflow pages of its own, which LMDB neither moves nor changes until the chunk is
deleted; smaller ones may share a page with other records and are copied before they are used.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Annotated, Self, TypeAlias

import msgspec
import numpy as np
from msgspec import Struct

from simdb import kernels
from simdb.arrays import UInt8s, UInt32s, UInt64s
from simdb.errors import CorruptionError
from simdb.storage.file.environment import WriteTransaction
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table, pack_chunk

CHUNK_ENTRIES = 65_536
POSTING_COLUMNS = 3  # size of the set, position of the symbol, item number
POSTING_BYTES = 8 + 4 * POSTING_COLUMNS
COPY_BELOW = 65_536  # bytes; LMDB's largest page is as big, and only smaller values share one
_SUMMARY = struct.Struct("<IIQ")
_HEADER = struct.Struct("<QQIIQ")
HEADER_SIZE = _HEADER.size
assert (_SUMMARY.size, HEADER_SIZE) == (16, 32)


class Chunk(Struct, frozen=True, eq=False):
    """A chunk in place: arrays over the map or over a copy, valid as long as those are."""

    keys: UInt64s
    columns: UInt32s  # one behind the other, n * c values

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Addresses of the keys and of the columns, entries, and the bits of the first key."""
        key_address, _ = self.keys.__array_interface__["data"]
        column_address, _ = self.columns.__array_interface__["data"]
        return key_address, column_address, self.keys.size, int(self.keys[:1].view(np.int64)[0])


def encode_chunk(table: Table, key: bytes, keys: UInt64s, columns: UInt32s) -> bytes:
    """Return the value of a chunk; ``columns`` has the shape (columns, entries), contiguous."""
    summary = _SUMMARY.pack(keys.size, columns.shape[0], int(keys[0]))
    return layout.seal_parts(table, key, layout.seal(table, key, summary), keys.data, columns.data)


def decode_chunk(table: Table, key: bytes, value: memoryview, column_count: int) -> Chunk:
    """Return the arrays of a chunk, of which only the header and the first key are verified."""
    if len(value) >= HEADER_SIZE + 8:
        layout.unseal(table, key, value[layout.CHECKSUM_SIZE : HEADER_SIZE])
        _, _, entries, columns, first = _HEADER.unpack_from(value)
        size = HEADER_SIZE + entries * (8 + 4 * columns)
        stored = int.from_bytes(value[HEADER_SIZE : HEADER_SIZE + 8], "little")
        if (columns, size, first) == (column_count, len(value), stored):
            if len(value) < COPY_BELOW:
                value = memoryview(bytes(value))
            return Chunk(
                np.frombuffer(value, np.uint64, entries, HEADER_SIZE),
                np.frombuffer(value, np.uint32, entries * columns, HEADER_SIZE + 8 * entries),
            )
    raise CorruptionError(
        f"an index chunk is damaged (key {key.hex()}); run 'simdb check', then rebuild the index"
    )


FAN_IN = 8
SMALL_MERGE = 8_192  # entries; merged at once
CREDIT_PER_ENTRY = 2  # entries merged in each level for one that is added: twice what is needed
DEAD_SHARE = 0.3  # a run with more dead entries is rewritten

# Bitmap of the deleted items, loaded only when a merge needs it.
Tombstones: TypeAlias = Callable[[], UInt8s]


Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**48)]


class Fields(msgspec.Struct, array_like=True, eq=False, forbid_unknown_fields=True):
    """A manifest, or a part of one, stored as the list of its fields."""

    def encode(self) -> bytes:
        """The bytes that it is stored as."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, stored: bytes | memoryview) -> Self:
        """What ``encode`` stored; CorruptionError if it is not such a list."""
        try:
            return msgspec.msgpack.decode(stored, type=cls)
        except msgspec.DecodeError as error:
            raise CorruptionError(f"a collection's manifest cannot be read: {error}") from error


class Run(Fields):
    """One run: chunks ``first_chunk`` to ``end_chunk``, of the first one from ``offset`` on."""

    number: Count
    first_chunk: Count
    offset: Count
    end_chunk: Count
    entries: Count
    dead: Count
    first_item: Count
    last_item: Count
    merge: Count = 0  # number of its merge, 0 when idle
    is_output: bool = False

    @property
    def level(self) -> int:
        """Size class: runs of one level differ by less than a factor of ``FAN_IN``."""
        return ((self.entries | 16).bit_length() - 5) // 3


class Merge(Fields):
    """A merge under way; ``credit`` is how many entries it may still move."""

    number: int
    credit: int


class RunDirectory(Fields):
    """All runs of one index, oldest first; stored in the manifest of its collection."""

    next_number: int = 1
    runs: list[Run] = []
    merges: list[Merge] = []

    @property
    def entries(self) -> int:
        """Entries in all runs, those of deleted items included."""
        return sum(run.entries for run in self.runs)

    def problems(self, items: int) -> Iterator[str]:
        """Yield what cannot be so of runs of items below a number, without reading the runs."""
        merges = {merge.number for merge in self.merges}
        numbers = [run.number for run in self.runs] + [merge.number for merge in self.merges]
        if len({*numbers}) < len(numbers):
            yield "two runs have one number"
        if max(numbers, default=0) >= self.next_number:
            yield f"the next run would have the number {self.next_number} of one that is there"
        for run in self.runs:
            if run.merge not in (merges if run.is_output else {0, *merges}):
                yield f"run {run.number} is of a merge that is not there"
            if not run.first_item <= run.last_item < items:
                yield f"run {run.number} is of items {run.first_item} to {run.last_item}"
        outputs = [run.merge for run in self.runs if run.is_output]
        if sorted(outputs) != sorted(merges):
            yield "a merge has no run to write to, or several"

    def take_number(self) -> int:
        """Return a number for a new run or merge."""
        number = self.next_number
        self.next_number += 1
        return number

    def note_deleted(self, item: int, entries: int) -> None:
        """Count the entries of a deleted item as dead in the run that covers it."""
        for run in self.runs:
            if run.first_item <= item <= run.last_item and (run.is_output or not run.merge):
                run.dead += entries
                return


class MergeCounters(Struct):
    """What merging did, for tests and benchmarks."""

    steps: int = 0
    entries: int = 0
    bytes: int = 0


class RunWriter:
    """Changes the runs of one index within a write transaction.

    The directory of its runs is changed in place, and stored by the caller. A row has so many
    columns, of which ``item_column`` holds the item number.
    """

    def __init__(
        self,
        transaction: WriteTransaction,
        table: Table,
        index: int,
        directory: RunDirectory,
        *,
        column_count: int = 1,
        item_column: int = 0,
    ) -> None:
        self._transaction = transaction
        self._table = table
        self._index = index
        self._directory = directory
        self._column_count = column_count
        self._item_column = item_column
        self.counters = MergeCounters()

    def append(self, keys: UInt64s, columns: UInt32s, first_item: int, last_item: int) -> None:
        """Write entries sorted by (key, column 0) as a new run.

        The columns have the shape (columns, n); the items are past those of every earlier run.
        """
        if not keys.size:
            return
        run = Run(self._directory.take_number(), 0, 0, 0, 0, 0, first_item, last_item)
        for begin in range(0, keys.size, CHUNK_ENTRIES):
            part = slice(begin, begin + CHUNK_ENTRIES)
            self._write_chunk(run, keys[part], columns[:, part])
        self._directory.runs.append(run)

    def _write_chunk(self, run: Run, keys: UInt64s, columns: UInt32s) -> None:
        key = pack_chunk(self._index, run.number, run.end_chunk)
        value = encode_chunk(self._table, key, keys, np.ascontiguousarray(columns))
        self._transaction.put(self._table, key, value)
        run.end_chunk += 1
        run.entries += keys.size
        self.counters.bytes += len(value)

    # -- merging ---------------------------------------------------------------------------

    def merge_after(self, added: int, tombstones: Tombstones) -> None:
        """Merge as much as a commit that added so many entries has to.

        Cost: at most one chunk per level and ``CHUNK_ENTRIES`` added entries, about.
        """
        self.plan()
        for merge in list(self._directory.merges):
            merge.credit += added * CREDIT_PER_ENTRY
            self._spend(merge, tombstones)

    def start_full_merge(self, *, may_hold_dead: bool = False) -> bool:
        """Start merging all idle runs into one; return whether there is anything to merge.

        A single run is merged into a new one if it has dead entries, or may have some that were not
        counted: an item may be deleted between being signed for a run and being written to it.
        """
        idle = [run for run in self._directory.runs if not run.merge]
        has_dead = bool(idle) and (may_hold_dead or any(run.dead for run in idle))
        if len(idle) == len(self._directory.runs) and (len(idle) > 1 or has_dead):
            self._start(idle)
            return True
        return False

    def step(self, tombstones: Tombstones) -> bool:
        """Do one step of the oldest merge under way; return whether there was one."""
        if not self._directory.merges:
            return False
        self._step(self._directory.merges[0], tombstones)
        return True

    def plan(self) -> None:
        """Start every merge that is due."""
        for group in due_merges(self._directory.runs):
            self._start(group)

    def _start(self, group: list[Run]) -> None:
        merge = Merge(self._directory.take_number(), 0)
        output = Run(
            self._directory.take_number(),
            *(0, 0, 0, 0, 0),
            group[0].first_item,
            group[-1].last_item,
            merge.number,
            is_output=True,
        )
        for run in group:
            run.merge = merge.number
        self._directory.runs.insert(self._directory.runs.index(group[0]), output)
        self._directory.merges.append(merge)

    def _spend(self, merge: Merge, tombstones: Tombstones) -> None:
        while merge in self._directory.merges:
            remaining = sum([run.entries for run in self._inputs(merge)])
            if remaining > SMALL_MERGE and merge.credit < min(CHUNK_ENTRIES, remaining):
                return
            merge.credit -= self._step(merge, tombstones)

    def _inputs(self, merge: Merge) -> list[Run]:
        return [
            run for run in self._directory.runs if run.merge == merge.number and not run.is_output
        ]

    def _step(self, merge: Merge, tombstones: Tombstones) -> int:
        """Move up to a chunk of entries from the inputs to the output; return how many left."""
        inputs = self._inputs(merge)
        before = sum([run.entries for run in inputs])
        keys = np.empty(CHUNK_ENTRIES, np.uint64)
        columns = np.empty((self._column_count, CHUNK_ENTRIES), np.uint32)
        used_up: list[bytes] = []
        filled = self._fill(inputs, tombstones, keys, columns, used_up)
        output = next(
            run for run in self._directory.runs if run.merge == merge.number and run.is_output
        )
        if filled:
            self._write_chunk(output, keys[:filled], columns[:, :filled])
        for key in used_up:
            self._transaction.delete(self._table, key)
        moved = before - sum([run.entries for run in inputs])
        self.counters.steps += 1
        self.counters.entries += moved
        if all(run.first_chunk == run.end_chunk for run in inputs):
            for run in inputs if output.entries else [*inputs, output]:
                self._directory.runs.remove(run)
            output.merge = 0
            output.is_output = False
            self._directory.merges.remove(merge)
        return moved

    def _fill(
        self,
        inputs: list[Run],
        tombstones: Tombstones,
        keys: UInt64s,
        columns: UInt32s,
        used_up: list[bytes],
    ) -> int:
        """Merge the heads of the inputs into ``keys`` and ``columns``; nothing is written."""
        filled = 0
        while filled < keys.size:
            active = [run for run in inputs if run.first_chunk < run.end_chunk]
            if not active:
                break
            heads = [self._head(run) for run in active]  # which keep the arrays
            places = np.array([head.place for head in heads], np.int64).T.copy()
            key_addresses, column_addresses, counts, _ = places
            positions = np.array([run.offset for run in active], np.int64)
            filled = kernels.runs.merge(
                key_addresses,
                column_addresses,
                counts,
                positions,
                np.array([run.first_chunk + 1 == run.end_chunk for run in active], np.uint8),
                self._column_count,
                self._item_column,
                tombstones(),
                keys,
                columns,
                filled,
            )
            for run, count, position in zip(
                active, counts.tolist(), positions.tolist(), strict=True
            ):
                run.entries -= position - run.offset
                run.offset = position
                if position == count:
                    used_up.append(pack_chunk(self._index, run.number, run.first_chunk))
                    run.first_chunk += 1
                    run.offset = 0
        return filled

    def _head(self, run: Run) -> Chunk:
        key = pack_chunk(self._index, run.number, run.first_chunk)
        value = self._transaction.get(self._table, key)
        if value is None:
            raise CorruptionError(f"an index chunk is missing (key {key.hex()}); rebuild the index")
        # Merges come back to a chunk often.
        name = self._table, key, int.from_bytes(value[: layout.CHECKSUM_SIZE], "little")
        caches = self._transaction.environment.caches
        layout.verify_once(caches, name, lambda: layout.unseal(self._table, key, value))
        return decode_chunk(self._table, key, value, self._column_count)


def due_merges(runs: list[Run]) -> list[list[Run]]:
    """Return the groups of successive idle runs that are to be merged.

    A group is due when ``FAN_IN`` successive runs have one level, when smaller runs lie before a
    larger one (so that sizes fall from old to new and the count of runs stays bounded), or when
    too much of a run is dead.
    """
    due: list[list[Run]] = []
    for merge, segment in groupby(runs, attrgetter("merge")):
        by_level = [] if merge else groupby(segment, attrgetter("level"))
        groups = [(level, list(alike)) for level, alike in by_level]
        levels = [level for level, _ in groups]
        while groups:
            level, group = groups.pop(0)
            is_due = len(group) >= FAN_IN
            while max(levels := levels[1:], default=level) > level:
                group += groups.pop(0)[1]
                is_due = True
            if is_due:
                due.append(group)
            else:
                due += [[run] for run in group if run.dead > run.entries * DEAD_SHARE]
    return due
