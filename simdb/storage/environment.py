"""The LMDB file: opening, locking, mapping. The only module that imports lmdb.

Rules that hold the store together:

- One environment a file and process (``registry``): LMDB forbids a second.
- The file is inspected before LMDB maps it (``preflight``), and is never opened with
  ``writemap`` or ``sync=False``.
- The lock file that LMDB keeps is never opened here: closing it would release LMDB's locks.
- Writers queue in ``locks.WriterQueue`` and only then begin LMDB's transaction.
- Before a fork the environment is closed, so that a child inherits none; both open it again at
  their next use. A fork while transactions are open leaves the child without the store.
- The map is reserved so large that it need not grow; it is grown only while no transaction of
  this process is open, since growing moves it.
- A store that is closed while transactions are open is unmapped when the last of them has ended:
  kernels and iterators may hold addresses into the map.
- After an input or output error nothing more is written until the file has been opened anew: the
  system may have dropped pages that it failed to write, and a later sync proves nothing of them.
- The map is larger than insertions may fill (``_with_reserve``), so that deleting works when they
  may not any more.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import uuid
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

import lmdb

from simdb.errors import (
    CorruptionError,
    DatabaseBusyError,
    DatabaseClosedError,
    DatabaseFailedError,
    DatabaseFullError,
    DatabaseNotFoundError,
    FormatVersionError,
    NotADatabaseError,
    ReadOnlyError,
    StorageError,
)
from simdb.storage import preflight, values, watching
from simdb.storage.keys import HEADER_KEY, TABLE_NAMES, Table
from simdb.storage.locks import WriterQueue
from simdb.storage.transactions import ReadTransaction, WriteTransaction

MAGIC = "simdb"
FORMAT_VERSION = 2
PLENTY_OF_ROOM = 2**36
LARGEST_PAGE = 2**16
ENGINE = 0  # LMDB 0.9, data format 1: named so that no environment variable chooses another
LARGEST_MAP = 2**40
SMALLEST_MAP = 2**28
MOST_READERS = 1024
MOST_TABLES = 16
FREE_MAP_SHARE = 16  # a writer finds at least one sixteenth of the map free, or it is grown
RESERVE_SHARE = 20  # so much is added to the map for deleting, within the next two bounds
SMALLEST_RESERVE = 2**22  # a few chunks and blocks beside their copies; or as much as the map
LARGEST_RESERVE = 2**30
CUT_SHORT = 2**21  # with less free space than this a failed write is one cut short by a full disk
READERS_CHECKED_EVERY = 128  # writes: the snapshot of a killed reader keeps pages from being reused
GROWTH_PATIENCE = 10.0  # seconds that growth waits for this process's own transactions
OPENING_PATIENCE = 60.0  # seconds that opening waits for a commit of another process

Sync: TypeAlias = Literal["full", "batch"]

_FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}
_FAILED = {errno.EIO, errno.ENXIO, errno.ENODEV, errno.ESTALE}


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn LMDB's and the system's errors into simdb's."""
    try:
        yield
    except lmdb.MapFullError as error:
        raise DatabaseFullError(
            f"{path}: the reserved map is full and cannot grow; "
            "open with a larger map_size, or lift the limit on address space"
        ) from error
    except lmdb.ReadersFullError as error:
        raise DatabaseBusyError(
            f"{path}: all {MOST_READERS} reader slots are taken; close snapshots and iterators"
        ) from error
    except (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError) as error:
        raise CorruptionError(f"{path} is damaged: {error}; restore a backup") from error
    except lmdb.VersionMismatchError as error:
        raise FormatVersionError(f"{path}: {error}") from error
    except lmdb.MemoryError as error:
        raise StorageError(f"{path}: the system gives no memory: {error}") from error
    except lmdb.Error as error:
        _raise_by_code(path, error, error.code)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        _raise_by_code(path, error, error.errno)


def _raise_by_code(path: Path, error: Exception, code: int | None) -> NoReturn:
    if code in _FULL or (code == errno.EIO and _is_cut_short(path)):
        raise DatabaseFullError(
            f"{path}: no space is left ({error}); nothing of this write was stored"
        ) from error
    if code in _FAILED or isinstance(error, lmdb.PanicError):
        raise DatabaseFailedError(
            f"{path}: the system failed to read or write ({error}); the last commit before is "
            "intact. Nothing more is written until the store is closed everywhere in this process "
            "and opened again"
        ) from error
    if code == errno.ENOENT:
        raise DatabaseNotFoundError(f"{path} does not exist") from error
    raise StorageError(f"{path}: {error}") from error


def _is_cut_short(path: Path) -> bool:
    try:
        return watching.is_full(path, CUT_SHORT)
    except OSError:
        return False


def _with_reserve(size: int) -> int:
    """Return the size of a map of which insertions may fill so many bytes."""
    return size + min(LARGEST_RESERVE, max(size // RESERVE_SHARE, min(size, SMALLEST_RESERVE)))


def _without_reserve(size: int) -> int:
    """Return how many bytes of a map insertions may fill."""
    share = size // (RESERVE_SHARE + 1)
    return size - min(LARGEST_RESERVE, max(share, min(size // 2, SMALLEST_RESERVE)))


class Environment:
    """One opened file, shared within the process.

    Attributes:
        path: the file.
        uuid: drawn when the file was created.
        generation: counts how often this process has opened or remapped the file; addresses into
            the map and cached table handles are valid within one generation only.
    """

    def __init__(self, path: Path, *, read_only: bool, sync: Sync, map_size: int | None) -> None:
        self.path = path
        self.read_only = read_only
        self.sync = sync
        self.map_size = map_size
        self.generation = 0
        self.handles: list[Any] = []
        self.uuid = uuid.UUID(int=0)
        self.users = 0
        self.identity = (0, 0)
        self.caches: dict[str, Any] = {}
        self._environment: Any = None
        self._queue: WriterQueue | None = None
        self._watch: watching.FileWatch | None = None
        self._failure: DatabaseFailedError | None = None
        self._gate = threading.Condition(threading.RLock())
        self._live: weakref.WeakSet[ReadTransaction] = weakref.WeakSet()
        self._live_count = 0
        self._waiting = 0
        self._abandoned = False
        self._refused_size = 0
        self._writes = 0

    # -- opening and closing ---------------------------------------------------------------

    def open(self, timeout: float | None) -> None:
        """Map the file and read its header.

        Raises:
            DatabaseBusyError: another writer held the store for longer than ``timeout``.
        """
        with translated(self.path):
            preflight.inspect(self.path, _problems)
            beside = [Path(f"{self.path}-lock"), Path(f"{self.path}-turn")]
            made_here = [file for file in beside if not file.exists()]
            try:
                self._environment = self._map(self.map_size or LARGEST_MAP)
                self._watch = watching.FileWatch(self.path)
                self.handles = self._open_tables_in_turn(timeout)
                self._read_header()
            except BaseException as error:
                self._close_handles()
                if isinstance(error, NotADatabaseError):
                    for file in made_here:
                        file.unlink(missing_ok=True)
                raise
            self._environment.reader_check()
            self.identity = self._watch.identity
        self.generation += 1
        self.caches.clear()

    def _map(self, size: int) -> Any:  # noqa: ANN401 - lmdb.Environment
        while True:
            try:
                return self._map_of_size(size)
            except lmdb.MemoryError:
                # The system limits the address space (RLIMIT_AS, containers).
                if size <= max(SMALLEST_MAP, self.path.stat().st_size):
                    raise
                size //= 2

    def _map_of_size(self, size: int) -> Any:  # noqa: ANN401 - lmdb.Environment
        lock = True
        if self.read_only and not os.access(self.path.parent, os.W_OK):
            # Nobody can be writing where no lock file can be made.
            lock = Path(f"{self.path}-lock").exists()
        elif self._failure is None:
            watching.reserve_lock_file(self.path, MOST_READERS)
        return lmdb.open(
            str(self.path),
            subdir=False,
            create=False,
            readonly=self.read_only or self._failure is not None,
            lock=lock,
            map_size=_with_reserve(size),
            metasync=self.sync == "full",
            max_readers=MOST_READERS,
            max_dbs=MOST_TABLES,
            lib_version=ENGINE,
        )

    def _open_tables_in_turn(self, timeout: float | None) -> list[Any]:
        """Open the tables when no one else is writing.

        LMDB does it in a write transaction, for which it would wait without end and deaf to Ctrl-C.
        """
        if self.read_only:
            return self._open_tables()
        self._queue = WriterQueue(self.path)
        self._queue.acquire(timeout)
        try:
            return self._open_tables()
        finally:
            self._queue.release()

    def _open_tables(self) -> list[Any]:
        try:
            return [self._environment.open_db(name, create=False) for name in TABLE_NAMES]
        except lmdb.NotFoundError as error:
            raise NotADatabaseError(
                f"{self.path} is an LMDB file of another program, not a simdb store"
            ) from error

    def _read_header(self) -> None:
        with self._environment.begin(buffers=True) as transaction:
            value = transaction.get(HEADER_KEY, None, self.handles[Table.META])
            if value is None:
                raise NotADatabaseError(
                    f"{self.path} is an LMDB file of another program, not a simdb store"
                )
            header = values.unpack(values.unseal(Table.META, HEADER_KEY, value))
        if header.get("magic") != MAGIC:
            raise NotADatabaseError(f"{self.path} is not a simdb store")
        if header.get("format") != FORMAT_VERSION:
            raise FormatVersionError(
                f"{self.path} has format {header.get('format')}, this simdb reads and writes "
                f"{FORMAT_VERSION}; use the simdb that wrote it ({header.get('created_by')})"
            )
        self.uuid = uuid.UUID(bytes=header["uuid"])

    def close(self) -> None:
        """Close the file, once the last of its transactions has ended; they can read no more."""
        with self._gate:
            self._close_if_unused()

    @property
    def is_finished(self) -> bool:
        """Whether nobody uses it and it is unmapped."""
        return self.users == 0 and self._environment is None

    def _close_if_unused(self) -> None:
        # What a forked child has inherited is the parent's: closing it would end its snapshots.
        if not (self.users or self._live_count or self._waiting or self._abandoned):
            self._close_handles()

    def _close_handles(self) -> None:
        if self._queue is not None:
            self._queue.close()
            self._queue = None
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._environment is not None:
            self._environment.close()
            self._environment = None
        self.caches.clear()

    # -- transactions ----------------------------------------------------------------------

    def read(self) -> ReadTransaction:
        """Begin a snapshot of the last commit."""
        with self._gate:
            self._require_open()
            transaction = ReadTransaction(self, self._begin(write=False))
            self._enter(transaction)
            return transaction

    def write(self, timeout: float | None) -> WriteTransaction:
        """Wait for the right to write, and begin.

        Raises:
            ReadOnlyError: opened for reading.
            DatabaseBusyError: another writer held the store for longer than ``timeout``.
            DatabaseFailedError: an earlier write failed in a way that only opening anew mends.
        """
        if self.read_only:
            raise ReadOnlyError(f"{self.path} was opened read-only")
        with self._gate:
            self._require_open(timeout)
            self._require_unfailed()
            queue = self._queue
            assert queue is not None
            self._waiting += 1
        try:
            queue.acquire(timeout)
            try:
                return self._begin_writing()
            except BaseException:
                queue.release()
                raise
        finally:
            with self._gate:
                self._waiting -= 1
                self._close_if_unused()

    def _begin_writing(self) -> WriteTransaction:
        with self._gate:
            self._require_open()
            self._require_unfailed()
            watching.require_same_file(self.path, self.identity)
            assert self._watch is not None
            self._watch.require_lock()
            self._watch.require_whole()
            self._keep_room()
            self._writes += 1
            if self._writes % READERS_CHECKED_EVERY == 0:
                self._environment.reader_check()
            transaction = WriteTransaction(self, self._begin(write=True))
            self._enter(transaction)
            return transaction

    def _begin(self, *, write: bool) -> Any:  # noqa: ANN401 - lmdb.Transaction
        assert self._watch is not None
        self._watch.require_whole()
        with self._failing():
            try:
                return self._environment.begin(write=write, buffers=True)
            except lmdb.MapResizedError:
                # Another process has grown the file past this process's map.
                self._remap(0)
            except lmdb.ReadersFullError:
                self._environment.reader_check()
            except lmdb.PanicError as error:
                if write or self._live_count:
                    raise
                self._reopen_to_read(error)
            return self._environment.begin(write=write, buffers=True)

    def _reopen_to_read(self, error: Exception) -> None:
        """Open the file anew: LMDB lets nobody read after it failed to write its meta page."""
        self._failure = DatabaseFailedError(f"{self.path}: {error}")
        self._close_handles()
        self.open(OPENING_PATIENCE)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Translate errors, and let no write follow one that only opening anew mends."""
        try:
            with translated(self.path):
                yield
        except DatabaseFailedError as error:
            self._failure = error
            raise

    def _require_unfailed(self) -> None:
        if self._failure is not None:
            raise DatabaseFailedError(str(self._failure))

    def _enter(self, transaction: ReadTransaction) -> None:
        self._live.add(transaction)
        self._live_count += 1

    def leave(self, transaction: ReadTransaction) -> None:
        """Note that a transaction has ended."""
        with self._gate:
            if isinstance(transaction, WriteTransaction) and self._queue is not None:
                self._queue.release()
            self._live.discard(transaction)
            self._live_count -= 1
            self._gate.notify_all()
            self._close_if_unused()

    def _require_open(self, timeout: float | None = OPENING_PATIENCE) -> None:
        if self._abandoned:
            raise DatabaseClosedError(
                f"{self.path}: this process was forked while a transaction of its parent was "
                "open, so it cannot use the store; fork before reading, or start it with 'spawn'"
            )
        if self.users == 0:
            raise DatabaseClosedError(f"{self.path} is closed")
        if self._environment is None:
            if self.generation:
                watching.require_same_file(self.path, self.identity)
            self.open(timeout)

    def commit(self, transaction: Any, pages_before: int | None) -> None:  # noqa: ANN401
        """Make a write transaction durable.

        Args:
            transaction: LMDB's own.
            pages_before: of one that inserts, the pages in use when it began to: it is refused if
                it leaves too little of the map for deleting.

        Raises:
            DatabaseFullError: the disk or the map is full; nothing of it was stored.
            DatabaseFailedError: the system failed to write.
        """
        with self._failing():
            if pages_before is not None:
                self._require_reserve(transaction, pages_before)
            transaction.commit()

    @property
    def has_plenty_of_room(self) -> bool:
        """Whether so much of the map is unused that no single transaction could fill it."""
        information = self._environment.info()
        unused: int = information["map_size"] - (information["last_pgno"] + 1) * LARGEST_PAGE
        return unused > PLENTY_OF_ROOM

    def pages_in_use(self, transaction: Any) -> int:  # noqa: ANN401 - lmdb.Transaction
        """Return the pages of all tables as a transaction sees them."""
        tables = [self._environment.stat(), *map(transaction.stat, self.handles)]
        parts = ("branch_pages", "leaf_pages", "overflow_pages")
        return sum(table[part] for table in tables for part in parts)

    def room_to_rewrite(self, transaction: Any) -> int:  # noqa: ANN401 - lmdb.Transaction
        """Return the bytes of the map that a transaction can surely use for large values.

        Those past the last page that was ever used; or, where a quarter of the map is free, half of
        that, however scattered.
        """
        information = self._environment.info()
        page: int = self._environment.stat()["psize"]
        size: int = information["map_size"]
        after: int = size - (information["last_pgno"] + 1) * page
        free = size - self.pages_in_use(transaction) * page
        return max(after, free // 2 if free > size // 4 else 0)

    def _require_reserve(self, transaction: Any, before: int) -> None:  # noqa: ANN401
        information = self._environment.info()
        limit = _without_reserve(information["map_size"]) // self._environment.stat()["psize"]
        used = self.pages_in_use(transaction)
        # Free pages may be too scattered for a large value: then the file grows instead.
        end = information["last_pgno"] + 1 + max(0, used - before)
        if used > limit or (end > limit and used > limit // 2):
            raise DatabaseFullError(
                f"{self.path}: the map is full, but for what is kept for deleting; delete items, "
                "or open with a larger map_size"
            )

    def raise_translated(self, error: BaseException) -> None:
        """Raise simdb's error for one of LMDB's that ended a transaction; return for any other."""
        if isinstance(error, lmdb.Error):
            with self._failing():
                raise error

    # -- the map ---------------------------------------------------------------------------

    def _keep_room(self) -> None:
        """Move to a larger map if this one is nearly full and nobody in this process reads it."""
        if self.map_size is not None or self._live_count:
            return
        information = self._environment.info()
        size = information["map_size"]
        used = (information["last_pgno"] + 1) * self._environment.stat()["psize"]
        limit = _without_reserve(size)
        if used < limit - limit // FREE_MAP_SHARE or size <= self._refused_size:
            return
        self._remap(_with_reserve(2 * limit))
        if self._environment.info()["map_size"] <= size:
            # Where it cannot grow, the map fills up and writes say so.
            self._refused_size = size

    def _remap(self, size: int) -> None:
        """Map the file anew, with that size or as much of it as the system gives.

        Size 0 stands for that of the process which has grown the file.
        """
        deadline = time.monotonic() + GROWTH_PATIENCE
        while self._live_count:
            if not self._gate.wait(deadline - time.monotonic()):
                raise DatabaseBusyError(
                    f"{self.path}: the map must be moved, but {self._live_count} snapshots of "
                    "this process are open; close them and their iterators"
                )
        with translated(self.path):
            try:
                self._environment.set_mapsize(size)
            except lmdb.Error:
                # The old map is gone as well, where the system refuses the new one.
                self._environment.close()
                self._environment = None
                self._environment = self._map(size or self.map_size or LARGEST_MAP)
                self.handles = self._open_tables()
        self.generation += 1
        self.caches.clear()

    # -- figures ---------------------------------------------------------------------------

    def statistics(self) -> dict[str, Any]:
        """Return size, pages and readers of the file."""
        with self._gate:
            self._require_open()
            assert self._watch is not None
            self._watch.require_whole()
            information = self._environment.info()
            page_size = self._environment.stat()["psize"]
            readers = self._environment.readers().splitlines()[1:]
        snapshots = [int(line.split()[-1]) for line in readers if line.split()[-1].isdigit()]
        return {
            "file_bytes": self.path.stat().st_size,
            "used_bytes": (information["last_pgno"] + 1) * page_size,
            "map_bytes": _without_reserve(information["map_size"]),
            "commits": information["last_txnid"],
            "snapshots": len(snapshots),
            "oldest_snapshot_commits": information["last_txnid"] - min(snapshots)
            if snapshots
            else 0,
        }

    def copy(self, target: Path, *, compact: bool) -> None:
        """Write a consistent copy beside ``target`` and rename it into place."""
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        with translated(target):
            try:
                descriptor = os.open(
                    temporary,
                    os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
                    watching.file_mode(self.path),
                )
                try:
                    with self.read():  # which keeps the file from being closed meanwhile
                        self._environment.copyfd(descriptor, compact=compact)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                try:
                    os.link(temporary, target)  # fails, unlike a rename, where the target exists
                except FileExistsError as error:
                    raise StorageError(f"{target} exists; name a file that does not") from error
            finally:
                temporary.unlink(missing_ok=True)
            _sync_folder(target.parent)

    # -- forks -----------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Hold every new transaction back, and close the file if none is open."""
        self._gate.acquire()
        if self._live_count == 0 and self._waiting == 0:
            self._close_handles()

    def after_fork(self, *, child: bool) -> None:
        """Let transactions begin again; the file is opened at first use."""
        if child:
            self._abandoned = self._environment is not None
            self._gate = threading.Condition(threading.RLock())
            if self._queue is not None:
                # A lock that the parent holds would outlive it in this child's descriptor.
                self._queue.close()
                self._queue = None
            return
        self._gate.release()


def structure_problems(path: Path) -> list[str]:
    """Return what is wrong with the pages of a file, without handing it to LMDB."""
    with translated(path):
        preflight.inspect(path, _problems)
    return _problems(str(path))


def _problems(path: str) -> list[str]:
    from lmdb import verify

    return list(verify.verify(path))  # type: ignore[no-untyped-call]


def create(path: Path, mode: int | None = None) -> None:
    """Make an empty store under a temporary name and link it into place, so that it is whole.

    Args:
        path: of the store.
        mode: who may read and write it, as for ``chmod``; 0o644 less the umask if not given.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.tmp")
    try:
        created = lmdb.open(
            str(temporary),
            subdir=False,
            map_size=SMALLEST_MAP,
            max_dbs=MOST_TABLES,
            mode=0o644 if mode is None else mode & 0o600,
            lib_version=ENGINE,
        )
        with created:
            if mode is not None:
                temporary.chmod(mode)
            header = values.pack(_header())
            with created.begin(write=True) as transaction:
                handles = [created.open_db(name, transaction) for name in TABLE_NAMES]
                transaction.put(
                    HEADER_KEY, values.seal(Table.META, HEADER_KEY, header), db=handles[Table.META]
                )
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(temporary, path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
        Path(f"{temporary}-lock").unlink(missing_ok=True)


def _header() -> dict[str, Any]:
    from importlib import metadata

    try:
        version = metadata.version("simdb-store")
    except metadata.PackageNotFoundError:  # used from a checkout that is not installed
        version = "of a checkout"
    return {
        "magic": MAGIC,
        "format": FORMAT_VERSION,
        "uuid": uuid.uuid4().bytes,
        "lmdb": list(lmdb.version(lib_version=ENGINE)),
        "created_by": f"simdb-store {version}",
    }


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
