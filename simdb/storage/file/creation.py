"""Makes new files, an empty store or a copy, so that nobody ever sees one that is not whole.

They are written under a temporary name and linked into place.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import lmdb

from simdb.errors import StorageError
from simdb.storage.file import map_room, opening
from simdb.storage.file.header import new_header, seal_header
from simdb.storage.file.lmdb_errors import translated
from simdb.storage.tables.keys import HEADER_KEY, TABLE_NAMES, Table


def create(path: Path, mode: int | None = None) -> None:
    """Make an empty store under a temporary name and link it into place, so that it is whole.

    Args:
        path: of the store.
        mode: who may read and write it, as for ``chmod``; 0o644 less the umask if not given.
    """
    temporary = temporary_beside(path)
    try:
        created = lmdb.open(
            str(temporary),
            subdir=False,
            map_size=map_room.SMALLEST_MAP,
            max_dbs=opening.MOST_TABLES,
            mode=0o644 if mode is None else mode & 0o600,
            lib_version=opening.ENGINE,
        )
        with created:
            if mode is not None:
                temporary.chmod(mode)
            header = seal_header(new_header(lmdb.version(lib_version=opening.ENGINE)))
            with created.begin(write=True) as transaction:
                handles = [created.open_db(name, transaction) for name in TABLE_NAMES]
                transaction.put(HEADER_KEY, header, db=handles[Table.META])
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(temporary, path)
        _sync_folder(path.parent)
    finally:
        discard(temporary)


@contextlib.contextmanager
def written_whole(target: Path, mode: int) -> Iterator[int]:
    """Open a file beside ``target`` to be written, then link it into place.

    Args:
        target: a file that does not exist.
        mode: who may read and write it.

    Yields:
        the descriptor of the file.
    """
    temporary = temporary_beside(target)
    with translated(target):
        try:
            descriptor = os.open(
                temporary,
                os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
                mode,
            )
            try:
                yield descriptor
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            try:
                os.link(temporary, target)  # fails, unlike a rename, where the target exists
            except FileExistsError as error:
                raise StorageError(f"{target} exists; name a file that does not") from error
        finally:
            discard(temporary)
        _sync_folder(target.parent)


def temporary_beside(target: Path) -> Path:
    """Return a new name in the folder of a file, not longer for a long name."""
    return target.with_name(f".simdb-{os.getpid()}-{uuid.uuid4().hex[:8]}.tmp")


def discard(temporary: Path) -> None:
    """Remove a file that has got its name, or will not, and the lock files beside it."""
    for file in (temporary, Path(f"{temporary}-lock"), Path(f"{temporary}-turn")):
        # On a read-only file system that is an error even where there is none.
        with contextlib.suppress(OSError):
            file.unlink()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
