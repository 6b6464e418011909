"""Runs against a sorted list of tuples: whatever is appended, merged and deleted, both agree."""

# mypy: allow-untyped-calls

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from simdb.errors import CorruptionError
from simdb.storage import chunks, registry, runs
from simdb.storage.keys import Table, pack_chunk
from simdb.storage.run_views import RunView
from simdb.storage.runs import MergeCounters, Run, RunDirectory, RunWriter, due_merges

NO_MARKS = np.empty(0, np.uint8)
INDEX = 7


class AbortError(Exception):
    """Undoes a transaction on purpose."""


@pytest.fixture
def environment(tmp_path):
    environment = registry.acquire(
        tmp_path / "store.simdb", read_only=False, sync="batch", map_size=None
    )
    yield environment
    registry.release(environment)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(runs, "CHUNK_ENTRIES", 16)
    monkeypatch.setattr(runs, "FAN_IN", 3)
    monkeypatch.setattr(runs, "SMALL_MERGE", 8)


class Twin:
    """A run set beside the slow obvious one: a list of (key, columns...), and a set of the dead."""

    def __init__(self, environment, seed, *, columns=1, item_column=0, key_count=200, most=40):
        self.environment = environment
        self.random = random.Random(seed)
        self.columns, self.item_column = columns, item_column
        self.key_count, self.most = key_count, most
        self.stored = RunDirectory().encode()
        self.rows: list[tuple[int, ...]] = []
        self.dead: set[int] = set()
        self.next_item = 0
        self.counters = MergeCounters()

    def marks(self):
        marks = np.zeros(self.next_item // 8 + 1, np.uint8)
        for item in self.dead:
            marks[item >> 3] |= 1 << (item & 7)
        return marks

    def writer(self, transaction, directory):
        return RunWriter(
            transaction,
            Table.BANDS,
            INDEX,
            directory,
            column_count=self.columns,
            item_column=self.item_column,
        )

    def new_rows(self):
        rows, first = [], self.next_item
        for item in range(first, first + self.random.randint(1, 4)):
            for _ in range(self.random.randint(0, self.most)):
                # Squaring makes some keys far more frequent than others.
                key = int(self.random.random() ** 2 * self.key_count)
                row = [self.random.randrange(5) for _ in range(self.columns)]
                row[self.item_column] = item
                rows.append((key << 40 | key, *row))
        return sorted(rows), first, item

    def append(self, writer):
        rows, first, last = self.new_rows()
        keys = np.array([row[0] for row in rows], np.uint64)
        columns = np.array([row[1:] for row in rows], np.uint32).reshape(-1, self.columns).T
        writer.append(keys, columns, first, last)
        writer.merge_after(len(rows), self.marks)
        return rows, last + 1

    def delete(self, directory, writer):
        alive = sorted({row[1 + self.item_column] for row in self.rows} - self.dead)
        doomed = self.random.sample(alive, len(alive) // 4)
        for item in doomed:
            self.dead.add(item)
            count = sum(row[1 + self.item_column] == item for row in self.rows)
            directory.note_deleted(item, count)
        writer.merge_after(len(doomed), self.marks)

    def change(self):
        """Do one random transaction; some are undone."""
        choice = self.random.random()
        undone = self.random.random() < 0.15
        directory = RunDirectory.decode(self.stored)
        added, next_item, dead = [], self.next_item, set(self.dead)
        try:
            with self.environment.write(1) as transaction:
                writer = self.writer(transaction, directory)
                if choice < 0.75:
                    added, next_item = self.append(writer)
                elif choice < 0.85:
                    writer.step(self.marks)
                elif choice < 0.95:
                    self.delete(directory, writer)
                else:
                    writer.start_full_merge()
                if undone:
                    raise AbortError  # noqa: TRY301 - undoes the transaction
        except AbortError:
            self.dead = dead
            return
        self.stored = directory.encode()
        self.rows = sorted(self.rows + added)
        self.next_item = next_item
        for name in ("steps", "entries", "bytes"):
            total = getattr(self.counters, name) + getattr(writer.counters, name)
            setattr(self.counters, name, total)

    def alive_rows(self):
        return [row for row in self.rows if row[1 + self.item_column] not in self.dead]

    def view(self, transaction):
        directory = RunDirectory.decode(self.stored)
        return RunView(transaction, Table.BANDS, INDEX, directory, column_count=self.columns)

    def check(self):
        with self.environment.read() as transaction:
            view = self.view(transaction)
            self.check_probe(view)
            self.check_sweep(view)
        self.check_directory()

    def check_probe(self, view):
        present = range(self.key_count + 5)
        wanted = [key << 40 | key for key in self.random.sample(present, min(20, len(present)))]
        found = view.probe(np.array(wanted, np.uint64))
        columns = [view.column(found, column).tolist() for column in range(self.columns)]
        rows = [
            (wanted[query], *row)
            for query, *row in zip(found.queries.tolist(), *columns, strict=True)
            if row[self.item_column] not in self.dead
        ]
        assert sorted(rows) == [row for row in self.alive_rows() if row[0] in wanted]
        if self.item_column == 0:
            order = list(zip(found.queries.tolist(), columns[0], strict=True))
            assert order == sorted(order)

    def check_sweep(self, view):
        room = self.random.choice([1, 7, 64, 10_000])
        largest = max(Counter(row[0] for row in self.rows).values(), default=0)
        swept: list[tuple[int, ...]] = []
        for keys, columns in view.sweep(self.marks(), item_column=self.item_column, room=room):
            assert not swept or swept[-1][0] < int(keys[0])  # no bucket is cut
            assert len(keys) <= max(room, 2 * largest)
            swept += zip(keys.tolist(), *columns.tolist(), strict=True)
        assert [row[:2] for row in swept] == [row[:2] for row in self.alive_rows()]
        assert sorted(swept) == self.alive_rows()

    def check_directory(self):
        directory = RunDirectory.decode(self.stored)
        ranges = [(run.first_item, run.last_item) for run in directory.runs if not run.is_output]
        assert ranges == sorted(ranges)
        assert all(before[1] < after[0] for before, after in pairwise(ranges))
        due = {run.number for group in due_merges(directory.runs) for run in group}
        for segment in runs._idle_segments(directory.runs):
            levels = [run.level for run in segment if run.number not in due]
            assert all(levels.count(level) < runs.FAN_IN for level in levels)

    def finish(self):
        """Merge all runs into one."""
        for _ in range(2):  # what is under way first
            more = True
            while more:
                directory = RunDirectory.decode(self.stored)
                with self.environment.write(1) as transaction:
                    writer = self.writer(transaction, directory)
                    more = writer.step(self.marks)
                self.stored = directory.encode()
            directory = RunDirectory.decode(self.stored)
            with self.environment.write(1) as transaction:
                self.writer(transaction, directory).start_full_merge()
            self.stored = directory.encode()
        directory = RunDirectory.decode(self.stored)
        with self.environment.write(1) as transaction:
            while self.writer(transaction, directory).step(self.marks):
                pass
        self.stored = directory.encode()


@pytest.mark.parametrize("seed", range(6))
def test_runs_answer_as_a_sorted_list_does_under_random_changes(environment, tiny, seed):
    twin = Twin(environment, seed)
    for _ in range(120):
        twin.change()
        if twin.random.random() < 0.4:
            twin.check()
    twin.check()
    assert twin.counters.steps > 20


@pytest.mark.parametrize(("columns", "item_column"), [(2, 1), (3, 0), (3, 2)])
def test_runs_of_several_columns_keep_their_rows_together(environment, tiny, columns, item_column):
    twin = Twin(environment, 11, columns=columns, item_column=item_column)
    for _ in range(80):
        twin.change()
        if twin.random.random() < 0.3:
            twin.check()
    twin.check()


def test_one_giant_bucket_over_many_chunks_and_runs_is_seen_whole(environment, tiny):
    twin = Twin(environment, 12, key_count=2)
    for _ in range(100):
        twin.change()
        if twin.random.random() < 0.3:
            twin.check()
    assert max([row[0] for row in twin.rows].count(key) for key in (0, 1 << 40 | 1)) > 500


def test_chunks_read_in_place_answer_as_a_list_does(environment, monkeypatch):
    # Chunks above COPY_BELOW bytes are not copied: the kernels read the map itself.
    monkeypatch.setattr(runs, "CHUNK_ENTRIES", 8_192)
    monkeypatch.setattr(runs, "FAN_IN", 3)
    twin = Twin(environment, 13, key_count=3_000, most=3_000)
    for step in range(40):
        twin.change()
        if step % 8 == 7:
            twin.check()
    twin.check()
    assert max(chunk.size for chunk in stored_chunks(environment, twin)) >= chunks.COPY_BELOW


def stored_chunks(environment, twin):
    with environment.read() as transaction:
        for run in RunDirectory.decode(twin.stored).runs:
            for number in range(run.first_chunk, run.end_chunk):
                value = transaction.get(Table.BANDS, pack_chunk(INDEX, run.number, number))
                assert value is not None
                yield np.frombuffer(bytes(value), np.uint8)


def test_a_full_merge_leaves_one_run_without_the_dead_and_no_stray_chunk(environment, tiny):
    twin = Twin(environment, 14)
    for _ in range(60):
        twin.change()
    twin.finish()
    directory = RunDirectory.decode(twin.stored)
    assert len(directory.runs) == 1
    assert not directory.merges
    assert directory.entries == len(twin.alive_rows())
    twin.check()
    with environment.read() as transaction:
        assert transaction.statistics(Table.BANDS)["entries"] == len(
            list(stored_chunks(environment, twin))
        )


def test_an_old_snapshot_sees_its_own_entries_while_its_runs_are_merged_away(environment, tiny):
    twin = Twin(environment, 15)
    for _ in range(30):
        twin.change()
    with environment.read() as snapshot:
        before = Twin(environment, 15)
        before.stored, before.rows = twin.stored, list(twin.rows)
        before.dead, before.next_item = set(twin.dead), twin.next_item
        for _ in range(40):
            twin.change()
            before.check_sweep(before.view(snapshot))
            before.check_probe(before.view(snapshot))
            twin.check()


def test_a_run_known_to_the_cache_is_read_on_after_its_beginning_was_merged_away(environment, tiny):
    # One process reads rarely, another writes: the chunks between were never seen.
    twin = Twin(environment, 16, most=100)
    for step in range(150):
        twin.change()
        if step % 37 == 36:
            twin.check()


def test_a_limit_gives_the_oldest_rows_of_each_key(environment, tiny):
    twin = Twin(environment, 17, key_count=10)
    for _ in range(20):
        twin.change()
    with environment.read() as transaction:
        view = twin.view(transaction)
        queries = np.array([key << 40 | key for key in range(10)], np.uint64)
        everything = view.probe(queries)
        items = view.column(everything, 0)
        for limit in (1, 3, 50):
            limited = view.probe(queries, limit=limit)
            expected = [
                item
                for query in range(10)
                for item in items[everything.queries == query].tolist()[:limit]
            ]
            assert view.column(limited, 0).tolist() == expected


def test_the_number_of_runs_and_the_bytes_rewritten_stay_logarithmic(environment, monkeypatch):
    # Single additions of 16 entries. Levels differ by a factor of 8; up to FAN_IN - 1 runs of
    # each wait, and FAN_IN and their output may be under way.
    monkeypatch.setattr(runs, "CHUNK_ENTRIES", 1_024)
    monkeypatch.setattr(runs, "SMALL_MERGE", 128)
    directory = RunDirectory()
    additions, entries = 4_000, 16
    generator = np.random.default_rng(18)
    most_runs = most_step = 0
    total = MergeCounters()
    for begin in range(0, additions, 200):
        with environment.write(1) as transaction:
            writer = RunWriter(transaction, Table.BANDS, INDEX, directory)
            for item in range(begin, begin + 200):
                keys = np.sort(generator.integers(0, 2**63, entries).astype(np.uint64))
                columns = np.full((1, entries), item, np.uint32)
                before = writer.counters.entries
                writer.append(keys, columns, item, item)
                writer.merge_after(entries, lambda: NO_MARKS)
                most_step = max(most_step, writer.counters.entries - before)
                most_runs = max(most_runs, len(directory.runs))
            total.entries += writer.counters.entries
            total.bytes += writer.counters.bytes
    levels = 1 + Run(0, 0, 0, 0, additions * entries, 0, 0, 0).level
    assert most_runs <= levels * 2 * runs.FAN_IN
    assert total.entries <= additions * entries * levels
    # 12 bytes an entry, and a header of 32 bytes a chunk, which for the smallest is 16 entries.
    assert total.bytes <= (total.entries + additions * entries) * (12 + 2) + additions * 32
    assert most_step <= levels * 1_024 + 8 * 128
    assert directory.entries == additions * entries


def test_smaller_runs_before_a_larger_one_are_merged_with_it():
    sizes = [100_000, 40, 20, 9_000, 30]
    group = [Run(n, 0, 0, 1, size, 0, n, n) for n, size in enumerate(sizes)]
    assert [[run.number for run in due] for due in due_merges(group)] == [[1, 2, 3]]


def test_a_run_too_much_of_which_is_dead_is_rewritten():
    group = [Run(0, 0, 0, 1, 1_000, 301, 0, 0), Run(1, 0, 0, 1, 100, 30, 1, 1)]
    assert [[run.number for run in due] for due in due_merges(group)] == [[0]]


# -- damage ------------------------------------------------------------------------------------


def small_run(environment):
    """Store a run of two small chunks; return its directory, keys and items."""
    directory = RunDirectory()
    keys = np.array([5, 2**40, 2**40, 2**50, 2**63, 2**63 + 7], np.uint64)
    items = np.arange(6, dtype=np.uint32)
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, INDEX, directory)
        writer.append(keys, items[np.newaxis, :], 0, 5)
    return directory, keys, items


def rows_of(environment, directory, keys):
    environment.caches.clear()
    with environment.read() as transaction:
        view = RunView(transaction, Table.BANDS, INDEX, RunDirectory.decode(directory.encode()))
        found = view.probe(keys)
        return list(zip(found.queries.tolist(), view.column(found, 0).tolist(), strict=True))


def test_no_flipped_byte_of_a_chunk_gives_a_wrong_answer(environment, monkeypatch):
    monkeypatch.setattr(runs, "CHUNK_ENTRIES", 3)
    directory, keys, _ = small_run(environment)
    right = {int(key): rows_of(environment, directory, np.array([key])) for key in keys}
    for number in range(2):
        key = pack_chunk(INDEX, directory.runs[0].number, number)
        with environment.read() as transaction:
            value = transaction.get(Table.BANDS, key)
            assert value is not None
            sound = bytes(value)
        for position in range(len(sound)):
            damaged = bytearray(sound)
            damaged[position] ^= 0x41
            with environment.write(1) as transaction:
                transaction.put(Table.BANDS, key, bytes(damaged))
            with pytest.raises(CorruptionError):
                rows_of(environment, directory, keys)
            for wanted, rows in right.items():
                try:
                    assert rows_of(environment, directory, np.array([wanted], np.uint64)) == rows
                except CorruptionError:
                    continue
        with environment.write(1) as transaction:
            transaction.put(Table.BANDS, key, sound)
    assert len(rows_of(environment, directory, keys)) == 8


def test_a_damaged_first_key_does_not_lead_probes_past_its_chunk(environment, monkeypatch):
    # Whoever searches decides by first keys where to look, before anything else is verified.
    monkeypatch.setattr(runs, "CHUNK_ENTRIES", 3)
    directory, keys, _ = small_run(environment)
    key = pack_chunk(INDEX, directory.runs[0].number, 1)
    with environment.write(1) as transaction:
        value = transaction.get(Table.BANDS, key)
        assert value is not None
        larger = (2**64 - 5).to_bytes(8, "little")
        transaction.put(Table.BANDS, key, bytes(value[:24]) + larger * 2 + bytes(value[40:]))
    with pytest.raises(CorruptionError):
        rows_of(environment, directory, keys[3:4])


def test_a_view_that_met_damage_keeps_refusing(environment):
    directory, keys, _ = small_run(environment)
    key = pack_chunk(INDEX, directory.runs[0].number, 0)
    with environment.write(1) as transaction:
        value = transaction.get(Table.BANDS, key)
        assert value is not None
        transaction.put(Table.BANDS, key, bytes(value[:-1]) + bytes([value[-1] ^ 1]))
    with environment.read() as transaction:
        view = RunView(transaction, Table.BANDS, INDEX, directory)
        for _ in range(3):
            with pytest.raises(CorruptionError):
                view.probe(keys)
        with pytest.raises(CorruptionError):
            list(view.sweep(NO_MARKS, room=10))


def test_a_chunk_under_the_key_of_another_is_damage(environment, monkeypatch):
    monkeypatch.setattr(runs, "CHUNK_ENTRIES", 3)
    directory, keys, _ = small_run(environment)
    first, second = (pack_chunk(INDEX, directory.runs[0].number, number) for number in range(2))
    with environment.write(1) as transaction:
        value = transaction.get(Table.BANDS, second)
        assert value is not None
        transaction.put(Table.BANDS, first, bytes(value))
    with pytest.raises(CorruptionError):
        rows_of(environment, directory, keys)


def test_a_missing_chunk_is_damage(environment):
    directory, keys, _ = small_run(environment)
    with environment.write(1) as transaction:
        transaction.delete(Table.BANDS, pack_chunk(INDEX, directory.runs[0].number, 0))
    with pytest.raises(CorruptionError, match="missing"):
        rows_of(environment, directory, keys)


def test_a_merge_refuses_a_damaged_chunk_and_leaves_everything_as_it_was(environment, tiny):
    twin = Twin(environment, 19)
    while len(RunDirectory.decode(twin.stored).runs) < 2 or len(twin.rows) < 50:
        twin.change()
    directory = RunDirectory.decode(twin.stored)
    run = directory.runs[-1]
    key = pack_chunk(INDEX, run.number, run.end_chunk - 1)
    with environment.write(1) as transaction:
        value = transaction.get(Table.BANDS, key)
        assert value is not None
        sound = bytes(value)
        transaction.put(Table.BANDS, key, sound[:-1] + bytes([sound[-1] ^ 255]))
    with pytest.raises(CorruptionError):
        twin.finish()
    with environment.write(1) as transaction:
        transaction.put(Table.BANDS, key, sound)
    environment.caches.clear()
    twin.check()
    twin.finish()
    twin.check()
