"""A call whose change is committed does not fail for what is left to be freed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

import simdb
from simdb.errors import DatabaseBusyError, DatabaseFailedError, DatabaseFullError
from simdb.opened import catalogue
from simdb.storage.tables.layout import Table
from simdb.upkeep import rebuild as maintaining
from tests.support.commands import run
from tests.support.environments import record_count
from tests.support.guarded_stores import WORDS

collect = maintaining.collect_garbage


@pytest.fixture
def database(path: Path) -> Iterator[simdb.Database]:
    with simdb.open(path, busy_timeout=0.05, threads=1) as database:
        for name in ("kept", "other"):
            database.collection(name, WORDS, seed=1).add_many(
                (key, f"text number {key}") for key in range(50)
            )
        yield database
        assert database.check(deep=True).sound


def garbage(database: simdb.Database) -> list[Any]:
    with database._handle.read() as transaction:
        return catalogue.garbage(transaction)


def records(database: simdb.Database) -> dict[str, int]:
    with database._handle.read() as transaction:
        return {table.name: record_count(transaction, table) for table in Table}


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException, after: int = 0) -> None:
    """Let the garbage not be collected, but for so many times before."""
    calls = iter(range(1_000))

    def collected(*arguments: Any) -> None:
        if next(calls) >= after:
            raise error
        collect(*arguments)

    monkeypatch.setattr(maintaining, "collect_garbage", collected)


BEFORE_CLEARING = [
    (lambda database: database.drop_collection("other"), 0),
    (lambda database: database["other"].rebuild(threshold=0.6), 1),
]


@pytest.mark.parametrize(("change", "after"), BEFORE_CLEARING, ids=["drop", "rebuild"])
@pytest.mark.parametrize("error", [DatabaseFullError("full"), DatabaseBusyError("busy")], ids=repr)
def test_what_cannot_be_freed_now_is_freed_by_a_later_call(
    database, monkeypatch, change, after, error
):
    with monkeypatch.context() as patched:
        failing(patched, error, after)
        change(database)
    assert "other" not in database or float(database["other"].threshold or 0) == 0.6
    assert garbage(database)
    database["kept"].compact()
    assert garbage(database) == []


@pytest.mark.parametrize(("change", "after"), BEFORE_CLEARING, ids=["drop", "rebuild"])
def test_a_writer_that_comes_between_does_not_make_it_fail(database, monkeypatch, change, after):
    calls = iter(range(1_000))

    def behind_another(access: Any) -> None:
        if next(calls) < after:
            collect(access)
            return
        with ThreadPoolExecutor(1) as another, access.environment.write(1):
            another.submit(collect, access).result()

    with monkeypatch.context() as patched:
        patched.setattr(maintaining, "collect_garbage", behind_another)
        change(database)
    assert garbage(database)
    database["kept"].rebuild(threshold=0.7)
    assert garbage(database) == []


def test_a_rebuild_that_cannot_begin_fails_and_has_changed_nothing(database, monkeypatch):
    with monkeypatch.context() as patched:
        failing(patched, DatabaseBusyError("busy"))
        with pytest.raises(DatabaseBusyError):
            database["other"].rebuild(threshold=0.6)
    assert float(database["other"].threshold or 0) == 0.8


def test_a_failure_of_the_system_is_told_since_the_change_may_be_lost(database, monkeypatch):
    with monkeypatch.context() as patched:
        failing(patched, DatabaseFailedError("failed"))
        with pytest.raises(DatabaseFailedError):
            database.drop_collection("other")


def test_in_a_map_that_is_too_small_collections_are_removed_all_the_same(path):
    random = Random(1)
    with simdb.open(path, sync="batch", threads=1) as database:
        for name in ("a", "b"):
            database.collection(name, WORDS).add_many(
                (key, " ".join(str(random.random()) for _ in range(40))) for key in range(2_000)
            )
        database["b"].delete_many(range(100))  # which frees pages, of which the file has few
        database["b"].delete(100)
    with simdb.open(path, map_size=2**20, threads=1) as database:
        for name in ("a", "b"):
            database.drop_collection(name)
            assert name not in database
            with database._handle.writing() as access, pytest.raises(DatabaseFullError):
                collect(access)
        assert garbage(database)
    with simdb.open(path, threads=1) as database:
        assert database.compact() == {}  # no collection is left that would do it
        assert garbage(database) == []
        assert {name for name, count in records(database).items() if count} == {"META"}


# -- interruptions -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change", [["--threshold", "0.6"], ["--seed", "5"]], ids=lambda change: change[0]
)
@pytest.mark.parametrize("which", ["old", "new"])
def test_an_interruption_of_rebuild_says_which_settings_hold(
    database, path, monkeypatch, change, which
):
    def secret() -> bytes:
        with database._handle.read() as transaction:
            settings = catalogue.require_settings(transaction, "other")
        return bytes(settings.secret) + str(settings.threshold).encode()

    before = secret()
    failing(monkeypatch, KeyboardInterrupt(), after=1 if which == "new" else 0)
    result = run("rebuild", str(path), "other", *change)
    monkeypatch.undo()
    assert result.exit_code == 130
    assert result.stderr == f"simdb: interrupted; the collection has its {which} settings\n"
    assert (secret() == before) == (which == "old")


def test_an_interruption_between_whose_settings_cannot_be_read_is_told_as_one(
    database, monkeypatch
):
    def dropped_and_interrupted(*_: object) -> None:
        monkeypatch.undo()
        database.drop_collection("other")
        raise KeyboardInterrupt

    monkeypatch.setattr(maintaining, "collect_garbage", dropped_and_interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        database["other"].rebuild(threshold=0.6)
