"""Locks between processes and threads, and who uses an open file.

LMDB has a writer lock of its own, but waiting for it can neither be interrupted nor timed. So
writers queue here first, on two files that simdb alone uses: whoever wants to write takes the
*queue lock*, waits for the *writer lock*, and gives the queue lock back. A bulk load that takes
the writer lock again and again cannot starve the others, since a waiting writer holds the queue.

Both are ``flock`` locks, which belong to the open file and not to the process: closing another
descriptor of the same file does not release them, as it would release POSIX record locks. The
lock file that LMDB keeps is never opened here for that reason.

What holds a lock, and what uses a file, are objects, which an interrupt cannot forget to release
or uncount: when they are gone, so is the lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from io import FileIO
from pathlib import Path

from simdb.errors import DatabaseBusyError, DatabaseClosedError, StorageError
from simdb.storage.file import preflight
from simdb.storage.file.errors import is_of_storage

LOOKED_EVERY = 0.05  # seconds, by those who wait for one that may be gone


class User:
    """Stands for one use of something; when it is gone, so is the use."""

    __slots__ = ("__weakref__",)


class Waiter(User):
    """Who waits until another thread calls."""

    __slots__ = ("_called",)

    def __init__(self) -> None:
        self._called = threading.Lock()
        self._called.acquire()

    def call(self) -> None:
        """Let it look again what it may do; by one thread at a time."""
        if self._called.locked():
            self._called.release()

    def wait(self, seconds: float) -> None:
        """Wait until it is called, or for so long."""
        self._called.acquire(timeout=max(0.0, seconds))


class Users:
    """The users of a file, but for those that were collected.

    ``present`` is whether there was any when they were last counted; looked at in every read.
    """

    __slots__ = ("_known", "_unnamed", "present")

    def __init__(self) -> None:
        self.present = False
        self._known: weakref.WeakSet[object] = weakref.WeakSet()
        self._unnamed = 0

    def add(self, user: object) -> None:
        """Add a user; None stands for one that is taken away by another None."""
        self.present = True
        if user is None:
            self._unnamed += 1
        else:
            self._known.add(user)

    def discard(self, user: object) -> None:
        """Take a user away, if it is one."""
        if user is None:
            self._unnamed -= 1
        else:
            self._known.discard(user)

    def recount(self) -> bool:
        """Return whether there are any."""
        self.present = bool(self._unnamed or self._known)
        return self.present


class Reservation:
    """Numbers that this process is using for something unfinished, such as an index being built.

    Until it is closed, or gone, or the process has ended, ``is_reserved`` tells everyone so. Each
    number is a byte of the queue's file, locked by an open file description of its own: such
    locks also exclude the threads of one process. A child of a fork has a share in them, which it
    must close.
    """

    def __init__(self, queue_file: Path, numbers: Sequence[int]) -> None:
        self._file = FileIO(str(queue_file), "r+b")
        for number in numbers:
            preflight.byte_lock(self._file.fileno(), fcntl.F_OFD_SETLK, fcntl.F_WRLCK, number, 1)

    def close(self) -> None:
        """Give the numbers up."""
        self._file.close()


FIRST_PAUSE = 0.000_5  # seconds
LONGEST_PAUSE = 0.02


class _QueuedLock:
    """One lock that excludes threads of this process and other processes alike.

    It belongs to an object, and is free when that object is gone: an interrupt, as Ctrl-C, may
    fall between any two instructions, and must not leave it locked for ever.
    """

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._mutex = threading.RLock()  # also of a callback that comes while it is held
        self._owner: weakref.ref[object] | None = None
        self._freed = threading.Lock()  # held but for a moment after a release, which wakes one
        self._freed.acquire()

    def acquire(
        self, owner: object, deadline: float | None, is_needless: Callable[[], bool]
    ) -> bool:
        """Wait until the lock is had, the deadline has passed or it is not needed any more.

        Ctrl-C ends the wait.
        """
        pause = FIRST_PAUSE
        while not self._take(owner):
            if is_needless() or (deadline is not None and time.monotonic() >= deadline):
                return False
            self._freed.acquire(timeout=pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)
        return True

    def _take(self, owner: object) -> bool:
        if self._file.closed:  # in a child that this thread has forked while it waited
            raise DatabaseClosedError("a wait to write does not outlive a fork; call again")
        with self._mutex:
            if self._owner is not None and self._owner() is not None:
                return False
            # The owner first: if it goes before it is locked, that is undone.
            self._owner = weakref.ref(owner, self._owner_gone)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                self._owner = None
                if not is_of_storage(error):  # raised by the handler of a signal, as TimeoutError
                    raise
                if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EINTR):
                    raise StorageError(f"the store cannot be locked: {error}") from error
                return False
            return True

    def release(self, owner: object) -> None:
        """Let the next one in, if it is still this one's."""
        if self._file.closed:  # see ``close``
            return
        with self._mutex:
            if self._owner is not None and self._owner() is owner:
                self._unlock()

    def _owner_gone(self, owner: weakref.ref[object]) -> None:
        if self._file.closed:  # see ``close``
            return
        with self._mutex:
            if self._owner is owner:
                self._unlock()

    def _unlock(self) -> None:
        if not self._file.closed:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._owner = None
        if self._freed.locked():  # else nobody has taken the last notice
            self._freed.release()

    def close(self) -> None:
        """Close the file; a lock still held is given up, but for one that a fork has copied."""
        # Without the mutex: another thread may have held it when this process was forked.
        self._file.close()


class WriterQueue:
    """The queue of everyone who wants to write to one store: a file ``STORE-turn`` beside it.

    Who only reads may wait in it, too, for a moment in which nobody writes. FileNotFoundError: it
    finds no such file, so nobody has written where this one lies.
    """

    def __init__(self, path: Path, *, reads: bool = False) -> None:
        self._path = path
        queue = Path(f"{path}-turn")
        mode = preflight.file_mode(path)
        is_new = not reads and not queue.exists()
        flags = os.O_RDONLY if reads else os.O_RDWR | os.O_CREAT
        # As objects, so that what is left behind is closed.
        queue_file = preflight.opened_file(queue, flags, mode)
        if is_new:
            os.fchmod(queue_file.fileno(), mode)
        self._queue_file = queue_file
        self._queue_lock = _QueuedLock(queue_file)
        self._store_file = FileIO(str(path), "rb" if reads else "r+b")
        self._writer_lock = _QueuedLock(self._store_file)

    @property
    def identity(self) -> tuple[int, int]:
        """Of the store's file, whatever lies at its path now."""
        status = os.fstat(self._store_file.fileno())
        return status.st_dev, status.st_ino

    def acquire(
        self,
        timeout: float | None,
        owner: object = None,
        since: float | None = None,
        is_needless: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Wait for the right to write; None waits for ever.

        ``owner`` has it until it gives it back, or is gone; by default the queue itself. The
        timeout counts from ``since``, by default from now. Returns whether it is had: not if it
        has become needless meanwhile.

        Raises:
            DatabaseBusyError: another writer held it for longer than ``timeout`` seconds.
        """
        begun = time.monotonic() if since is None else since
        deadline = None if timeout is None else begun + timeout
        queued = User()
        try:
            had = self._queue_lock.acquire(
                queued, deadline, is_needless
            ) and self._writer_lock.acquire(owner or self, deadline, is_needless)
        finally:
            self._queue_lock.release(queued)
        # What was needless may be needed again by now: who waits must look.
        is_over = deadline is not None and time.monotonic() >= deadline
        if is_over and not had and not is_needless():
            raise self.busy(timeout)
        return had

    def busy(self, timeout: float | None) -> DatabaseBusyError:
        """What is raised where another one held the store for so long."""
        held = f"has held the store for {round(timeout or 0, 2):g} s"
        return DatabaseBusyError(
            f"{self._path}: another writer, or another opening, {held}; wait for it, or open with "
            "a longer busy_timeout"
        )

    def release(self, owner: object = None) -> None:
        """Give the right to write to the next in the queue, if ``owner`` has it."""
        self._writer_lock.release(owner or self)

    def is_reserved(self, number: int) -> bool:
        """Whether someone, of this process or another, has reserved a number."""
        descriptor = self._queue_file.fileno()
        found = preflight.byte_lock(descriptor, fcntl.F_OFD_GETLK, fcntl.F_WRLCK, number, 1)
        return found != fcntl.F_UNLCK

    def close(self) -> None:
        """Close both files; a lock still held is given up."""
        self._writer_lock.close()
        self._queue_lock.close()
