"""Reading the runs of one index in a snapshot: probing many keys at once, sweeping all entries.

The kernels are handed addresses into the map. A ``RunView`` owns the transaction that keeps
them valid, and nothing else in simdb holds such addresses beyond one call. Tables of addresses
are cached by run for the process: a chunk large enough to have pages of its own stays where it
is until it is deleted, so its address holds for every snapshot whose directory lists the run
(see ``chunks``; the cache is emptied whenever the map moves).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simdb import kernels
from simdb.errors import CorruptionError
from simdb.storage import chunks
from simdb.storage.chunks import Chunk
from simdb.storage.keys import Table, pack_chunk
from simdb.storage.runs import Run, RunDirectory
from simdb.storage.transactions import ReadTransaction

NO_LIMIT = 2**62
FIRST_ROOM = 1_024  # rows of a probe's output before it is enlarged


class Found(NamedTuple):
    """Rows of a probe: which query, and where the row is. Opaque but for ``queries``."""

    queries: npt.NDArray[np.uint32]
    chunks: npt.NDArray[np.uint32]
    positions: npt.NDArray[np.uint32]


@dataclass(slots=True)
class _CachedRun:
    """Addresses of the chunks of a run, from chunk ``base`` on."""

    base: int
    key_addresses: list[int]
    column_addresses: list[int]
    counts: list[int]
    fences: list[int]
    verified: list[int]
    owners: list[Chunk]  # keeps copies of small chunks alive


class _Addresses(NamedTuple):
    """The addresses of all chunks of all runs of a directory, as ``kernels.runs`` reads them."""

    directory: RunDirectory
    runs: list[Run]
    cached: dict[int, _CachedRun]
    keys: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    fences: npt.NDArray[np.uint64]
    run_starts: npt.NDArray[np.int64]
    verified: npt.NDArray[np.uint8]


class RunView:
    """The runs of one index as one snapshot sees them.

    Args:
        transaction: the snapshot; the view is valid as long as it is open.
        table, index, directory: which runs.
        column_count: columns of a row.
    """

    def __init__(
        self,
        transaction: ReadTransaction,
        table: Table,
        index: int,
        directory: RunDirectory,
        *,
        column_count: int = 1,
    ) -> None:
        self._transaction = transaction
        self._table = table
        self._index = index
        self._column_count = column_count
        name = f"view {table} {index}"
        caches = transaction.environment.caches
        known: _Addresses | None = caches.get(name)
        if known is None or known.directory is not directory:
            known = self._collect(directory, {} if known is None else known.cached)
            caches[name] = known
        self._addresses = known

    @property
    def run_count(self) -> int:
        """Runs that a probe looks into."""
        return len(self._addresses.runs)

    def _collect(self, directory: RunDirectory, before: dict[int, _CachedRun]) -> _Addresses:
        """Bring the addresses of all runs together, those of known runs from the cache."""
        runs = [run for run in directory.runs if run.first_chunk < run.end_chunk]
        cached = {run.number: self._load(run, before.get(run.number)) for run in runs}
        columns: list[list[int]] = [[], [], [], [], []]
        starts: list[int] = []
        run_starts = [0]
        for run in runs:
            known = cached[run.number]
            part = slice(run.first_chunk - known.base, run.end_chunk - known.base)
            columns[0] += known.key_addresses[part]
            columns[1] += known.column_addresses[part]
            columns[2] += known.counts[part]
            columns[3] += known.fences[part]
            columns[4] += known.verified[part]
            starts.append(run.offset)
            starts += [0] * (run.end_chunk - run.first_chunk - 1)
            run_starts.append(len(starts))
        return _Addresses(
            directory,
            runs,
            cached,
            np.array(columns[0], np.int64),
            np.array(columns[1], np.int64),
            np.array(starts, np.int64),
            np.array(columns[2], np.int64),
            np.array(columns[3], np.uint64),
            np.array(run_starts, np.int64),
            np.array(columns[4], np.uint8),
        )

    def _load(self, run: Run, known: _CachedRun | None) -> _CachedRun:
        if known is None or not known.base <= run.first_chunk <= known.base + len(known.counts):
            known = _CachedRun(run.first_chunk, [], [], [], [], [], [])
        end = known.base + len(known.counts)
        if end >= run.end_chunk:
            return known
        # A new object, so that a thread that holds the old one never sees it half grown.
        grown = _CachedRun(
            known.base,
            list(known.key_addresses),
            list(known.column_addresses),
            list(known.counts),
            list(known.fences),
            list(known.verified),
            list(known.owners),
        )
        for number in range(end, run.end_chunk):
            self._append(grown, run.number, number)
        return grown

    def _append(self, cached: _CachedRun, run: int, number: int) -> None:
        key = pack_chunk(self._index, run, number)
        chunk = chunks.decode(key, self._value(key), self._column_count)
        cached.key_addresses.append(chunk.key_address)
        cached.column_addresses.append(chunk.column_address)
        cached.counts.append(chunk.keys.size)
        cached.fences.append(int(chunk.keys[0]))
        cached.verified.append(0)
        cached.owners.append(chunk)

    def _value(self, key: bytes) -> memoryview:
        value = self._transaction.get(self._table, key)
        if value is None:
            raise CorruptionError(f"an index chunk is missing (key {key.hex()}); rebuild the index")
        return value

    # -- probing ---------------------------------------------------------------------------

    def probe(self, queries: npt.NDArray[np.uint64], *, limit: int = NO_LIMIT) -> Found:
        """Find the rows of many keys.

        Rows of one key come in the order of runs, so with column 0 = item number they ascend.

        Args:
            queries: uint64 (n,).
            limit: at most so many rows a key, the oldest first.
        """
        addresses = self._addresses
        room = FIRST_ROOM
        while True:
            found = Found(
                np.empty(room, np.uint32), np.empty(room, np.uint32), np.empty(room, np.uint32)
            )
            unverified = np.zeros(addresses.counts.size, np.uint8)
            rows, unchecked = kernels.runs.probe(
                addresses.keys,
                addresses.columns,
                addresses.starts,
                addresses.counts,
                addresses.fences,
                addresses.run_starts,
                addresses.verified,
                queries,
                limit,
                *found,
                unverified,
            )
            if unchecked:
                self._verify(np.flatnonzero(unverified))
            elif rows <= room:
                return Found(found.queries[:rows], found.chunks[:rows], found.positions[:rows])
            else:
                room = rows

    def column(self, found: Found, column: int) -> npt.NDArray[np.uint32]:
        """Return a column of the rows found, uint32 (rows,)."""
        gathered = np.empty(found.queries.size, np.uint32)
        kernels.runs.gather_column(
            self._addresses.columns,
            self._addresses.counts,
            found.chunks,
            found.positions,
            column,
            gathered,
        )
        return gathered

    def _verify(self, numbers: npt.NDArray[np.int64]) -> None:
        addresses = self._addresses
        for position in numbers.tolist():
            which = int(np.searchsorted(addresses.run_starts, position, side="right")) - 1
            run = addresses.runs[which]
            cached = addresses.cached[run.number]
            number = run.first_chunk + position - int(addresses.run_starts[which])
            key = pack_chunk(self._index, run.number, number)
            chunks.verify(self._table, key, self._value(key))
            cached.verified[number - cached.base] = 1
            addresses.verified[position] = 1

    def verify_chunk(self, key: bytes) -> None:
        """Compare a chunk with its checksum, whether or not this process has done so before.

        Raises:
            CorruptionError: they differ.
        """
        chunks.verify(self._table, key, self._value(key))

    # -- sweeping --------------------------------------------------------------------------

    def sweep(
        self, marks: npt.NDArray[np.uint8], *, item_column: int = 0, room: int
    ) -> Iterator[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]]:
        """Yield all entries merged into one order, without those of marked items.

        Every batch ends with the last entry of a key, so that a bucket is seen whole. A batch has
        at most ``room`` entries, more only where one bucket has.

        Yields:
            keys, uint64 (n,), and columns, uint32 (columns, n).
        """
        chunk = self._addresses.run_starts[:-1].copy()
        ends = self._addresses.run_starts[1:]
        positions = self._addresses.starts[chunk]
        keys = np.empty(room, np.uint64)
        columns = np.empty((self._column_count, room), np.uint32)
        filled = 0
        while True:
            active = np.flatnonzero(chunk < ends)
            if active.size:
                cursor = _Sweep(active, chunk, positions, keys, columns, filled)
                filled = self._advance(cursor, marks, item_column)
                if filled < keys.size:
                    continue
            whole = _whole_buckets(keys[:filled], last=not active.size)
            if whole:
                yield keys[:whole].copy(), columns[:, :whole].copy()
                keys[: filled - whole] = keys[whole:filled].copy()
                columns[:, : filled - whole] = columns[:, whole:filled].copy()
                filled -= whole
            elif active.size:
                keys = np.concatenate([keys, np.empty(keys.size, np.uint64)])
                columns = np.concatenate([columns, np.empty_like(columns)], axis=1)
            if not active.size:
                return

    def _advance(self, sweep: _Sweep, marks: npt.NDArray[np.uint8], item_column: int) -> int:
        """Merge until the output is full or a chunk is used up; return rows in the output."""
        addresses = self._addresses
        heads = sweep.chunk[sweep.active]
        self._verify(heads[addresses.verified[heads] == 0])
        here = sweep.positions[sweep.active]
        counts = addresses.counts[heads]
        filled: int = kernels.runs.merge(
            addresses.keys[heads],
            addresses.columns[heads],
            counts,
            here,
            (heads + 1 == addresses.run_starts[1:][sweep.active]).astype(np.uint8),
            self._column_count,
            item_column,
            marks,
            sweep.keys,
            sweep.columns,
            sweep.filled,
        )
        used_up = here == counts
        sweep.positions[sweep.active] = np.where(used_up, 0, here)
        sweep.chunk[sweep.active[used_up]] += 1
        return filled


class _Sweep(NamedTuple):
    """Where a sweep stands: the runs not yet at their end, their chunks and positions, output."""

    active: npt.NDArray[np.int64]
    chunk: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint64]
    columns: npt.NDArray[np.uint32]
    filled: int


def _whole_buckets(keys: npt.NDArray[np.uint64], *, last: bool) -> int:
    """Return how many entries belong to keys that are surely complete."""
    if last or not keys.size:
        return int(keys.size)
    return int(np.searchsorted(keys, keys[-1], side="left"))
