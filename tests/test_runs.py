"""Runs against a sorted list of tuples: whatever is appended, merged and deleted, both agree."""

# mypy: allow-untyped-calls

from __future__ import annotations

import random
import struct
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


# -- the rules, each by itself -------------------------------------------------------------------


def idle(number: int, entries: int, dead: int = 0, merge: int = 0) -> Run:
    return Run(number, 0, 0, 1, entries, dead, number, number, merge)


def slow_level(entries: int) -> int:
    """Count how often 128 entries must be multiplied by 8 to be more than these."""
    level, limit = 0, 128
    while entries >= limit:
        level, limit = level + 1, limit * 8
    return level


def test_runs_of_one_level_differ_by_less_than_the_fan_in():
    sizes = [0, 1, 15, 16, 127, 128, 129, 1023, 1024, 8191, 8192, 10**6, 2**30]
    assert [idle(1, size).level for size in sizes] == [slow_level(size) for size in sizes]


def test_a_directory_comes_back_as_it_was_stored():
    directory = RunDirectory(
        9, [Run(1, 2, 3, 4, 5, 6, 7, 8), Run(2, 0, 0, 1, 5, 0, 9, 9, 4, is_output=True)]
    )
    directory.merges.append(runs.Merge(4, -17))
    stored = directory.encode()
    assert stored == [
        9,
        [(1, 2, 3, 4, 5, 6, 7, 8, 0, False), (2, 0, 0, 1, 5, 0, 9, 9, 4, True)],
        [(4, -17)],
    ]
    decoded = RunDirectory.decode(stored)
    assert decoded.encode() == stored
    assert decoded.entries == 10
    assert RunDirectory().encode() == [1, [], []]
    assert RunDirectory().entries == 0


def test_numbers_of_runs_and_merges_are_given_in_order_and_never_twice():
    directory = RunDirectory()
    assert [directory.take_number() for _ in range(3)] == [1, 2, 3]
    assert RunDirectory.decode(directory.encode()).take_number() == 4


def test_the_dead_are_counted_once_and_in_the_output_of_a_merge_for_its_inputs():
    directory = RunDirectory()
    directory.runs += [
        Run(1, 0, 0, 1, 9, 0, 0, 4),
        Run(5, 0, 0, 0, 0, 0, 5, 9, 4, is_output=True),
        Run(2, 0, 0, 1, 9, 0, 5, 7, 4),
        Run(3, 0, 0, 1, 9, 0, 8, 9, 4),
        Run(6, 0, 0, 1, 9, 0, 10, 10),
    ]
    for item, entries in [(0, 1), (4, 10), (5, 100), (9, 1_000), (10, 10_000), (11, 100_000)]:
        directory.note_deleted(item, entries)
    assert [run.dead for run in directory.runs] == [11, 1_100, 0, 0, 10_000]


def due(group: list[Run]) -> list[list[int]]:
    return [[run.number for run in one] for one in due_merges(group)]


def runs_of(*sizes: int) -> list[Run]:
    return [idle(number, size) for number, size in enumerate(sizes)]


def test_as_many_successive_runs_of_a_level_as_the_fan_in_are_merged():
    assert due(runs_of(*[100] * 7)) == []
    assert due(runs_of(*[100] * 8)) == [list(range(8))]
    assert due(runs_of(*[100] * 9)) == [list(range(9))]
    assert due(runs_of(*[900] * 7, *[100] * 7)) == []
    assert due(runs_of(*[900] * 7, *[100] * 8)) == [list(range(7, 15))]
    assert due(runs_of(*[900] * 8, *[100] * 8)) == [list(range(8)), list(range(8, 16))]
    assert due([]) == []


def test_smaller_runs_are_merged_with_the_last_larger_one_behind_them():
    assert due(runs_of(900, 100)) == []
    assert due(runs_of(100, 900)) == [[0, 1]]
    assert due(runs_of(100, 900, 100)) == [[0, 1]]
    assert due(runs_of(100, 900, 100, 900, 100)) == [[0, 1, 2, 3]]
    assert due(runs_of(9_000, 100, 900, 100)) == [[1, 2]]
    assert due(runs_of(1_000_000, 9_000, 70_000, 900, 1_000, 100, 900)) == [[1, 2], [5, 6]]


def test_a_run_is_rewritten_when_more_than_three_tenths_of_it_are_dead():
    assert due([idle(0, 10, dead=3)]) == []
    assert due([idle(0, 10, dead=4)]) == [[0]]
    assert due([idle(0, 10, dead=3), idle(1, 10, dead=4), idle(2, 10, dead=4)]) == [[1], [2]]
    assert due([idle(0, 900, dead=900), *runs_of(*[100] * 8)[1:]]) == [[0]]
    # Where it is merged with others anyway, it is not rewritten by itself too.
    assert due([idle(0, 10, dead=4), *runs_of(*[100] * 9)[1:]]) == [list(range(9))]


def test_runs_that_are_being_merged_are_left_alone_and_part_those_around_them():
    busy = [idle(4, 100, merge=9), idle(5, 100, merge=9)]
    assert due([*runs_of(100, 100, 100, 100), *busy, *runs_of(*[100] * 8)[:7]]) == []
    before, after = runs_of(*[100] * 8), [idle(10 + number, 100) for number in range(8)]
    assert due([*before, *busy, *after]) == [list(range(8)), list(range(10, 18))]
    assert due([idle(0, 10, dead=9, merge=9)]) == []


@pytest.mark.parametrize("seed", range(20))
def test_one_look_tells_whether_anything_is_due(seed):
    # What is due is looked for with a maximum at each run; after most commits it is nothing.
    generator = random.Random(seed)
    found: Counter[bool] = Counter()
    for _ in range(100):
        group = [
            idle(number, entries, generator.choice([0, 0, entries * 3 // 10]))
            for number, entries in enumerate(
                generator.choice([10, 900, 9_000]) for _ in range(generator.randint(1, 12))
            )
        ]
        if generator.random() < 0.8:
            group.sort(key=lambda run: -run.entries)
        if generator.random() < 0.2:
            generator.choice(group).dead += 1
        something = runs._something_due(group, [run.level for run in group], 0)
        assert something == bool(due_merges(group))
        assert type(something) is bool
        found[something] += 1
    assert min(found.values()) >= 10


def entries_of(first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Make so many entries with keys of their own, of one item."""
    keys = np.arange(count, dtype=np.uint64) * np.uint64(1_000) + np.uint64(first)
    return keys, np.full((1, count), first, np.uint32)


def append_runs(writer, sizes, first=0):
    for item, size in enumerate(sizes, first):
        writer.append(*entries_of(item, size), item, item)


def written(transaction, directory):
    """Read all chunks of all runs, with their entries."""
    return {
        run.number: [
            struct.unpack_from("<I", transaction.get(Table.BANDS, key), 16)[0]
            for number in range(run.first_chunk, run.end_chunk)
            for key in [pack_chunk(INDEX, run.number, number)]
        ]
        for run in directory.runs
    }


def test_an_appended_run_is_cut_into_full_chunks(environment, tiny):
    directory = RunDirectory()
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, INDEX, directory)
        append_runs(writer, [0, 1, 16, 17, 48])
        assert written(transaction, directory) == {1: [1], 2: [16], 3: [16, 1], 4: [16, 16, 16]}
        assert transaction.statistics(Table.BANDS)["entries"] == 7
    assert [runs.astuple_of_run(run) for run in directory.runs] == [
        (1, 0, 0, 1, 1, 0, 1, 1, 0, False),
        (2, 0, 0, 1, 16, 0, 2, 2, 0, False),
        (3, 0, 0, 2, 17, 0, 3, 3, 0, False),
        (4, 0, 0, 3, 48, 0, 4, 4, 0, False),
    ]
    # A header of 32 bytes a chunk, and 12 bytes an entry.
    assert writer.counters.bytes == 7 * 32 + 82 * 12
    assert (writer.counters.steps, writer.counters.entries) == (0, 0)


def test_a_step_moves_the_smallest_entries_and_deletes_what_is_used_up(environment, tiny):
    directory = RunDirectory()
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, INDEX, directory)
        append_runs(writer, [20, 40])
        assert not writer.step(lambda: NO_MARKS)
        assert writer.start_full_merge()
        first, second = directory.runs[1:]
        output = directory.runs[0]
        assert (output.number, output.first_item, output.last_item) == (4, 0, 1)
        assert (output.is_output, output.merge) == (True, 3)
        assert [(merge.number, merge.credit) for merge in directory.merges] == [(3, 0)]
        assert not writer.start_full_merge()
        # Of both runs every key of one is followed by that of the other.
        assert writer.step(lambda: NO_MARKS)
        assert (first.offset, second.offset, output.entries) == (8, 8, 16)
        assert (first.entries, second.entries, output.end_chunk) == (12, 32, 1)
        assert writer.step(lambda: NO_MARKS)
        assert (first.first_chunk, first.offset) == (1, 0)
        assert (second.first_chunk, second.offset) == (1, 0)
        assert written(transaction, directory) == {4: [16, 16], 1: [4], 2: [16, 8]}
        assert transaction.statistics(Table.BANDS)["entries"] == 5
        assert writer.step(lambda: NO_MARKS)
        assert writer.step(lambda: NO_MARKS)
        assert [runs.astuple_of_run(run) for run in directory.runs] == [
            (4, 0, 0, 4, 60, 0, 0, 1, 0, False)
        ]
        assert directory.merges == []
        assert written(transaction, directory) == {4: [16, 16, 16, 12]}
        assert transaction.statistics(Table.BANDS)["entries"] == 4
        assert not writer.step(lambda: NO_MARKS)
        assert (writer.counters.steps, writer.counters.entries) == (4, 60)
        assert directory.next_number == 5


def test_a_full_merge_starts_where_there_is_something_to_merge(environment, tiny):
    directory = RunDirectory()
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, INDEX, directory)
        assert not writer.start_full_merge()
        append_runs(writer, [20])
        assert not writer.start_full_merge()
        directory.note_deleted(0, 1)
        assert writer.start_full_merge() is True
        assert writer.start_full_merge() is False


def test_a_run_all_of_which_is_dead_leaves_nothing(environment, tiny):
    directory = RunDirectory()
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, INDEX, directory)
        append_runs(writer, [8])
        directory.note_deleted(0, 8)
        writer.merge_after(0, lambda: np.array([1], np.uint8))
        assert (directory.runs, directory.merges) == ([], [])
        assert transaction.statistics(Table.BANDS)["entries"] == 0


def test_a_commit_merges_twice_as_many_entries_as_it_adds_in_whole_chunks(environment, tiny):
    directory = RunDirectory()
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, INDEX, directory)
        append_runs(writer, [40, 40, 40])
        moved, left = [], []
        for added in (0, 7, 1, 8, 16, 20, 40, 0):
            writer.merge_after(added, lambda: NO_MARKS)
            moved.append(writer.counters.entries)
            left.append([merge.credit for merge in directory.merges])
        # The last 8 entries are a chunk that is not full, for which less credit is enough.
        assert moved == [0, 0, 16, 32, 64, 96, 120, 120]
        assert left == [[0], [14], [0], [0], [0], [8], [], []]


@pytest.mark.parametrize(("small", "moved"), [(29, 0), (30, 30)])
def test_a_small_merge_is_done_at_once(environment, tiny, monkeypatch, small, moved):
    monkeypatch.setattr(runs, "SMALL_MERGE", small)
    directory = RunDirectory()
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, INDEX, directory)
        append_runs(writer, [10, 10, 10])
        writer.merge_after(0, lambda: NO_MARKS)
        assert writer.counters.entries == moved


def test_a_group_of_runs_is_merged_in_its_place_among_the_others(environment, tiny):
    directory = RunDirectory()
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, INDEX, directory)
        append_runs(writer, [1_100, 30, 30, 30])
        writer.plan()
        assert [(run.number, run.merge, run.is_output) for run in directory.runs] == [
            (1, 0, False),
            (6, 5, True),
            (2, 5, False),
            (3, 5, False),
            (4, 5, False),
        ]
        assert (directory.runs[1].first_item, directory.runs[1].last_item) == (1, 3)
        writer.plan()
        assert len(directory.merges) == 1


def test_a_step_goes_on_with_the_merge_that_began_first(environment, tiny):
    directory = RunDirectory()
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, INDEX, directory)
        append_runs(writer, [200, 200, 200, 20, 20, 20])
        writer.plan()
        assert [merge.number for merge in directory.merges] == [7, 9]
        for _ in range(3):
            assert writer.step(lambda: NO_MARKS)
        assert {run.merge: run.entries for run in directory.runs if run.is_output} == {7: 48, 9: 0}


# -- all of them together ------------------------------------------------------------------------


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


def test_a_merge_refuses_a_missing_chunk(environment, tiny):
    directory = RunDirectory()
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, INDEX, directory)
        append_runs(writer, [20, 20])
        transaction.delete(Table.BANDS, pack_chunk(INDEX, 2, 0))
        assert writer.start_full_merge()
        with pytest.raises(CorruptionError):
            writer.step(lambda: NO_MARKS)


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
