"""Runs are appended and merged step by step: what is moved, when, and how much in all."""

# mypy: allow-untyped-calls

from __future__ import annotations

import struct

import msgspec
import numpy as np
import pytest

from simdb.storage.tables import runs
from simdb.storage.tables.layout import Table, pack_chunk
from simdb.storage.tables.runs import MergeCounters, Run, RunDirectory, RunWriter
from tests.support.environments import record_count
from tests.support.twins import INDEX, NO_MARKS, append_runs


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


def test_an_appended_run_is_cut_into_full_chunks(environment, small_runs):
    directory = RunDirectory()
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, INDEX, directory)
        append_runs(writer, [0, 1, 16, 17, 48])
        assert written(transaction, directory) == {1: [1], 2: [16], 3: [16, 1], 4: [16, 16, 16]}
        assert record_count(transaction, Table.BANDS) == 7
    assert [msgspec.structs.astuple(run) for run in directory.runs] == [
        (1, 0, 0, 1, 1, 0, 1, 1, 0, False),
        (2, 0, 0, 1, 16, 0, 2, 2, 0, False),
        (3, 0, 0, 2, 17, 0, 3, 3, 0, False),
        (4, 0, 0, 3, 48, 0, 4, 4, 0, False),
    ]
    # A header of 32 bytes a chunk, and 12 bytes an entry.
    assert writer.counters.bytes == 7 * 32 + 82 * 12
    assert (writer.counters.steps, writer.counters.entries) == (0, 0)


def test_a_step_moves_the_smallest_entries_and_deletes_what_is_used_up(environment, small_runs):
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
        assert record_count(transaction, Table.BANDS) == 5
        assert writer.step(lambda: NO_MARKS)
        assert writer.step(lambda: NO_MARKS)
        assert [msgspec.structs.astuple(run) for run in directory.runs] == [
            (4, 0, 0, 4, 60, 0, 0, 1, 0, False)
        ]
        assert directory.merges == []
        assert written(transaction, directory) == {4: [16, 16, 16, 12]}
        assert record_count(transaction, Table.BANDS) == 4
        assert not writer.step(lambda: NO_MARKS)
        assert (writer.counters.steps, writer.counters.entries) == (4, 60)
        assert directory.next_number == 5


def test_a_full_merge_starts_where_there_is_something_to_merge(environment, small_runs):
    directory = RunDirectory()
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, INDEX, directory)
        assert not writer.start_full_merge()
        append_runs(writer, [20])
        assert not writer.start_full_merge()
        directory.note_deleted(0, 1)
        assert writer.start_full_merge() is True
        assert writer.start_full_merge() is False


def test_a_run_all_of_which_is_dead_leaves_nothing(environment, small_runs):
    directory = RunDirectory()
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, INDEX, directory)
        append_runs(writer, [8])
        directory.note_deleted(0, 8)
        writer.merge_after(0, lambda: np.array([1], np.uint8))
        assert (directory.runs, directory.merges) == ([], [])
        assert record_count(transaction, Table.BANDS) == 0


def test_a_commit_merges_twice_as_many_entries_as_it_adds_in_whole_chunks(environment, small_runs):
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
def test_a_small_merge_is_done_at_once(environment, small_runs, monkeypatch, small, moved):
    monkeypatch.setattr(runs, "SMALL_MERGE", small)
    directory = RunDirectory()
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, INDEX, directory)
        append_runs(writer, [10, 10, 10])
        writer.merge_after(0, lambda: NO_MARKS)
        assert writer.counters.entries == moved


def test_a_group_of_runs_is_merged_in_its_place_among_the_others(environment, small_runs):
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


def test_a_step_goes_on_with_the_merge_that_began_first(environment, small_runs):
    directory = RunDirectory()
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, INDEX, directory)
        append_runs(writer, [200, 200, 200, 20, 20, 20])
        writer.plan()
        assert [merge.number for merge in directory.merges] == [7, 9]
        for _ in range(3):
            assert writer.step(lambda: NO_MARKS)
        assert {run.merge: run.entries for run in directory.runs if run.is_output} == {7: 48, 9: 0}


def test_the_number_of_runs_and_the_bytes_rewritten_stay_logarithmic(environment, monkeypatch):
    # Single additions of 16 entries. Levels differ by a factor of 8; up to FAN_IN - 1 runs of
    # each wait, and FAN_IN and their output may be under way.
    monkeypatch.setattr(runs, "CHUNK_ENTRIES", 1_024)
    monkeypatch.setattr(runs, "SMALL_MERGE", 128)
    directory = RunDirectory()
    additions, entries = 1_600, 16
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
