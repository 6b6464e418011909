"""Transactions: how everything else in simdb reads and writes the file.

Views that a transaction returns point into the map. They end with the transaction, and in a
write transaction with its next write: nothing that outlives it may keep one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from simdb.errors import DatabaseClosedError, StorageError
from simdb.storage.file.locks import User
from simdb.storage.tables.layout import Table

if TYPE_CHECKING:
    from simdb.storage.file.environment import Environment


class _Ended:
    """Stands in for LMDB's transaction when that has ended."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked for by tools that look at any object
            raise AttributeError(name)
        raise DatabaseClosedError("the snapshot has ended; its database was closed, or it was")


_ENDED = _Ended()


class ReadTransaction:
    """One snapshot of the file. Views that it returns end with it.

    A transaction belongs to one thread at a time. Close it, or use it in a ``with`` block.
    """

    __slots__ = (
        *("__weakref__", "_handles", "_left", "_owner", "_transaction"),
        *("environment", "generation"),
    )

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self._owner = os.getpid()
        self._left = False
        self._transaction: Any = _ENDED

    def begin(self, transaction: Any) -> None:
        """Begin with a transaction of LMDB's."""
        self.generation = self.environment.generation
        self._handles = self.environment.handles
        self._transaction = transaction

    @property
    def identity(self) -> int:
        """Number of the commit that is seen."""
        return int(self._transaction.id())

    def get(self, table: Table, key: bytes) -> memoryview | None:
        """Return the value of a key, or None."""
        if not self.environment.users.present or self._owner != os.getpid():
            self.require_open()
        value: memoryview | None = self._transaction.get(key, None, self._handles[table])
        return value

    def get_many(self, table: Table, keys: list[bytes]) -> list[tuple[memoryview, memoryview]]:
        """Return key and value of those of the keys that are stored."""
        self.require_open()
        cursor = self._transaction.cursor(self._handles[table])
        return cursor.getmulti(keys)  # type: ignore[no-any-return]

    def floor(self, table: Table, key: bytes) -> tuple[memoryview, memoryview] | None:
        """Return the record with the greatest key that is at most ``key``, or None."""
        self.require_open()
        cursor = self._transaction.cursor(self._handles[table])
        if cursor.set_range(key):
            if cursor.key() == key:
                return cursor.item()  # type: ignore[no-any-return]
            found = cursor.prev()
        else:
            found = cursor.last()
        return cursor.item() if found else None

    def scan(
        self, table: Table, prefix: bytes, start: bytes | None = None
    ) -> Iterator[tuple[memoryview, memoryview]]:
        """Yield the records whose keys begin with ``prefix``, in order, from ``start`` on."""
        self.require_open()
        cursor = self._transaction.cursor(self._handles[table])
        found = cursor.set_range(prefix if start is None else start)
        while found:
            key, value = cursor.item()
            if bytes(key[: len(prefix)]) != prefix:
                return
            yield key, value
            self.require_open()
            found = cursor.next()

    def statistics(self, table: Table) -> dict[str, int]:
        """Return LMDB's own figures of a table: entries and pages."""
        return dict(self._transaction.stat(self._handles[table]))

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._transaction is _ENDED

    def require_open(self) -> None:
        """Raise unless it can be read.

        Raises:
            DatabaseClosedError: it has ended, or its database was closed.
        """
        if self._transaction is _ENDED or not self.environment.users.present:
            raise DatabaseClosedError(
                f"{self.environment.path}: the snapshot has ended, or the database was closed"
            )
        if self._owner != os.getpid():
            # The parent's reader slot keeps its pages alive, which this process cannot rely on.
            raise DatabaseClosedError(
                f"{self.environment.path}: a snapshot or iterator does not outlive a fork; take "
                "another in the child"
            )

    def close(self) -> None:
        """End the snapshot; views into it must not be used any more.

        A second call completes what an interrupt has left undone.
        """
        if self._left or self._owner != os.getpid():
            self._transaction = _ENDED
            return
        transaction, self._transaction = self._transaction, _ENDED
        if transaction is not _ENDED:
            transaction.abort()
        self.environment.leave(self)
        self._left = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is not None:
                self.environment.raise_translated(error)
        finally:
            self.close()

    def __del__(self) -> None:
        self.close()


class WriteTransaction(ReadTransaction):
    """The one transaction that may change the file: all of it is committed, or nothing.

    Reads see its own writes. A view is valid until the next write.

    Attributes:
        written_manifests: those that it stores, by collection; once committed, the next
            transaction of this process takes them over if nobody has committed in between.
        pages_before: pages in use when it began to add items or an index, None if it does not.
        lock_owner: who has the writer lock.
    """

    __slots__ = ("lock_owner", "pages_before", "written_manifests")

    def __init__(self, environment: Environment, lock_owner: User) -> None:
        super().__init__(environment)
        self.lock_owner = lock_owner
        self.written_manifests: dict[int, Any] = {}
        self.pages_before: int | None = None

    def room_to_rewrite(self) -> int:
        """Return the bytes that the map has for values of some length, besides small ones."""
        return self.environment.room_to_rewrite(self._transaction)

    def note_insertion(self) -> None:
        """Note that it adds items or an index: it must leave room in the map for deleting."""
        if self.pages_before is None and not self.environment.has_plenty_of_room:
            self.pages_before = self.environment.pages_in_use(self._transaction)

    def put(self, table: Table, key: bytes, value: bytes | bytearray | memoryview) -> None:
        """Store a value under a key, in place of an older one."""
        self._transaction.put(key, value, db=self._handles[table])

    def put_many(self, table: Table, records: list[tuple[bytes, bytes]]) -> None:
        """Store many records, given in the order of their keys."""
        cursor = self._transaction.cursor(self._handles[table])
        consumed, _ = cursor.putmulti(records)
        if consumed != len(records):
            raise StorageError(f"LMDB stored {consumed} of {len(records)} records")

    def delete(self, table: Table, key: bytes) -> bool:
        """Remove a key; return whether it was there."""
        return bool(self._transaction.delete(key, db=self._handles[table]))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                if self._owner != os.getpid():
                    raise DatabaseClosedError("a transaction cannot be committed by a forked child")
                commit = self.identity
                self.environment.commit(self._transaction, self.pages_before)
                self.environment.caches["written manifests"] = commit, self.written_manifests
            elif error is not None:
                self.environment.raise_translated(error)
        finally:
            self.close()
