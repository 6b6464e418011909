"""Damaged, exchanged and missing chunks of runs are refused, by probes, sweeps and merges."""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np
import pytest

from simdb.errors import CorruptionError
from simdb.storage.tables import runs
from simdb.storage.tables.layout import Table, pack_chunk
from simdb.storage.tables.runs import RunDirectory, RunWriter
from simdb.storage.tables.views import RunView
from tests.support.twins import INDEX, NO_MARKS, TwinRuns, append_runs


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


def test_a_merge_refuses_a_missing_chunk(environment, small_runs):
    directory = RunDirectory()
    with environment.write(1) as transaction:
        writer = RunWriter(transaction, Table.BANDS, INDEX, directory)
        append_runs(writer, [20, 20])
        transaction.delete(Table.BANDS, pack_chunk(INDEX, 2, 0))
        assert writer.start_full_merge()
        with pytest.raises(CorruptionError):
            writer.step(lambda: NO_MARKS)


def test_a_merge_refuses_a_damaged_chunk_and_leaves_everything_as_it_was(environment, small_runs):
    twin = TwinRuns(environment, 19)
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
