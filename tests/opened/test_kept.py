"""What is kept of collections between calls: within a share of memory, and while they are there."""

from __future__ import annotations

import random
import sys
import threading
from typing import Any

import numpy as np
import pytest

import simdb
from simdb.opened import opened as opening
from simdb.storage.file.caches import Caches, Made, bytes_of
from simdb.storage.tables.layout import Table
from simdb.upkeep import rebuild as maintaining

SETS = 20


def created(database: simdb.Database, name: str) -> simdb.Collection:
    collection = database.create_collection(name, simdb.Set(), threshold=0.5, seed=1)
    collection.add_many((number, range(number, number + 9)) for number in range(SETS))
    return collection


def joined(collection: simdb.Collection) -> None:
    for _ in range(2):
        assert collection.pairs(guarantee="exact").count()


def bytes_kept(caches: Caches) -> dict[int, int]:
    """How many bytes are kept of what was made of each collection, by its number."""
    kept: dict[int, int] = {}
    for name in caches.owned:
        one, number = caches[name], name[2]
        if isinstance(one, Made) and one.bytes:
            assert one.bytes == bytes_of(one.value)
            kept[number] = kept.get(number, 0) + one.bytes
    return kept


def test_what_is_kept_of_all_collections_takes_a_share_of_the_memory_setting(tmp_path, monkeypatch):
    with simdb.open(tmp_path / "s.simdb", threads=1, memory=2**25) as database:
        caches = database._handle.environment.caches
        collections = [created(database, name) for name in "abcde"]
        joined(collections[0])
        (of_one,) = bytes_kept(caches).values()
        assert of_one >= SETS * 9 * 8
        monkeypatch.setattr(opening, "SHARE_OF_KEPT", 2**25 // (3 * of_one))
        for place, collection in enumerate(collections):
            joined(collections[0])  # which stays: it was used since others were
            joined(collection)
            assert sum(bytes_kept(caches).values()) <= 2**25 // opening.SHARE_OF_KEPT
            assert len(bytes_kept(caches)) == min(place + 1, 3)
        assert set(bytes_kept(caches)) == {1, 4, 5}
        monkeypatch.setattr(opening, "SHARE_OF_KEPT", 2**25)
        joined(collections[2])
        assert set(bytes_kept(caches)) == {3}  # one alone has its own share


def test_nothing_is_kept_of_what_other_processes_have_dropped_and_rebuilt(tmp_path, monkeypatch):
    monkeypatch.setattr(maintaining, "clear_up", lambda access: None)  # which theirs do elsewhere
    with simdb.open(tmp_path / "s.simdb", threads=1) as database:
        caches = database._handle.environment.caches
        stays = created(database, "stays")

        def used(collection: simdb.Collection) -> tuple[int, int]:
            assert collection.search(range(9)).matches
            joined(collection)
            with collection._opened() as seen:
                return seen.reader.number, seen.reader.manifest.index.number

        def present(*tables: Table) -> set[int]:
            return {owner for _, table, owner in caches.owned if table in tables}

        used(stays)
        of_one = len(caches)
        for day in range(8):
            made = created(database, f"day {day}")
            seen = [used(made), used(stays)]
            assert len(caches) <= 3 * of_one
            assert present(Table.DOCUMENTS) >= {number for number, _ in seen}
            database.drop_collection(f"day {day}")
            if day % 2:
                stays.rebuild(threshold=0.6 if day == 1 else 0.5)
        seen.append(used(stays))
        assert present(Table.DOCUMENTS, Table.ITEMS) <= {number for number, _ in seen}
        assert present(Table.SIGNATURES, Table.BANDS) <= {index for _, index in seen}


def test_what_was_let_go_is_made_again_when_it_pays(tmp_path):
    made = iter(range(10))
    with simdb.open(tmp_path / "s.simdb", threads=1) as database:
        caches = database._handle.environment.caches
        with created(database, "c")._opened() as seen:
            for _ in range(2):
                found = [seen.kept("word", lambda: next(made), worth=0.3) for _ in range(5)]
                assert found[:3] == [None] * 3
                assert found[3] == found[4] is not None
                del caches["word", Table.DOCUMENTS, 1]
            assert next(made) == 2
            kept = [seen.kept("large", lambda: next(made), fits=lambda _: False) for _ in range(4)]
            assert kept == [None, 3, None, 4]


def test_threads_may_keep_and_forget_at_once():
    caches, stop, failures = Caches(), threading.Event(), []
    value = np.zeros(100)

    def work(seed: int) -> None:
        generator = random.Random(seed)
        try:
            while not stop.is_set():
                name = "made", Table.DOCUMENTS, generator.randrange(200)
                caches.keep_made(name, 1, value, 20 * value.nbytes)
                caches.forget_of({(Table.DOCUMENTS, generator.randrange(200))})
                if caches.has_grown:
                    caches.note_size()
        except Exception as error:
            failures.append(error)
            raise

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        stop.wait(0.2)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    assert not failures
    caches.keep_made(("made", Table.DOCUMENTS, 500), 1, value, 20 * value.nbytes)
    assert len(caches) <= 20


@pytest.mark.parametrize("level", range(3))
def test_bytes_are_counted_of_arrays_wherever_they_are(level):
    class Holder:
        def __init__(self, value: object) -> None:
            self.value, self.itself, self.kind, self.module = value, self, Holder, np

    value: Any = (np.zeros(10), [np.zeros(5, np.uint8), 7, "text", None])
    for _ in range(level):
        value = Holder((value, value))
    assert bytes_of(value) == 85
