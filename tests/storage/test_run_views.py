"""What a process remembers of runs: right for every snapshot, bounded, never used after its end."""

# mypy: allow-untyped-calls

from __future__ import annotations

import threading

import numpy as np
import pytest

import simdb
from simdb.errors import DatabaseClosedError
from simdb.storage.tables import runs
from simdb.storage.tables.layout import Table
from simdb.storage.tables.runs import RunDirectory, RunWriter
from simdb.storage.tables.views import MARKED_A_KEY, KeyFilter, RunView

NO_MARKS = np.empty(0, np.uint8)


def append(environment, directory, item, count=40, index=1):
    """Add a run whose entries all have keys made of the item number."""
    with environment.write(10) as transaction:
        writer = RunWriter(transaction, Table.BANDS, index, directory)
        keys = np.arange(count, dtype=np.uint64) << np.uint64(32)
        writer.append(keys, np.full((1, count), item, np.uint32), item, item)
        writer.merge_after(count, lambda: NO_MARKS)
    return RunDirectory.decode(directory.encode())


def items_of(transaction, directory, key, index=1):
    view = RunView(transaction, Table.BANDS, index, directory)
    found = view.probe(np.array([key << 32], np.uint64))
    return view.column(found, 0).tolist()


def test_an_empty_directory_has_nothing(environment):
    with environment.read() as transaction:
        view = RunView(transaction, Table.BANDS, 1, RunDirectory())
        assert view.probe(np.array([1, 2], np.uint64)).queries.size == 0
        assert list(view.sweep(NO_MARKS, room=10)) == []
        assert view.run_count == 0


def test_more_rows_than_there_was_room_for_are_all_found(environment):
    directory = RunDirectory()
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, 1, directory)
        items = np.arange(5_000, dtype=np.uint32)
        writer.append(np.full(5_000, 77, np.uint64), items[np.newaxis, :], 0, 4_999)
    with environment.read() as transaction:
        view = RunView(transaction, Table.BANDS, 1, directory)
        found = view.probe(np.array([76, 77, 78, 77], np.uint64))
        assert np.bincount(found.queries).tolist() == [0, 5_000, 0, 5_000]
        assert view.column(found, 0).tolist() == items.tolist() * 2


@pytest.mark.parametrize(
    "keys",
    [
        [0, 0, 0, 1, 2**63, 2**64 - 1],
        [2**64 - 1] * 40,
        [0] * 40,
        [*range(100), *range(2**63, 2**63 + 100)],
        [2**50 + position**5 for position in range(500)],
    ],
)
def test_keys_spread_in_any_way_are_found(environment, keys):
    directory = RunDirectory()
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, 1, directory)
        stored = np.array(sorted(keys), np.uint64)
        writer.append(stored, np.arange(len(keys), dtype=np.uint32)[np.newaxis, :], 0, len(keys))
    near = sorted({key + step for key in keys for step in (-1, 0, 1)})
    wanted = [key for key in near if 0 <= key < 2**64]
    with environment.read() as transaction:
        view = RunView(transaction, Table.BANDS, 1, directory)
        found = view.probe(np.array(wanted, np.uint64))
        rows = list(zip(found.queries.tolist(), view.column(found, 0).tolist(), strict=True))
    assert rows == [
        (query, item)
        for query, key in enumerate(wanted)
        for item, present in enumerate(sorted(keys))
        if present == key
    ]


def test_what_is_remembered_does_not_grow_with_the_runs_of_the_past(environment):
    directory = RunDirectory()
    for item in range(200):
        seen = append(environment, directory, item, count=5)
        with environment.read() as transaction:
            assert items_of(transaction, seen, 3) == list(range(item + 1))
    known = environment.caches["view", Table.BANDS, 1]
    assert len(known.cached) == len(seen.runs)


def test_threads_with_snapshots_of_different_age_all_read_their_own(environment, monkeypatch):
    monkeypatch.setattr(runs, "CHUNK_ENTRIES", 16)
    monkeypatch.setattr(runs, "FAN_IN", 3)
    directory = RunDirectory()
    present = [append(environment, directory, 0)]
    stop = threading.Event()
    problems: list[int] = []

    def work():
        while not stop.is_set():
            seen = present[0]
            with environment.read() as transaction:
                if present[0] is not seen:
                    continue  # a commit came between
                newest = max(run.last_item for run in seen.runs)
                if transaction.identity != newest + first:
                    continue
                if items_of(transaction, seen, 7) != list(range(newest + 1)):
                    problems.append(newest)

    with environment.read() as transaction:
        first = transaction.identity
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for item in range(1, 40):
        present[0] = append(environment, directory, item)
    stop.set()
    for thread in threads:
        thread.join(20)
    assert not problems


def test_a_view_ends_with_its_snapshot(environment):
    directory = RunDirectory()
    append(environment, directory, 0, count=30_000)
    with environment.read() as transaction:
        view = RunView(transaction, Table.BANDS, 1, directory)
        found = view.probe(np.array([5 << 32], np.uint64))
        sweep = view.sweep(NO_MARKS, room=100)
        next(sweep)
    for use in (
        lambda: view.probe(np.array([5], np.uint64)),
        lambda: view.column(found, 0),
        lambda: next(sweep),
    ):
        with pytest.raises(DatabaseClosedError):
            use()


def test_a_new_index_under_an_old_number_is_not_read_through_the_old_ones_addresses(tmp_path):
    with simdb.open(tmp_path / "store.simdb", threads=1) as database:
        for round_number in range(3):
            texts = database.collection("texts", simdb.Text(), threshold=0.8)
            rows = [
                f"round {round_number}, text number {number}, and more" for number in range(300)
            ]
            texts.add_many(enumerate(rows))
            for number in range(0, 300, 30):
                keys = [match.key for match in texts.search(rows[number], threshold=1)]
                assert keys == [number]
            assert database.check(deep=True).problems == ()
            database.drop_collection("texts")


@pytest.mark.parametrize("limit", [1, 3, 2**62])
@pytest.mark.parametrize("ordered", [True, False])
def test_many_keys_find_in_every_run_what_each_finds_alone(
    environment, monkeypatch, ordered, limit
):
    monkeypatch.setattr(runs, "CHUNK_ENTRIES", 7)  # equal keys go on in the next chunk
    random = np.random.default_rng(3)
    directory = RunDirectory()
    stored: list[int] = []
    for count in (400, 90, 1, 30):
        with environment.write(1) as transaction:
            writer = RunWriter(transaction, Table.BANDS, 1, directory)
            keys = np.sort(random.integers(0, 120, count).astype(np.uint64) << np.uint64(55))
            first = len(stored)
            stored += keys.tolist()
            items = np.arange(first, len(stored), dtype=np.uint32)
            writer.append(keys, items[np.newaxis, :], first, len(stored) - 1)
    for queries in (random.integers(0, 125, 300), random.integers(0, 125, 9), np.zeros(3, int)):
        wanted = queries.astype(np.uint64) << np.uint64(55)
        wanted = np.sort(wanted) if ordered else wanted
        with environment.read() as transaction:
            view = RunView(transaction, Table.BANDS, 1, directory)
            assert view.run_count == 4
            found = view.probe(wanted, limit=limit)
            rows = list(zip(found.queries.tolist(), view.column(found, 0).tolist(), strict=True))
        assert rows == [
            (place, item)
            for place, key in enumerate(wanted.tolist())
            for item in [item for item, own in enumerate(stored) if own == key][:limit]
        ]


@pytest.mark.parametrize("most_bytes", [1, 2**20])
def test_a_filter_passes_over_no_key_of_any_run_while_runs_come_and_merge(environment, most_bytes):
    random, known = np.random.default_rng(3), KeyFilter(most_bytes)
    passed = 0
    for index in (1, 2):  # as after a rebuild: nothing that was known holds
        directory, stored = RunDirectory(), np.empty(0, np.uint64)
        for item in range(12):
            keys = np.sort(random.integers(0, 2**64, 400, dtype=np.uint64))
            with environment.write(10) as transaction:
                writer = RunWriter(transaction, Table.BANDS, index, directory)
                writer.append(keys, np.full((1, keys.size), item, np.uint32), item, item)
                writer.merge_after(keys.size, lambda: NO_MARKS)
            stored = np.append(stored, keys)
            with environment.read() as transaction:
                view = RunView(
                    transaction, Table.BANDS, index, RunDirectory.decode(directory.encode())
                )
                queries = np.append(stored, random.integers(0, 2**64, 400, dtype=np.uint64))
                places = view.perhaps_stored(queries, known)
                assert places is not None
                assert places[: stored.size].tolist() == list(range(stored.size))
                passed += queries.size - places.size
    assert (passed > 0.9 * 400 * 24) == (most_bytes > 1)


def test_a_filter_is_not_made_where_that_takes_longer_than_to_look(environment):
    append(environment, directory := RunDirectory(), 1, 40 * MARKED_A_KEY)
    with environment.read() as transaction:
        view, known = RunView(transaction, Table.BANDS, 1, directory), KeyFilter(2**20)
        keys = np.arange(30, dtype=np.uint64)
        assert view.perhaps_stored(keys, known) is None
        found = view.perhaps_stored(keys, known)  # now many were looked for
        assert found is not None
        assert found[0] == 0
