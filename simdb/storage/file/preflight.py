"""Looks at the files of a store by way of the system: before LMDB maps one, and while it is open.

A foreign or truncated file would end the process that maps it. So the two meta pages of LMDB's
format 1 are read first (``lmdb.h``, ``mdb.c``: ``MDB_page`` and ``MDB_meta``).

While it is open the file is looked at whenever a transaction begins: removed, replaced, cut short,
or without its lock file. What happens to it during a transaction cannot be survived.

LMDB keeps the number of the last commit, and the snapshots in use, in the lock file ``STORE-lock``,
and believes it. Where two names lead to one file (a hard link, a bind mount) each has a lock file
of its own, and commits made by way of one would be overwritten by way of the other. So who opens a
file claims it for the lock file that it is used with, by a lock on a byte far past the end
(``FileWatch.claim``). And if a file takes the place of one that is open somewhere, the lock file
speaks of the latter; so the number of each transaction is compared with the meta pages
(``newest_commit``).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import stat
import struct
from collections.abc import Callable, Iterator
from functools import partial
from io import FileIO
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from simdb import late
from simdb.errors import (
    ConfigurationError,
    CorruptionError,
    DatabaseBusyError,
    FormatVersionError,
    NotADatabaseError,
    StorageError,
    WrongTypeError,
)

_ABSENT = {errno.ENOENT, errno.ENOTDIR}


def parse_path(path: object) -> Path:
    """Return the path of a file, which need not exist.

    Raises:
        WrongTypeError, ConfigurationError: it is none, or its name is no UTF-8, which LMDB needs,
            or a name that stands for memory elsewhere.
        StorageError: the system refuses it, as one that is too long or a circle of links.
    """
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(name, str):
        raise WrongTypeError(f"the name of a file must be str or Path, not {type(name).__name__}")
    if "\0" in name:
        raise ConfigurationError(f"the name of a file must not contain a null character: {name!r}")
    _require_unicode(name)
    try:
        os.stat(name)  # noqa: PTH116 - Path.exists passes over circles of links
    except OSError as error:
        if error.errno is None:  # raised by the handler of a signal, as TimeoutError
            raise
        if error.errno not in _ABSENT:
            raise StorageError(f"{name}: {error.strerror}") from error
        if name == ":memory:":  # as sqlite3 has it
            raise ConfigurationError(
                "a store is a file, and ':memory:' would be the name of one: name a file in a "
                "temporary folder, or use simdb.dedupe, simdb.pairs or simdb.link, which need none"
            ) from None
    return Path(name)


def resolved_path(path: object) -> Path:
    """Return the path of a file from the root on, links followed; see ``parse_path``."""
    found = parse_path(path)
    try:
        resolved = found.resolve()
    except (OSError, RuntimeError) as error:  # the present folder is gone, or a circle of links
        if isinstance(error, OSError) and error.errno is None:
            raise
        is_gone = isinstance(error, FileNotFoundError)
        told = "the present folder is gone" if is_gone else error
        raise StorageError(f"{found}: {told}") from error
    _require_unicode(str(resolved))
    return resolved


def _require_unicode(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"the name of a store's file, and of its folders, must be UTF-8: {name!r} is not"
        ) from None


MAGIC = 0xBEEFC0DE
DATA_FORMAT = 1
SMALLEST_PAGE = 256
LARGEST_PAGE = 65_536
READ_AGAIN = 5  # times: between reading one meta page and the other somebody may commit
# Magic at byte 16, data format at 20, table of free pages at 40 (with the page size), main table at
# 88, last page in use at 136, number of the commit at 144.
_META = struct.Struct("<16x I I 16x 48s 48s Q Q")
_TREE = struct.Struct("<I H H 24x Q Q")
_HEAD = struct.Struct("<10x H H 2x")
page_head = _HEAD.unpack_from  # flags of a page, and where the offsets of its nodes end
_NODE = struct.Struct("<HHHH")
BRANCH, LEAF, OVERFLOW = 1, 2, 4  # flags of a page
BIG_DATA, SUB_DATABASE = 1, 2  # flags of a node
PAGE_HEADER = 16
NO_PAGE = 2**64 - 1
DUPLICATES = 4  # flag of a table of which a key has several values; none of simdb's is such
_NEWER = struct.Struct("<24x I I")
_COMMIT_OFFSET = 144
META_BYTES = _META.size
assert (META_BYTES, _TREE.size, _HEAD.size, _NODE.size) == (152, 48, 16, 8)


class Tree(Struct, frozen=True, order=True):
    """What is written of a table where another page leads to it."""

    flags: int
    depth: int
    entries: int
    root: int

    @classmethod
    def parse(cls, data: bytes) -> Tree | None:
        """The fields of 48 bytes, None where these are more or less."""
        return cls(*_TREE.unpack(data)[1:]) if len(data) == _TREE.size else None


class Meta(Struct, frozen=True, order=True):
    """The fields of a meta page; the later one compares as the greater."""

    commit: int
    last_page: int
    page_size: int
    free: Tree
    main: Tree

    @property
    def needed_size(self) -> int:
        """Bytes that a file has at least, but for pages allocated last and freed again."""
        return (self.last_page + 1) * self.page_size


def parse_meta(path: Path, data: bytes) -> Meta | None:
    """The fields of a meta page, None if it is none of LMDB's.

    Raises:
        FormatVersionError, CorruptionError: it has another data format, or an impossible page size.
    """
    if len(data) < META_BYTES:
        return None
    magic, version, free, main, last_page, commit = _META.unpack(data)
    page_size, *free_tree = _TREE.unpack(free)
    if magic != MAGIC:
        # LMDB 1.0 has a longer page header.
        magic, version = _NEWER.unpack_from(data)
        if magic != MAGIC:
            return None
    if version != DATA_FORMAT:
        raise FormatVersionError(
            f"{path} has LMDB data format {version}, this simdb reads {DATA_FORMAT}; "
            "export it with the simdb that wrote it and add it again"
        )
    if not SMALLEST_PAGE <= page_size <= LARGEST_PAGE or page_size & (page_size - 1):
        raise CorruptionError(f"{path}: the meta page names a page size of {page_size}")
    return Meta(commit, last_page, page_size, Tree(*free_tree), Tree(*_TREE.unpack(main)[1:]))


def nodes_of(page: bytes) -> Iterator[tuple[int, int, bytes, int]]:
    """Yield number, flags and key of the nodes of a page, and where each key ends.

    What leads out of the page is left out.
    """
    _, lower = page_head(page)
    if not PAGE_HEADER <= lower <= len(page):
        return
    for (offset,) in struct.iter_unpack("<H", page[PAGE_HEADER : lower - lower % 2]):
        if offset + _NODE.size > len(page):
            continue
        low, high, flags, key_size = _NODE.unpack_from(page, offset)
        begin = offset + _NODE.size
        if begin + key_size <= len(page):
            yield low | high << 16, flags, page[begin : begin + key_size], begin + key_size


def roots_contradict(descriptor: int, meta: Meta) -> bool:
    """Whether the first pages of the tables are not what leads to them says.

    LMDB believes them, and ends the process where they are none. They are pages of other tables in
    a copy that was made, as ``cp`` does it, while the file was written to.
    """
    pending = [meta.free, meta.main]
    while pending:
        tree = pending.pop()
        if tree.root == NO_PAGE:
            continue
        if not 2 <= tree.root <= meta.last_page:
            return True
        page = os.pread(descriptor, meta.page_size, tree.root * meta.page_size)
        if len(page) < meta.page_size:
            return True
        flags, lower = page_head(page)
        nodes = list(nodes_of(page))
        counted = len(nodes) > (tree is not meta.free)  # which LMDB lets have a branch of one
        if tree.depth == 1 and not tree.flags & DUPLICATES:
            counted = len(nodes) == tree.entries
        kind = flags & (BRANCH | LEAF | OVERFLOW)
        whole = len(nodes) == (lower - PAGE_HEADER) // 2
        if kind != (LEAF if tree.depth == 1 else BRANCH) or not (counted and whole):
            return True
        for size, node_flags, key, end in nodes if kind == LEAF else ():
            if tree is meta.free and int.from_bytes(key, "little") > meta.commit:
                return True
            # Of the main table alone: a page that led to itself would be followed for ever.
            leads = tree is meta.main and node_flags & SUB_DATABASE
            below = Tree.parse(page[end : end + size]) if leads else None
            pending += [] if below is None else [below]
    return False


def inspect(path: Path, verify: Callable[[str], list[str]]) -> None:
    """Refuse a file that LMDB could not map safely.

    ``verify``, LMDB's own verifier, lists what is wrong with a file. It is asked only where that
    is too short: pages allocated last and freed again may legally be missing.

    Raises:
        NotADatabaseError, FormatVersionError: not a regular file, or none of this LMDB.
        CorruptionError: shorter than its own meta page says, or its first pages contradict each
            other: then the last commit may be lost.
    """
    require_regular(path)
    _require_one_name(path)
    with FileIO(str(path), opener=_not_waiting) as file:
        meta = newest_meta(path, file.fileno())
        needed = meta.needed_size
        size = os.fstat(file.fileno()).st_size
        for _ in range(READ_AGAIN):
            if size < needed or not roots_contradict(file.fileno(), meta):
                break
            before, meta = meta, newest_meta(path, file.fileno())
            if before == meta:  # else somebody wrote meanwhile, maybe over what was read
                raise CorruptionError(
                    f"{path} is damaged: its first pages contradict each other, as in a copy that "
                    "was made while the file was written to; not opened. Copy stores with 'simdb "
                    "backup'; run 'simdb repair' or restore a backup"
                )
    if size < needed and verify(str(path)):
        raise CorruptionError(
            f"{path} is truncated: {size:,} bytes of {needed:,}; "
            "run 'simdb repair' or restore a backup"
        )


def opened_file(path: Path, flags: int, mode: int = 0o666) -> FileIO:
    """Open a file, not at the end of a link, as an object: when that is gone, it is closed.

    The functions of C call each other: in one of Python, as ``opener``, an interrupt would come
    between the descriptor and the object.
    """
    if path.is_dir():  # whose descriptor FileIO would neither take nor close
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    how = "r+b" if flags & os.O_RDWR else "rb"
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW
    return next(map(FileIO, map(os.open, [str(path)], [flags], [mode]), [how]))


def _not_waiting(name: str, flags: int) -> int:
    """Open a file, as ``opener``, without waiting for the other end of a pipe."""
    return os.open(name, flags | os.O_NONBLOCK)


def require_regular(path: Path) -> None:
    """Raise NotADatabaseError unless a path leads to a regular file; a pipe is not waited for."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise NotADatabaseError(f"{path} is not a regular file; name the store's own file")


def require_replaceable(path: Path) -> None:
    """Raise NotADatabaseError if there is what never was a store, however damaged.

    A store has a lock file beside it, or at least one of LMDB's meta pages. With an empty file,
    which a store may be after the machine failed, nothing is lost.
    """
    if not path.exists():
        return
    require_regular(path)
    if path.stat().st_size == 0 or Path(f"{path}-lock").exists():
        return
    places = [0, SMALLEST_PAGE]  # of the first meta page, and of the second by the size of pages
    while places[-1] < LARGEST_PAGE:
        places.append(2 * places[-1])
    with path.open("rb") as file:
        pages = [os.pread(file.fileno(), META_BYTES, place) for place in places]
    try:
        if any(parse_meta(path, page) is not None for page in pages):
            return
    except StorageError:  # a meta page, though one that cannot be used
        return
    raise NotADatabaseError(f"{path} is not a simdb store: move it away, or name another file")


def _require_one_name(path: Path) -> None:
    """Raise StorageError if a file has several names, but for one that its creation left behind.

    Each would be used with a lock file of its own.
    """
    status = path.stat()
    if status.st_nlink < 2:
        return
    for other in path.parent.glob(f"{TEMPORARY_NAME}*.tmp"):
        with contextlib.suppress(OSError):
            if other.samefile(path):
                other.unlink()
    count = path.stat().st_nlink
    if count > 1:
        raise StorageError(
            f"{path} has {count} names (hard links): using it under another name overwrites "
            "commits; remove the other names, or make a copy with 'simdb backup'"
        )


def contradiction(first: int, second: int) -> str:
    """Say what is wrong with the transaction numbers of the meta pages, nothing if they agree.

    LMDB writes the meta page of commit n to page n % 2, and syncs it at the latest before that of
    commit n + 1: whatever happens, they are one commit apart. Both are 0 in a new file.
    """
    if abs(first - second) > 1 or first % 2 or (second and not second % 2):
        return f"its meta pages are of the commits {first:,} and {second:,}, which do not follow"
    return ""


def newest_meta(path: Path, descriptor: int) -> Meta:
    """The newer of the meta pages of a file; raises as ``inspect`` does."""
    wrong = ""
    for _ in range(READ_AGAIN):
        first = parse_meta(path, os.pread(descriptor, META_BYTES, 0))
        if first is None:
            raise NotADatabaseError(f"{path} is not a simdb store (no LMDB meta page)")
        second = parse_meta(path, os.pread(descriptor, META_BYTES, first.page_size))
        if second is None:
            raise CorruptionError(f"{path}: the second meta page is missing or damaged")
        wrong = contradiction(first.commit, second.commit)
        if not wrong:
            return max(first, second)
    raise CorruptionError(f"{path}: {wrong}; one is damaged, and the last commit may be lost")


def page_problems(path: str) -> list[str]:
    """Return what is wrong with the pages of a file whose meta pages are sound."""
    verify = late.module("lmdb.verify")
    try:
        return list(verify.verify(path))
    except verify.VerifyError as error:  # of what it cannot go on after, a meta page for one
        return [str(error)]


Identity: TypeAlias = tuple[int, int]

MOST_READERS = 1024  # at a time, of all processes: slots in the lock file
LOCK_HEADER_BYTES = 256  # of LMDB's lock file, at least what is before the second reader's slot
READER_BYTES = 64  # a reader's slot
TEMPORARY_NAME = ".simdb-"  # how the name of a file begins that has yet to get its own
CLAIMS = 2**62  # offset of the first byte that stands for a lock file; the one before for none
CLAIM_BYTES = 2**40
_CANNOT_RESERVE = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_CANNOT_LOCK = {errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP}  # file systems without such locks
_FLOCK = struct.Struct("@hhqqi4x")  # struct flock of Linux
CLOSE_HERE = (
    "close it first, and end the snapshots and iterators of it that are still referred to, which "
    "hold a closed store open"
)
_NOT_WRITABLE = {errno.EROFS, errno.EACCES, errno.EPERM}


def identity_of(path: Path) -> Identity | None:
    """Return device and inode of a file; None if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def file_mode(path: Path) -> int:
    """Return who may read and write a file: those beside it get the same, the owner at least."""
    return stat.S_IMODE(path.stat().st_mode) & 0o666


def has_lock(path: Path, *, read_only: bool) -> bool:
    """Whether a store has a lock file that this process uses, or makes.

    Of a read-only file system LMDB takes none for reading, and says nothing: who writes by way of
    another mount knows nothing of this reader.
    """
    if not read_only:
        return True
    if os.statvfs(path.parent).f_flag & os.ST_RDONLY:
        return False
    return os.access(path.parent, os.W_OK) or Path(f"{path}-lock").exists()


def reserve_lock_file(path: Path) -> None:
    """Make the lock file of a store with room on the disk for all of it, or raise OSError.

    StorageError: another file has that name, which LMDB would write over. LMDB leaves holes in it
    and maps it: filling one on a full disk would end the process. Called only while this process
    has no LMDB environment of the store, whose locks closing the file would release.
    """
    lock = Path(f"{path}-lock")
    size = LOCK_HEADER_BYTES + READER_BYTES * (MOST_READERS - 1)
    is_new = not lock.exists()
    mode = file_mode(path) | stat.S_IWUSR  # else who made it could not open it again
    try:
        file = opened_file(lock, os.O_RDWR | os.O_CREAT, mode)
    except OSError as error:
        if error.errno in _NOT_WRITABLE:  # LMDB says so, or does without
            return
        raise
    with file:
        try:
            if is_new:
                os.fchmod(file.fileno(), mode)
            else:
                _require_own(lock, path, os.pread(file.fileno(), _META.size, 0))
            status = os.fstat(file.fileno())
            if status.st_size < size or status.st_blocks * 512 < size:
                os.posix_fallocate(file.fileno(), 0, max(size, status.st_size))
        except OSError as error:
            if error.errno in _CANNOT_RESERVE:
                return
            if is_new:
                lock.unlink(missing_ok=True)
            raise


def require_free_name(path: Path) -> None:
    """Raise StorageError where a file that is none of a store has the name of its lock file."""
    lock, beginning = Path(f"{path}-lock"), b""
    with contextlib.suppress(OSError), FileIO(str(lock), opener=_not_waiting) as file:
        beginning = file.read(_META.size) or b""
    _require_own(lock, path, beginning)


def _require_own(lock: Path, path: Path, beginning: bytes) -> None:
    """Raise StorageError for what cannot be a lock file of LMDB, or is not to become one."""
    word = int.from_bytes(beginning[:4], "little")
    is_other = word != MAGIC
    if not word:
        is_other = len(beginning) == _META.size and _META.unpack(beginning)[0] == MAGIC  # a store
    if is_other:
        raise StorageError(
            f"{lock} is no lock file, and would be one if {path} were opened as a store: give one "
            "of the two another name"
        )


class FileWatch:
    """Knows the file that is opened, and its lock file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Path(f"{path}-lock")
        self._lock_identity: Identity | None = None
        # Of the file that was opened, whatever lies at its path now.
        self._file = FileIO(str(path), opener=_not_waiting)  # which an interrupt leaves to its end
        self.descriptor = self._file.fileno()
        status = os.fstat(self.descriptor)
        self.identity: Identity = (status.st_dev, status.st_ino)
        self.least_size = status.st_size  # LMDB never makes a file shorter
        page_size = int.from_bytes(os.pread(self.descriptor, 4, 40), "little")
        # Read at every snapshot, by way of memory: a system call would hand the GIL over.
        self.pages = mmap.mmap(self.descriptor, 2 * page_size, prot=mmap.PROT_READ)
        # Each number in one piece, as a writer stores it: so the form is the machine's own.
        form = struct.Struct(f"Q{page_size - 8}xQ")
        self.commits: Callable[[], tuple[int, int]]
        self.commits = partial(form.unpack_from, self.pages, _COMMIT_OFFSET)

    def claim(self) -> bool:
        """Claim the file for the lock file that is used with it; return whether that could be done.

        Not while ``held_alone`` has it. StorageError: it is in use with another lock file.
        """
        self._lock_identity = identity_of(self._lock)
        place = CLAIMS - 1
        if self._lock_identity is not None:
            device, inode = self._lock_identity
            place = CLAIMS + (device * 1_000_003 + inode) % CLAIM_BYTES
        if not _lock_bytes(self.descriptor, fcntl.F_RDLCK, place, 1):
            return False
        if self._lock_identity is not None and (
            _has_lock(self.descriptor, CLAIMS, place - CLAIMS)
            or _has_lock(self.descriptor, place + 1, CLAIMS + CLAIM_BYTES - place - 1)
        ):
            raise StorageError(
                f"{self._path} is open under another name, as a bind mount gives one, and so with "
                "another lock file; use one name in all processes"
            )
        return True

    def newest_commit(self) -> int:
        """Number of the last commit by the meta pages."""
        return max(self.commits())

    def is_being_written(self) -> bool:
        """Whether a writer, of whatever process, has the writer lock."""
        try:  # on a descriptor of its own, since such a lock belongs to one
            with FileIO(f"/proc/self/fd/{self.descriptor}") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        return False

    def not_its_lock(self, commit: int) -> StorageError:
        """What to raise when the lock file speaks of another commit than the file."""
        users = _in_words(users_of(self._path))
        return StorageError(
            f"{self._lock} does not belong to {self._path}: it records commit {commit:,}, the file "
            f"ends with commit {self.newest_commit():,}. The file was moved, replaced or written "
            f"under another name while {users} had the store open; close it there and here, then "
            "open it again. 'simdb restore' replaces a store safely"
        )

    @property
    def size(self) -> int:
        """Bytes of the file that was opened, whatever lies at its path now."""
        return os.lseek(self.descriptor, 0, os.SEEK_END)  # quicker than its status

    @property
    def mode(self) -> int:
        """Who may read and write it."""
        return stat.S_IMODE(os.fstat(self.descriptor).st_mode) & 0o666

    def require_whole(self) -> None:
        """Raise CorruptionError if the file has become shorter."""
        size = self.size
        if size < self.least_size:
            raise CorruptionError(
                f"{self._path} was cut short while it was open, from {self.least_size:,} bytes to "
                f"{size:,}; close it, then run 'simdb repair' or restore a backup"
            )
        self.least_size = size

    def require_lock(self) -> None:
        """Raise StorageError if the lock file was removed or replaced.

        Others do not see our locks then, nor we theirs.
        """
        if identity_of(self._lock) != self._lock_identity:
            raise StorageError(
                f"{self._lock} was removed or replaced while the store was open; close the store "
                "in every process and open it again"
            )

    def close(self) -> None:
        """Stop watching."""
        self.pages.close()
        self._file.close()


def users_of(path: Path) -> set[int]:
    """The processes, as far as this one sees them, that hold a lock on the lock file of a store."""
    found = set()
    with contextlib.suppress(OSError):
        status = Path(f"{path}-lock").stat()
        device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            parts = line.split()
            if "POSIX" in parts and device in parts:
                found.add(int(parts[parts.index(device) - 1]))
    return found


def _in_words(users: set[int]) -> str:
    others = sorted(users - {os.getpid()})
    if not others:
        return "this process" if users else "another process"
    return f"process {', '.join(map(str, others))}"


@contextlib.contextmanager
def held_alone(path: Path) -> Iterator[None]:
    """Keep everyone from opening a store; DatabaseBusyError if somebody has it open."""
    with FileIO(str(path), "r+b", opener=_not_waiting) as file:
        alone = _lock_bytes(file.fileno(), fcntl.F_WRLCK, CLAIMS - 1, CLAIM_BYTES + 1)
        users = users_of(path)
        if not alone or users:
            close = "close it there first" if users != {os.getpid()} else CLOSE_HERE
            raise DatabaseBusyError(f"{path} is open in {_in_words(users)}; {close}")
        yield


@contextlib.contextmanager
def no_writer(path: Path) -> Iterator[None]:
    """Keep writers away from a store, by their lock; DatabaseBusyError if one is at work."""
    with FileIO(str(path), opener=_not_waiting) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DatabaseBusyError(
                f"{path}: another process is writing to it; wait until it has finished"
            ) from error
        yield


def byte_lock(descriptor: int, command: int, kind: int, begin: int, count: int) -> int:
    """Lock bytes of a file for an open descriptor, or ask who has; return what lock there is."""
    wanted = _FLOCK.pack(kind, os.SEEK_SET, begin, count, 0)
    return int(_FLOCK.unpack(fcntl.fcntl(descriptor, command, wanted))[0])


def _lock_bytes(descriptor: int, kind: int, begin: int, count: int) -> bool:
    """Lock bytes of a file for an open descriptor; return whether that could be done at once."""
    try:
        byte_lock(descriptor, fcntl.F_OFD_SETLK, kind, begin, count)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        if error.errno not in _CANNOT_LOCK:
            raise
    return True


def _has_lock(descriptor: int, begin: int, count: int) -> bool:
    """Whether another open descriptor has a lock on one of so many bytes."""
    if not count:  # which would stand for all that follow
        return False
    try:
        found = byte_lock(descriptor, fcntl.F_OFD_GETLK, fcntl.F_WRLCK, begin, count)
    except OSError as error:
        if error.errno not in _CANNOT_LOCK:
            raise
        return False
    return found != fcntl.F_UNLCK


def require_same_file(path: Path, identity: Identity) -> None:
    """Raise StorageError unless a path still leads to the file that was opened."""
    present = identity_of(path)
    if present is None:
        raise StorageError(f"{path} was removed while it was open")
    if present != identity:
        raise StorageError(f"{path} was replaced by another file while it was open; open it again")


def is_full(path: Path, needed: int) -> bool:
    """Return whether the disk, or the limit on a file's size, leaves less than so many bytes.

    LMDB calls a write that was cut short, as the first one is when a disk fills up, an
    input/output error: this tells it from one of the medium.
    """
    resource = late.module("resource")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit != resource.RLIM_INFINITY and path.stat().st_size + needed > limit:
        return True
    system = os.statvfs(path)
    blocks = system.f_bfree if os.geteuid() == 0 else system.f_bavail
    return blocks * system.f_frsize < needed
