"""The opened LMDB file, one a process: opening, transactions, growth, forks, closing.

Rules that hold the store together:

- One environment a file and process (``registry``): LMDB forbids a second.
- The file is inspected before LMDB maps it (``preflight``, ``opening``).
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
"""

from __future__ import annotations

import threading
import time
import uuid
import weakref
from pathlib import Path
from typing import Any, Literal, TypeAlias

import lmdb

from simdb.errors import (
    DatabaseBusyError,
    DatabaseClosedError,
    DatabaseFailedError,
    NotADatabaseError,
    ReadOnlyError,
)
from simdb.storage.file import creation, map_room, opening, preflight, watching
from simdb.storage.file.failures import FailureLatch
from simdb.storage.file.header import read_uuid
from simdb.storage.file.lmdb_errors import translated
from simdb.storage.file.locks import WriterQueue
from simdb.storage.file.structure import page_problems
from simdb.storage.file.transactions import ReadTransaction, WriteTransaction
from simdb.storage.file.users import User, Users
from simdb.storage.tables.keys import Table

READERS_CHECKED_EVERY = 128  # writes: the snapshot of a killed reader keeps pages from being reused
GROWTH_PATIENCE = 10.0  # seconds that growth waits for this process's own transactions
OPENING_PATIENCE = 60.0  # seconds that opening waits for a commit of another process

Sync: TypeAlias = Literal["full", "batch"]


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
        self.users = Users()
        self.identity = (0, 0)
        self.caches: dict[str, Any] = {}
        self._environment: Any = None
        self._queue: WriterQueue | None = None
        self._watch: watching.FileWatch | None = None
        self._failure = FailureLatch(path)
        # The lock is taken itself, not by its condition: an interrupt may fall into the latter's
        # methods. What is counted are objects, which an interrupt cannot forget to uncount.
        self._gate = threading.RLock()
        self._ended = threading.Condition(self._gate)
        self._live: weakref.WeakSet[ReadTransaction] = weakref.WeakSet()
        self._waiting: weakref.WeakSet[User] = weakref.WeakSet()
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
            preflight.inspect(self.path, page_problems)
            beside = [Path(f"{self.path}-lock"), Path(f"{self.path}-turn")]
            made_here = [file for file in beside if not file.exists()]
            try:
                self._environment = self._map(self.map_size or map_room.LARGEST_MAP)
                self._watch = watching.FileWatch(self.path)
                self.handles = self._open_tables_in_turn(timeout)
                self.uuid = read_uuid(self.path, self._environment, self.handles[Table.META])
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

    def _map(self, size: int) -> Any:
        return opening.open_map(
            self.path,
            size,
            read_only=self.read_only,
            after_failure=self._failure.error is not None,
            metasync=self.sync == "full",
        )

    def _open_tables_in_turn(self, timeout: float | None) -> list[Any]:
        """Open the tables when no one else is writing.

        LMDB does it in a write transaction, for which it would wait without end and deaf to Ctrl-C.
        """
        if self.read_only:
            return opening.open_tables(self.path, self._environment)
        self._queue = WriterQueue(self.path)
        self._queue.acquire(timeout)
        try:
            return opening.open_tables(self.path, self._environment)
        finally:
            self._queue.release()

    def close(self) -> None:
        """Close the file, once the last of its transactions has ended; they can read no more."""
        with self._gate:
            self._close_if_unused()

    @property
    def is_finished(self) -> bool:
        """Whether nobody uses it and it is unmapped."""
        return not self.users.present and self._environment is None

    def _close_if_unused(self) -> None:
        # What a forked child has inherited is the parent's: closing it would end its snapshots.
        if not (self.users.present or self._live or self._waiting or self._abandoned):
            self._close_handles()

    @property
    def _live_count(self) -> int:
        """How many transactions of this process have begun and not ended."""
        return len(self._live)

    def _close_handles(self) -> None:
        queue, self._queue = self._queue, None
        if queue is not None:
            queue.close()
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
        if self._environment is not None:
            self._environment.close()
            self._environment = None
        self.caches.clear()

    # -- transactions ----------------------------------------------------------------------

    def read(self) -> ReadTransaction:
        """Begin a snapshot of the last commit."""
        transaction = ReadTransaction(self)
        with self._gate:
            try:
                self._require_open()
                self._begin(transaction, write=False)
            except BaseException:
                transaction.close()
                raise
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
        transaction = WriteTransaction(self, User())
        with self._gate:
            self._require_open(timeout)
            self._failure.require_none()
            queue = self._queue
            assert queue is not None
            self._waiting.add(transaction.pen)
        try:
            queue.acquire(timeout, transaction.pen)
            self._begin_writing(transaction)
        except BaseException:
            transaction.close()
            raise
        finally:
            with self._gate:
                self._waiting.discard(transaction.pen)
                self._close_if_unused()
        return transaction

    def _begin_writing(self, transaction: WriteTransaction) -> None:
        with self._gate:
            self._require_open()
            self._failure.require_none()
            watching.require_same_file(self.path, self.identity)
            assert self._watch is not None
            self._watch.require_lock()
            self._watch.require_whole()
            self._keep_room()
            self._writes += 1
            if self._writes % READERS_CHECKED_EVERY == 0:
                self._environment.reader_check()
            self._begin(transaction, write=True)

    def _begin(self, transaction: ReadTransaction, *, write: bool) -> None:
        transaction.begin(self._begun(write=write))
        self._live.add(transaction)

    def _begun(self, *, write: bool) -> Any:
        """Return a transaction of LMDB's."""
        assert self._watch is not None
        self._watch.require_whole()
        with self._failure.noted():
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
        self._failure.error = DatabaseFailedError(f"{self.path}: {error}")
        self._close_handles()
        self.open(OPENING_PATIENCE)

    def leave(self, transaction: ReadTransaction) -> None:
        """Note that a transaction has ended."""
        with self._gate:
            if isinstance(transaction, WriteTransaction) and self._queue is not None:
                self._queue.release(transaction.pen)
            self._live.discard(transaction)
            self._ended.notify_all()
            self._close_if_unused()

    def _require_open(self, timeout: float | None = OPENING_PATIENCE) -> None:
        if self._abandoned:
            raise DatabaseClosedError(
                f"{self.path}: this process was forked while a transaction of its parent was "
                "open, so it cannot use the store; fork before reading, or start it with 'spawn'"
            )
        if not self.users.present:
            raise DatabaseClosedError(f"{self.path} is closed")
        if self._environment is None:
            if self.generation:
                watching.require_same_file(self.path, self.identity)
            self.open(timeout)

    def commit(self, transaction: Any, pages_before: int | None) -> None:
        """Make a write transaction durable.

        Args:
            transaction: LMDB's own.
            pages_before: of one that inserts, the pages in use when it began to: it is refused if
                it leaves too little of the map for deleting.

        Raises:
            DatabaseFullError: the disk or the map is full; nothing of it was stored.
            DatabaseFailedError: the system failed to write.
        """
        with self._failure.noted():
            if pages_before is not None:
                after = self.pages_in_use(transaction)
                map_room.require_reserve(
                    self.path, self._environment, before=pages_before, after=after
                )
            transaction.commit()

    @property
    def has_plenty_of_room(self) -> bool:
        """Whether so much of the map is unused that no single transaction could fill it."""
        return map_room.has_plenty_of_room(self._environment)

    def pages_in_use(self, transaction: Any) -> int:
        """Return the pages of all tables as a transaction sees them."""
        return map_room.pages_in_use(self._environment, map(transaction.stat, self.handles))

    def room_to_rewrite(self, transaction: Any) -> int:
        """Return the bytes of the map that a transaction can surely use for large values."""
        return map_room.room_to_rewrite(self._environment, self.pages_in_use(transaction))

    def raise_translated(self, error: BaseException) -> None:
        """Raise simdb's error for one of LMDB's that ended a transaction; return for any other."""
        if isinstance(error, lmdb.Error):
            with self._failure.noted():
                raise error

    # -- the map ---------------------------------------------------------------------------

    def _keep_room(self) -> None:
        """Move to a larger map if this one is nearly full and nobody in this process reads it."""
        if self.map_size is not None or self._live_count:
            return
        size = self._environment.info()["map_size"]
        larger = map_room.grown_size(self._environment)
        if larger is None or size <= self._refused_size:
            return
        self._remap(larger)
        if self._environment.info()["map_size"] <= size:
            # Where it cannot grow, the map fills up and writes say so.
            self._refused_size = size

    def _remap(self, size: int) -> None:
        """Map the file anew, with that size or as much of it as the system gives.

        Size 0 stands for that of the process which has grown the file.
        """
        deadline = time.monotonic() + GROWTH_PATIENCE
        while self._live_count:
            if not self._ended.wait(deadline - time.monotonic()):
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
                self._environment = self._map(size or self.map_size or map_room.LARGEST_MAP)
                self.handles = opening.open_tables(self.path, self._environment)
        self.generation += 1
        self.caches.clear()

    # -- figures ---------------------------------------------------------------------------

    def statistics(self) -> dict[str, Any]:
        """Return size, pages and readers of the file."""
        with self._gate:
            self._require_open()
            assert self._watch is not None
            self._watch.require_whole()
            return {"file_bytes": self._watch.size, **map_room.usage(self._environment)}

    def copy(self, target: Path, *, compact: bool) -> None:
        """Write a consistent copy beside ``target`` and link it into place."""
        # The snapshot keeps the file from being closed meanwhile.
        with self.read():
            assert self._watch is not None
            mode = self._watch.mode
            with creation.written_whole(target, mode) as descriptor:
                self._environment.copyfd(descriptor, compact=compact)

    # -- forks -----------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Hold every new transaction back, and close the file if none is open."""
        self._gate.acquire()
        if not self._live and not self._waiting:
            self._close_handles()

    def after_fork(self, *, child: bool) -> None:
        """Let transactions begin again; the file is opened at first use."""
        if child:
            self._abandoned = self._environment is not None
            self._gate = threading.RLock()
            self._ended = threading.Condition(self._gate)
            if self._queue is not None:
                # A lock that the parent holds would outlive it in this child's descriptor.
                self._queue.close()
                self._queue = None
            return
        self._gate.release()
