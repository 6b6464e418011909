"""A file that was moved, replaced or has two names: LMDB's lock file may then speak of another."""

# mypy: allow-untyped-calls

from __future__ import annotations

import os
import shutil
import signal
import sys

import lmdb
import pytest

import simdb
from simdb.errors import CorruptionError, DatabaseBusyError, StorageError
from simdb.storage.file import environment as environments
from simdb.storage.file import preflight
from simdb.storage.tables.layout import Table
from tests.support.environments import acquire, get, put
from tests.support.processes import Child, answer_of, ended


def holder(path, *, read_only=False):
    """A child that has a store open; it stores, or gets, each key that it is told."""

    def work(child):
        environment = acquire(path, read_only=read_only)
        child.say("open")
        while key := child.hear().encode():
            try:
                if read_only:
                    child.say(get(environment, key))
                else:
                    put(environment, key, key)
                    child.say("acknowledged")
            except StorageError as error:
                child.say(f"refused: {error}")

    child = Child(work)
    assert child.hear() == "open"
    return child


def ask(child, key):
    child.say(key)
    return child.hear()


def end(*children):
    for child in children:
        child.signal(signal.SIGKILL)
        child.end()


def stored(path, *keys):
    for key in keys:
        environment = acquire(path)
        put(environment, key, key)
        environments.release(environment)


def keys_of(path):
    environment = acquire(path)
    with environment.read() as transaction:
        found = {bytes(key) for key, _ in transaction.scan(Table.KEYS, b"")}
    environments.release(environment)
    return found


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("later", range(1, 5))
def test_a_backup_put_over_a_store_that_is_open_loses_no_commit(path, later, read_only):
    stored(path, b"old")
    shutil.copyfile(path, backup := path.with_name("backup"))
    child = holder(path, read_only=read_only)
    stored(path, *[b"later%d" % number for number in range(later)])
    backup.replace(path)
    with pytest.raises(StorageError, match=rf"process {child.pid}\b.*simdb restore"):
        stored(path, b"new")
    with pytest.raises(StorageError, match="simdb restore"):
        acquire(path, read_only=True)
    assert ask(child, "more") == "None" if read_only else "refused" in ask(child, "more")
    end(child)
    stored(path, b"new")
    assert keys_of(path) == {b"old", b"new"}


def test_a_store_made_anew_beside_one_that_is_open_is_not_taken_for_another_programs(path):
    stored(path, b"a", b"b", b"c")
    child = holder(path)
    path.unlink()
    with pytest.raises(StorageError, match="was moved, replaced"):
        acquire(path)
    end(child)
    stored(path, b"new")
    assert keys_of(path) == {b"new"}


def test_a_reader_of_a_file_that_was_replaced_is_told_once_the_new_one_is_written(path):
    stored(path, b"old")
    shutil.copyfile(path, backup := path.with_name("backup"))
    child = holder(path, read_only=True)
    backup.replace(path)
    stored(path, b"new")  # both end with the same commit, so nothing is wrong yet
    assert "was moved, replaced" in ask(child, "old")
    end(child)
    assert keys_of(path) == {b"old", b"new"}


@pytest.mark.parametrize("commits", range(1, 5))
def test_what_was_written_under_another_name_is_not_overwritten(path, commits):
    other = path.with_name("other.simdb")
    child = holder(path)
    assert ask(child, "first") == "acknowledged"
    path.rename(other)
    with pytest.raises(StorageError, match="another name"):
        stored(other, b"other")
    end(child)
    child = holder(other)
    other.rename(path)
    with pytest.raises(StorageError, match="another name"):
        stored(path, b"again")
    end(child)
    stored(path, *[b"%d" % number for number in range(commits)])
    assert keys_of(path) == {b"first", *[b"%d" % number for number in range(commits)]}


@pytest.mark.parametrize("commits", range(1, 5))
def test_commits_that_the_lock_file_does_not_know_are_noticed_by_writers_and_readers(
    path, monkeypatch, commits
):
    """As where claims on a file cannot be made."""
    monkeypatch.setattr(preflight, "_has_lock", lambda *_: False)
    child, reader = holder(path), holder(path, read_only=True)
    assert ask(child, "first") == "acknowledged"
    other = path.with_name("other.simdb")
    path.rename(other)
    stored(other, *[b"%d" % number for number in range(commits)])
    other.rename(path)
    assert "refused" in ask(child, "lost")
    # One commit may be that of a writer who was killed; the snapshot before it is whole.
    assert "refused" in ask(reader, "first") or commits == 1
    end(child, reader)
    assert keys_of(path) == {b"first", *[b"%d" % number for number in range(commits)]}


def test_a_hard_link_is_refused(path):
    stored(path, b"a")
    path.with_name("link").hardlink_to(path)
    for read_only in (False, True):
        with pytest.raises(StorageError, match="2 names"):
            acquire(path, read_only=read_only)
    path.with_name("link").unlink()
    assert keys_of(path) == {b"a"}


def test_the_name_that_a_killed_creation_leaves_behind_is_no_second_name(path):
    stored(path, b"a")
    path.with_name(".simdb-1-0.tmp").hardlink_to(path)
    assert keys_of(path) == {b"a"}
    assert path.stat().st_nlink == 1


def test_a_bind_mount_of_a_store_that_is_open_is_refused(path, tmp_path):
    stored(path, b"a")
    other = tmp_path / "other.simdb"
    other.touch()
    unshare = shutil.which("unshare")
    if unshare is None or ended(unshare, "-m", "true", code=None).returncode:
        pytest.skip("needs the right to mount")
    child = holder(path)

    def under_the_other_name():
        mounted = f'mount --bind {path} {other} && exec "$0" -c "$1"'
        return ended(unshare, "-m", "sh", "-c", mounted, sys.executable, program).stdout

    program = f"""
import simdb
try:
    simdb.open({str(other)!r}).close()
    print("opened")
except simdb.StorageError as error:
    print("refused:", error)
"""
    assert under_the_other_name().startswith("refused:")
    assert ask(child, "b") == "acknowledged"
    end(child)
    assert under_the_other_name() == "opened\n"
    assert keys_of(path) == {b"a", b"b"}


def with_a_commit_taken_back(path):
    """Store ``a`` and ``b``, take ``b`` back, and return the file that had both."""
    stored(path, b"a")
    before = path.read_bytes()
    stored(path, b"b")
    after = path.read_bytes()
    path.write_bytes(before)
    return after


def test_a_writer_that_is_killed_between_its_commit_and_the_lock_file_stops_nobody(path):
    """The meta page is written, the lock file is not: the next writer mends that."""
    after = with_a_commit_taken_back(path)
    reader, writer = holder(path, read_only=True), holder(path)
    with path.open("r+b") as file:
        file.write(after)
    # LMDB's lock is not that of a dead owner here, so that a writer cannot know it from a fault.
    assert ask(reader, "a") == str(b"a")
    assert "refused" in ask(writer, "c")
    end(reader, writer)
    assert keys_of(path) == {b"a", b"b"}


def test_what_a_writer_that_is_killed_there_has_committed_is_seen_and_kept(path):
    """LMDB's lock has a dead owner: who may write brings the lock file up to date."""
    after = with_a_commit_taken_back(path)
    reader = holder(path, read_only=True)  # so that the lock file is not made anew
    assert ask(reader, "a") == str(b"a")

    def killed(_child):
        environment = acquire(path)
        with environment._environment.begin(write=True):
            with path.open("r+b") as file:
                file.write(after)
            os.kill(os.getpid(), signal.SIGKILL)

    Child(killed).hear_all()
    assert keys_of(path) == {b"a", b"b"}
    stored(path, b"c")
    assert ask(reader, "c") == str(b"c")
    end(reader)
    assert keys_of(path) == {b"a", b"b", b"c"}


def test_a_second_process_by_the_same_name_is_welcome(path):
    child = holder(path)
    assert ask(child, "a") == "acknowledged"
    assert answer_of(lambda: stored(path, b"b")) == "None"
    stored(path, b"c")
    assert ask(child, "d") == "acknowledged"
    end(child)
    assert keys_of(path) == {b"a", b"b", b"c", b"d"}


def test_a_result_of_repair_put_in_place_of_a_store_that_is_open_loses_nothing(path):
    with simdb.open(path, threads=1) as database:
        collection = database.collection("c", simdb.Set(), threshold=0.5)
        for number in range(5):
            collection.add(number, [number, number + 1])
    child = holder(path, read_only=True)
    simdb.repair(path, repaired := path.with_name("repaired.simdb"), threads=1)
    repaired.replace(path)
    with pytest.raises(StorageError, match="simdb restore"):
        simdb.open(path)
    end(child)
    with simdb.open(path, threads=1) as database:
        assert len(database["c"]) == 5


def test_a_store_that_is_being_replaced_is_waited_for(path, monkeypatch):
    monkeypatch.setattr(environments, "REPLACING_PATIENCE", 0.05)
    stored(path, b"a")
    with preflight.held_alone(path), pytest.raises(DatabaseBusyError, match="being replaced"):
        acquire(path)
    child = holder(path)
    held = preflight.held_alone(path)
    with pytest.raises(DatabaseBusyError, match=rf"open in process {child.pid}"), held:
        pass
    end(child)


@pytest.mark.parametrize("commits", [1, 5])
def test_a_reader_without_a_lock_file_is_told_when_its_snapshot_may_be_overwritten(path, commits):
    stored(path, *[b"%d" % number for number in range(50)])
    for beside in path.parent.glob("store.simdb-*"):
        beside.unlink()

    def work(child):
        os.access = lambda *_: False
        environment = acquire(path, read_only=True)
        transaction = environment.read()
        scan = transaction.scan(Table.KEYS, b"")
        next(scan)
        assert not path.with_name("store.simdb-lock").exists()
        child.say("reading")
        child.hear()
        for use in (
            lambda: next(scan),
            lambda: transaction.get(Table.KEYS, b"7"),
            lambda: transaction.get_many(Table.KEYS, [b"7"]),
            lambda: transaction.floor(Table.KEYS, b"7"),
        ):
            try:
                child.say(use())
            except DatabaseBusyError as error:
                child.say("lock file" in str(error))
        child.say(get(environment, b"7"))

    child = Child(work)
    assert child.hear() == "reading"
    stored(path, *[b"7"] * commits)
    child.say("go on")
    assert child.hear_all() == ["True"] * 4 + ["b'7'"]
    assert child.end() == 0


def test_damage_that_lmdb_notices_has_a_type_wherever_it_is_met(environment):
    put(environment, b"a")
    transaction = environment.read()
    whole = transaction._transaction
    for method in ("get", "cursor"):

        class Damaged:
            def __getattr__(self, name, method=method):
                if name == method:
                    raise lmdb.CorruptedError("found a page that is none")
                return getattr(whole, name)

        transaction._transaction = Damaged()
        for use in (
            lambda: transaction.get(Table.KEYS, b"a"),
            lambda: transaction.get_many(Table.KEYS, [b"a"]),
            lambda: transaction.floor(Table.KEYS, b"a"),
            lambda: next(transaction.scan(Table.KEYS, b"")),
        )[method == "cursor" : 4 if method == "cursor" else 1]:
            with pytest.raises(CorruptionError, match="simdb repair"):
                use()
        transaction._transaction = whole
    transaction.close()
