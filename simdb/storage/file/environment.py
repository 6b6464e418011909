"""The LMDB file of a store: made, opened, shared in a process, grown, forked, copied, closed.

Rules that hold the store together:

- One environment a file and process (``acquire``): LMDB forbids a second, whose POSIX record locks
  closing either would release.
- A new file, or a copy, is written under a temporary name and linked into place, so that nobody
  ever sees one that is not whole.
- The file is inspected before LMDB maps it (``preflight``).
- Never ``writemap``, nor ``sync=False`` but of a store that is thrown away: both could lose more
  than the last commit.
- The lock file that LMDB keeps is never opened here: closing it would release LMDB's locks.
- Writers queue in ``locks.WriterQueue`` and only then begin LMDB's transaction; those that change
  little may share a commit with others of this process (``groups``).
- Before a fork the environment is closed, so that a child inherits none; both open it again at
  their next use. The parent keeps its claim to the file meanwhile (``FileWatch.claim``), so that
  nobody replaces it. What a child inherits, where transactions are open, it leaves alone.
- Opening takes the right to write. Who has to wait for it holds no lock meanwhile, and begins
  anew with that right (``_begun_after_wait``).
- The map is reserved so large that it need not grow; it is grown only while no transaction of
  this process is open, since growing moves it. It is larger than insertions may fill
  (``with_reserve``), so that deleting works when they may not any more.
- A store that is closed while transactions are open is unmapped when the last of them has ended:
  kernels and iterators may hold addresses into the map.
- After an input or output error nothing more is written until the file has been opened anew: the
  system may have dropped pages that it failed to write, and a later sync proves nothing of them.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
import uuid
import weakref
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from heapq import merge
from itertools import takewhile
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn, Self, TypeAlias, TypeVar

import lmdb

from simdb.errors import (
    ConfigurationError,
    DatabaseBusyError,
    DatabaseClosedError,
    DatabaseFailedError,
    DatabaseNotFoundError,
    NotADatabaseError,
    ReadOnlyError,
    StorageError,
    UsageError,
)
from simdb.storage.file import creation, log, preflight
from simdb.storage.file.caches import Caches
from simdb.storage.file.creation import Room
from simdb.storage.file.errors import is_of_storage, is_of_writing, translated
from simdb.storage.file.groups import Group, Lobby, Member
from simdb.storage.file.locks import LOOKED_EVERY, Reservation, User, Users, WriterQueue
from simdb.storage.file.log import Changed, Log
from simdb.storage.tables import layout
from simdb.storage.tables.layout import Table
from simdb.threads import Pool, after_given_up, given_up, moments

READERS_CHECKED_EVERY = 128  # writes: the snapshot of a killed reader keeps pages from being reused
GROWTH_PATIENCE = 10.0  # seconds that growth waits for this process's own transactions
REPLACING_PATIENCE = 10.0  # seconds that opening waits while the file is replaced
FEW_ATTEMPTS, MOST_ATTEMPTS = 4, 200  # to begin a snapshot while others commit
COPY_WATCHED_SECONDS = 0.1  # between two looks at how far a copy is
COPY_BEGINS_SECONDS = 0.001  # between two looks at whether it has begun
OPENING_PATIENCE = 60.0  # seconds that opening waits for a commit of another process
TURN, LONGEST_TURN = 0.001, 0.005  # seconds, after which who reads lets other threads run

Sync: TypeAlias = Literal["full", "batch"]
AnySync: TypeAlias = Sync | Literal["never"]  # the last is of stores that are thrown away


T = TypeVar("T")
AnyTransaction = TypeVar("AnyTransaction", bound="ReadTransaction")

_NO_LOG = Log()


class _Ended:
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked for by tools that look at any object
            raise AttributeError(name)
        raise DatabaseClosedError("the snapshot has ended; its database was closed, or it was")


_ENDED = _Ended()


class Uses:
    """What uses something of an owner, counted by objects.

    An interrupt may keep one from being taken out. When that is gone, the owner's ``use_gone`` is
    called, which may be anywhere: Python's collector may end it.
    """

    __slots__ = ("_owner", "_uses")

    def __init__(self, owner: Any) -> None:
        self._owner = weakref.ref(owner)
        self._uses: set[weakref.ref[object]] = set()

    def add(self, use: object) -> None:
        """Count an object, which must be kept."""
        self._uses.add(weakref.ref(use, self._gone))

    def discard(self, use: object) -> None:
        """Take an object out."""
        self._uses.discard(weakref.ref(use))

    def _gone(self, use: weakref.ref[object]) -> None:
        self._uses.discard(use)
        owner = self._owner()
        if owner is not None:
            owner.use_gone()

    def __bool__(self) -> bool:
        # Not what an interrupt, or the end of both by the collector, kept from being taken out.
        return any(use() is not None for use in [*self._uses])


class ReadTransaction:
    """One snapshot of the file, of one thread at a time. Views that it returns end with it.

    Its tables are what is stored in them, changed as the log says (``log``). Where calls of several
    threads read in it (``begin_use``), what they read stays until they return or raise.
    """

    may_remember: ClassVar[bool] = True  # what is made of the commit that it sees
    ended: ClassVar[type[ReadTransaction]]  # its class from its end on; see ``_closed_when_gone``
    __slots__ = (
        *("__weakref__", "_handles", "_left", "_log", "_moment", "_process", "_remembered"),
        *("_transaction", "_used", "environment"),
    )

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self._log: Log | None = None
        self._remembered: dict[Hashable, Any] | None = None
        self._process = _process
        self._moment = next(moments)
        self._transaction: Any = _ENDED
        # Its uses, if there are others than its thread's; LMDB's transaction, once it is to end.
        self._used: dict[str, Any] = {}
        self._left = False

    def begin(self, transaction: Any) -> None:
        """Begin with a transaction of LMDB's."""
        self._handles = self.environment.handles
        if self.may_remember:
            self._remembered = self.environment.remembered_of(transaction.id())
        self._transaction = transaction

    @property
    def remembers(self) -> bool:
        """Whether ``remembered`` keeps what is made: of the last commit, as far as it is known."""
        return self._remembered is not None

    def remembered(self, name: Hashable, make: Callable[[], T]) -> T:
        """What is made of what this commit stores; it is kept as long as this is the last commit.

        So it must not be changed, nor refer to a transaction.
        """
        if self._remembered is None:
            return make()
        try:
            known: T = self._remembered[name]
        except KeyError:
            known = self._remembered.setdefault(name, make())  # another thread may be first
        return known

    @property
    def identity(self) -> int:
        """Number of the commit that is seen."""
        return int(self._transaction.id())

    def overlay(self, before: Log | None) -> None:
        """See what a log has that is not committed yet, if one is given."""
        if before is not None:
            self._log, self._remembered = before, None

    def get(self, table: Table, key: bytes) -> memoryview | None:
        """The value of a key, or None."""
        if not self.environment.users.present or self._process is not _process:
            self.require_open()
        log = self._log or self._read_log()
        if key in log.tables[table].values:
            return log.tables[table].values[key]
        try:
            value: memoryview | None = self._transaction.get(key, None, self._handles[table])
        except lmdb.Error as error:
            self._raise_translated(error)
        return value

    def get_many(self, table: Table, keys: list[bytes]) -> list[tuple[bytes, memoryview]]:
        """Key and value of those of the keys that are stored."""
        found: list[tuple[bytes, memoryview]] = []
        if logged := self._changed(table).values:
            found = [(key, value) for key in keys if (value := logged.get(key)) is not None]
            keys = [key for key in keys if key not in logged]
        try:
            cursor = self._transaction.cursor(self._handles[table])
            found += [(bytes(key), value) for key, value in cursor.getmulti(keys)]
        except lmdb.Error as error:
            self._raise_translated(error)
        return found

    def floor(self, table: Table, key: bytes) -> tuple[bytes, memoryview] | None:
        """The record with the greatest key that is at most ``key``, or None."""
        changed = self._changed(table)
        place = bisect_right(changed.keys, key)
        while place and changed.values[changed.keys[place - 1]] is None:
            place -= 1
        logged = changed.keys[place - 1] if place else b""
        try:
            cursor = self._transaction.cursor(self._handles[table])
            found = True
            if not cursor.set_range(key):
                found = cursor.last()
            elif cursor.key() != key:
                found = cursor.prev()
            while found:
                name = bytes(cursor.key())
                if name <= logged:
                    break
                if name not in changed.values:
                    return name, cursor.value()
                found = cursor.prev()
        except lmdb.Error as error:
            self._raise_translated(error)
        value = changed.values.get(logged)
        return None if value is None else (logged, value)

    def scan(
        self, table: Table, prefix: bytes, start: bytes | None = None
    ) -> Iterator[tuple[bytes, memoryview]]:
        """Yield the records whose keys begin with ``prefix``, in order, from ``start`` on."""
        begin = prefix if start is None else max(prefix, start)
        changed = self._changed(table)
        stored = self._stored(table, prefix, begin)
        if not changed.keys:
            yield from stored
            return
        keys = changed.keys[bisect_left(changed.keys, begin) :]
        within = takewhile(lambda key: key.startswith(prefix), keys)
        logged = ((key, value) for key in within if (value := changed.values[key]) is not None)
        others = (record for record in stored if record[0] not in changed.values)
        for record in merge(others, logged, key=itemgetter(0)):
            yield record
            self.require_open()

    def _changed(self, table: Table) -> Changed:
        """What the log changes in a table."""
        self.require_open()
        return (self._log or self._read_log()).tables[table]

    def _read_log(self) -> Log:
        """Read the log, or take what this commit is known to have."""
        self._log = self.remembered("log", self._load_log)
        return self._log

    def _load_log(self) -> Log:
        """Read the log, or take it from the cache if it has not changed."""
        head = self._main(log.HEAD_KEY)
        known: Log = self.environment.caches.get("log", _NO_LOG)
        if head is None:
            return _NO_LOG
        if head[: len(known.checksum)] == known.checksum != b"":
            return known
        read = Log.load(head, known, self._segment)
        if known.place.commit < read.place.commit:
            self.environment.caches["log"] = read
        return read

    def _segment(self, key: bytes) -> bytes:
        """The record of a segment of the log."""
        record = self._main(key)
        if record is None:
            raise layout.damage("a segment of the log of the last commits is missing")
        return record

    def _main(self, key: bytes) -> bytes | None:
        """A copy of the value of a key of LMDB's main table, or None."""
        try:
            value = self._transaction.get(key)
        except lmdb.Error as error:
            self._raise_translated(error)
        copied = None if value is None else bytes(value)
        self.require_open()
        return copied

    def _stored(
        self, table: Table, prefix: bytes, start: bytes
    ) -> Iterator[tuple[bytes, memoryview]]:
        """Yield the records of a table, without the log, as ``scan`` does."""
        try:
            cursor = self._transaction.cursor(self._handles[table])
            found = cursor.set_range(start)
            while found:
                key = bytes(cursor.key())
                if not key.startswith(prefix):
                    return
                yield key, cursor.value()
                self.require_open()
                found = cursor.next()
        except lmdb.Error as error:
            self._raise_translated(error)

    def _raise_translated(self, error: Exception) -> NoReturn:
        self._remembered = self._log = None  # of what LMDB has given up nothing is known
        self.environment.raise_translated(error)
        raise error

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._transaction is _ENDED

    def require_open(self) -> None:
        """Raise DatabaseClosedError if it has ended, or its database was closed."""
        if self._transaction is _ENDED or not self.environment.users.present:
            raise DatabaseClosedError(
                f"{self.environment.path}: the snapshot has ended, or the database was closed"
            )
        if self._process is not _process:
            # The parent's reader slot keeps its pages alive, which this process cannot rely on.
            raise DatabaseClosedError(
                f"{self.environment.path}: a snapshot or iterator does not outlive a fork; take "
                "another in the child"
            )

    def begin_use(self, use: object) -> None:
        """Let what is read stay until ``end_use`` of the same object, which must be kept, too."""
        uses = self._used.get("uses")
        if uses is None:  # at once for all threads
            uses = self._used.setdefault("uses", Uses(self))
        uses.add(use)
        self.require_open()

    def end_use(self, use: object) -> None:
        """Note that a use has ended; of a snapshot that was closed meanwhile maybe the last."""
        try:
            if (uses := self._used.get("uses")) is not None:
                uses.discard(use)
        finally:
            self.use_gone()

    def use_gone(self) -> None:
        """Complete ``close`` if it was called, and this was the last use."""
        if self._transaction is _ENDED:
            self.close()

    def close(self) -> None:
        """End the snapshot, and views into it. A second call completes what an interrupt left.

        Where it is used (``begin_use``), what is read stays until the last use ends.
        """
        if self._left or self._process is not _process:
            self._transaction = _ENDED
            self._log = self._remembered = None
            return
        # Who begins a use says so, and then looks for the end; here it is the reverse.
        transaction = self._transaction
        if transaction is not _ENDED:
            self._used["transaction"] = transaction
            self._transaction = _ENDED
        if self._used.get("uses"):
            return
        self._log = self._remembered = None
        transaction = self._used.pop("transaction", None)  # one of several threads gets it
        if transaction is not None:
            transaction.abort()
        self.environment.leave(self)
        self._left = True
        self.__class__ = self.ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            if error is not None:
                self.environment.raise_translated(error)
        finally:
            if given_up:  # looked at without a call, since every search ends here
                after_given_up(self._moment, self.close)
            else:
                self.close()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn what LMDB raises into simdb's errors, in a transaction that goes on."""
        try:
            yield
        except lmdb.Error as error:
            self._raise_translated(error)


class _UnprotectedSnapshot(ReadTransaction):
    """A snapshot of a process that can use no lock file: a writer may take its pages.

    LMDB does so from the second commit after it on, so all that is read is given out only if
    nobody has committed since it began.
    """

    may_remember = False  # what is kept would be given out without that

    def get(self, table: Table, key: bytes) -> memoryview | None:
        value = super().get(table, key)
        self._require_unchanged()
        return value

    def require_open(self) -> None:
        super().require_open()
        self._require_unchanged()

    def _require_unchanged(self) -> None:
        self.environment.require_unchanged(self.identity)

    def _raise_translated(self, error: Exception) -> NoReturn:
        self._require_unchanged()
        super()._raise_translated(error)


class WriteTransaction(ReadTransaction):
    """The one transaction that may change the file: all of it is committed, or nothing.

    Reads see its own writes. A view is valid until the next write.

    What it changes is held back, and written to the log if it is little. A ``member`` of a group
    (``groups``) shares its commit with others; all but the first of these read a snapshot, and take
    LMDB's transaction for writing only to write to the tables, or to commit.
    """

    may_remember = False  # what it stores may still change
    __slots__ = (
        *("_before", "_held_back", "_inserts", "_is_direct", "_snapshot", "_writes"),
        *("lock_owner", "member", "pages_before", "thread", "written_manifests"),
    )

    def __init__(self, environment: Environment, member: Member | None = None) -> None:
        self.member = member
        self.thread = threading.get_ident()
        self.lock_owner = User()  # that of a member is its group
        # By collection: once committed, the next transaction of this process takes them over if
        # nobody has committed in between.
        self.written_manifests: dict[int, Any] = {}
        self._inserts = False  # adds items or an index
        self.pages_before: int | None = None  # in use when it began to, where room may be short
        self._held_back = 0  # bytes of changes
        self._is_direct = False  # writes to the tables: the log is folded
        self._writes = True  # it is LMDB's transaction for writing
        self._before: Log | None = None  # with the changes of the members before it
        self._snapshot: Any = None  # which it read before it began to write, and may still read
        super().__init__(environment)

    def join(self, group: Group) -> None:
        """Go on after the members of a group that are done."""
        self._writes = False
        self._log = self._before = group.log
        if self.identity != group.commit:
            raise StorageError(f"{self.environment.path} was written to without simdb's locks")

    @property
    def identity(self) -> int:
        """Number of the commit that it will be."""
        return int(self._transaction.id()) + (not self._writes)

    @contextmanager
    def before(self) -> Iterator[ReadTransaction]:
        """Hold a snapshot of what is stored before its own changes."""
        with self.environment.read() as snapshot:  # nobody else can write now
            snapshot.overlay(self._before)
            yield snapshot

    def manifest_before(self, number: int) -> Any:
        """The manifest of a collection as the commit before left it, to be changed, if known.

        Nobody else gets it: where this transaction fails, it may be wrong.
        """
        if self.member is not None and self.member.group is not None and self._before is not None:
            return self.member.group.manifests.pop(number, None)
        written = self.environment.caches.pop("written manifests", None)
        if written is None or written[0] + 1 != self.identity:
            return None
        return written[1].get(number)

    def note_insertion(self) -> None:
        """Note that it adds items or an index: it must leave room in the map for deleting."""
        if self._inserts:
            return
        self._inserts = True
        if not self.environment.room().is_plenty:
            self.pages_before = self.room().pages_in_use

    def room(self) -> Room:
        """Return how much of the map is used, with what it has written itself."""
        return self.environment.room(map(self._transaction.stat, self._handles))

    def commit(self) -> None:
        """Make it durable, unless it inserts and leaves too little room for deleting.

        DatabaseFullError: nothing was stored; DatabaseFailedError: the system failed to write.
        """
        if self._held_back and not self._is_direct:
            self._append()
        if self.pages_before is not None:
            self.room().require_reserve(self.environment.path, self.pages_before)
        self._transaction.commit()

    def put(self, table: Table, key: bytes, value: bytes | bytearray | memoryview) -> None:
        """Store a value under a key, in place of an older one."""
        if self._is_direct:
            self._transaction.put(key, value, db=self._handles[table])
        else:
            self._hold_back(table, key, bytes(value))

    def put_many(self, table: Table, keys: Sequence[bytes], values: Iterable[bytes]) -> None:
        """Store many records, given in the order of their keys."""
        # One by one: a list of them would be objects that Python's collector has to visit.
        records = zip(keys, values, strict=True)
        if not self._is_direct and len(keys) * log.COST <= log.LARGEST_COMMIT:
            for key, value in records:
                self.put(table, key, value)
            return
        if not self._is_direct:
            self._fold()
        cursor = self._transaction.cursor(self._handles[table])
        consumed, _ = cursor.putmulti(records)
        if consumed != len(keys):
            raise StorageError(f"LMDB stored {consumed} of {len(keys)} records")

    def delete(self, table: Table, key: bytes) -> None:
        """Remove a key, if it is there."""
        if self._is_direct:
            self._transaction.delete(key, db=self._handles[table])
        else:
            self._hold_back(table, key, None)

    def change_header(self, **fields: object) -> None:
        """Change fields of the header, which is not logged."""
        meta = self._handles[Table.META]
        header = creation.change_header(self._transaction, meta, **fields)
        logged = self._log or self._read_log()
        if layout.HEADER_KEY in logged.tables[Table.META].values:
            # As earlier versions restored: once folded it would take the place of this one.
            self._hold_back(Table.META, layout.HEADER_KEY, header)

    # -- the log ---------------------------------------------------------------------------

    def _hold_back(self, table: Table, key: bytes, value: bytes | None) -> None:
        held = self._log if self._held_back and self._log is not None else self._own_log()
        held.set(table, key, value)
        length = len(key)
        self._held_back += log.COST + length + (0 if value is None else len(value))
        if self._held_back > log.LARGEST_COMMIT or not 0 < length <= log.LONGEST_KEY:
            self._fold()

    def _own_log(self) -> Log:
        """The log, which this transaction may change."""
        known = self._log or self._read_log()
        if not self._held_back:
            known = self._log = known.copy()
        return known

    def _append(self) -> None:
        """Write what was held back to the log, or fold that where it is due.

        Where a map might have no room to fold it later, none is begun; a disk that is nearly full
        is spared.
        """
        held = self._own_log()
        is_due = held.is_full and not preflight.is_full(self.environment.path, held.folded_bytes)
        if is_due or (not held.is_begun and not self.environment.room().is_enough_to_fold):
            self._fold()
            return
        if not held.checksum:
            # No version before reads past the log.
            self.change_header(format=creation.FORMAT_VERSION)
        for key, record in held.written(self.identity):
            self._transaction.put(key, record)

    def fold(self) -> None:
        """Fold the log, so that what was deleted leaves its pages free; not on a full disk."""
        if not preflight.is_full(self.environment.path, self._own_log().folded_bytes):
            self._fold()

    def _fold(self) -> None:
        """Write all that the log holds, and what was held back, to the tables."""
        folded = self._log or self._read_log()
        if not self._writes:
            # Views and cursors of what it read may still be in use.
            self._snapshot, self._transaction = self._transaction, _ENDED
            self.environment.begin_to_write(self)
            self._writes = True
        # From the first change on: of a member that fails amid them its group commits none.
        self._is_direct = True
        for changed, handle in zip(folded.tables, self._handles, strict=True):
            for key in changed.keys:
                value = changed.values[key]
                if value is None:
                    self._transaction.delete(key, db=handle)
                else:
                    self._transaction.put(key, value, db=handle)
        for key in folded.segments():
            self._transaction.delete(key)
        self._log = _NO_LOG
        if folded.checksum:
            self._log, head = folded.emptied(self.identity)
            self._transaction.put(log.HEAD_KEY, head)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            if self._process is not _process:
                if kind is None:
                    raise DatabaseClosedError("a transaction cannot be committed by a forked child")
            elif self.member is not None and self.member.group is not None:
                self._end_part(self.member, self.member.group, error)
            elif kind is None:
                with self.environment.failures_noted():
                    self._commit_noted(self.written_manifests)
            elif error is not None:
                self.environment.raise_translated(error)
        finally:
            self.close()

    def _commit_noted(self, manifests: dict[int, Any]) -> None:
        """Commit, and keep what the next transaction may take over."""
        commit = self.identity
        self.commit()
        self.environment.caches["written manifests"] = commit, manifests
        if self._log is not None and self._log.checksum:
            self.environment.caches["log"] = self._log

    # -- a group ---------------------------------------------------------------------------

    def _end_part(self, member: Member, group: Group, error: BaseException | None) -> None:
        """End a member's part: when it returns, or raises, the group's commit is durable.

        Whoever is interrupted leaves the rest to the others of the group, if there are any.
        """
        failed = None
        if error is None and self._is_direct:
            failed = self._committed_with(group)
        elif error is None and self._held_back:
            group.held_back += self._held_back
            group.log = self._log
            group.manifests |= self.written_manifests
        elif error is not None and not isinstance(error, Exception):
            return
        if error is not None or failed is not None:
            self.pages_before = None
        environment, lobby = self.environment, self.environment.lobby
        if group.log is None:
            lobby.settle(group)
        elif not group.is_settled:
            environment.let_next_in(self, member)
            while lobby.await_settled(member):
                self._commit_group(group)
        if group.failure is not None:
            raise group.failure if not group.entered else copy(group.failure)
        if failed is not None:
            raise failed
        if error is not None:
            environment.raise_translated(error)

    def _committed_with(self, group: Group) -> Exception | None:
        """Commit what was written to the tables, and the group's changes with it, or say why not.

        Then those of the others are as they were, unless it was raised after the commit.
        """
        failure = None
        try:
            with self.environment.failures_noted():
                self._commit_noted(group.manifests | self.written_manifests)
        except Exception as failed:  # noqa: BLE001 - raised when the others' changes are durable
            if is_of_writing(failed) or not self.environment.has_stored(group.commit):
                return failed
            failure = failed
        self.environment.lobby.settle(group)
        return failure

    def _commit_group(self, group: Group) -> None:
        """Commit what a group has held back, unless one that was interrupted has done so."""
        assert group.log is not None
        failure = None
        try:
            with self.environment.failures_noted():
                if not self._writes or self._is_direct or self._transaction is _ENDED:
                    self.end_reading()
                    self.environment.begin_to_write(self)
                    self._writes, self._is_direct = True, False
                if self.identity == group.commit:
                    # Of which another may have to make the commit, should this one not end.
                    self._log = group.log.copy() if group.entered else group.log
                    self._held_back = group.held_back
                    self._commit_noted(group.manifests)
        except Exception as error:
            # Raised by the handler of a signal, or after the commit: of this member alone.
            is_stored = not is_of_writing(error) and self.environment.has_stored(group.commit)
            if is_stored or not is_of_storage(error):
                raise
            failure = error  # of all members
            # What was read of changes that are not stored may come again with other content.
            self.environment.forget()
        # Who leaves next may let another one write, which has the gate while it waits for LMDB.
        self.end_reading()
        self.environment.lobby.settle(group, failure)

    def close(self) -> None:
        """End it; what is not committed is not stored."""
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None and self._process is _process:
            snapshot.abort()
        super().close()

    def end_reading(self) -> None:
        """End LMDB's transactions, of which one may have written what is not to be stored."""
        ended, self._transaction, self._snapshot = (self._transaction, self._snapshot), _ENDED, None
        self._log = None
        for transaction in ended:
            if transaction is not _ENDED and transaction is not None:
                transaction.abort()


class _Unclosed:
    """Closes a transaction that goes without that, as where an interrupt came before its block."""

    __slots__ = ()

    def __del__(self) -> None:
        if not getattr(self, "_left", True):  # else it was not made
            self.close()  # type: ignore[attr-defined]


def _closed_when_gone(kind: type[AnyTransaction]) -> type[AnyTransaction]:
    """Return the class of a sort of transactions until they end.

    From then on they are of the sort itself, which has no finaliser: what the handler of a signal
    raises amid one, as KeyboardInterrupt, Python passes over, and most that go have ended.
    """
    kind.ended = kind
    return type(kind.__name__, (_Unclosed, kind), {"__slots__": ()})


_Reading, _ReadingUnprotected, _Writing = (
    _closed_when_gone(ReadTransaction),
    _closed_when_gone(_UnprotectedSnapshot),
    _closed_when_gone(WriteTransaction),
)


class _FailuresNoted:
    """The block of ``failures_noted``: a class, since every commit enters one."""

    __slots__ = ("_environment",)

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception):
            try:
                self._environment.raise_noted(error)
            finally:
                del error  # a frame in its traceback would keep it, and what others hold by it


class _WriterAwaited(Exception):  # noqa: N818 - is no error: who holds no lock waits, and goes on
    """The file can be opened once the right to write is had in a queue."""

    def __init__(self, queue: WriterQueue) -> None:
        super().__init__()
        self.queue = queue


def _begun_after_wait(
    begin: Callable[[WriterQueue | None], T],
    timeout: float | None,
    since: float,
    is_open: Callable[[], bool],
    queue: WriterQueue | None = None,
) -> T:
    """Begin what may have to open a file; its writer is waited for while no lock is held.

    Whoever opens, closes or reads in another thread, or forks, would wait as well. A child that is
    forked meanwhile leaves the queue (``_after_fork_in_child``).

    Args:
        begin: it is given a queue that has the right to write, or None to do without or try.
        timeout: DatabaseBusyError after so many seconds, from ``since`` on.
        is_open: whether another thread has opened the file meanwhile, so that nobody need wait.
        queue: where to wait, if that was begun.
    """
    if queue is None:
        try:
            return begin(None)
        except _WriterAwaited as awaited:
            queue = awaited.queue
    while True:
        try:
            had = queue.acquire(timeout, since=since, is_needless=is_open)
            return begin(queue if had else None)
        except _WriterAwaited as awaited:
            following = awaited.queue
        finally:
            queue.release()
            queue.close()
        queue = following


class _Turn:
    """Keeps writers waiting: LMDB's copy begins between two, and would wait deaf to Ctrl-C.

    The lock belongs to this object, and ends with it at the latest. What an interrupt raises amid
    its end holds it only by its traceback; that of an ``ExitStack`` would also hold itself, and so
    the lock, until Python's collector runs.
    """

    def __init__(self, queue: WriterQueue | None = None, timeout: float | None = None) -> None:
        """Stand for nothing where there is no queue, since nobody has written."""
        self._queue, self._timeout = queue, timeout

    def __enter__(self) -> Self:
        if self._queue is not None:
            self._queue.acquire(self._timeout, self)
        return self

    def end(self) -> None:
        """Let writers in; again after an interrupt."""
        if self._queue is not None:
            self._queue.release(self)

    def __exit__(self, *_: object) -> None:
        self.end()


class Environment:
    """One opened file, shared within the process."""

    def __init__(self, path: Path, *, read_only: bool, sync: AnySync, map_size: int | None) -> None:
        self.path = path
        self.read_only = read_only
        self.sync = sync
        self.map_size = map_size
        self.generation = 0  # counts how often this process has opened or mapped the file
        self.handles: list[Any] = []
        self.uuid = uuid.UUID(int=0)  # drawn when the file was created
        self.history = b""  # drawn when it was, or was put in the place of another one
        self.users = Users()
        self.identity = (0, 0)
        self.caches = Caches()
        # The last commit that was read, and what is made of it.
        self._remembered: tuple[int, dict[Hashable, Any]] = 0, {}
        self._environment: Any = None
        self._queue: WriterQueue | None = None
        self._watch: preflight.FileWatch | None = None
        self.has_lock = True
        self._failure: DatabaseFailedError | None = None
        # The lock is taken itself, not by its condition: an interrupt may fall into the latter's
        # methods. What is counted are objects, which an interrupt cannot forget to uncount.
        self._gate = threading.RLock()
        self._without_gate = threading.Condition(self._gate)  # which nobody notifies
        self._at_gate: set[int] = set()  # threads that take it now, or have it, for a snapshot
        self._waits_for_turn: set[int] = set()  # threads that let others run
        self._turn_began = 0.0
        self._live: weakref.WeakSet[ReadTransaction] = weakref.WeakSet()
        self._waiting: weakref.WeakSet[User] = weakref.WeakSet()
        # From before their wait to after the last that others wait for: a thread has one at most.
        self._writers: weakref.WeakSet[WriteTransaction] = weakref.WeakSet()
        self._reservations: weakref.WeakSet[Reservation] = weakref.WeakSet()
        self.lobby = Lobby(self._gate)
        self._refused_size = 0
        self._writes = 0

    # -- opening and closing ---------------------------------------------------------------

    def open(self, queue: WriterQueue | None = None) -> None:
        """Map the file and read its header.

        ``queue`` is one in which the right to write is had; without it that is tried.

        Raises:
            _WriterAwaited: another writer has the store.
            StorageError: the file does not belong to the lock file beside it.
        """
        with translated(self.path):
            preflight.inspect(self.path, preflight.page_problems)
            beside = [Path(f"{self.path}-lock"), Path(f"{self.path}-turn")]
            made_here = [file for file in beside if not file.exists()]
            try:
                watch = self._map_watched()
                self._matching(write=False).abort()
                self.handles = self._open_tables(queue, watch.identity)
                self.uuid, self.history = creation.read_identity(
                    self.path, self._environment, self.handles[Table.META]
                )
            except BaseException as error:
                self._close_handles()
                if isinstance(error, NotADatabaseError):
                    for file in made_here:
                        file.unlink(missing_ok=True)
                raise
            self._environment.reader_check()
            self.identity = watch.identity
        self.generation += 1
        self.forget()

    def _map_watched(self) -> preflight.FileWatch:
        """Map the file; again if it is replaced by a restored one meanwhile."""
        deadline = time.monotonic() + REPLACING_PATIENCE
        while True:
            before = self._watch  # kept over a fork
            watch = self._watch = preflight.FileWatch(self.path)
            size = self.map_size or creation.LARGEST_MAP
            self._environment = self._map(creation.size_within_limit(self.path, size))
            if before is not None:  # from here on LMDB's lock keeps others from replacing the file
                before.close()
            if watch.claim() and preflight.identity_of(self.path) == watch.identity:
                return watch
            self._close_handles()
            if time.monotonic() > deadline:
                raise DatabaseBusyError(f"{self.path} is being replaced by another process")
            time.sleep(0.01)

    def _map(self, size: int) -> Any:
        """Map the file, with room for so many bytes of insertions or as much as there is."""
        after_failure = self._failure is not None
        self.has_lock = preflight.has_lock(self.path, read_only=self.read_only)
        if self.has_lock and not after_failure:
            preflight.reserve_lock_file(self.path)
        while True:
            try:
                return lmdb.open(
                    str(self.path),
                    subdir=False,
                    create=False,
                    readonly=self.read_only or after_failure,
                    lock=self.has_lock,
                    map_size=creation.with_reserve(size),
                    sync=self.sync != "never",
                    metasync=self.sync == "full",
                    max_readers=preflight.MOST_READERS,
                    max_dbs=creation.MOST_TABLES,
                    lib_version=creation.ENGINE,
                )
            except lmdb.MemoryError:
                # The system limits the address space in a way of its own, as containers do.
                if size <= max(creation.SMALLEST_MAP, self.path.stat().st_size):
                    raise
                size //= 2

    def _open_tables(self, queue: WriterQueue | None, identity: tuple[int, int]) -> list[Any]:
        """Open the tables when no one else is writing.

        LMDB does it in a write transaction, for which it would wait without end and deaf to Ctrl-C.
        """
        if self.read_only:
            return creation.open_tables(self.path, self._environment)
        self._queue = own = WriterQueue(self.path)
        if queue is None or queue.identity != identity:  # the file was replaced during the wait
            _awaited.add(own)
            try:
                own.acquire(0)
            except DatabaseBusyError:
                self._queue = None
                raise _WriterAwaited(own) from None
        try:
            return creation.open_tables(self.path, self._environment)
        finally:
            own.release()

    def close(self) -> None:
        """Close the file, once the last of its transactions has ended; they can read no more."""
        with self._gate:
            self._close_if_unused()
        self.close_if_free()

    def close_if_free(self) -> None:
        """Close it if it is not used; who has the gate then looks again once it has left that."""
        while self._is_unused and self._watch is not None:
            if not _if_free(self._gate, self._close_if_unused):
                return

    @property
    def _is_unused(self) -> bool:
        return not (self.users.present or self._live or self._waiting)

    @property
    def is_finished(self) -> bool:
        """Whether nobody uses it and it is unmapped."""
        return not self.users.present and self._environment is None

    def _close_if_unused(self) -> None:
        if self._is_unused:
            self._close_handles()

    @property
    def is_held(self) -> bool:
        """Whether this process keeps others from replacing the file; also after a fork."""
        return self._watch is not None

    def _close_handles(self) -> None:
        self._unmap()
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def _unmap(self) -> None:
        """Close all but what claims the file."""
        # The map first: where an interrupt leaves the others, they are opened anew with it.
        environment, self._environment = self._environment, None
        if environment is not None:
            environment.close()
        queue, self._queue = self._queue, None
        if queue is not None:
            queue.close()
        self.forget()

    def forget(self) -> None:
        """Empty the caches."""
        self.caches.clear()
        self._remembered = 0, {}

    def remembered_of(self, commit: int) -> dict[Hashable, Any] | None:
        """What ``ReadTransaction.remembered`` keeps of a commit; None of one before the last."""
        last, remembered = self._remembered
        if commit > last:
            last, remembered = self._remembered = commit, {}
        return remembered if commit == last else None

    # -- transactions ----------------------------------------------------------------------

    def read(self, timeout: float | None = OPENING_PATIENCE) -> ReadTransaction:
        """Begin a snapshot of the last commit.

        DatabaseBusyError: the file was to be opened anew, as after a fork, and another writer held
        the store for longer than ``timeout``.
        """
        try:
            return self._read()
        except _WriterAwaited as awaited:
            queue = awaited.queue
        return self._begun_after_wait(self._read, timeout, time.monotonic(), queue)

    def _begun_after_wait(
        self,
        begin: Callable[[WriterQueue | None], T],
        timeout: float | None,
        since: float,
        queue: WriterQueue | None = None,
    ) -> T:
        def is_open() -> bool:
            return self._environment is not None

        return _begun_after_wait(begin, timeout, since, is_open, queue)

    def _read(self, queue: WriterQueue | None = None) -> ReadTransaction:
        transaction = _Reading(self) if self.has_lock else _ReadingUnprotected(self)
        thread = self._give_way()
        try:
            with self._gate:
                self._require_open(queue)
                self._begin(transaction, write=False)
        except BaseException:
            transaction.close()  # out of the gate, by which others close the file
            raise
        finally:
            self._at_gate.discard(thread)
        return transaction

    def _give_way(self) -> int:
        """Let threads pass the gate that are about to; return this one's number, noted as such.

        A thread that waits in the gate has it before it has the GIL, so that whoever comes next
        waits too, and from then on each snapshot costs two threads a hand-over. Who waits here has
        nothing that others wait for.
        """
        if self._at_gate:
            time.sleep(0)
        thread = threading.get_ident()
        self._at_gate.add(thread)
        return thread

    def write(
        self, timeout: float | None, *, shares: bool = False, since: float | None = None
    ) -> WriteTransaction:
        """Wait for the right to write, and begin.

        Args:
            timeout: in seconds; None waits for ever.
            shares: it changes little, and may share its commit with others of this process; then
                its block is to end, and whatever it is told to be returned, only at its exit.
            since: the time from which on the timeout counts; now by default.

        Raises:
            ReadOnlyError: opened for reading.
            UsageError: this thread is writing already, and would wait for itself.
            DatabaseBusyError: another writer held the store for longer than ``timeout``.
            DatabaseFailedError: an earlier write failed in a way that only opening anew mends.
        """
        if self.read_only:
            raise ReadOnlyError(f"{self.path} was opened read-only")
        since = time.monotonic() if since is None else since
        begin = partial(self._write, timeout=timeout, since=since, shares=shares)
        return self._begun_after_wait(begin, timeout, since)

    def _write(
        self,
        queue_to_open: WriterQueue | None,
        *,
        timeout: float | None,
        since: float,
        shares: bool,
    ) -> WriteTransaction:
        transaction = None
        try:
            with self._gate:
                self._require_open(queue_to_open)
                if queue_to_open is not None:
                    queue_to_open.release()  # else it would wait for itself where another opened it
                self._require_no_failure()
                self._require_not_writing(threading.get_ident())
                queue = self._queue
                assert queue is not None
                member = Member() if shares else None
                transaction = _Writing(self, member)
                self._writers.add(transaction)
                self._waiting.add(member or transaction.lock_owner)
            if member is None:
                queue.acquire(timeout, transaction.lock_owner, since)
                self._begin_writing(transaction)
            else:
                self._begin_sharing(queue, transaction, member, timeout, since)
        except BaseException:
            if transaction is not None:
                transaction.close()
            raise
        finally:
            if transaction is not None:
                with self._gate:
                    self._waiting.discard(transaction.member or transaction.lock_owner)
                    self._close_if_unused()
                self.close_if_free()
        return transaction

    def _begin_sharing(
        self,
        queue: WriterQueue,
        transaction: WriteTransaction,
        member: Member,
        timeout: float | None,
        since: float,
    ) -> None:
        """Begin when the right to write was had, or in a group that has it."""
        if not self.lobby.await_turn(member, None if timeout is None else since + timeout):
            raise queue.busy(timeout)
        if member.group is not None:
            with self._gate:
                self._require_open()
                self._require_no_failure()
                self._begin(transaction, write=False)
                transaction.join(member.group)
            return
        member.group = group = Group()
        group.hold(member)
        queue.acquire(timeout, group, since)
        self._begin_writing(transaction)
        group.commit = transaction.identity

    def _begin_writing(self, transaction: WriteTransaction) -> None:
        with self._gate:
            self._require_open()
            self._require_no_failure()
            preflight.require_same_file(self.path, self.identity)
            assert self._watch is not None
            self._watch.require_lock()
            self._keep_room()
            self._writes += 1
            if self._writes % READERS_CHECKED_EVERY == 0:
                self._environment.reader_check()
            self._begin(transaction, write=True)

    def _begin(self, transaction: ReadTransaction, *, write: bool) -> None:
        begun = None
        try:
            try:
                begun = self._matching(write=write)
            except (lmdb.Error, OSError) as error:
                with self.failures_noted():
                    self._make_way(error, write=write)
                    begun = self._matching(write=write)
            transaction.begin(begun)
        except BaseException:
            if begun is not None:  # LMDB's lock is not to be held by a traceback
                begun.abort()
            raise
        self._live.add(transaction)

    def begin_to_write(self, transaction: WriteTransaction) -> None:
        """Begin LMDB's transaction for writing, of one whose group has the right to write."""
        with self._gate:
            if self._environment is None:
                raise DatabaseClosedError(f"{self.path} is closed")
            self._require_no_failure()
            self._begin(transaction, write=True)

    def has_stored(self, commit: int) -> bool:
        """Whether the commit of a number has been made, by a group that has the right to write."""
        return self._watch is not None and self._watch.newest_commit() >= commit

    def let_next_in(self, transaction: WriteTransaction, member: Member) -> None:
        """Let another one go on where a transaction ends, if one waits and cannot fill the map."""
        with self._gate:
            if self.lobby.is_awaited and self.room().is_plenty and self.lobby.let_next_in(member):
                # Which that one needs; it goes on when it has the gate.
                transaction.end_reading()
                self._waiting.add(member)
                self._live.discard(transaction)

    def _make_way(self, error: Exception, *, write: bool) -> None:
        """Do what lets a transaction begin that could not, or raise the error."""
        if isinstance(error, lmdb.MapResizedError):
            # Another process has grown the file past this process's map.
            self._remap(0)
        elif isinstance(error, lmdb.ReadersFullError):
            self._environment.reader_check()
        elif isinstance(error, lmdb.PanicError) and not (write or self._live):
            self._reopen_to_read(error)
        else:
            raise error

    def _matching(self, *, write: bool) -> Any:
        """A transaction of LMDB's that continues, or sees, the last commit of the file.

        The lock file says which that is, and is wrong where it belongs to another file, or where
        the file was written by way of another one: StorageError. CorruptionError: it was cut short.
        """
        watch = self._watch
        assert watch is not None
        # What every snapshot does is written out here, for speed.
        if _seek(watch.descriptor, 0, os.SEEK_END) != watch.least_size:
            watch.require_whole()
        for attempt in range(MOST_ATTEMPTS):
            transaction = self._environment.begin(write=write, buffers=True)
            try:
                commit = transaction.id() - 1 if write else transaction.id()
                newest = max(watch.commits())
                # The meta page is written before the lock file is: a commit may be between.
                if newest == commit or (
                    newest == commit + 1 and not write and watch.is_being_written()
                ):
                    return transaction
            except BaseException:
                transaction.abort()
                raise
            transaction.abort()
            if write:  # it has the writer lock, so nobody else can have committed meanwhile
                break
            if attempt > FEW_ATTEMPTS and not watch.is_being_written():
                if newest == commit + 1 and self._mended():
                    return self._environment.begin(buffers=True)
                break
            time.sleep(0.000_5)
        raise watch.not_its_lock(commit)

    def _mended(self) -> bool:
        """Whether the lock file is one commit behind only because a writer was killed there.

        Who takes LMDB's lock for writing after such a writer brings the lock file up to date. A
        process that only reads has to leave it; the snapshot that it gets is whole.
        """
        if self.read_only:
            return True
        assert self._watch is not None
        queue = WriterQueue(self.path)
        try:
            queue.acquire(OPENING_PATIENCE)
            transaction = self._environment.begin(write=True)
            commit = transaction.id() - 1
            transaction.abort()
        finally:
            queue.close()
        return bool(commit == self._watch.newest_commit())

    def _reopen_to_read(self, error: Exception) -> None:
        """Open the file anew: LMDB lets nobody read after it failed to write its meta page."""
        self._failure = DatabaseFailedError(f"{self.path}: {error}")
        self._close_handles()
        self.open()

    def leave(self, transaction: ReadTransaction) -> None:
        """Note that a transaction has ended.

        One that reads leaves without the gate: Python's collector ends iterators amid anything,
        also where a thread has a lock that is waited for in the gate.
        """
        if isinstance(transaction, WriteTransaction):
            thread = self._give_way()
            try:
                with self._gate:
                    self._leave_writing(transaction)
                    self._writers.discard(transaction)
                    self._live.discard(transaction)
                    self._close_if_unused()
            finally:
                self._at_gate.discard(thread)
            self.close_if_free()
            return
        self._live.discard(transaction)
        if not self.users.present:
            self.close_if_free()
        self._take_turns(threading.get_ident())

    def _take_turns(self, thread: int) -> None:
        """Let other threads run where this one has had its turn.

        Python does that after 5 ms, but begins to count anew whenever a kernel has let the GIL go,
        even if nobody else got it: one that waits might never.
        """
        taken = time.monotonic() - self._turn_began
        if taken <= TURN:
            return
        if taken <= LONGEST_TURN and not (self._live or self._waits_for_turn):
            return
        self._turn_began += taken
        if threading.active_count() == 1:
            return
        self._waits_for_turn.add(thread)
        try:
            time.sleep(0)
        finally:
            self._waits_for_turn.discard(thread)

    def _leave_writing(self, transaction: WriteTransaction) -> None:
        member, owner = transaction.member, transaction.lock_owner
        if member is not None:
            self.lobby.leave(member)
            self._waiting.discard(member)
            if member.group is None or not member.group.is_settled:
                return
            owner = member.group
            if owner.is_lost:  # run numbers that others have read come again
                self.forget()
        if self._queue is not None:
            self._queue.release(owner)

    def _require_open(self, queue: WriterQueue | None = None) -> None:
        if not self.users.present:
            raise DatabaseClosedError(f"{self.path} is closed")
        if self._environment is None:
            if self.generation:
                preflight.require_same_file(self.path, self.identity)
            self.open(queue)

    def room(self, tables: Iterable[dict[str, int]] = ()) -> Room:
        """Return how much of the map is used; of its pages, those of the tables described."""
        return Room(self._environment, tables)

    def require_unchanged(self, commit: int) -> None:
        """Raise DatabaseBusyError if somebody has committed since."""
        if self._watch is not None and self._watch.newest_commit() != commit:
            raise DatabaseBusyError(
                f"{self.path} was written to while this process read it without a lock file, which "
                f"it may not make in {self.path.parent}: read again, or let it write there"
            )

    def failures_noted(self) -> _FailuresNoted:
        """Translate errors of LMDB and the system; remember one after which nothing is written."""
        return _FailuresNoted(self)

    def raise_noted(self, error: Exception) -> NoReturn:
        """Raise what is told in place of an error; remember one after which nothing is written."""
        try:
            with translated(self.path):
                raise error
        except DatabaseFailedError as failure:
            self._failure = failure
            raise
        finally:
            del error

    def _require_no_failure(self) -> None:
        if self._failure is not None:
            raise DatabaseFailedError(str(self._failure))

    def _require_not_writing(self, thread: int) -> None:
        if any(one.thread == thread for one in self._writers):
            raise UsageError(
                f"{self.path}: this thread is in the middle of a write; what it calls meanwhile, "
                "as merge= or a handler of signals, must not write to the store"
            )

    def raise_translated(self, error: BaseException) -> None:
        """Raise simdb's error for one of LMDB's that ended a transaction; return for any other."""
        if isinstance(error, lmdb.Error):
            self.raise_noted(error)

    # -- the map ---------------------------------------------------------------------------

    def _keep_room(self) -> None:
        """Move to a larger map if this one is nearly full and nobody in this process reads it."""
        if self.map_size is not None or self._live:
            return
        room = self.room()
        size, larger = room.size, room.larger_map
        if larger is None or size <= self._refused_size or not creation.leaves_room(larger - size):
            return
        self._remap(larger)
        if self.room().size <= size:
            # Where it cannot grow, the map fills up and writes say so.
            self._refused_size = size

    def _remap(self, size: int) -> None:
        """Map the file anew, with that size or as much of it as the system gives.

        Size 0 stands for that of the process which has grown the file.
        """
        deadline, before = time.monotonic() + GROWTH_PATIENCE, self.generation
        while self._live:
            if time.monotonic() >= deadline:
                raise DatabaseBusyError(
                    f"{self.path}: the map must be moved, but {len(self._live)} snapshots of "
                    "this process are open; close them and their iterators"
                )
            self._without_gate.wait(LOOKED_EVERY)
            if self._environment is None or self.generation != before:
                self._require_open()  # a fork has closed it, or another thread has moved the map
                return
        with translated(self.path):
            try:
                self._environment.set_mapsize(size)
            except lmdb.Error:
                # The old map is gone as well, where the system refuses the new one.
                self._environment.close()
                self._environment = None
                preflight.require_same_file(self.path, self.identity)
                self._environment = self._map(size or self.map_size or creation.LARGEST_MAP)
                self.handles = creation.open_tables(self.path, self._environment)
        self.generation += 1
        self.forget()

    # -- figures ---------------------------------------------------------------------------

    def statistics(self, timeout: float | None = OPENING_PATIENCE) -> dict[str, Any]:
        """Return size, pages and readers of the file; ``timeout`` as of ``read``."""
        return self._begun_after_wait(self._statistics, timeout, time.monotonic())

    def _statistics(self, queue: WriterQueue | None) -> dict[str, Any]:
        with self._gate:
            self._require_open(queue)
            assert self._watch is not None
            self._watch.require_whole()
            return {"file_bytes": self._watch.size, **self.room().usage()}

    def copy(
        self,
        target: Path,
        *,
        compact: bool,
        timeout: float | None = None,
        progress: Callable[[int, int], None] = lambda done, whole: None,
    ) -> None:
        """Write a consistent copy beside ``target`` and link it into place.

        ``progress`` is called now and then with the bytes written, and those of the whole file.
        DatabaseBusyError: a writer held the store for longer than ``timeout`` before the copy
        could begin, for which a ``compact`` one does not wait.
        """
        # The snapshot keeps the file from being closed meanwhile.
        snapshot = self.read(timeout)
        with snapshot, translated(target), creation.temporary_beside(target) as temporary:
            assert self._watch is not None
            with (
                creation.synced(temporary, self._watch.mode) as written,
                _Turn() if compact else self._turn_to_copy(timeout) as turn,
            ):
                self._copy_watched(written.fileno(), progress, turn, compact=compact)
                snapshot.require_open()  # nor has a writer taken its pages
            creation.link_into_place(temporary, target)

    def _turn_to_copy(self, timeout: float | None) -> _Turn:
        with self._gate:
            self._require_not_writing(threading.get_ident())
            if self._queue is None:  # of who may only read
                with suppress(FileNotFoundError, PermissionError):
                    self._queue = WriterQueue(self.path, reads=True)
            return _Turn(self._queue, timeout)

    def _copy_watched(
        self,
        descriptor: int,
        progress: Callable[[int, int], None],
        turn: _Turn,
        *,
        compact: bool,
    ) -> None:
        """Copy on another thread, which is waited for whatever happens: it reads the map.

        The ``turn`` ends when the copy has begun.
        """
        whole = Room(self._environment).usage()["used_bytes"]
        with Pool(1, "simdb-copy") as worker:
            copying = worker.submit(partial(self._environment.copyfd, descriptor, compact=compact))
            while not os.fstat(descriptor).st_size and not copying.wait(COPY_BEGINS_SECONDS):
                pass
            turn.end()
            while not copying.wait(COPY_WATCHED_SECONDS):
                done = os.fstat(descriptor).st_size
                progress(done, max(done, whole))
            copying.result()
        done = os.fstat(descriptor).st_size
        progress(done, done)

    # -- reservations --------------------------------------------------------------------------

    def reserve(self, numbers: Sequence[int]) -> Reservation:
        """Let all who have the file open know that numbers are in use; within a transaction."""
        with translated(self.path), self._gate:  # which no fork comes between
            reservation = Reservation(Path(f"{self.path}-turn"), numbers)
            self._reservations.add(reservation)
        return reservation

    def is_reserved(self, number: int) -> bool:
        """Whether a number is in use by someone, this process included; within a transaction."""
        assert self._queue is not None
        with translated(self.path):
            return self._queue.is_reserved(number)

    # -- forks -----------------------------------------------------------------------------

    @property
    def gate(self) -> threading.RLock:
        """What a fork holds every new transaction back by."""
        return self._gate

    def before_fork(self) -> None:
        """Close the file if no transaction is open, but keep the claim to it, which nobody maps.

        A child closes its share in that, which leaves the parent's.
        """
        if not self._live and not self._waiting:
            self._unmap()

    def after_fork(self) -> None:
        """Begin anew in a child; the file is opened at first use."""
        self._gate = threading.RLock()
        self._at_gate.clear()
        self._waits_for_turn.clear()
        self._without_gate = threading.Condition(self._gate)  # which nobody notifies
        if self._environment is not None:
            _leave_to_parent(self._environment)
            self._environment = None
        self._live.clear()
        self._waiting.clear()
        self._writers.clear()
        self.lobby = Lobby(self._gate)
        # Locks that the parent holds would outlive it in this child's descriptors.
        self._close_handles()
        for reservation in self._reservations:
            reservation.close()
        self._reservations.clear()


# Python's own lets the GIL go, and threads that search would hand it over here each time.
_seek = ctypes.PyDLL(None).lseek
_seek.restype, _seek.argtypes = ctypes.c_int64, (ctypes.c_int, ctypes.c_int64, ctypes.c_int)


def _leave_to_parent(environment: Any) -> None:
    """Keep an LMDB environment that this child has inherited from ever being closed here.

    That would end the snapshots of the parent, whose places in the lock file it shares. The child
    opens the file anew, though py-lmdb, which knows open files by device and inode, forbids to open
    one twice in a process: it goes by processes from here on.
    """
    from lmdb import _envid

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(environment))
    known = _envid.env_keys

    def env_keys(path: object, subdir: object) -> tuple[object, ...]:
        return tuple((os.getpid(), key) for key in known(path, subdir))  # type: ignore[no-untyped-call]

    _envid.env_keys = env_keys


_process = object()  # stands for this process: a child of a fork has another one
_registry: dict[tuple[int, int], Environment] = {}
_registry_lock = threading.RLock()
_awaited: weakref.WeakSet[WriterQueue] = weakref.WeakSet()  # by those who open a file


_held: list[Any] = []  # locks, by a fork
_RLock = type(_registry_lock)


def _take_interrupt() -> None:
    """Raise what the handler of a signal that came meanwhile raises; Python passes over it.

    It comes where the next function of Python begins, as is one that a fork calls: this one and not
    one that would be left half done.
    """


def _before_fork() -> None:
    """Hold all back, and close what nobody uses.

    It waits for a lock only while it has none: who has that may be about to take another one, since
    Python's collector ends iterators, and closes stores, amid anything.
    """
    while True:
        # By calls of C, between which no interrupt comes: what is taken is noted.
        _held.extend(filter(_RLock.acquire, [_registry_lock]))
        environments = [*_registry.values()]
        gates = [environment.gate for environment in environments]
        _held.extend(takewhile(partial(_RLock.acquire, blocking=False), gates))
        awaited = next((gate for gate in gates if gate not in _held), None)
        if awaited is None:
            break
        _give_back()
        with awaited:
            pass
    for environment in environments:
        environment.before_fork()


def _give_back() -> None:
    held = [*_held]
    try:
        _held.clear()
    finally:
        deque(map(_RLock.release, held), 0)


def _after_fork_in_child() -> None:
    global _process, _registry_lock
    _process, _registry_lock = object(), threading.RLock()
    _held.clear()
    for environment in [*_registry.values()]:  # Python's collector may give one up meanwhile
        environment.after_fork()
    # Locks of those who opened a file: their threads are not here, and would never release them.
    for queue in list(_awaited):
        queue.close()


# Those before a fork run in the other order.
os.register_at_fork(after_in_parent=_take_interrupt, after_in_child=_take_interrupt)
os.register_at_fork(
    before=_before_fork,
    after_in_parent=_give_back,
    after_in_child=_after_fork_in_child,
)
os.register_at_fork(before=_take_interrupt)


def acquire(
    path: Path,
    *,
    read_only: bool,
    sync: AnySync,
    map_size: int | None,
    busy_timeout: float | None = OPENING_PATIENCE,
    mode: int | None = None,
    user: object = None,
) -> Environment:
    """Return the environment of a file, creating the file, with that mode, unless ``read_only``.

    It stays open until it is released, or ``user``, if one is given, is gone.

    Raises:
        DatabaseBusyError: another process was writing for longer than ``busy_timeout`` seconds.
        DatabaseNotFoundError: the file, or its folder, does not exist.
        NotADatabaseError, FormatVersionError, CorruptionError: it cannot be opened.
    """
    return _begun_after_wait(
        partial(
            _acquired, path, read_only=read_only, sync=sync, map_size=map_size, mode=mode, user=user
        ),
        busy_timeout,
        time.monotonic(),
        lambda: any(one.path == path and not one.is_finished for one in [*_registry.values()]),
    )


def _acquired(
    path: Path,
    queue: WriterQueue | None,
    *,
    read_only: bool,
    sync: AnySync,
    map_size: int | None,
    mode: int | None,
    user: object,
) -> Environment:
    """Return the environment of a file as ``acquire`` does; with ``queue`` as ``open``."""
    with _registry_lock:
        for known in list(_registry.values()):
            _close_if_unused(known)
        _require_not_replaced(path)
        if not path.exists():
            if read_only:
                raise DatabaseNotFoundError(f"{path} does not exist")
            with translated(path):
                preflight.require_free_name(path)
                creation.create(path, mode)
        identity = preflight.identity_of(path)
        environment = None if identity is None else _registry.get(identity)
        if environment is None or environment.is_finished:
            environment = Environment(path, read_only=read_only, sync=sync, map_size=map_size)
            environment.open(queue)
            # First: what is known, and has no user yet, is closed by who opens the next.
            _registry[environment.identity] = environment
            environment.users.add(user)
        elif environment.sync != sync or (environment.read_only and not read_only):
            raise ConfigurationError(
                f"{path} is open in this process already, with sync={environment.sync!r} and "
                f"read_only={environment.read_only}; use the same, or close it first"
            )
        elif map_size not in (None, environment.map_size):
            raise ConfigurationError(
                f"{path} is open in this process already, with map_size={environment.map_size}; "
                "use the same or give none, or close it first"
            )
        else:
            environment.users.add(user)
        return environment


def require_not_held(path: Path) -> None:
    """Raise DatabaseBusyError if this process has a file open that is to be replaced."""
    identity = preflight.identity_of(path)
    known = None if identity is None else _registry.get(identity)
    if known is not None:
        with _registry_lock:
            _close_if_unused(known)  # what was given up
    if known is not None and known.is_held:
        raise DatabaseBusyError(f"{path} is open in this process; {preflight.CLOSE_HERE}")


def _require_not_replaced(path: Path) -> None:
    """Raise if this process has another file open that was at this path."""
    present = None
    try:
        present = preflight.identity_of(path)
    except OSError as error:
        if not is_of_storage(error):  # raised by the handler of a signal, as TimeoutError
            raise
    for known in [*_registry.values()]:  # Python's collector may give one up meanwhile
        if known.path == path and known.identity != present and not known.is_finished:
            raise StorageError(
                f"{path} was removed or replaced while it was open in this process: "
                f"{preflight.CLOSE_HERE}"
            )


def release(environment: Environment, user: object = None) -> None:
    """Give an environment back; the last user closes it. A second time does nothing.

    What others have given up is closed, too.
    """
    with _registry_lock:
        environment.users.discard(user)
        for known in [environment, *_registry.values()]:
            _close_if_unused(known)


def give_up(environment: Environment, user: object) -> None:
    """Give an environment back, which nobody else will; waits for nobody who opens one, or forks.

    Python's collector calls it, amid anything, also where the lock of a file is held for which such
    a one waits. Then it is closed with the next that is opened or released.
    """
    environment.users.discard(user)
    _if_free(_registry_lock, partial(_close_if_unused, environment, Environment.close_if_free))


def _if_free(lock: threading.RLock, call: Callable[[], object]) -> bool:
    """Make a call with a lock that no other thread has; where one has it, return False."""
    taken: list[bool] = []
    try:
        # By calls of C, between which no interrupt comes: what is taken is noted.
        taken.extend(filter(None, map(partial(_RLock.acquire, blocking=False), [lock])))
        if taken:
            call()
    finally:
        if taken:
            lock.release()
    return bool(taken)


def _close_if_unused(
    environment: Environment, close: Callable[[Environment], None] = Environment.close
) -> None:
    if not environment.users.recount():
        close(environment)
        # One whose iterators are still open stays mapped, and known, until they end; of one that
        # was closed before, the file may be open anew.
        if environment.is_finished and _registry.get(environment.identity) is environment:
            del _registry[environment.identity]
