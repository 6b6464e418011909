"""Reading the runs of one index in a snapshot: probing many keys at once, sweeping all entries.

The kernels are handed addresses into the map. A ``RunView`` owns the transaction that keeps
them valid, and nothing else in simdb holds such addresses beyond one call. Tables of addresses
are cached by run for the process: a chunk large enough to have pages of its own stays where it
is until it is deleted, so its address holds for every snapshot whose directory lists the run
(see ``runs``; the cache is emptied whenever the map moves).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from simdb import kernels
from simdb.arrays import Int64s, UInt8s, UInt32s, UInt64s
from simdb.errors import CorruptionError
from simdb.storage.file.environment import ReadTransaction
from simdb.storage.tables import layout, runs
from simdb.storage.tables.layout import Table, pack_chunk
from simdb.storage.tables.runs import Chunk, Run, RunDirectory

NO_LIMIT = 2**62
FIRST_ROOM = 1_024  # rows of a probe's output before it is enlarged
ROWS_A_KEY = 4  # for which there is room, so that a probe is seldom done twice
MOST_ROOM = 2**18  # rows, for which there is room before it is known that there are so many
MANY_A_CHUNK = 4  # keys looked for, from which on nearly every chunk is needed

LEAST_BITS, MOST_BITS = 8, 32  # of a filter for each entry: with fewer it is made anew
MARKED_A_KEY = 128  # entries that are marked for each key that is looked for
LEAST_WORDS = 2  # of a filter
WORD = 64  # bits


class Found(Struct, frozen=True, eq=False):
    """Rows of a probe: which query, and where the row is. Opaque but for ``queries``."""

    queries: UInt32s
    chunks: UInt32s
    positions: UInt32s


class _CachedRun(Struct):
    """What is known of the chunks of a run, from chunk ``base`` on."""

    base: int
    places: Int64s  # (4, chunks): the ``Chunk.place`` of each
    verified: UInt8s  # (chunks,), 1 where this process has compared the checksum
    owners: list[Chunk]  # keeps the copies of small chunks alive

    @property
    def end(self) -> int:
        """One past the last chunk that is known."""
        return self.base + len(self.owners)


class _Addresses(Struct, frozen=True, eq=False):
    """The addresses of all chunks of all runs of a directory, as ``kernels.runs`` reads them."""

    directory: RunDirectory
    runs: list[Run]
    cached: dict[int, _CachedRun]
    starts: Int64s
    run_starts: Int64s
    verified: UInt8s
    keys: Int64s
    columns: Int64s
    counts: Int64s
    fences: UInt64s


class KeyFilter:
    """Tells of most keys that no run of an index has them: a Bloom filter in words.

    Most keys that a deduplication looks for are in no run. Keys are hashes, so their highest bits
    are the place of their word, in which each sets four bits: one access to memory a key, and in
    order where keys are. With 8 bits an entry it passes 3 % of other keys, with 16 0.5 %. It
    belongs to whoever looks for many keys, batch by batch, in snapshots of one index, each later
    than the last.
    """

    def __init__(self, most_bytes: int) -> None:
        words = max(most_bytes // np.dtype(np.uint64).itemsize, LEAST_WORDS)
        self._most = 1 << (words.bit_length() - 1)
        self._index = -1
        self._words = np.zeros(0, np.uint64)
        self._covered = 0  # the keys of items below this number are marked
        self._looked_for = 0  # keys; what is marked is at most so many times these

    @property
    def _shift(self) -> np.uint64:
        """By how much a key is shifted to be the place of its word."""
        return np.uint64(WORD - (self._words.size - 1).bit_length())

    def takes(self, index: int, runs: list[Run], looked_for: int) -> list[int] | None:
        """Return which runs are to be marked before so many keys are looked for.

        None where that would take longer than it saves. Where the index is another, or there are
        too few bits for its entries and may be more, all begins anew. A run that is merged of some
        has the items of these: if all were marked, it is.
        """
        self._looked_for += looked_for
        entries = max(64, sum(run.entries for run in runs))
        is_small = self._words.size < min(self._most, LEAST_BITS * entries // WORD)
        covered = 0 if is_small or index != self._index else self._covered
        unmarked = [which for which, run in enumerate(runs) if run.last_item >= covered]
        if sum(runs[which].entries for which in unmarked) > MARKED_A_KEY * self._looked_for:
            return None
        if not covered:
            wanted = 1 << (MOST_BITS * entries // WORD - 1).bit_length()
            self._words = np.zeros(min(self._most, wanted), np.uint64)
        self._index, self._covered = index, covered
        return unmarked

    def mark(self, addresses: Int64s, starts: Int64s, counts: Int64s) -> None:
        """Mark the keys of chunks."""
        kernels.runs.mark_keys(addresses, starts, counts, self._shift, self._words)

    def note_marked(self, runs: list[Run]) -> None:
        """Note that the keys of all runs are marked."""
        self._covered = max((run.last_item + 1 for run in runs), default=0)

    def perhaps_stored(self, queries: UInt64s) -> UInt32s:
        """Return the places of those keys that a run may have."""
        places = np.empty(queries.size + 1, np.uint32)
        found = kernels.runs.marked_keys(queries, self._shift, self._words, places)
        return places[:found]


_NO_PLACES = np.empty((4, 0), np.int64)
_NONE_VERIFIED = np.empty(0, np.uint8)


def _chunks_within(cached: _CachedRun, run: Run) -> slice:
    """Return which of the chunks that are known the run still has."""
    return slice(run.first_chunk - cached.base, run.end_chunk - cached.base)


class RunView:
    """The runs of one index as one snapshot sees them; valid as long as that is open."""

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
        name = "view", table, index
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
        lengths = [run.end_chunk - run.first_chunk for run in runs]
        run_starts = np.zeros(len(runs) + 1, np.int64)
        np.cumsum(lengths, out=run_starts[1:])
        starts = np.zeros(int(run_starts[-1]), np.int64)
        starts[run_starts[:-1]] = [run.offset for run in runs]
        places, verified = _NO_PLACES, _NONE_VERIFIED
        if runs:
            used = [(cached[run.number], _chunks_within(cached[run.number], run)) for run in runs]
            places = np.ascontiguousarray(
                np.concatenate([known.places[:, part] for known, part in used], axis=1)
            )
            verified = np.concatenate([known.verified[part] for known, part in used])
        keys, columns, counts, fences = places
        for run, first in zip(runs, counts[run_starts[:-1]].tolist(), strict=True):
            if run.offset >= first:  # a merge would have taken the chunk away
                raise CorruptionError(
                    f"run {run.number} of an index begins past its first chunk; rebuild the index"
                )
        where = (keys, columns, counts, fences.view(np.uint64))
        return _Addresses(directory, runs, cached, starts, run_starts, verified, *where)

    def _load(self, run: Run, known: _CachedRun | None) -> _CachedRun:
        if known is None or not known.base <= run.first_chunk <= known.end:
            known = _CachedRun(run.first_chunk, _NO_PLACES, _NONE_VERIFIED, [])
        if known.end >= run.end_chunk:
            return known
        # A new object, so that a thread that holds the old one never sees it half grown.
        owners = []
        for number in range(known.end, run.end_chunk):
            key = pack_chunk(self._index, run.number, number)
            owners.append(runs.decode_chunk(self._table, key, self._value(key), self._column_count))
        places = np.array([chunk.place for chunk in owners], np.int64)
        return _CachedRun(
            known.base,
            np.concatenate([known.places, places.T], axis=1),
            np.concatenate([known.verified, np.zeros(len(owners), np.uint8)]),
            known.owners + owners,
        )

    def _value(self, key: bytes) -> memoryview:
        value = self._transaction.get(self._table, key)
        if value is None:
            raise CorruptionError(f"an index chunk is missing (key {key.hex()}); rebuild the index")
        return value

    # -- probing ---------------------------------------------------------------------------

    def probe(self, queries: UInt64s, *, limit: int = NO_LIMIT) -> Found:
        """Find the rows of many keys, at most so many a key.

        Rows of one key come in the order of runs, so with column 0 = item number they ascend.
        """
        self._transaction.require_open()
        addresses = self._addresses
        if queries.size > MANY_A_CHUNK * addresses.counts.size:
            self._verify((addresses.verified == 0).nonzero()[0])
        room = max(FIRST_ROOM, min(ROWS_A_KEY * queries.size, MOST_ROOM))
        while True:
            found = Found(
                np.empty(room, np.uint32), np.empty(room, np.uint32), np.empty(room, np.uint32)
            )
            unverified = np.zeros(addresses.counts.size, np.uint8)
            rows, unchecked = kernels.runs.probe(
                addresses.keys,
                addresses.starts,
                addresses.counts,
                addresses.fences,
                addresses.run_starts,
                addresses.verified,
                queries,
                limit,
                *(found.queries, found.chunks, found.positions),
                unverified,
            )
            if unchecked:
                self._verify(np.flatnonzero(unverified))
            elif rows <= room:
                return Found(found.queries[:rows], found.chunks[:rows], found.positions[:rows])
            else:
                room = rows

    def perhaps_stored(self, queries: UInt64s, known: KeyFilter) -> UInt32s | None:
        """Return the places of those keys that a run may have; None where that is not worth it.

        The filter is brought up to this snapshot, which no transaction that writes may be: what
        it is told stays.
        """
        return known.perhaps_stored(queries) if self._is_brought_up(known, queries.size) else None

    def key_filter(self, most_bytes: int) -> KeyFilter:
        """Make a filter of all keys; it serves this snapshot, in any thread, and no other one."""
        known = KeyFilter(most_bytes)
        self._is_brought_up(known, self.entries)
        return known

    @property
    def entries(self) -> int:
        """How many rows all runs have."""
        return sum(run.entries for run in self._addresses.runs)

    def _is_brought_up(self, known: KeyFilter, looked_for: int) -> bool:
        self._transaction.require_open()
        addresses = self._addresses
        unmarked = known.takes(self._index, addresses.runs, looked_for)
        if unmarked is None:
            return False
        for which in unmarked:
            chunks = slice(*addresses.run_starts[which : which + 2].tolist())
            self._verify(np.flatnonzero(addresses.verified[chunks] == 0) + chunks.start)
            columns = (addresses.keys, addresses.starts, addresses.counts)
            known.mark(*(np.ascontiguousarray(column[chunks]) for column in columns))
        known.note_marked(addresses.runs)
        return True

    def column(self, found: Found, column: int) -> UInt32s:
        """Return a column of the rows found, uint32 (rows,)."""
        self._transaction.require_open()
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

    def _verify(self, numbers: Int64s) -> None:
        addresses = self._addresses
        for position in numbers.tolist():
            which = int(np.searchsorted(addresses.run_starts, position, side="right")) - 1
            run = addresses.runs[which]
            cached = addresses.cached[run.number]
            number = run.first_chunk + position - int(addresses.run_starts[which])
            key = pack_chunk(self._index, run.number, number)
            self.verify_chunk(key)
            cached.verified[number - cached.base] = 1
            addresses.verified[position] = 1

    def keys_of_runs(self) -> Iterator[list[UInt64s]]:
        """Yield the sorted keys of each run, by chunks, where they lie; not verified."""
        self._transaction.require_open()
        for run in self._addresses.runs:
            cached = self._addresses.cached[run.number]
            first, *others = cached.owners[_chunks_within(cached, run)]
            yield [first.keys[run.offset :], *(chunk.keys for chunk in others)]

    def entries_present(self) -> dict[int, int]:
        """Count the entries of each run in its chunks, by its number; of dead items, too."""
        addresses = self._addresses
        ends = np.cumsum(addresses.counts)
        found = {}
        for run, begin, end in zip(
            addresses.runs, addresses.run_starts[:-1], addresses.run_starts[1:], strict=True
        ):
            before = int(ends[begin - 1]) if begin else 0
            found[run.number] = int(ends[end - 1]) - before - run.offset
        return found

    def verify_chunk(self, key: bytes) -> None:
        """Compare a chunk with its checksum, whether or not this process has; CorruptionError."""
        layout.unseal(self._table, key, self._value(key))

    # -- sweeping --------------------------------------------------------------------------

    def sweep(
        self, tombstones: UInt8s, *, item_column: int = 0, room: int
    ) -> Iterator[tuple[UInt64s, UInt32s]]:
        """Yield keys, and columns (columns, n), of all live items' entries merged into one order.

        Every batch ends with the last entry of a key, so that a bucket is seen whole. A batch has
        at most ``room`` entries, or twice as many as the largest bucket.
        """
        addresses = self._addresses
        room = min(room, int(addresses.counts.sum()) + 1)  # for all, and no memory for more
        chunk = addresses.run_starts[:-1].copy()
        ends = addresses.run_starts[1:]
        positions = addresses.starts[chunk]
        keys = np.empty(room, np.uint64)
        columns = np.empty((self._column_count, room), np.uint32)
        filled = 0
        while True:
            active = np.flatnonzero(chunk < ends)
            if active.size:
                self._transaction.require_open()
                heads = chunk[active]
                self._verify(heads[addresses.verified[heads] == 0])
                here, counts = positions[active], addresses.counts[heads]
                filled = kernels.runs.merge(
                    addresses.keys[heads],
                    addresses.columns[heads],
                    counts,
                    here,
                    (heads + 1 == ends[active]).astype(np.uint8),
                    self._column_count,
                    item_column,
                    tombstones,
                    keys,
                    columns,
                    filled,
                )
                used_up = here == counts
                positions[active] = np.where(used_up, 0, here)
                chunk[active[used_up]] += 1
                if filled < keys.size:
                    continue
            # All but the last key are surely complete.
            whole = int(np.searchsorted(keys, keys[-1])) if active.size else filled
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


COUNTED = 2**20  # entries up to which all are counted
SAMPLED = 2**16  # entries that are looked at where there are more
LOOKED_UP = 16  # buckets whose entries are counted after that


class LargestBucket(Struct, frozen=True):
    """The entries of the largest bucket found, and what no bucket exceeds.

    Entries of deleted items that are not dropped yet are among them.
    """

    entries: int
    bound: int


def largest_bucket(view: RunView) -> LargestBucket:
    """Find the largest bucket of an index.

    Exact for up to ``COUNTED`` entries. Of more, every n-th of each run is looked at, and the
    buckets met most often are counted. The entries of a bucket lie together in a run, so a bucket
    met m times in r runs has less than n (m + r) entries.
    """
    runs = list(view.keys_of_runs())
    total = sum(keys.size for chunks in runs for keys in chunks)
    if not total:
        return LargestBucket(0, 0)
    step = 1 if total <= COUNTED else -(-total // SAMPLED)
    samples = np.concatenate([part for chunks in runs for part in every(chunks, step)])
    met, counts = np.unique(samples, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    if step == 1:
        return LargestBucket(*[int(counts[order[0]])] * 2)
    chosen = np.sort(met[order[:LOOKED_UP]])
    sizes = np.zeros(chosen.size, np.int64)
    for keys in (keys for chunks in runs for keys in chunks):
        sizes += np.searchsorted(keys, chosen, side="right") - np.searchsorted(keys, chosen)
    most_met_of_others = int(counts[order[LOOKED_UP]]) if order.size > LOOKED_UP else 0
    largest = int(sizes.max())
    return LargestBucket(largest, max(largest, step * (most_met_of_others + len(runs))))


def every(chunks: list[UInt64s], step: int) -> Iterator[UInt64s]:
    """Yield every n-th key of a run, counted over all of its chunks."""
    passed = 0
    for keys in chunks:
        yield keys[-passed % step :: step]
        passed += keys.size
