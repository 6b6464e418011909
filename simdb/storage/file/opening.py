"""Opens a file with LMDB: with which options, how large a map, and the tables in it.

Never with ``writemap`` or ``sync=False``, which could lose more than the last commit.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lmdb

from simdb.errors import NotADatabaseError
from simdb.storage.file import map_room, watching
from simdb.storage.tables.keys import TABLE_NAMES

ENGINE = 0  # LMDB 0.9, data format 1: named so that no environment variable chooses another
MOST_READERS = 1024
MOST_TABLES = 16


def open_map(path: Path, size: int, *, read_only: bool, after_failure: bool, metasync: bool) -> Any:
    """Map a file, with room for so many bytes of insertions or as much of it as the system gives.

    Args:
        path: an inspected file.
        size: in bytes.
        read_only: for a process that does not write.
        after_failure: of a write: the map is for reading only, and the lock file stays as it is.
        metasync: whether a commit waits until the medium has its meta page.

    Raises:
        lmdb.MemoryError: the system does not even give the least size.
    """
    lock = True
    if read_only and not os.access(path.parent, os.W_OK):
        # Nobody can be writing where no lock file can be made.
        lock = Path(f"{path}-lock").exists()
    elif not after_failure:
        watching.reserve_lock_file(path, MOST_READERS)
    while True:
        try:
            return lmdb.open(
                str(path),
                subdir=False,
                create=False,
                readonly=read_only or after_failure,
                lock=lock,
                map_size=map_room.with_reserve(size),
                metasync=metasync,
                max_readers=MOST_READERS,
                max_dbs=MOST_TABLES,
                lib_version=ENGINE,
            )
        except lmdb.MemoryError:
            # The system limits the address space (RLIMIT_AS, containers).
            if size <= max(map_room.SMALLEST_MAP, path.stat().st_size):
                raise
            size //= 2


def open_tables(path: Path, environment: Any) -> list[Any]:
    """Return the handles of the tables, in the order of ``keys.Table``.

    Raises:
        NotADatabaseError: one is not there.
    """
    try:
        return [environment.open_db(name, create=False) for name in TABLE_NAMES]
    except lmdb.NotFoundError as error:
        raise NotADatabaseError(
            f"{path} is an LMDB file of another program, not a simdb store"
        ) from error
