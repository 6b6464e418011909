"""What the tests of runs share: entries, small limits, and a slow twin of a run."""

# mypy: allow-untyped-calls

from __future__ import annotations

import random
from collections import Counter
from itertools import groupby, pairwise

import numpy as np
import pytest

from simdb.storage.tables import runs
from simdb.storage.tables.layout import Table
from simdb.storage.tables.runs import MergeCounters, RunDirectory, RunWriter, due_merges
from simdb.storage.tables.views import RunView

NO_MARKS = np.empty(0, np.uint8)
INDEX = 7


class AbortError(Exception):
    """Undoes a transaction on purpose."""


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
        for is_merging, segment in groupby(directory.runs, key=lambda run: run.merge > 0):
            idle = [] if is_merging else segment
            levels = [run.level for run in idle if run.number not in due]
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


def entries_of(first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Make so many entries with keys of their own, of one item."""
    keys = np.arange(count, dtype=np.uint64) * np.uint64(1_000) + np.uint64(first)
    return keys, np.full((1, count), first, np.uint32)


def append_runs(writer, sizes, first=0):
    for item, size in enumerate(sizes, first):
        writer.append(*entries_of(item, size), item, item)
