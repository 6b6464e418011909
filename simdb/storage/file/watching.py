"""Watches the files of an open store: removed, replaced, cut short, or without their lock.

LMDB maps the file, so reading past the end of one that was cut short would end the process. The
file is looked at when a transaction begins: what happens to it during one cannot be survived.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import TypeAlias

from simdb.errors import CorruptionError, StorageError

Identity: TypeAlias = tuple[int, int]

LOCK_HEADER_BYTES = 256  # of LMDB's lock file, at least what is before the second reader's slot
READER_BYTES = 64  # a reader's slot
_CANNOT_RESERVE = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_NOT_WRITABLE = {errno.EROFS, errno.EACCES, errno.EPERM}


def identity_of(path: Path) -> Identity:
    """Return device and inode of a file."""
    status = path.stat()
    return status.st_dev, status.st_ino


def file_mode(path: Path) -> int:
    """Return who may read and write a file: the files beside it get the same."""
    return stat.S_IMODE(path.stat().st_mode) & 0o666


def reserve_lock_file(path: Path, readers: int) -> None:
    """Make the lock file of a store with room on the disk for all of it.

    LMDB leaves holes in it and maps it: filling one on a full disk would end the process. Called
    only while this process has no LMDB environment of the store, whose locks closing the file
    would release.

    Raises:
        OSError: no space is left.
    """
    lock = Path(f"{path}-lock")
    size = LOCK_HEADER_BYTES + READER_BYTES * (readers - 1)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    is_new = not lock.exists()
    try:
        descriptor = os.open(lock, flags, file_mode(path))
    except OSError as error:
        if error.errno in _NOT_WRITABLE:  # LMDB says so, or does without
            return
        raise
    try:
        if is_new:
            os.fchmod(descriptor, file_mode(path))
        status = os.fstat(descriptor)
        if status.st_size < size or status.st_blocks * 512 < size:
            os.posix_fallocate(descriptor, 0, max(size, status.st_size))
    except OSError as error:
        if error.errno in _CANNOT_RESERVE:
            return
        if is_new:
            lock.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


class FileWatch:
    """Knows the file that was opened, and its lock file.

    Args:
        path: the store, which has been inspected and opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Path(f"{path}-lock")
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        status = os.fstat(self._descriptor)
        self.identity: Identity = (status.st_dev, status.st_ino)
        self._size = status.st_size
        self._lock_identity: Identity | None = None
        with contextlib.suppress(FileNotFoundError):
            self._lock_identity = identity_of(self._lock)

    @property
    def size(self) -> int:
        """Bytes of the file that was opened, whatever lies at its path now."""
        return os.fstat(self._descriptor).st_size

    @property
    def mode(self) -> int:
        """Who may read and write it."""
        return stat.S_IMODE(os.fstat(self._descriptor).st_mode) & 0o666

    def require_whole(self) -> None:
        """Raise if the file has become shorter, which LMDB never makes it.

        Raises:
            CorruptionError: it has.
        """
        size = self.size
        if size < self._size:
            raise CorruptionError(
                f"{self._path} was cut short while it was open, from {self._size:,} bytes to "
                f"{size:,}; close it, then run 'simdb repair' or restore a backup"
            )
        self._size = size

    def require_lock(self) -> None:
        """Raise if the lock file is not the one that this process uses.

        Raises:
            StorageError: it was removed or replaced: others do not see our locks, nor we theirs.
        """
        try:
            present = identity_of(self._lock)
        except FileNotFoundError:
            present = None
        if present != self._lock_identity:
            raise StorageError(
                f"{self._lock} was removed or replaced while the store was open; close the store "
                "in every process and open it again"
            )

    def close(self) -> None:
        """Stop watching."""
        os.close(self._descriptor)


def require_same_file(path: Path, identity: Identity) -> None:
    """Raise unless a path still leads to the file that was opened.

    Raises:
        StorageError: it does not.
    """
    try:
        present = identity_of(path)
    except FileNotFoundError as error:
        raise StorageError(f"{path} was removed while it was open") from error
    if present != identity:
        raise StorageError(f"{path} was replaced by another file while it was open; open it again")


def is_full(path: Path, needed: int) -> bool:
    """Return whether the disk, or the limit on a file's size, leaves less than so many bytes.

    LMDB calls a write that was cut short, as the first one is when a disk fills up, an
    input/output error: this tells it from one of the medium.
    """
    import resource

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit != resource.RLIM_INFINITY and path.stat().st_size + needed > limit:
        return True
    system = os.statvfs(path)
    blocks = system.f_bfree if os.geteuid() == 0 else system.f_bavail
    return blocks * system.f_frsize < needed
