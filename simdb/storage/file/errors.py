"""Turns the errors of LMDB and of the system into simdb's, which say what to do."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import lmdb

from simdb.errors import (
    CorruptionError,
    DatabaseBusyError,
    DatabaseFailedError,
    DatabaseFullError,
    DatabaseNotFoundError,
    FormatVersionError,
    NotADatabaseError,
    Remedy,
    SimdbError,
    StorageError,
)
from simdb.extras import is_of_handler
from simdb.storage.file import preflight

CUT_SHORT = 2**21  # with less free space than this a failed write is one cut short by a full disk

# A transaction that has met a damaged page is given up: all that it is asked then is BadTxnError.
_DAMAGE = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError, lmdb.BadTxnError)
_FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}
_REFUSED = {errno.EACCES, errno.EPERM}
_TOO_MANY = {errno.EMFILE, errno.ENFILE}
_FAILED = {errno.EIO, errno.ENXIO, errno.ENODEV, errno.ESTALE}


def is_of_storage(error: BaseException) -> bool:
    """Whether an error is of the file, its system or memory; the handler of a signal raises any."""
    if isinstance(error, OSError):
        return error.errno is not None or isinstance(error, SimdbError)
    return isinstance(error, SimdbError | lmdb.Error | MemoryError)


def is_of_writing(error: BaseException) -> bool:
    """Whether an error says that what was to be written may be lost; want of memory does not."""
    return is_of_storage(error) and not isinstance(error, MemoryError)


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
            f"{path}: all {preflight.MOST_READERS} reader slots are taken; "
            "close snapshots and iterators"
        ) from error
    except _DAMAGE as error:
        raise CorruptionError(
            f"{path} is damaged: {error}; run 'simdb repair' or restore a backup"
        ) from error
    except lmdb.VersionMismatchError as error:
        raise FormatVersionError(f"{path}: {error}") from error
    except lmdb.MemoryError as error:
        raise StorageError(
            f"{path}: the system gives no address space for the map ({error}); allow this process "
            "more ('ulimit -v unlimited'), or open with a smaller map_size"
        ) from error
    except lmdb.Error as error:
        if error.code == errno.EAGAIN:
            raise DatabaseBusyError(
                f"{path}: another process has this one's number, {os.getpid()}, in its lock file "
                f"({error}): processes of different PID namespaces, as containers have them, may "
                "not share a store"
            ) from error
        _raise_by_code(path, error, error.code)
    except OSError as error:
        if is_of_handler(error) or isinstance(error, StorageError):
            raise
        if error.errno == errno.EIO and _is_empty(path):
            raise NotADatabaseError(
                f"{path} is not a regular file, though the system says so ({error}); name the "
                "store's own file"
            ) from error
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
    if code in _REFUSED:
        refused = _refused_file(path)
        may = [os.access(path, wanted, effective_ids=True) for wanted in (os.R_OK, os.W_OK)]
        why, remedies = "", []
        if refused.name == f"{path.name}-lock":
            why = "; even a reader must be able to write to the lock file of a store"
        elif may[0] and not (may[1] and os.access(path.parent, os.W_OK, effective_ids=True)):
            why = "; who writes needs to write to it, to the files beside it and to its folder"
            remedies = [_opens_to_read("a store that may only be read")]
        told = f"{refused}: {os.strerror(code or 0)}{why}"
        raise StorageError(told, remedies=remedies) from error
    if code in _TOO_MANY:
        raise StorageError(
            f"{path}: {os.strerror(code or 0)}; a store takes up to eleven descriptors: allow "
            "this process more ('ulimit -n'), or close files"
        ) from error
    if code == errno.EROFS:
        remedies = [_opens_to_read("a store there")] if path.exists() else []
        raise StorageError(f"{path}: the file system is read-only", remedies=remedies) from error
    raise StorageError(f"{path}: {error}") from error


def _opens_to_read(what: str) -> Remedy:
    return Remedy("read_only", value=True, effect=f"opens {what}", method="simdb.open")


def _refused_file(path: Path) -> Path:
    for file in (path, Path(f"{path}-lock"), Path(f"{path}-turn")):
        wanted = os.R_OK if file == path else os.R_OK | os.W_OK
        if file.exists() and not os.access(file, wanted, effective_ids=True):
            return file
    return path


def _is_empty(path: Path) -> bool:
    """Whether a file has a size of 0, as those of ``/proc``, which no store ever has."""
    try:
        return path.stat().st_size == 0
    except OSError:
        return False


def _is_cut_short(path: Path) -> bool:
    try:
        return preflight.is_full(path, CUT_SHORT)
    except OSError:
        return False
