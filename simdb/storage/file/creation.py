"""Makes files: new stores and copies, with their header; and tells the room in a map.

A new file, or a copy, is written under a temporary name and linked into place, so that nobody ever
sees one that is not whole. Functions that take an ``environment`` mean LMDB's own.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import resource
import sys
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import lmdb

from simdb.errors import (
    CorruptionError,
    DatabaseFullError,
    DatabaseNotFoundError,
    FormatVersionError,
    NotADatabaseError,
    StorageError,
)
from simdb.extras import own_version
from simdb.late import cached_property
from simdb.storage.file import preflight
from simdb.storage.file.errors import translated
from simdb.storage.tables import layout
from simdb.storage.tables.layout import HEADER_KEY, TABLE_NAMES, Table
from simdb.unfinished import abandoned, held, sync_folder

ENGINE = 0  # LMDB 0.9, data format 1: named so that no environment variable chooses another
MOST_TABLES = 16


def open_tables(path: Path, environment: Any) -> list[Any]:
    """Return the handles of the tables by number.

    If one is not there: what ``read_identity`` raises of another format, or NotADatabaseError.
    """
    try:
        return [environment.open_db(name, create=False) for name in TABLE_NAMES]
    except lmdb.NotFoundError as error:
        with contextlib.suppress(lmdb.NotFoundError):
            meta = environment.open_db(TABLE_NAMES[Table.META], create=False)
            read_identity(path, environment, meta)
        raise foreign(path) from error


def foreign(path: Path) -> NotADatabaseError:
    """Return the error that a file of LMDB has no tables of a store."""
    return NotADatabaseError(f"{path} is an LMDB file of another program, not a simdb store")


PLENTY_OF_ROOM = 2**36
LARGEST_MAP = 2**40
SMALLEST_MAP = 2**26  # where the address space is limited, and of a store that is being made
# Address space that is left beside the map, and that what compiles the kernels takes to load. Each
# of the first threads has a heap of its own, for which the C library reserves 64 MiB.
ROOM_TO_WORK = 160 * 2**20 + 64 * 2**20 * min(4, len(os.sched_getaffinity(0)))
ROOM_TO_COMPILE = 352 * 2**20
FREE_MAP_SHARE = 16  # a writer finds at least one sixteenth of the map free, or it is grown
RESERVE_SHARE = 20  # so much is added to the map for deleting, within the next two bounds
SMALLEST_RESERVE = 2**22  # a few chunks and blocks beside their copies; or as much as the map
LARGEST_RESERVE = 2**30
PAGES_TO_FOLD = 3_072  # for at most 2,047 records of a log, those above them, and long values


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


def address_space() -> tuple[int, int] | None:
    """Bytes that this process has mapped, and that it may still map; None without a limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    used = pages * resource.getpagesize()
    return used, limit - used


def size_within_limit(path: Path, size: int) -> int:
    """As much of a map as a limit on address space (``ulimit -v``) allows.

    Half of what is more than needed stays free for work. What compiles kernels, if it is installed,
    is loaded first: in a process that has no room for it LLVM would not raise an error but end the
    process.

    Raises:
        StorageError: there is too little; it says how much it takes.
    """
    least = min(size, max(SMALLEST_MAP, path.stat().st_size))
    needed = with_reserve(least) + ROOM_TO_WORK
    space = address_space()
    if space is None:
        return size
    used, left = space
    is_loaded = "numba" in sys.modules or importlib.util.find_spec("numba") is None
    enough = needed if is_loaded else needed + ROOM_TO_COMPILE
    if left >= enough and not is_loaded:
        importlib.import_module("simdb.kernels.compiling")
        used, left = address_space() or space
        enough = needed
    if left < enough:
        raise StorageError(
            f"{path}: the limit on address space leaves {left // 2**20:,} MiB, of which "
            f"{enough // 2**20:,} MiB are needed; allow this process at least "
            f"{(used + enough) // 2**20 + 1:,} MiB ('ulimit -v {(used + enough) // 2**10 + 1}')"
        )
    return min(size, least + (left - enough) // 2)


def leaves_room(more: int) -> bool:
    """Whether so many more bytes of map leave room to work where address space is limited."""
    space = address_space()
    return space is None or space[1] - more >= ROOM_TO_WORK


class Room:
    """How much of a map is used, and how much is left: LMDB's figures of it and of its tables."""

    def __init__(self, environment: Any, tables: Iterable[dict[str, int]] = ()) -> None:
        information, self._main = environment.info(), environment.stat()
        self._environment = environment
        self._tables = tables
        self.end: int = information["last_pgno"] + 1
        self.size: int = information["map_size"]
        self._page_size: int = self._main["psize"]

    @cached_property
    def pages_in_use(self) -> int:
        """Pages of the main table and of the tables described."""
        parts = ("branch_pages", "leaf_pages", "overflow_pages")
        return sum(table[part] for table in (self._main, *self._tables) for part in parts)

    @property
    def is_plenty(self) -> bool:
        """Whether so much of the map is unused that no single transaction could fill it."""
        return self.size - self.end * self._page_size > PLENTY_OF_ROOM

    @property
    def is_enough_to_fold(self) -> bool:
        """Whether a log may be kept, which a later commit must find the room to fold."""
        return self.size - self.end * self._page_size > PAGES_TO_FOLD * self._page_size

    @property
    def to_rewrite(self) -> int:
        """Bytes that can surely be used for large values.

        Those past the last page that was ever used; or, where a quarter of the map is free, half
        of that, however scattered.
        """
        free = self.size - self.pages_in_use * self._page_size
        after = self.size - self.end * self._page_size
        return max(after, free // 2 if free > self.size // 4 else 0)

    @property
    def larger_map(self) -> int | None:
        """The size of a larger map if this one is nearly full, else None."""
        limit = without_reserve(self.size)
        if self.end * self._page_size < limit - limit // FREE_MAP_SHARE:
            return None
        return with_reserve(2 * limit)

    def require_reserve(self, path: Path, pages_before: int) -> None:
        """Raise DatabaseFullError if insertions leave too little of the map for deleting."""
        limit = without_reserve(self.size) // self._page_size
        # Free pages may be too scattered for a large value: then the file grows instead.
        end = self.end + max(0, self.pages_in_use - pages_before)
        if self.pages_in_use > limit or (end > limit and self.pages_in_use > limit // 2):
            raise DatabaseFullError(
                f"{path}: the map is full; its last part is reserved for deletions. Delete items "
                "or open with a larger map_size"
            )

    def usage(self) -> dict[str, Any]:
        """Return what is used, and the snapshots that keep pages from being used again."""
        readers = self._environment.readers().splitlines()[1:]
        snapshots = [int(line.split()[-1]) for line in readers if line.split()[-1].isdigit()]
        commits = self._environment.info()["last_txnid"]
        return {
            "used_bytes": self.end * self._page_size,
            "map_bytes": without_reserve(self.size),
            "commits": commits,
            "snapshots": len(snapshots),
            "oldest_snapshot_commits": commits - min(snapshots) if snapshots else 0,
        }


_HELD = "-held"
MAGIC = "simdb"
FORMAT_VERSION = 3
IDENTIFIER_BYTES = 16  # of a store, and of its history
FORMAT_WITHOUT_LOG = 2  # which is else the same; a log that is written to such a file makes it one


def new_header(engine_version: tuple[int, ...]) -> dict[str, Any]:
    """Return the header of a new store, with an identifier of its own."""
    return {
        "magic": MAGIC,
        "format": FORMAT_VERSION,
        "uuid": uuid.uuid4().bytes,
        "lmdb": list(engine_version),
        "created_by": f"simdb-store {own_version()}",
    }


def read_identity(path: Path, environment: Any, meta: Any) -> tuple[uuid.UUID, bytes]:
    """Return the identifier of a store, and that of its history, by the handle of table ``meta``.

    Copies share both, until one is put in the place of a store: from there on its commits, and the
    numbers of its items, are others than those that bore them before.

    Raises:
        NotADatabaseError, FormatVersionError, CorruptionError: it is not a header of this format.
    """
    with environment.begin(buffers=True) as transaction:
        return identifiers_in(path, transaction.get(HEADER_KEY, None, meta))


def identifiers_in(path: Path, record: memoryview | None) -> tuple[uuid.UUID, bytes]:
    """Return what ``read_identity`` does of the record of a header, or of none."""
    if record is None:
        raise foreign(path)
    header = layout.unpack(layout.unseal(Table.META, HEADER_KEY, record))
    if not isinstance(header, dict) or header.get("magic") != MAGIC:
        raise NotADatabaseError(f"{path} is not a simdb store")
    if header.get("format") not in (FORMAT_VERSION, FORMAT_WITHOUT_LOG):
        raise FormatVersionError(
            f"{path} has format {header.get('format')}, this simdb reads and writes "
            f"{FORMAT_WITHOUT_LOG} and {FORMAT_VERSION}; use the simdb that wrote it "
            f"({header.get('created_by')})"
        )
    identity: Any = header.get("uuid")
    history: Any = header.get("history", identity)
    for one in (identity, history):
        if not isinstance(one, bytes) or len(one) != IDENTIFIER_BYTES:
            raise CorruptionError(f"{path}: the header of the store has no identifier of it")
    return uuid.UUID(bytes=identity), history


def change_header(transaction: Any, meta: Any, **fields: object) -> bytes:
    """Change fields of the header in its table, and return it: it is read without the log."""
    record = transaction.get(HEADER_KEY, None, meta)
    header = layout.unpack(layout.unseal(Table.META, HEADER_KEY, record))
    sealed = layout.seal(Table.META, HEADER_KEY, layout.pack({**header, **fields}))
    transaction.put(HEADER_KEY, sealed, db=meta)
    return sealed


def create(path: Path, mode: int | None = None) -> None:
    """Make an empty store under a temporary name and link it into place, so that it is whole.

    ``mode`` is that of the file, as for ``chmod``; 0o644 less the umask if not given.
    """
    with temporary_beside(path) as temporary:
        created = lmdb.open(
            str(temporary),
            subdir=False,
            map_size=SMALLEST_MAP,
            max_dbs=MOST_TABLES,
            mode=0o644 if mode is None else mode & 0o600,
            lock=False,  # nobody else knows the name, and on a full disk a map of holes is fatal
            lib_version=ENGINE,
        )
        with created:
            if mode is not None:
                temporary.chmod(mode)
            header = new_header(lmdb.version(lib_version=ENGINE))
            sealed = layout.seal(Table.META, HEADER_KEY, layout.pack(header))
            with created.begin(write=True) as transaction:
                handles = [created.open_db(name, transaction) for name in TABLE_NAMES]
                transaction.put(HEADER_KEY, sealed, db=handles[Table.META])
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(temporary, path)
        sync_folder(path.parent)


@contextlib.contextmanager
def temporary_beside(target: Path) -> Iterator[Path]:
    """Yield a new name in the folder of a file, not longer for a long name.

    What has it at the end is removed, with the lock files beside it, and so is what runs that were
    killed have left in the folder: while a run lives it holds an empty file beside its own.
    A StorageError about that name is one about the file. DatabaseNotFoundError: there is no such
    folder.
    """
    if not target.parent.is_dir():
        raise DatabaseNotFoundError(f"there is no folder {target.parent} for {target.name}")
    for mark in abandoned(target.parent, f"{preflight.TEMPORARY_NAME}*.tmp{_HELD}"):
        _remove_all(str(mark).removesuffix(_HELD))
    with contextlib.ExitStack() as holding:
        temporary = _held_name(target, holding)
        try:
            yield temporary
        except StorageError as error:
            told = str(error).replace(temporary.name, target.name)
            error.args = (told, *error.args[1:])
            raise
        finally:
            _remove_all(str(temporary))


def _held_name(target: Path, holding: contextlib.ExitStack) -> Path:
    while True:
        name = f"{preflight.TEMPORARY_NAME}{os.getpid()}-{uuid.uuid4().hex[:8]}.tmp"
        temporary = target.parent / name  # the target may have no name, as the root
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            descriptor = os.open(f"{temporary}{_HELD}", flags, 0o600)
        except OSError:  # which whoever makes a file of that name will meet, and tell
            return temporary
        holding.callback(os.close, descriptor)
        if held(descriptor):
            return temporary


def _remove_all(temporary: str) -> None:
    for end in ("", "-lock", "-turn", _HELD):
        # On a read-only file system that is an error even where there is none.
        with contextlib.suppress(OSError):
            Path(f"{temporary}{end}").unlink()


@contextlib.contextmanager
def synced(temporary: Path, mode: int) -> Iterator[BinaryIO]:
    """Make a file of that mode, to be written within the block and durable after it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(temporary, "wb", opener=lambda name, _: os.open(name, flags, mode)) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def link_into_place(temporary: Path, target: Path) -> None:
    """Give a file that is whole and durable its name, durably; StorageError if that is taken."""
    try:
        os.link(temporary, target)  # fails, unlike a rename, where the target exists
    except FileExistsError as error:
        raise StorageError(f"{target} already exists; name a new file") from error
    sync_folder(target.parent)
