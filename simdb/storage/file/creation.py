"""Makes files and maps them: new stores, copies, the map and the room in it, the header.

A new file, or a copy, is written under a temporary name and linked into place, so that nobody ever
sees one that is not whole. Functions that take an ``environment`` mean LMDB's own.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import lmdb

from simdb.errors import (
    DatabaseFullError,
    FormatVersionError,
    NotADatabaseError,
    StorageError,
)
from simdb.storage.file import preflight
from simdb.storage.file.errors import translated
from simdb.storage.tables import layout
from simdb.storage.tables.layout import HEADER_KEY, TABLE_NAMES, Table

ENGINE = 0  # LMDB 0.9, data format 1: named so that no environment variable chooses another
MOST_TABLES = 16


def open_map(
    path: Path, size: int, *, lock: bool, read_only: bool, after_failure: bool, metasync: bool
) -> Any:
    """Map a file, with room for so many bytes of insertions or as much of it as the system gives.

    Args:
        path: an inspected file.
        size: in bytes.
        lock: whether there is a lock file, or one can be made.
        read_only: for a process that does not write.
        after_failure: of a write: the map is for reading only, and the lock file stays as it is.
        metasync: whether a commit waits until the medium has its meta page.

    Raises:
        lmdb.MemoryError: the system does not even give the least size.
    """
    if lock and not after_failure:
        preflight.reserve_lock_file(path, preflight.MOST_READERS)
    while True:
        try:
            return lmdb.open(
                str(path),
                subdir=False,
                create=False,
                readonly=read_only or after_failure,
                lock=lock,
                map_size=with_reserve(size),
                metasync=metasync,
                max_readers=preflight.MOST_READERS,
                max_dbs=MOST_TABLES,
                lib_version=ENGINE,
            )
        except lmdb.MemoryError:
            # The system limits the address space (RLIMIT_AS, containers).
            if size <= max(SMALLEST_MAP, path.stat().st_size):
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


PLENTY_OF_ROOM = 2**36
LARGEST_PAGE = 2**16
LARGEST_MAP = 2**40
SMALLEST_MAP = 2**28
FREE_MAP_SHARE = 16  # a writer finds at least one sixteenth of the map free, or it is grown
RESERVE_SHARE = 20  # so much is added to the map for deleting, within the next two bounds
SMALLEST_RESERVE = 2**22  # a few chunks and blocks beside their copies; or as much as the map
LARGEST_RESERVE = 2**30


def structure_problems(path: Path) -> list[str]:
    """Return what is wrong with the pages of a file, without handing it to LMDB."""
    with translated(path):
        preflight.inspect(path, preflight.page_problems)
    return preflight.page_problems(str(path))


def with_reserve(size: int) -> int:
    """Return the size of a map of which insertions may fill so many bytes."""
    return size + min(LARGEST_RESERVE, max(size // RESERVE_SHARE, min(size, SMALLEST_RESERVE)))


def without_reserve(size: int) -> int:
    """Return how many bytes of a map insertions may fill."""
    share = size // (RESERVE_SHARE + 1)
    return size - min(LARGEST_RESERVE, max(share, min(size // 2, SMALLEST_RESERVE)))


def used_bytes(environment: Any) -> int:
    """Return the bytes up to the last page that was ever used."""
    pages: int = environment.info()["last_pgno"] + 1
    size: int = environment.stat()["psize"]
    return pages * size


def has_plenty_of_room(environment: Any) -> bool:
    """Return whether so much of the map is unused that no single transaction could fill it."""
    information = environment.info()
    unused: int = information["map_size"] - (information["last_pgno"] + 1) * LARGEST_PAGE
    return unused > PLENTY_OF_ROOM


def pages_in_use(environment: Any, tables: Iterable[dict[str, int]]) -> int:
    """Return the pages of all tables, given LMDB's figures of each."""
    parts = ("branch_pages", "leaf_pages", "overflow_pages")
    return sum(table[part] for table in (environment.stat(), *tables) for part in parts)


def room_to_rewrite(environment: Any, pages: int) -> int:
    """Return the bytes of the map that can surely be used for large values.

    Those past the last page that was ever used; or, where a quarter of the map is free, half of
    that, however scattered.

    Args:
        environment: LMDB's.
        pages: in use.
    """
    size: int = environment.info()["map_size"]
    after = size - used_bytes(environment)
    free = size - pages * environment.stat()["psize"]
    return max(after, free // 2 if free > size // 4 else 0)


def require_reserve(path: Path, environment: Any, *, before: int, after: int) -> None:
    """Raise if insertions leave too little of the map for deleting.

    Args:
        path: of the store.
        environment: LMDB's.
        before: pages in use when they began.
        after: pages in use now.

    Raises:
        DatabaseFullError: they do.
    """
    information = environment.info()
    limit = without_reserve(information["map_size"]) // environment.stat()["psize"]
    # Free pages may be too scattered for a large value: then the file grows instead.
    end = information["last_pgno"] + 1 + max(0, after - before)
    if after > limit or (end > limit and after > limit // 2):
        raise DatabaseFullError(
            f"{path}: the map is full, but for what is kept for deleting; delete items, "
            "or open with a larger map_size"
        )


def grown_size(environment: Any) -> int | None:
    """Return the size of a larger map if this one is nearly full, else None."""
    limit = without_reserve(environment.info()["map_size"])
    if used_bytes(environment) < limit - limit // FREE_MAP_SHARE:
        return None
    return with_reserve(2 * limit)


def usage(environment: Any) -> dict[str, Any]:
    """Return how much of the map is used, and the snapshots that keep pages from being reused."""
    information = environment.info()
    readers = environment.readers().splitlines()[1:]
    snapshots = [int(line.split()[-1]) for line in readers if line.split()[-1].isdigit()]
    commits = information["last_txnid"]
    return {
        "used_bytes": (information["last_pgno"] + 1) * environment.stat()["psize"],
        "map_bytes": without_reserve(information["map_size"]),
        "commits": commits,
        "snapshots": len(snapshots),
        "oldest_snapshot_commits": commits - min(snapshots) if snapshots else 0,
    }


MAGIC = "simdb"
FORMAT_VERSION = 2


def new_header(engine_version: tuple[int, ...]) -> dict[str, Any]:
    """Return the header of a new store, with an identifier of its own.

    Args:
        engine_version: of LMDB.
    """
    from importlib import metadata

    try:
        version = metadata.version("simdb-store")
    except metadata.PackageNotFoundError:  # used from a checkout that is not installed
        version = "of a checkout"
    return {
        "magic": MAGIC,
        "format": FORMAT_VERSION,
        "uuid": uuid.uuid4().bytes,
        "lmdb": list(engine_version),
        "created_by": f"simdb-store {version}",
    }


def seal_header(header: dict[str, Any]) -> bytes:
    """Return the record of a header."""
    return layout.seal(Table.META, HEADER_KEY, layout.pack(header))


def read_uuid(path: Path, environment: Any, meta: Any) -> uuid.UUID:
    """Return the identifier of a store from its header.

    Args:
        path: of the store.
        environment: LMDB's.
        meta: the handle of table ``meta``.

    Raises:
        NotADatabaseError: there is no header, or it is another program's.
        FormatVersionError: the file has a format that this simdb does not know.
        CorruptionError: the header is damaged.
    """
    with environment.begin(buffers=True) as transaction:
        record = transaction.get(HEADER_KEY, None, meta)
        if record is None:
            raise NotADatabaseError(f"{path} is an LMDB file of another program, not a simdb store")
        header = layout.unpack(layout.unseal(Table.META, HEADER_KEY, record))
    if header.get("magic") != MAGIC:
        raise NotADatabaseError(f"{path} is not a simdb store")
    if header.get("format") != FORMAT_VERSION:
        raise FormatVersionError(
            f"{path} has format {header.get('format')}, this simdb reads and writes "
            f"{FORMAT_VERSION}; use the simdb that wrote it ({header.get('created_by')})"
        )
    return uuid.UUID(bytes=header["uuid"])


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
            map_size=SMALLEST_MAP,
            max_dbs=MOST_TABLES,
            mode=0o644 if mode is None else mode & 0o600,
            lib_version=ENGINE,
        )
        with created:
            if mode is not None:
                temporary.chmod(mode)
            header = seal_header(new_header(lmdb.version(lib_version=ENGINE)))
            with created.begin(write=True) as transaction:
                handles = [created.open_db(name, transaction) for name in TABLE_NAMES]
                transaction.put(HEADER_KEY, header, db=handles[Table.META])
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(temporary, path)
        sync_folder(path.parent)
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
        sync_folder(target.parent)


def temporary_beside(target: Path) -> Path:
    """Return a new name in the folder of a file, not longer for a long name."""
    return target.with_name(f".simdb-{os.getpid()}-{uuid.uuid4().hex[:8]}.tmp")


def discard(temporary: Path) -> None:
    """Remove a file that has got its name, or will not, and the lock files beside it."""
    for file in (temporary, Path(f"{temporary}-lock"), Path(f"{temporary}-turn")):
        # On a read-only file system that is an error even where there is none.
        with contextlib.suppress(OSError):
            file.unlink()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, as a new file's has to be."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
