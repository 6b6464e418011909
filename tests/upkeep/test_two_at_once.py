"""Rebuilds and compactions at the same time: neither takes what the other is working on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import simdb
from simdb.opened import catalogue
from simdb.upkeep import rebuild as maintaining
from tests.support.processes import Child, answer_of, forked

WORDS = simdb.Text(simdb.WordShingles(1))
OPTIONS: dict[str, Any] = {"threshold": 0.5, "bands": 40, "rows": 2, "seed": 1}
ITEMS = 30


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    monkeypatch.setattr(maintaining, "REBUILT_AT_ONCE", 5)


def filled(db: simdb.Database, name: str, **options: Any) -> simdb.Collection:
    collection = db.create_collection(name, WORDS, **OPTIONS, **options)
    collection.add_many((number, f"{name} word{number // 2} tail") for number in range(ITEMS))
    return collection


def is_whole(collection: simdb.Collection) -> bool:
    """Whether every item finds itself and its twin, and a deep check finds nothing."""
    everything = {entry.key: entry.item for entry in collection.items()}
    for key, item in everything.items():
        found = {match.key for match in collection.search(item, threshold=1)}
        assert found == {other for other, text in everything.items() if text == item}, key
    return collection.check(deep=True).sound


def once(action: Callable[[], object]) -> Callable[[Any], None]:
    """A progress callback that acts at its first call."""
    left = [action]

    def called(_: Any) -> None:
        if left:
            left.pop()()

    return called


def in_a_thread(path: Any, name: str, threshold: float) -> None:
    failed = []

    def work() -> None:
        try:
            with simdb.open(path) as db:
                db[name].rebuild(threshold=threshold)
        except simdb.SimdbError as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failed


def in_a_process(path: Any, name: str, threshold: float) -> None:
    program = """
import sys, simdb
from simdb.upkeep import rebuild
rebuild.REBUILT_AT_ONCE = 5
with simdb.open(sys.argv[1]) as db:
    db[sys.argv[2]].rebuild(threshold=float(sys.argv[3]))
"""
    forked(program, path, name, threshold)


@pytest.mark.parametrize("floor", [None, 0.5])
@pytest.mark.parametrize("another", [in_a_thread, in_a_process])
def test_another_collection_can_be_rebuilt_meanwhile(tmp_path, another, floor):
    path = tmp_path / "s.simdb"
    with simdb.open(path) as db:
        first, second = (filled(db, name, exact_floor=floor) for name in ("a", "b"))
        first.rebuild(threshold=0.6, progress=once(lambda: another(path, "b", 0.7)))
        assert (float(first.threshold or 0), float(second.threshold or 0)) == (0.6, 0.7)
        assert is_whole(first)
        assert is_whole(second)


@pytest.mark.parametrize("another", [in_a_thread, in_a_process])
def test_of_two_rebuilds_of_one_collection_that_which_ends_first_counts(tmp_path, another):
    path = tmp_path / "s.simdb"
    with simdb.open(path) as db:
        collection = filled(db, "a")
        with pytest.raises(simdb.StorageError, match="run it again"):
            collection.rebuild(threshold=0.6, progress=once(lambda: another(path, "a", 0.7)))
        assert float(collection.threshold or 0) == 0.7
        assert is_whole(collection)
        collection.rebuild(threshold=0.6)
        assert is_whole(collection)
        with db._handle.read() as snapshot:
            assert not catalogue.garbage(snapshot)


@pytest.mark.parametrize("names", ["aa", "ab"])
def test_rebuilds_that_overlap_spoil_neither(tmp_path, names):
    path = tmp_path / "s.simdb"
    begun, ended = threading.Event(), threading.Event()
    with simdb.open(path) as db:
        for name in set(names):
            filled(db, name)
        outcome = []

        def work() -> None:
            def wait(_: Any) -> None:
                begun.set()
                ended.wait(30)

            try:
                db[names[1]].rebuild(threshold=0.7, progress=wait)
                outcome.append("done")
            except simdb.StorageError:
                outcome.append("refused")

        thread = threading.Thread(target=work)

        def start() -> None:
            thread.start()
            begun.wait(30)

        db[names[0]].rebuild(threshold=0.6, progress=once(start))
        ended.set()
        thread.join()
        assert outcome == ["refused" if names == "aa" else "done"]
        assert all(is_whole(db[name]) for name in set(names))


def test_the_numbers_of_indexes_and_collections_are_never_used_again(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        seen: set[int] = set()
        for _ in range(4):
            collection = filled(db, "a", exact_floor=0.5)
            for step in range(3):
                if step:
                    collection.rebuild(threshold=0.6)
                collection.compact()
                with db._handle.read() as snapshot:
                    assert not catalogue.garbage(snapshot)
                    settings = catalogue.require_settings(snapshot, "a")
                with collection._opened() as opened:
                    owners = set(opened.reader.manifest.index.owners)
                assert not owners & seen
                seen |= owners
            numbers = {settings.number}
            db.drop_collection("a")
        assert numbers == {4}


def test_a_compaction_during_a_rebuild_lets_it_go_on(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = filled(db, "a")

        def delete_and_compact() -> None:
            collection.delete_many([0, 1, 2, 20])  # some are in the new index, some not
            collection.compact()

        collection.rebuild(threshold=0.6, progress=once(delete_and_compact))
        assert float(collection.threshold or 0) == 0.6
        assert is_whole(collection)
        assert collection.compact()["deleted_not_yet_dropped"] == 0
        assert is_whole(collection)


def test_a_compaction_in_which_a_rebuild_ends_keeps_the_tombstones_that_its_index_needs(tmp_path):
    begun, goes_on = threading.Event(), threading.Event()
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = filled(db, "a")

        def work() -> None:
            def wait(_: Any) -> None:
                begun.set()
                goes_on.wait(30)

            db["a"].rebuild(threshold=0.6, progress=wait)

        thread = threading.Thread(target=work)
        thread.start()
        begun.wait(30)
        collection.delete_many([0, 1, 2])  # which the rebuild has read

        def let_it_end() -> None:
            goes_on.set()
            thread.join()

        collection.compact(progress=once(let_it_end))
        assert float(collection.threshold or 0) == 0.6
        assert is_whole(collection)
        assert collection.compact()["deleted_not_yet_dropped"] == 0
        assert is_whole(collection)


def test_what_a_killed_rebuild_has_left_is_removed(tmp_path):
    path = tmp_path / "s.simdb"
    with simdb.open(path) as db:
        filled(db, "a")
    program = """
import os, sys, simdb
from simdb.upkeep import rebuild
rebuild.REBUILT_AT_ONCE = 5
with simdb.open(sys.argv[1]) as db:
    db["a"].rebuild(threshold=0.6, progress=lambda _: os.kill(os.getpid(), 9))
"""
    forked(program, path, code=-signal.SIGKILL)
    with simdb.open(path) as db:
        with db._handle.read() as snapshot:
            assert catalogue.garbage(snapshot)
        db["a"].compact()
        with db._handle.read() as snapshot:
            assert not catalogue.garbage(snapshot)
        assert is_whole(db["a"])


def test_a_child_that_was_forked_in_a_rebuild_keeps_nothing_of_it(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = filled(db, "a")
        collection.delete(0)
        children = []

        def waits(child: Child) -> None:
            child.say("begun")
            child.hear()

        def fails(_: simdb.Progress) -> None:
            children.append(Child(waits))
            assert children[0].hear() == "begun"  # until then it has what it was forked with
            raise RuntimeError

        with pytest.raises(RuntimeError):
            collection.rebuild(threshold=0.6, progress=fails)
        try:
            assert collection.compact()["deleted_not_yet_dropped"] == 0
            with db._handle.read() as snapshot:
                assert not catalogue.garbage(snapshot)
        finally:
            children[0].signal(signal.SIGKILL)
            children[0].end()


def test_a_child_that_was_forked_in_a_rebuild_takes_nothing_from_it(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = filled(db, "a")
        answer = once(lambda: answers.append(answer_of(lambda: collection.compact()["items"])))
        answers: list[str] = []
        collection.rebuild(threshold=0.6, progress=answer)
        assert answers == [str(ITEMS)]
        assert is_whole(collection)


# Added in four batches, since a key comes again.
SIX = "one two three four five six"
ROWS = [
    *(("a", SIX), ("b", "the price of copper rose in london")),
    *(("a", SIX), ("c", "one two three four five seven")),
    *(("a", SIX), ("d", "one two three four five eight")),
    *(("a", SIX), ("e", "one two three four five nine")),
]


@pytest.mark.parametrize(
    "settings",
    [
        {"seed": 2},
        {"recall": 0.999},
        {"exact_floor": 0.5},
        {"kind": simdb.Text(simdb.WordShingles(1), lowercase=True)},
    ],
    ids=lambda settings: next(iter(settings)),
)
@pytest.mark.parametrize("adding", ["add_many", "dedupe"])
def test_all_batches_of_an_input_are_signed_by_the_settings_they_are_stored_under(
    tmp_path, adding, settings
):
    path = tmp_path / "s.simdb"
    with simdb.open(path) as db, simdb.open(path) as again:
        collection = db.collection("c", WORDS, threshold=0.5, seed=1)
        progress = once(lambda: again["c"].rebuild(**settings))
        if adding == "add_many":
            collection.add_many(ROWS, on_existing="replace", progress=progress)
            assert len(collection) == 5
        else:
            if "kind" in settings:  # what is similar would change halfway
                with pytest.raises(simdb.ConfigurationError, match="was rebuilt while rows"):
                    collection.dedupe(ROWS, on_existing="keep", progress=progress)
            report = collection.dedupe(ROWS, on_existing="keep", progress=progress)
            assert {one.key for one in report.duplicates} == {"a", "c", "d", "e"}
            assert len(collection) == 2
        assert is_whole(collection)


def test_batches_signed_ahead_by_threads_are_signed_again_after_a_rebuild(tmp_path, monkeypatch):
    monkeypatch.setattr("simdb.opened.opened.LEAST_SHARED", 1)
    path = tmp_path / "s.simdb"
    with simdb.open(path, threads=2) as db, simdb.open(path) as again:
        collection = db.collection("c", WORDS, threshold=0.5, seed=1)
        progress = once(lambda: again["c"].rebuild(seed=2))
        collection.add_many(ROWS, on_existing="replace", progress=progress)
        assert is_whole(collection)


def test_rows_do_not_go_on_into_another_collection_of_the_same_name(tmp_path):
    path = tmp_path / "s.simdb"
    with simdb.open(path) as db, simdb.open(path) as again:
        collection = db.collection("c", WORDS, threshold=0.5, seed=1)

        def made_anew() -> None:
            again.drop_collection("c")
            again.collection("c", WORDS, threshold=0.5, seed=2)

        with pytest.raises(simdb.CollectionNotFoundError, match="created again while rows"):
            collection.add_many(ROWS, on_existing="replace", progress=once(made_anew))
        assert len(again["c"]) == 0
        assert db.check(deep=True).sound
