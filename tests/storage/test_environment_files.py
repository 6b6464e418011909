"""Files that are not what they were, headers of other programs and versions, and copies."""

# mypy: allow-untyped-calls

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import lmdb
import pytest

from simdb.errors import (
    CorruptionError,
    DatabaseBusyError,
    DatabaseNotFoundError,
    FormatVersionError,
    NotADatabaseError,
    StorageError,
    UsageError,
)
from simdb.storage.file import creation
from simdb.storage.file import environment as environments
from simdb.storage.file.creation import FORMAT_VERSION
from simdb.storage.tables import layout
from simdb.storage.tables.layout import HEADER_KEY, TABLE_NAMES, Table
from tests.support.environments import MIB, acquire, get, put
from tests.support.processes import answer_of, interpreted

# -- files that change under an open store ---------------------------------------------------------


def test_a_store_whose_file_was_removed_is_not_written_to(path, environment):
    put(environment, b"a")
    path.unlink()
    with pytest.raises(StorageError, match="removed"):
        put(environment, b"b")
    assert get(environment, b"a")


def test_a_store_whose_file_was_replaced_is_not_written_to(path, environment, tmp_path):
    put(environment, b"a")
    environments.release(acquire(tmp_path / "other.simdb"))
    (tmp_path / "other.simdb").rename(path)
    with pytest.raises(StorageError, match="replaced"):
        put(environment, b"b")
    assert get(environment, b"a")
    with pytest.raises(StorageError, match=r"in this process: close it first.*iterators"):
        acquire(path)  # not beside the old one


def test_the_file_that_replaced_a_store_is_opened_once_that_is_closed(path, tmp_path):
    old = acquire(path)
    put(old, b"a")
    environments.release(acquire(tmp_path / "other.simdb"))
    (tmp_path / "other.simdb").rename(path)
    environments.release(old)
    again = acquire(path)
    assert get(again, b"a") is None
    environments.release(again)


def test_a_file_replaced_between_fork_and_next_use_is_not_taken_for_the_old_one(
    path, environment, tmp_path
):
    environments.release(acquire(tmp_path / "other.simdb"))
    assert answer_of(lambda: 1) == "1"  # the fork closes the file
    (tmp_path / "other.simdb").rename(path)
    with pytest.raises(StorageError, match="replaced"):
        environment.read()


# -- the header ------------------------------------------------------------------------------------


def change_header(path, **changed):
    """Change the header behind simdb's back; return what it was."""
    with (
        lmdb.open(str(path), subdir=False, max_dbs=16, map_size=MIB, lib_version=0) as raw,
        raw.begin(write=True) as transaction,
    ):
        meta = raw.open_db(b"meta", transaction)
        sealed = transaction.get(HEADER_KEY, db=meta) or b""
        header = layout.unpack(layout.unseal(Table.META, HEADER_KEY, memoryview(sealed)))
        sealed = layout.seal(Table.META, HEADER_KEY, layout.pack(header | changed))
        transaction.put(HEADER_KEY, sealed, db=meta)
    return header


def test_the_header_tells_what_wrote_the_file(path):
    environments.release(acquire(path))
    header = change_header(path)
    assert header["magic"] == "simdb"
    assert header["format"] == FORMAT_VERSION
    assert header["lmdb"][:2] == [0, 9]
    assert header["created_by"].startswith("simdb-store ")
    assert len(header["uuid"]) == 16


def test_a_newer_format_is_refused_with_both_numbers_and_left_as_it_is(path):
    environments.release(acquire(path))
    change_header(path, format=7, created_by="simdb-store 9.9")
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(FormatVersionError, match=r"format 7.*reads and writes \d.*9\.9"):
            acquire(path, read_only=read_only)
    assert path.read_bytes() == before


def test_a_format_of_other_tables_is_told_by_its_header(path):
    """As format 1, which had no table of items."""
    environments.release(acquire(path))
    change_header(path, format=1)
    with (
        lmdb.open(str(path), subdir=False, max_dbs=16, map_size=MIB, lib_version=0) as raw,
        raw.begin(write=True) as transaction,
    ):
        transaction.drop(raw.open_db(TABLE_NAMES[Table.ITEMS], transaction))
    with pytest.raises(FormatVersionError, match="format 1"):
        acquire(path)


def test_another_magic_is_refused(path):
    environments.release(acquire(path))
    change_header(path, magic="other")
    with pytest.raises(NotADatabaseError):
        acquire(path)


@pytest.mark.parametrize("field", ["uuid", "history"])
@pytest.mark.parametrize("told", [None, 0.5, b"", "z" * 16, [1] * 16])
def test_a_header_without_an_identifier_is_damaged(path, field, told):
    environments.release(acquire(path))
    change_header(path, **{field: told})
    with pytest.raises(CorruptionError, match="the header of the store has no identifier"):
        acquire(path)


def test_the_environment_variable_of_lmdb_does_not_change_the_format(path, monkeypatch):
    monkeypatch.setenv("LMDB_DEFAULT_LIB_VERSION", "1")
    environments.release(acquire(path))
    assert path.read_bytes()[16:24] == bytes.fromhex("dec0efbe01000000")


# -- copies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("compact", [False, True])
def test_a_copy_made_while_others_write_is_one_commit(path, environment, tmp_path, compact):
    stop = threading.Event()

    def work():
        number = 0
        while not stop.is_set():
            number += 1
            with environment.write(10) as transaction:
                for key in (b"a", b"b"):
                    transaction.put(Table.KEYS, key, b"%d" % number * 3_000)

    put(environment, b"a", b"x")
    put(environment, b"b", b"x")
    thread = threading.Thread(target=work)
    thread.start()
    for number in range(5):
        environment.copy(tmp_path / f"copy{number}", compact=compact)
    stop.set()
    thread.join(10)
    for number in range(5):
        copied = acquire(tmp_path / f"copy{number}")
        assert get(copied, b"a") == get(copied, b"b")
        assert copied.uuid == environment.uuid
        environments.release(copied)


WRITER = """
import sys
from pathlib import Path
from tests.support.environments import acquire, put
writer = acquire(Path(sys.argv[1]))
for number in range(3):
    put(writer, b"%d" % number)
"""


def test_who_reads_by_way_of_a_read_only_mount_is_told_what_was_written_meanwhile(
    path, tmp_path, monkeypatch
):
    """LMDB takes no lock there, and says nothing of it: who writes elsewhere may take its pages."""

    def write():
        interpreted(WRITER, path)

    def written_meanwhile(*given, **options):
        copied(*given, **options)
        write()

    write()
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    reader = acquire(path, read_only=True)
    with reader.read() as transaction:
        write()
        with pytest.raises(DatabaseBusyError, match="written to while"):
            transaction.get(Table.KEYS, b"0")
    reader.copy(tmp_path / "copy", compact=False)
    copied = reader._copy_watched
    monkeypatch.setattr(reader, "_copy_watched", written_meanwhile)
    with pytest.raises(DatabaseBusyError, match="written to while"):
        reader.copy(tmp_path / "other", compact=False)
    environments.release(reader)
    assert {"copy"} == {file.name for file in tmp_path.iterdir()} - {
        path.name + end for end in ("", "-lock", "-turn")
    }


def test_a_copy_waits_for_a_writer_no_longer_than_it_may(path, environment, tmp_path):
    """LMDB waits without end, and deaf to Ctrl-C; it does not where free pages are left out."""
    put(environment, b"a", b"x")
    writing, done = threading.Event(), threading.Event()

    def write():
        with environment.write(10):
            writing.set()
            done.wait(3)

    thread = threading.Thread(target=write)
    thread.start()
    assert writing.wait(10)
    with pytest.raises(DatabaseBusyError):
        environment.copy(tmp_path / "copy", compact=False, timeout=0.1)
    assert not (tmp_path / "copy").exists()
    environment.copy(tmp_path / "small", compact=True, timeout=0.1)
    done.set()
    thread.join(10)
    environment.copy(tmp_path / "copy", compact=False, timeout=5)
    with environment.write(5) as transaction:  # nobody is waited for now
        with pytest.raises(UsageError, match="in the middle of a write"):
            environment.copy(tmp_path / "another", compact=False)
        transaction.put(Table.KEYS, b"b", b"y")


@pytest.mark.parametrize("read_only", [False, True])
def test_a_child_forked_while_a_copy_waits_has_no_share_in_its_turn(path, read_only):
    """Else nobody could write while the child lives, if the parent is killed meanwhile."""
    environments.release(acquire(path))
    environment = acquire(path, read_only=read_only)
    with environment.read(), environment._turn_to_copy(1):
        assert environment._queue is not None
        assert answer_of(lambda: environment._queue) == "None"
    environments.release(environment)


def test_a_copy_does_not_overwrite(path, environment, tmp_path):
    (tmp_path / "taken").write_text("precious")
    with pytest.raises(StorageError):
        environment.copy(tmp_path / "taken", compact=False)
    assert (tmp_path / "taken").read_text() == "precious"
    with pytest.raises(DatabaseNotFoundError):
        environment.copy(tmp_path / "no folder" / "copy", compact=False)
    assert not list(tmp_path.glob(".*"))


# -- what is made durable ------------------------------------------------------------------------


def test_the_name_of_a_new_store_is_synced_after_it_is_given(path, synced):
    creation.create(path)
    assert synced[-2:] == ["linked", str(path.parent)]


@pytest.mark.parametrize("compact", [False, True])
def test_a_backup_is_synced_before_it_gets_its_name_and_the_name_after(path, synced, compact):
    environment = acquire(path)
    synced.clear()
    environment.copy(path.with_name("copy"), compact=compact)
    written, linked, folder = synced
    assert written.endswith(".tmp")
    assert (linked, folder) == ("linked", str(path.parent))
    environments.release(environment)
