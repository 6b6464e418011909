"""Locks between processes and threads: who may write.

LMDB has a writer lock of its own, but waiting for it can neither be interrupted nor timed. So
writers queue here first, on two files that simdb alone uses: whoever wants to write takes the
*turn*, waits for the *pen*, and gives the turn back. A bulk load that takes the pen again and
again cannot starve the others, since a waiting writer holds the turn.

Both are ``flock`` locks, which belong to the open file and not to the process: closing another
descriptor of the same file does not release them, as it would release POSIX record locks. The
lock file that LMDB keeps is never opened here for that reason.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from pathlib import Path

from simdb.errors import DatabaseBusyError, StorageError
from simdb.storage import watching

FIRST_PAUSE = 0.000_5  # seconds
LONGEST_PAUSE = 0.02


class _QueuedLock:
    """One lock that excludes threads of this process and other processes alike."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._thread_lock = threading.Lock()

    def acquire(self, deadline: float | None) -> bool:
        """Wait until the lock is had or the deadline has passed; Ctrl-C ends the wait."""
        remaining = -1.0 if deadline is None else max(0.0, deadline - time.monotonic())
        if not self._thread_lock.acquire(timeout=remaining):
            return False
        try:
            had = self._acquire_between_processes(deadline)
        except BaseException:
            # An interrupt may come just after the lock was had.
            self.release()
            raise
        if not had:
            self._thread_lock.release()
        return had

    def _acquire_between_processes(self, deadline: float | None) -> bool:
        pause = FIRST_PAUSE
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EINTR):
                    raise StorageError(f"the store cannot be locked: {error}") from error
            else:
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)

    def release(self) -> None:
        """Let the next one in."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        finally:
            self._thread_lock.release()


class WriterQueue:
    """The queue of everyone who wants to write to one store.

    Args:
        path: the store; a file of the same name with ``-turn`` behind it is made beside it.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._path = path
        turn = Path(f"{path}-turn")
        is_new = not turn.exists()
        self._turn_descriptor = os.open(turn, flags, watching.file_mode(path))
        try:
            if is_new:
                os.fchmod(self._turn_descriptor, watching.file_mode(path))
            self._pen_descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except BaseException:
            os.close(self._turn_descriptor)
            raise
        self._turn = _QueuedLock(self._turn_descriptor)
        self._pen = _QueuedLock(self._pen_descriptor)

    def acquire(self, timeout: float | None) -> None:
        """Wait for the right to write.

        Raises:
            DatabaseBusyError: another writer held it for longer than ``timeout`` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._turn.acquire(deadline):
            self._raise_busy(timeout)
        try:
            had = self._pen.acquire(deadline)
        finally:
            self._turn.release()
        if not had:
            self._raise_busy(timeout)

    def _raise_busy(self, timeout: float | None) -> None:
        raise DatabaseBusyError(
            f"{self._path}: another writer has held the store for {timeout} s; "
            "wait for it, or open with a longer busy_timeout"
        )

    def release(self) -> None:
        """Give the right to write to the next in the queue."""
        self._pen.release()

    def close(self) -> None:
        """Close both files; a lock still held is given up."""
        os.close(self._turn_descriptor)
        os.close(self._pen_descriptor)
