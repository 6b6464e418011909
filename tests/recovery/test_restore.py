"""A backup takes the place of a store, safely, or says who is in the way."""

# mypy: allow-untyped-calls

from __future__ import annotations

import os
import re
import shutil
from contextlib import closing
from pathlib import Path

import lmdb
import pytest

import simdb
from simdb.errors import DatabaseFullError
from simdb.storage.file import environment, log, preflight
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table
from tests.support.commands import run
from tests.support.processes import Child


@pytest.fixture
def store(tmp_path):
    """A store of five items with a backup of the first three of them beside it."""
    path = tmp_path / "store.simdb"
    with simdb.open(path, threads=1) as database:
        collection = database.collection("c", simdb.Set(), threshold=0.5)
        collection.add_many((number, [number]) for number in range(3))
        database.backup(tmp_path / "backup.simdb")
        collection.add_many((number, [number]) for number in range(3, 5))
    return path


@pytest.fixture
def backup(store):
    return store.with_name("backup.simdb")


def count(path):
    with simdb.open(path, read_only=True, threads=1) as database:
        assert database.check(deep=True).sound
        return len(database["c"])


def names(path):
    return sorted(file.name for file in path.parent.iterdir() if not file.name.endswith("-turn"))


def test_a_restored_store_is_the_backup_and_the_backup_stays(store, backup):
    store.chmod(0o600)
    simdb.restore(backup, str(store))
    assert (count(store), count(backup)) == (3, 3)
    assert store.stat().st_mode & 0o777 == 0o600
    with simdb.open(store, threads=1) as database:
        database["c"].add("new", [9])
    assert (count(store), count(backup)) == (4, 3)
    assert not [name for name in names(store) if ".tmp" in name]


def test_a_store_restored_on_a_full_disk_opens_and_has_a_history_of_its_own(
    store, backup, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(preflight, "is_full", lambda path, needed: True)
        simdb.restore(backup, store)
    assert count(store) == 3
    with simdb.open(store, threads=1) as restored, simdb.open(backup, threads=1) as old:
        histories = [database._handle.environment.history for database in (restored, old)]
    assert histories[0] != histories[1]


def test_a_history_that_an_earlier_version_logged_takes_the_place_of_no_later_one(store, backup):
    opened = environment.acquire(backup, read_only=False, sync="full", map_size=None)
    try:
        with opened.write(None) as transaction:
            record = transaction.get(Table.META, layout.HEADER_KEY)
            assert record is not None
            header = layout.unpack(layout.unseal(Table.META, layout.HEADER_KEY, record))
            packed = layout.pack({**header, "history": bytes(16)})
            sealed = layout.seal(Table.META, layout.HEADER_KEY, packed)
            transaction.put(Table.META, layout.HEADER_KEY, sealed)
    finally:
        environment.release(opened)
    simdb.restore(backup, store)
    histories = []
    for _ in range(2):
        with simdb.open(store, threads=1) as database:
            histories.append(database._handle.environment.history)
            with database._handle.environment.write(None) as transaction:
                transaction.fold()
    assert histories[0] == histories[1] != bytes(16)


def test_a_store_that_is_lost_or_damaged_is_restored(store, backup):
    store.write_bytes(b"damaged" * 1_000)
    simdb.restore(backup, store)
    assert count(store) == 3
    store.unlink()
    simdb.restore(backup, store)
    assert count(store) == 3


@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_that_is_open_is_left_alone_and_who_has_it_is_named(store, backup, read_only):
    def work(child):
        with simdb.open(store, read_only=read_only, threads=1) as database:
            child.say(len(database["c"]))
            child.hear()

    child = Child(work)
    assert child.hear() == "5"
    with pytest.raises(simdb.DatabaseBusyError, match=f"open in process {child.pid};"):
        simdb.restore(backup, store)
    child.say("end")
    assert child.end() == 0
    with (
        simdb.open(store, read_only=read_only, threads=1),
        pytest.raises(simdb.DatabaseBusyError, match=r"open in this process; .*iterators"),
    ):
        simdb.restore(backup, store)
    assert count(store) == 5
    simdb.restore(backup, store)
    assert count(store) == 3


def forked():
    """Fork a child that touches nothing, and wait for its end."""
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)


def test_a_store_that_is_open_is_left_alone_also_after_a_fork(store, backup):
    def work(child):
        with simdb.open(store, threads=1) as database:
            for _ in range(2):
                forked()
            child.say("forked")
            child.hear()
            child.say(len(database["c"]))
            forked()

    child = Child(work)
    assert child.hear() == "forked"
    with pytest.raises(simdb.DatabaseBusyError, match="open in another process"):
        simdb.restore(backup, store)
    child.say("go on")
    assert child.hear() == "5"
    assert child.end() == 0
    with simdb.open(store, threads=1) as database:
        forked()
        with pytest.raises(simdb.DatabaseBusyError, match=r"open in this process; .*iterators"):
            simdb.restore(backup, store)
        assert len(database["c"]) == 5
        forked()
    simdb.restore(backup, store)
    assert count(store) == 3


def test_a_child_of_a_fork_keeps_nobody_from_restoring_until_it_uses_the_store(store, backup):
    database = simdb.open(store, threads=1)

    def work(child):
        child.say("begun")
        child.hear()
        child.say("alive")

    child = Child(work)  # which has inherited it
    assert child.hear() == "begun"  # and has put down what it was forked with
    database.close()
    simdb.restore(backup, store)
    child.say("are you?")
    assert child.hear() == "alive"
    assert child.end() == 0


def test_a_backup_that_cannot_be_used_replaces_nothing(store, backup):
    data = bytearray(backup.read_bytes())
    data[3 * 4_096 :] = b"\xff" * len(data[3 * 4_096 :])
    (damaged := store.with_name("damaged")).write_bytes(data)
    (short := store.with_name("short")).write_bytes(data[: 2 * 4_096])
    (foreign := store.with_name("foreign")).write_text("no store at all" * 1_000)
    before = names(store)
    for source, error in (
        (damaged, simdb.CorruptionError),
        (short, simdb.CorruptionError),
        (foreign, simdb.NotADatabaseError),
        (store.with_name("absent"), simdb.DatabaseNotFoundError),
        (store, simdb.ConfigurationError),
    ):
        with pytest.raises(error, match=source.name):
            simdb.restore(source, store)
    assert names(store) == before
    assert count(store) == 5


def test_what_never_was_a_store_is_not_replaced(store, backup):
    (posts := store.with_name("posts.jsonl")).write_text('{"text": "the only copy"}\n' * 400)
    os.mkfifo(pipe := store.with_name("pipe"))
    cache = store.with_name("cache.mdb")
    with (
        closing(lmdb.open(str(cache), subdir=False, map_size=2**20)) as other,
        other.begin(write=True) as writer,
    ):
        writer.put(b"key", b"the only copy")
    for name in (b"meta", b"items"):  # which the tables of stores are called, too
        with closing(lmdb.open(f"{cache}-{name.decode()}", subdir=False, max_dbs=2)) as of_others:
            of_others.open_db(name)
        with pytest.raises(simdb.NotADatabaseError, match="of another program"):
            simdb.restore(backup, f"{cache}-{name.decode()}")
    for other in (posts, pipe, cache):
        for names_of_both in ((backup, other), (other, store)):
            with pytest.raises(simdb.NotADatabaseError, match=other.name):
                simdb.restore(*names_of_both)
    assert b"the only copy" in cache.read_bytes()
    assert "the only copy" in posts.read_text()
    assert pipe.is_fifo()
    alone = store.with_name("alone")  # a store, without its lock file and its first page
    data = store.read_bytes()
    for content in (b"", data, b"\0" * 4_096 + data[4_096:]):
        alone.write_bytes(content)
        simdb.restore(backup, alone)
        assert count(alone) == 3
        alone.with_name("alone-lock").unlink(missing_ok=True)


def test_a_restored_store_is_synced_and_so_is_its_name(store, backup, monkeypatch):
    synced = []
    fsync, replace = os.fsync, os.replace

    def noted(descriptor):
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    def renamed(*names):
        synced.append("renamed")
        replace(*names)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "replace", renamed)
    simdb.restore(backup, store)
    assert [name for name in synced if name.endswith(".tmp")]
    assert synced[-2:] == ["renamed", str(store.parent)]


def test_a_copy_that_cannot_be_read_is_told_with_the_name_of_the_store(store, backup, monkeypatch):
    def full(path, **_):
        raise DatabaseFullError(f"{path}: the disk is full")

    monkeypatch.setattr(environment, "acquire", full)
    with pytest.raises(DatabaseFullError, match=f"^{re.escape(str(store))}: the disk"):
        simdb.restore(backup, store)
    monkeypatch.undo()
    assert count(store) == 5


@pytest.mark.usefixtures("forked_reader")
def test_all_of_a_backup_that_is_not_trusted_is_verified(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "LARGEST_COMMIT", 0)  # of a log, damage is always told
    backup, store = tmp_path / "backup.simdb", tmp_path / "store.simdb"
    with simdb.open(backup, threads=1) as database:
        database.collection("c", simdb.Text()).add(1, "a rare text")
    assert run("--untrusted", "restore", backup, store).exit_code == 0
    assert count(store) == 1
    backup.write_bytes(backup.read_bytes().replace(b"a rare text", b"a fake text"))
    refused = run("--untrusted", "restore", backup, store)
    assert refused.exit_code == 3
    assert f"{backup} is damaged: " in refused.stderr
    assert count(store) == 1
    assert not [name for name in names(store) if ".tmp" in name]
    simdb.restore(backup, store)  # pages alone are verified of one that is trusted


def test_the_command_restores_and_says_who_is_in_the_way(store, backup):
    done = run("restore", str(backup), str(store), "--json")
    assert done.exit_code == 0
    assert f'"bytes": {store.stat().st_size}' in done.output
    with simdb.open(store, threads=1):
        refused = run("restore", str(backup), str(store))
    assert refused.exit_code == 3
    assert "open in this process" in refused.output


def test_what_a_file_moved_over_an_open_store_would_lose_a_restored_one_keeps(store, backup):
    shutil.copyfile(store, latest := store.with_name("latest.simdb"))
    simdb.restore(backup, store)
    for number in range(3):
        with simdb.open(store, threads=1) as database:
            database["c"].add(f"new{number}", [number])
    assert count(store) == 6
    simdb.restore(latest, store)
    assert count(store) == 5


@pytest.mark.parametrize("call", ["backup", "restore", "repair"])
def test_progress_tells_of_all_bytes_and_may_end_the_work_without_a_trace(store, backup, call):
    with simdb.open(store, threads=1) as database:
        before = sorted(store.parent.iterdir())
        new = store.with_name("new.simdb")
        calls = {
            "backup": lambda progress: database.backup(new, progress=progress),
            "restore": lambda progress: simdb.restore(backup, new, progress=progress),
            "repair": lambda progress: simdb.repair(backup, new, threads=1, progress=progress),
        }

        def interrupted(_: simdb.Progress) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            calls[call](interrupted)
        assert sorted(store.parent.iterdir()) == before
        told: list[simdb.Progress] = []
        calls[call](told.append)
        if call != "repair":
            size = (new if call == "backup" else backup).stat().st_size
            assert simdb.Progress("copying", size, size) in told
            assert told[-1].done == told[-1].total == size
            assert (told[-1].task == "verifying") is (call == "restore")
        assert {step.task for step in told} >= ({"adding"} if call == "repair" else set())
        database["c"].add("more", [7])
    assert count(new) == (5 if call == "backup" else 3)
