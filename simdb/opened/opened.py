"""What is open: the file, lent out for each use, and a collection in a snapshot of it."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

from msgspec import Struct, field

from simdb.batches.signer import LEAST_SHARED, Signer
from simdb.errors import ConfigurationError, DatabaseClosedError, ReadOnlyError, WrongTypeError
from simdb.kinds import Kind
from simdb.kinds.contrast import contrast
from simdb.opened.catalogue import CollectionSettings, present_settings
from simdb.opened.together import Together
from simdb.opened.where import Chosen
from simdb.storage.collection.reader import CollectionReader, stored_settings
from simdb.storage.file import environment as environments
from simdb.storage.file.caches import Made, OwnedName
from simdb.storage.file.environment import (
    AnySync,
    Environment,
    ReadTransaction,
    Uses,
    WriteTransaction,
)
from simdb.storage.file.locks import User
from simdb.storage.tables.layout import Table
from simdb.threads import Pool, after_given_up, moments, to_its_end
from simdb.work import Work

DEFAULT_MEMORY = 2**30
SHARE_OF_KEPT = 4  # of the memory setting, for what is kept of the states of all collections

T = TypeVar("T")


class Resources(Struct, frozen=True):
    """What the database lends: bytes of memory, threads, and whether it is still open."""

    memory: int = DEFAULT_MEMORY
    pool: Callable[[], Pool | None] = lambda: None  # None for the caller's thread alone
    require_open: Callable[[], None] = lambda: None  # raises unless database and snapshot are


class WriteAccess(Struct, frozen=True):
    """The open file for as long as a change takes, with what this opening of it grants.

    ``since`` is when the wait for other writers began, if it was before they are waited for.
    """

    environment: Environment
    busy_timeout: float | None
    memory: int
    pool: Callable[[], Pool | None]
    since: float | None = None

    def pool_for(self, items: int) -> Pool | None:
        """The threads to spread a batch of items over; None for few, which wake none."""
        return None if items < LEAST_SHARED else self.pool()

    def read(self) -> AbstractContextManager[ReadTransaction]:
        """Hold a snapshot of the last commit."""
        return self.environment.read(self.busy_timeout)

    def write(self, *, shares: bool = False) -> AbstractContextManager[WriteTransaction]:
        """Wait for the right to write, and commit at the end of the block.

        What ``shares``, and changes little, may be one commit with what other threads change.
        """
        return self.environment.write(self.busy_timeout, shares=shares, since=self.since)


class Known(Struct, frozen=True):
    """The settings as they are stored and as they are used; replaced as one, for other threads."""

    stored: bytes
    settings: CollectionSettings
    signer: Signer

    @classmethod
    def of(cls, settings: CollectionSettings) -> Known:
        """Make what settings are used by."""
        return cls(settings.encode(), settings, Signer(settings))

    def refreshed(self, transaction: ReadTransaction) -> Known:
        """Read the settings if they have changed: another process may have rebuilt the index."""
        if stored_settings(transaction, self.settings.name) == self.stored:
            return self
        return Known.of(present_settings(transaction, self.settings))


class Opened(Struct, frozen=True):
    """A collection as one transaction sees it."""

    settings: CollectionSettings
    signer: Signer
    reader: CollectionReader
    resources: Resources = field(default_factory=Resources)
    work: Work = field(default_factory=Work)  # of the present answer, with its budget
    only: Chosen | None = None  # the items that the present question is about, if not all
    with_metadata: bool = False  # matches of the present answer carry theirs

    @property
    def size_class(self) -> tuple[int, int]:
        """What changes when the number of items changes by a fifth, or their bytes by half."""
        manifest = self.reader.manifest
        live: int = manifest.live
        return (live**4).bit_length(), (manifest.item_bytes**2).bit_length()

    @property
    def has_number_keys(self) -> bool:
        """Whether all keys are numbers, and there is one; looked at once for each state."""
        known = self.kept("number keys", lambda: self.reader.has_number_keys, worth=1.0)
        return self.reader.has_number_keys if known is None else known

    def is_same_as(self, other: Opened) -> bool:
        """Whether another one is the same collection, in the same state."""
        own, its = self.reader, other.reader
        if own.transaction.environment is not its.transaction.environment:
            return False
        return (own.number, own.transaction.identity) == (its.number, its.transaction.identity)

    def kept(
        self,
        name: str,
        make: Callable[[], T],
        *,
        worth: float = 0.5,
        fits: Callable[[T], bool] = lambda _: True,
    ) -> T | None:
        """Return what is made of the present state of the collection, and keep it while it lasts.

        It is made when it pays: when 1 is reached by what it is ``worth`` to those who have asked
        for it, a share of what it takes to make it. That is by default the second of them, since
        nobody may ask again. Before that None is returned, and always to a writer, whose state may
        still change.
        """
        reader = self.reader
        if isinstance(reader.transaction, WriteTransaction):
            return None
        manifest = reader.manifest
        live = manifest.live  # fewer to a reader without some of them
        state = reader.transaction.identity, manifest.changes, live, manifest.index.number
        caches, named = reader.transaction.environment.caches, self._named(name)
        known: Made | None = caches.get(named)
        if known is None or known.state != state:
            known = caches[named] = Made(state)
        if known.value is None:
            known.asked += worth
            if known.asked < 1:
                return None
        return self.made(name, state, make, fits)

    def made(
        self,
        name: str,
        state: object,
        make: Callable[[], T],
        fits: Callable[[T], bool] = lambda _: True,
    ) -> T:
        """Return what is made of a state of the collection, and keep it while it lasts, if it fits.

        ``state`` is what tells one from another. All that is kept takes at most a share of the
        memory setting, unless this collection alone has more: of others the least recently used
        goes first.
        """
        caches, named = self.reader.transaction.environment.caches, self._named(name)
        known: Made | None = caches.get(named)
        if known is not None and known.state == state and known.value is not None:
            known.used = time.monotonic()
            return cast("T", known.value)
        made = make()
        most = self.resources.memory // SHARE_OF_KEPT
        caches.keep_made(named, state, made if fits(made) else None, most)
        return made

    def _named(self, name: str) -> OwnedName:
        return name, Table.DOCUMENTS, self.reader.number


def require_kind(present: CollectionSettings, before: Kind, when: str, then: str) -> None:
    """Refuse bounds of the kind of before if another one, with another measure, has come since.

    ConfigurationError says when that was, and what to do then.
    """
    if present.kind != before:
        raise ConfigurationError(
            f"{present.title} was rebuilt {when}, and compares by other settings now "
            f"({contrast(present.kind, before)}): {then}"
        )


class Reading(AbstractContextManager["ReadTransaction"]):
    """The block in which a snapshot is held: a class, since every search enters one."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __enter__(self) -> ReadTransaction:
        self._moment = next(moments)
        self._handle.begin_use(self)
        try:
            self._transaction = self._handle.environment.read(self._handle.busy_timeout)
        except BaseException:
            self._handle.end_use(self)
            raise
        return self._transaction

    def __exit__(self, *raised: Any) -> None:
        try:
            self._transaction.__exit__(*raised)
        finally:
            _end_use(self._handle, self, self._moment, raised[0])


class ReadingIn(AbstractContextManager["ReadTransaction"]):
    """The block in which a call reads in a snapshot, which stays until then, whoever ends it."""

    def __init__(self, handle: Handle, snapshot: ReadTransaction) -> None:
        self._handle = handle
        self._snapshot = snapshot

    def __enter__(self) -> ReadTransaction:
        self._moment = next(moments)
        self._handle.require_open()
        self._handle.begin_use(self)
        try:
            self._snapshot.begin_use(self)
        except BaseException:
            self._end()
            raise
        return self._snapshot

    def _end(self, *, waits: bool = True) -> None:
        try:
            self._snapshot.end_use(self)
        finally:
            self._handle.end_use(self, waits=waits)

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is GeneratorExit:  # as for ``_end_use``
            after_given_up(self._moment, partial(self._end, waits=False))
        else:
            to_its_end(self._end)


class Lent(AbstractContextManager[T]):
    """The block in which the open file is lent: it stays mapped until its end, closed or not."""

    def __init__(self, handle: Handle, begin: Callable[[], T]) -> None:
        self._handle = handle
        self._begin = begin

    def __enter__(self) -> T:
        self._moment = next(moments)
        self._handle.begin_use(self)
        try:
            return self._begin()
        except BaseException:
            self._handle.end_use(self)
            raise

    def __exit__(self, *raised: Any) -> None:
        _end_use(self._handle, self, self._moment, raised[0])


def _end_use(handle: Handle, use: object, since: int, raised: Any) -> None:
    """End a use where its block ends; that of an iterator that is given up, when nothing reads.

    That waits for nobody: Python's collector may end iterators amid anything.
    """
    if raised is GeneratorExit:
        after_given_up(since, partial(handle.end_use, use, waits=False))
    else:
        handle.end_use(use)


class Handle:
    """What a database and its collections share: the open file and the settings of this opening."""

    def __init__(
        self,
        path: Path,
        *,
        sync: AnySync,
        threads: int,
        memory: int,
        read_only: bool = False,
        busy_timeout: float | None = None,
        map_size: int | None = None,
        mode: int | None = None,
    ) -> None:
        self.path = path
        self.read_only = read_only
        self.busy_timeout = busy_timeout
        self.threads = threads
        self.memory = memory
        self._pool: tuple[int, Pool] | None = None
        self._together = os.getpid(), Together()
        self._closed = False
        self._user = User()
        self._environment = environments.acquire(
            path,
            read_only=read_only,
            sync=sync,
            map_size=map_size,
            busy_timeout=busy_timeout,
            mode=mode,
            user=self._user,
        )
        # When nobody has closed it.
        given = self._environment, self._user
        weakref.finalize(self, environments.give_up, *given).atexit = False
        # By process: those of the parent's other threads lie in frames that no child lets go of.
        self._uses: dict[int, Uses] = {}

    def __reduce__(self) -> NoReturn:
        """Raise, for all that hold one: the state of an open file is of its process alone."""
        raise WrongTypeError(
            "an open store, and what reads it, can neither be pickled nor copied deeply: open "
            f"{self.path} again where it is needed, as in another process"
        )

    @property
    def environment(self) -> Environment:
        """The open file; DatabaseClosedError if it was closed."""
        if self._closed:
            raise DatabaseClosedError(f"{self.path} is closed")
        return self._environment

    def require_open(self) -> None:
        """Raise unless the database is open."""
        _ = self.environment

    def use(self) -> Lent[Environment]:
        """Lend the open file."""
        return Lent(self, lambda: self.environment)

    def read(self) -> Reading:
        """Hold a snapshot of the last commit."""
        return Reading(self)

    def read_in(self, snapshot: ReadTransaction) -> ReadingIn:
        """Read in a snapshot that others may read in, or end, meanwhile."""
        return ReadingIn(self, snapshot)

    def begin_use(self, use: object) -> None:
        """Keep the file mapped until ``end_use`` of the same object, which must be kept, too."""
        process = os.getpid()
        uses = self._uses.get(process)
        if uses is None:  # at once for all threads
            uses = self._uses.setdefault(process, Uses(self))
        uses.add(use)

    def end_use(self, use: object, *, waits: bool = True) -> None:
        """Note that a use of the file has ended, of which it may have been the last.

        Of a file that was closed meanwhile, that waits for threads, and for who opens one or forks.
        """
        uses = self._uses.get(os.getpid())
        if uses is not None:  # else it began before a fork
            uses.discard(use)
        if self._closed:
            self._release(waits=waits)

    def use_gone(self) -> None:
        """Give a closed file back if an interrupt kept its last use from saying that it ended."""
        if self._closed:
            self._release(waits=False)

    def writing(self) -> Lent[WriteAccess]:
        """Lend the open file for a change; ReadOnlyError if it was opened for reading."""
        return Lent(self, self._access)

    def _access(self) -> WriteAccess:
        environment = self.environment
        if self.read_only:  # others of this process may write
            raise ReadOnlyError(f"{self.path} was opened read-only")
        return WriteAccess(environment, self.busy_timeout, self.memory, self.pool)

    @contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        """Wait for the right to write, and commit at the end of the block."""
        with self.writing() as access, access.write() as transaction:
            yield transaction

    def pool(self) -> Pool | None:
        """The threads to sign with, None when there is only this one."""
        if self.threads == 1:
            return None
        pool = self._pool
        if pool is None or pool[0] != os.getpid():  # threads do not survive a fork
            pool = self._pool = os.getpid(), Pool(self.threads, "simdb")
        return pool[1]

    @property
    def together(self) -> Together:
        """Those who add rows one by one."""
        if self._together[0] != os.getpid():  # those who lead do not survive a fork
            self._together = os.getpid(), Together()
        return self._together[1]

    def close(self) -> None:
        """Give the file back, when the last use of it ends; a second call does nothing."""
        self._closed = True
        self._release()

    def _release(self, *, waits: bool = True) -> None:
        if self._uses.get(os.getpid()):
            return
        pool, self._pool = self._pool, None  # of several that close it one gets it
        if pool is not None and pool[0] == os.getpid():
            (pool[1].close if waits else pool[1].end)()
        (environments.release if waits else environments.give_up)(self._environment, self._user)
