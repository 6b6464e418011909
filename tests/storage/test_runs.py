"""Runs against a sorted list of tuples: whatever is appended, merged and deleted, both agree."""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np
import pytest

from simdb.storage.tables import runs
from simdb.storage.tables.layout import Table, pack_chunk
from simdb.storage.tables.runs import RunDirectory
from tests.support.environments import record_count
from tests.support.twins import INDEX, TwinRuns


@pytest.mark.parametrize("seed", range(2))
def test_runs_answer_as_a_sorted_list_does_under_random_changes(environment, small_runs, seed):
    twin = TwinRuns(environment, seed)
    for _ in range(70):
        twin.change()
        if twin.random.random() < 0.4:
            twin.check()
    twin.check()
    assert twin.counters.steps > 20


@pytest.mark.parametrize(("columns", "item_column"), [(2, 1), (3, 0), (3, 2)])
def test_runs_of_several_columns_keep_their_rows_together(
    environment, small_runs, columns, item_column
):
    twin = TwinRuns(environment, 11, columns=columns, item_column=item_column)
    for _ in range(50):
        twin.change()
        if twin.random.random() < 0.3:
            twin.check()
    twin.check()


def test_one_giant_bucket_over_many_chunks_and_runs_is_seen_whole(environment, small_runs):
    twin = TwinRuns(environment, 12, key_count=2)
    for _ in range(70):
        twin.change()
        if twin.random.random() < 0.3:
            twin.check()
    assert max([row[0] for row in twin.rows].count(key) for key in (0, 1 << 40 | 1)) > 500


def test_chunks_read_in_place_answer_as_a_list_does(environment, monkeypatch):
    # Chunks above COPY_BELOW bytes are not copied: the kernels read the map itself.
    monkeypatch.setattr(runs, "CHUNK_ENTRIES", 8_192)
    monkeypatch.setattr(runs, "FAN_IN", 3)
    twin = TwinRuns(environment, 13, key_count=3_000, most=3_000)
    for step in range(14):
        twin.change()
        if step == 7:
            twin.check()
    twin.check()
    assert max(chunk.size for chunk in stored_chunks(environment, twin)) >= runs.COPY_BELOW


def stored_chunks(environment, twin):
    with environment.read() as transaction:
        for run in RunDirectory.decode(twin.stored).runs:
            for number in range(run.first_chunk, run.end_chunk):
                value = transaction.get(Table.BANDS, pack_chunk(INDEX, run.number, number))
                assert value is not None
                yield np.frombuffer(bytes(value), np.uint8)


def test_a_full_merge_leaves_one_run_without_the_dead_and_no_stray_chunk(environment, small_runs):
    twin = TwinRuns(environment, 14)
    for _ in range(60):
        twin.change()
    twin.finish()
    directory = RunDirectory.decode(twin.stored)
    assert len(directory.runs) == 1
    assert not directory.merges
    assert directory.entries == len(twin.alive_rows())
    twin.check()
    with environment.read() as transaction:
        assert record_count(transaction, Table.BANDS) == len(list(stored_chunks(environment, twin)))


def test_an_old_snapshot_sees_its_own_entries_while_its_runs_are_merged_away(
    environment, small_runs
):
    twin = TwinRuns(environment, 15)
    for _ in range(30):
        twin.change()
    with environment.read() as snapshot:
        before = TwinRuns(environment, 15)
        before.stored, before.rows = twin.stored, list(twin.rows)
        before.dead, before.next_item = set(twin.dead), twin.next_item
        for _ in range(20):
            twin.change()
            before.check_sweep(before.view(snapshot))
            before.check_probe(before.view(snapshot))
            twin.check()


def test_a_run_known_to_the_cache_is_read_on_after_its_beginning_was_merged_away(
    environment, small_runs
):
    # One process reads rarely, another writes: the chunks between were never seen.
    twin = TwinRuns(environment, 16, most=100)
    for step in range(75):
        twin.change()
        if step % 37 == 36:
            twin.check()


def test_a_limit_gives_the_oldest_rows_of_each_key(environment, small_runs):
    twin = TwinRuns(environment, 17, key_count=10)
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
