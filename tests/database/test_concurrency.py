"""Threads: searching while one adds, deletes, compacts, rebuilds, closes."""

from __future__ import annotations

import os
import resource
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

import simdb
from simdb.opened import opened
from simdb.storage.file.environment import LONGEST_TURN
from tests.support.processes import Child
from tests.support.strategies import SURE, found_pairs, set_text
from tests.support.threads import Call

WORDS = simdb.Text(simdb.WordShingles(1))


def together(*works: Any, timeout: Any = 60) -> Any:
    """Run functions in threads of their own; the first is the last to end the others' loops."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(works)) as pool:
        running = [pool.submit(work, stop) for work in works[1:]]
        try:
            works[0](stop)
        finally:
            stop.set()
        return [future.result(timeout) for future in running]


def searcher(collection: Any) -> Any:
    """Search for what is always there: it must be found, once, with the right similarity."""

    def work(stop: Any) -> Any:
        count = 0
        while not stop.is_set() or not count:
            for key in range(0, 60, 7):
                matches = collection.search(set_text(range(key * 100, key * 100 + 10)))
                assert [(m.key, m.similarity) for m in matches if m.key == key] == [(key, 1.0)]
            count += 1
        return count

    return work


def lister(collection: Any) -> Any:
    def work(stop: Any) -> Any:
        count = 0
        while not stop.is_set() or not count:
            keys = [record.key for record in collection.items()]
            assert len(set(keys)) == len(keys)
            assert set(keys) >= set(range(60))
            pairs = found_pairs(collection)
            assert {(0, "copy")} <= set(pairs)
            groups = [group.keys for group in collection.groups()]
            assert any({0, "copy"} <= set(group) for group in groups)
            count += 1
        return count

    return work


@pytest.fixture
def collection(tmp_path: Any) -> Any:
    with simdb.open(tmp_path / "s.simdb", sync="batch", threads=2) as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many((n, set_text(range(n * 100, n * 100 + 10))) for n in range(60))
        collection.add("copy", set_text(range(10)))
        yield collection
        assert db.check(deep=True).sound


def test_several_threads_search_while_one_adds_deletes_and_compacts(collection):
    def change(_: Any) -> Any:
        for number in range(100, 160):
            collection.add(number, set_text(range(number * 100, number * 100 + 10)))
            if number % 3 == 0:
                collection.delete(number)
            if number % 20 == 0:
                collection.compact()

    together(change, searcher(collection), searcher(collection), lister(collection))
    assert len(collection) == 61 + 60 - 20


def test_threads_that_share_a_collection_search_while_one_rebuilds_it(collection):
    def rebuild(_: Any) -> Any:
        for number in range(6):
            collection.rebuild(
                seed=number, sketch=("fast", "classical")[number % 2], bands=40 - number, rows=2
            )

    together(rebuild, searcher(collection), searcher(collection), lister(collection))


def test_threads_that_all_add_lose_nothing(collection):
    def adder(name: Any) -> Any:
        def work(_: Any) -> Any:
            for number in range(40):
                collection.add(f"{name} {number}", f"{name}{number}")
            collection.add_many((f"{name} many {number}", f"{number}") for number in range(40))

        return work

    together(*(adder(name) for name in "abcd"))
    assert len(collection) == 61 + 4 * 80
    for name in "abcd":
        assert f"{name} 39" in collection
        assert f"{name} many 0" in collection


def test_deduping_threads_store_each_content_once(collection):
    """Two inputs of equal content at once: of each text exactly one row is kept."""
    rows = [[(f"{name} {n}", f"text{n} word{n}") for n in range(200)] for name in "ab"]

    def deduper(part: Any) -> Any:
        return lambda _: collection.dedupe(part).added

    together(deduper(rows[0]), deduper(rows[1]))
    texts = [record.item for record in collection.items()][61:]
    assert sorted(texts) == sorted({f"text{n} word{n}" for n in range(200)})


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
def test_threads_that_search_seldom_hand_the_processor_over(collection):
    """Not at each search: with kernels that let the GIL go, or a lock of snapshots, twice each."""
    text = set_text(range(10**6, 10**6 + 200))
    collection.search(text)
    searches = 1_500

    def work() -> None:
        for _ in range(searches // 2):
            assert not collection.search(text)

    threads = [threading.Thread(target=work) for _ in range(2)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before < 0.8 * searches


@pytest.mark.parametrize(("threads", "turns"), [(1, 0), (2, 3)])
def test_who_reads_for_long_lets_others_run_if_there_are_any(
    collection, monkeypatch, threads, turns
):
    clock, slept = count(1e9, 2 * LONGEST_TURN), list[int]()
    clocks = SimpleNamespace(monotonic=lambda: next(clock), sleep=slept.append)
    monkeypatch.setattr("simdb.storage.file.environment.time", clocks)
    monkeypatch.setattr("threading.active_count", lambda: threads)
    for _ in range(3):
        collection.search(set_text(range(5)))
    assert slept == [0] * turns


def test_closing_while_threads_read_and_write_ends_them_with_an_error(tmp_path):
    """The file is unmapped only after the last of them: nobody reads memory that is gone."""
    for _ in range(5):
        db = simdb.open(tmp_path / "s.simdb", sync="batch", threads=2)
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many(
            ((n, set_text(range(n * 100, n * 100 + 10))) for n in range(60)), on_existing="skip"
        )
        started = threading.Barrier(4)

        def forever(work: Any, started: Any = started) -> Any:
            started.wait()
            with pytest.raises(simdb.DatabaseClosedError):
                deque(iter(work, forever), maxlen=0)

        works = (
            lambda collection=collection: collection.search(set_text(range(10))),
            lambda collection=collection: list(collection.pairs()),
            lambda collection=collection: collection.add(99, "x", on_existing="replace"),
        )
        with ThreadPoolExecutor(3) as pool:
            running = [pool.submit(forever, work) for work in works]
            started.wait()
            collection.search("x")
            db.close()
            for future in running:
                future.result(30)
    with simdb.open(tmp_path / "s.simdb") as db:
        assert db.check(deep=True).sound


def test_a_search_inside_a_progress_callback_sees_what_was_committed(collection):
    counts = []
    collection.add_many(
        ((f"new {n}", "one two three") for n in range(5)),
        progress=lambda _: counts.append(len(collection.search("one two three"))),
    )
    assert counts == [5]


def test_a_writer_goes_on_from_what_another_process_has_committed(tmp_path):
    path = tmp_path / "s.simdb"

    def add(child: Child) -> None:
        with simdb.open(path, threads=1) as database:
            while number := child.hear():
                database["c"].add(f"other {number}", set_text([100 + int(number)]))
                child.say(len(database["c"]))

    other = Child(add)
    with simdb.open(path, threads=1) as database:
        collection = database.collection("c", WORDS, **SURE)
        for number in range(6):
            collection.add(number, set_text([number]))
            other.say(number)
            assert other.hear() == str(2 * number + 2)
        other.say("")
        assert other.end() == 0
        assert len(collection) == len(list(collection.items())) == 12
        assert database.check(deep=True).sound


def test_several_threads_may_close_one_database(tmp_path, monkeypatch):
    """Also where one stops between two lines of it."""

    class Waiting:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def getpid(self) -> int:
            if threading.current_thread() is not threading.main_thread():
                began.set()
                closed.wait(20)
            return os.getpid()

    began, closed = threading.Event(), threading.Event()
    database = simdb.open(tmp_path / "s.simdb", threads=2)
    database._handle.pool()
    monkeypatch.setattr(opened, "os", Waiting())
    late = Call(database.close)
    assert began.wait(20)
    database.close()
    closed.set()
    late.join(20)
    assert late.error is None
