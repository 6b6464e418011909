"""Snapshots: one state for several reads, whatever is written meanwhile."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import simdb
from simdb.storage.file.environment import ReadTransaction
from tests.support.processes import Child
from tests.support.strategies import SURE, found_groups, found_pairs, set_text
from tests.support.threads import Call

WORDS = simdb.Text(simdb.WordShingles(1))
TEXT = set_text(range(10))


@pytest.fixture
def database(tmp_path: Any) -> Any:
    with simdb.open(tmp_path / "s.simdb") as db:
        db.collection("c", WORDS, **SURE).add_many((number, TEXT) for number in range(4))
        yield db


def everything(view: Any) -> Any:
    return (
        len(view),
        list(view.items()),
        view.search(TEXT),
        found_pairs(view),
        found_groups(view),
        [key in view for key in range(6)],
        view.threshold,
        view.kind,
        view.stats(),
        view.self_audit(),
        view.check(deep=True),
    )


def test_what_a_call_reads_in_a_snapshot_stays_until_it_ends_whoever_ends_the_snapshot(tmp_path):
    begun, is_closed = threading.Event(), threading.Event()
    finished: list[bool] = []

    def waiting(_: object) -> bool:
        begun.set()
        is_closed.wait(20)
        finished.append(environment.is_finished)
        return True

    with simdb.open(tmp_path / "s.simdb") as database:
        database.collection("c", WORDS, **SURE).add(0, TEXT)
    with simdb.open(tmp_path / "s.simdb", threads=1) as database, database.snapshot() as state:
        environment, view = database._handle.environment, state["c"]
        reader = Call(lambda: view.search(TEXT, where=waiting))
        assert begun.wait(20)
    is_closed.set()
    reader.join(20)
    assert finished == [False]
    assert environment.is_finished


def test_what_a_task_reads_in_a_snapshot_stays_though_who_began_it_was_collected(database):
    with database.snapshot() as state:
        opening = state["c"]._opened()
        reader = opening.__enter__().reader
    del opening, state
    assert len(database._handle.environment._live) == 1
    del reader
    assert not database._handle.environment._live


def test_an_iterator_in_a_snapshot_that_was_closed_ends_with_an_error(database):
    with database.snapshot() as state:
        items = state["c"].items()
        next(items)
    database["c"].add(9, TEXT)
    with pytest.raises(simdb.DatabaseClosedError):
        list(items)
    assert not database._handle.environment._live


def test_a_snapshot_sees_one_state(database):
    collection = database["c"]
    with database.snapshot() as state:
        before = everything(state["c"])
        assert before == everything(collection)
        collection.add(4, TEXT)
        collection.delete(0)
        collection.replace(1, "something else")
        assert everything(state["c"]) == before
        collection.compact()
        database.create_collection("d", WORDS)
        assert everything(state["c"]) == before
        assert state.collection_names() == ["c"]
        assert "c" in state
        assert "d" not in state
        with pytest.raises(simdb.CollectionNotFoundError, match="'d'"):
            state["d"]
        numbers = [0, 1]
        assert state["c"].keys_of(numbers) == [0, 1]
    assert everything(collection) != before
    assert [match.key for match in collection.search(TEXT)] == [2, 3, 4]


def test_a_snapshot_keeps_the_settings_of_its_state(database):
    collection = database["c"]
    with database.snapshot() as state:
        view = state["c"]
        before = everything(view)
        collection.rebuild(simdb.Text(simdb.CharacterShingles(3)), threshold=0.9)
        assert everything(view) == before
        assert everything(state["c"]) == before
        database.drop_collection("c")
        assert everything(view) == before
    assert database.collection_names() == []


def test_two_handles_of_one_collection_agree_at_once(database):
    first, second = database["c"], database["c"]
    first.add("new", TEXT)
    assert "new" in second
    first.rebuild(threshold=0.9)
    assert second.search(TEXT).expected_recall == first.search(TEXT).expected_recall
    assert second.threshold == first.threshold


def test_a_snapshot_cannot_be_written_to(database):
    with database.snapshot() as state:
        view = state["c"]
        for name in ("add", "add_many", "dedupe", "replace", "delete", "delete_many", "compact"):
            assert not hasattr(view, name)
        assert not hasattr(view, "rebuild")


def test_a_snapshot_that_has_ended_says_so(database):
    with database.snapshot() as state:
        view = state["c"]
        items = view.items()
        pairs = iter(view.pairs())
        next(items)
        next(pairs)
    for use in (
        lambda: len(view),
        lambda: view.search(TEXT),
        lambda: view.get(1),
        lambda: list(view.items()),
        lambda: list(view.pairs()),
        view.groups,
        lambda: next(items),
        lambda: list(pairs),
        lambda: 1 in view,
        lambda: state["c"],
    ):
        with pytest.raises(simdb.DatabaseClosedError, match="snapshot"):
            use()
    with pytest.raises(simdb.DatabaseClosedError, match="snapshot"):
        state.collection_names()
    with pytest.raises(simdb.DatabaseClosedError, match="snapshot"):
        "c" in state  # noqa: B015


@pytest.mark.heavy
def test_iterators_that_are_open_when_the_database_is_closed_end_with_an_error(tmp_path):
    """The file stays mapped while they exist: they must not read memory that is gone."""
    db = simdb.open(tmp_path / "s.simdb")
    collection = db.collection("c", WORDS, **SURE)
    collection.add_many((number, TEXT) for number in range(200))
    items, pairs, batches = (
        collection.items(),
        iter(collection.pairs()),
        collection.pairs().batches(),
    )
    next(items)
    next(pairs)
    next(batches)
    db.close()
    for iterator in (items, batches):
        with pytest.raises(simdb.DatabaseClosedError):
            next(iterator)
    with pytest.raises(simdb.DatabaseClosedError):
        list(pairs)
    db.close()
    with simdb.open(tmp_path / "s.simdb") as again:
        again["c"].delete(0)
        assert len(again["c"]) == 199


def test_a_database_can_be_opened_again_while_an_iterator_of_its_last_opening_is_open(tmp_path):
    with simdb.open(tmp_path / "s.simdb") as db:
        collection = db.collection("c", WORDS, **SURE)
        collection.add_many((number, TEXT) for number in range(20))
        items: Any = collection.items()
        next(items)
    with simdb.open(tmp_path / "s.simdb") as db:
        db["c"].add("new", TEXT)
        items.close()
        db["c"].add("newer", TEXT)
        assert len(db["c"]) == 22
        assert db.check(deep=True).sound


@pytest.mark.parametrize(
    ("kind", "options", "items"),
    [
        (simdb.Set(), {"threshold": None, "exact_floor": 0.5}, ({1, 2}, {1, 2, 3})),
        (simdb.Text(), {"threshold": 0.5}, ("a text of some words", "a text of some words!")),
        (simdb.Vector(2, "euclidean"), {}, ([0.0, 1.0], [0.0, 2.0])),
    ],
    ids=["exact index", "probable index", "scan"],
)
def test_a_snapshot_is_known_by_what_is_in_it_not_by_its_number(
    tmp_path, monkeypatch, kind, options, items
):
    """LMDB can show the roots of commit n + 2 in a snapshot that says it is of commit n.

    It does so where others commit twice between its taking the number and its reading the roots.
    """
    path = tmp_path / "s.simdb"
    with simdb.open(path, threads=1) as reader:
        seen = reader.collection("c", kind, **options)
        seen.add(1, items[0])

        def add_when_told(child: Child) -> None:
            child.hear()
            with simdb.open(path, threads=1) as writer:
                writer["c"].add(2, items[1])

        other = Child(add_when_told)
        monkeypatch.setattr(ReadTransaction, "identity", property(lambda _: 7))
        bound: Any = {"max_distance": 2} if isinstance(kind, simdb.Vector) else {"threshold": 0.5}
        assert [match.key for match in seen.search(items[0], **bound)] == [1]
        other.say("go on")
        assert other.end() == 0
        assert {match.key for match in seen.search(items[0], **bound)} == {1, 2}
