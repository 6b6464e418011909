"""What LMDB and the system say becomes an error of simdb, and what can be mended is mended."""

# mypy: allow-untyped-calls

from __future__ import annotations

import errno
import fcntl
import time
from pathlib import Path
from typing import Any

import lmdb
import pytest

import simdb
from simdb.errors import (
    CorruptionError,
    DatabaseBusyError,
    DatabaseFailedError,
    DatabaseFullError,
    DatabaseNotFoundError,
    FormatVersionError,
    NotADatabaseError,
    StorageError,
)
from simdb.extras import own_version
from simdb.storage.file import creation, preflight
from simdb.storage.file import environment as environments
from simdb.storage.file import errors as file_errors
from simdb.storage.tables import layout
from simdb.storage.tables.layout import HEADER_KEY, Table
from tests.support.environments import MIB, acquire, get, put
from tests.support.processes import interpreted
from tests.support.threads import Call

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture
def stored(environment):
    """An open file with one value in it."""
    put(environment, b"a")
    return environment


def with_code(error: Any, code: int) -> Any:
    error.code = code
    return error


# -- translation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (lmdb.MapFullError("m"), DatabaseFullError),
        (lmdb.ReadersFullError("r"), DatabaseBusyError),
        (lmdb.CorruptedError("c"), CorruptionError),
        (lmdb.PageNotFoundError("p"), CorruptionError),
        (lmdb.InvalidError("i"), CorruptionError),
        (lmdb.VersionMismatchError("v"), FormatVersionError),
        (with_code(lmdb.PanicError("p"), -30_795), DatabaseFailedError),
        (with_code(lmdb.DiskError("d"), errno.ENOSPC), DatabaseFullError),
        (with_code(lmdb.DiskError("d"), errno.EIO), DatabaseFailedError),
        (with_code(lmdb.Error("e"), 0), StorageError),
        (OSError(errno.ENOSPC, "s"), DatabaseFullError),
        (OSError(errno.EIO, "s"), DatabaseFailedError),
        (OSError(errno.ENOENT, "s"), DatabaseNotFoundError),
        (OSError(errno.EACCES, "s"), StorageError),
    ],
    ids=lambda value: repr(value) if isinstance(value, Exception) else value.__name__,
)
def test_each_error_becomes_the_one_that_says_what_to_do_and_keeps_its_cause(path, error, expected):
    with pytest.raises(StorageError) as raised, file_errors.translated(path):
        raise error
    assert type(raised.value) is expected
    assert raised.value.__cause__ is error
    assert str(path) in str(raised.value)


def test_an_error_of_simdb_passes_as_it_is(path):
    known = DatabaseNotFoundError("known")
    with pytest.raises(DatabaseNotFoundError) as raised, file_errors.translated(path):
        raise known
    assert raised.value is known


def test_an_input_output_error_of_a_file_that_is_gone_is_a_failure_not_a_full_disk(
    path, monkeypatch
):
    def fail(*_: object) -> bool:
        raise FileNotFoundError

    monkeypatch.setattr(preflight, "is_full", fail)
    with pytest.raises(DatabaseFailedError), file_errors.translated(path):
        raise OSError(errno.EIO, "s")


# -- errors of a transaction that begins -------------------------------------------------------


PANIC = with_code(lmdb.PanicError("panic"), -30_795)


class Refusing:
    """Stands in for LMDB's environment, which refuses the next transaction."""

    def __init__(self, environment: Any, error: Any) -> None:
        self._environment, self._error = environment, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)

    def begin(self, **options: Any) -> Any:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._environment.begin(**options)


def test_after_a_failed_meta_page_reading_goes_on_and_writing_does_not(stored, path):
    stored._environment = Refusing(stored._environment, PANIC)
    assert get(stored, b"a") == b"value"
    for _ in range(2):
        with pytest.raises(DatabaseFailedError):
            put(stored, b"b")
    assert get(stored, b"b") is None
    other = acquire(path)
    environments.release(other)
    assert get(stored, b"a") == b"value"


def test_a_store_that_failed_is_not_opened_anew_under_a_snapshot(stored):
    with stored.read() as snapshot:
        stored._environment = Refusing(stored._environment, PANIC)
        with pytest.raises(DatabaseFailedError):
            get(stored, b"a")
        assert bytes(snapshot.get(Table.KEYS, b"a")) == b"value"


def test_a_full_table_of_readers_is_cleared_and_asked_again(stored):
    stored._environment = Refusing(stored._environment, lmdb.ReadersFullError("full"))
    assert get(stored, b"a") == b"value"


# -- maps --------------------------------------------------------------------------------------

GROW = """
import sys
from pathlib import Path
from simdb.storage.file import environment as environments
from simdb.storage.tables.layout import Table
environment = environments.acquire(Path(sys.argv[1]), read_only=False, sync="batch", map_size=None)
for number in range(120):
    with environment.write(10) as transaction:
        transaction.put(Table.KEYS, b"%d" % number, b"x" * 100_000)
environments.release(environment)
"""


def grow_elsewhere(path: Path) -> None:
    """Let another process, which is no child of a fork, make the file larger."""
    interpreted(GROW, path)


@pytest.fixture
def small(path, monkeypatch):
    """A store whose map is of 4 MiB in this process."""
    monkeypatch.setattr(creation, "SMALLEST_MAP", MIB)
    monkeypatch.setattr(creation, "LARGEST_MAP", 4 * MIB)
    environment = acquire(path)
    put(environment, b"a")
    yield environment
    environments.release(environment)


def test_a_file_that_another_process_has_grown_past_the_map_is_mapped_anew(small, path):
    before = small.generation
    grow_elsewhere(path)
    assert len(get(small, b"119") or b"") == 100_000
    assert small.generation > before
    put(small, b"b")
    assert get(small, b"b") == b"value"


def test_a_map_is_not_moved_while_a_snapshot_of_this_process_is_open(small, path, monkeypatch):
    monkeypatch.setattr(environments, "GROWTH_PATIENCE", 0.05)
    with small.read() as snapshot:
        grow_elsewhere(path)
        with pytest.raises(DatabaseBusyError, match="1 snapshots of this process are open"):
            get(small, b"119")
        assert bytes(snapshot.get(Table.KEYS, b"a")) == b"value"
    assert len(get(small, b"119") or b"") == 100_000


@pytest.mark.parametrize("by", ["a fork", "another thread"])
def test_who_waits_to_move_a_map_reads_on_where_it_is_moved_or_closed_meanwhile(small, path, by):
    """Also beside a snapshot that another thread has of the new map."""
    snapshot = small.read()
    grow_elsewhere(path)
    waiting = Call(lambda: len(get(small, b"119") or b""))
    while not small._without_gate._waiters:
        time.sleep(0.001)
    with small.gate:  # before it looks again
        snapshot.close()
        if by == "a fork":
            small.before_fork()
        else:
            snapshot = small.read()
    waiting.join(5)
    snapshot.close()
    assert (waiting.answer, waiting.error) == (100_000, None)


def test_a_map_that_the_system_does_not_let_grow_is_asked_for_once(small, monkeypatch):
    asked: list[int] = []
    monkeypatch.setattr(small, "_remap", asked.append)

    def fill():
        for number in range(100):
            put(small, b"%d" % number, b"x" * 100_000)

    with pytest.raises(DatabaseFullError):
        fill()
    assert len(asked) == 1
    assert get(small, b"a") == b"value"


# -- other files -------------------------------------------------------------------------------


def test_an_lmdb_file_with_tables_of_the_same_names_is_no_store_without_a_header(path):
    environments.release(acquire(path, sync="full"))
    with lmdb.open(str(path), subdir=False, max_dbs=16, map_size=16 * MIB, lib_version=0) as raw:
        meta = raw.open_db(b"meta")
        with raw.begin(write=True) as transaction:
            assert transaction.delete(HEADER_KEY, db=meta)
    with pytest.raises(NotADatabaseError, match="another program"):
        simdb.open(path)


def test_a_lock_that_the_system_cannot_give_is_an_error_not_a_wait(path, monkeypatch):
    environments.release(acquire(path, sync="full"))
    environment = acquire(path, sync="full")

    flock = fcntl.flock

    def refuse(descriptor: int, operation: int) -> None:
        if operation & fcntl.LOCK_EX:
            raise OSError(errno.ENOLCK, "no locks")
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises((OSError, StorageError), match="no locks"):
        put(environment, b"b")
    monkeypatch.undo()
    put(environment, b"b")
    assert get(environment, b"b") == b"value"
    environments.release(environment)


def test_a_checkout_that_is_not_installed_makes_stores_too(path, monkeypatch):
    from importlib import metadata

    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    own_version.cache_clear()
    simdb.open(path).close()
    own_version.cache_clear()
    environment = acquire(path, read_only=True)
    with environment.read() as transaction:
        header = layout.unpack(
            layout.unseal(Table.META, HEADER_KEY, transaction.get(Table.META, HEADER_KEY))
        )
    environments.release(environment)
    assert header["created_by"] == "simdb-store (not installed)"


@pytest.mark.parametrize(
    ("free", "expected"), [(2**62, DatabaseFullError), (0, DatabaseFailedError)]
)
def test_a_write_that_a_full_disk_cut_short_is_told_as_a_full_disk(
    tmp_path, monkeypatch, free, expected
):
    """LMDB calls it an I/O error: which it was is told by how much room is left."""
    path = tmp_path / "store"
    path.write_bytes(b"not empty")
    monkeypatch.setattr(file_errors, "CUT_SHORT", free)
    with pytest.raises(expected), file_errors.translated(path):
        raise with_code(lmdb.Error("input/output error"), errno.EIO)


def test_the_deadline_of_a_signal_handler_is_not_the_store_s(tmp_path):
    path = tmp_path / "s.simdb"
    with pytest.raises(TimeoutError, match="my deadline"), file_errors.translated(path):
        raise TimeoutError("my deadline")
    with pytest.raises(StorageError), file_errors.translated(path):
        raise TimeoutError(errno.ETIMEDOUT, "of a file system")
