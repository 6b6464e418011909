"""Looks at a file before LMDB maps it: a foreign or truncated one would end the process.

Reads the two meta pages of LMDB's format 1 (``lmdb.h``, ``mdb.c``: ``MDB_page`` and ``MDB_meta``):

====== ===== ==========================================================
offset bytes field
====== ===== ==========================================================
0      16    page header
16     4     magic 0xBEEFC0DE
20     4     data format version, 1
24     16    map address and size
40     48    free-list table; its first 4 bytes are the page size
88     48    main table
136    8     last page in use
144    8     transaction number
====== ===== ==========================================================
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path

from simdb.errors import CorruptionError, FormatVersionError, NotADatabaseError

MAGIC = 0xBEEFC0DE
DATA_FORMAT = 1
SMALLEST_PAGE = 256
LARGEST_PAGE = 65_536
READ_AGAIN = 5  # times: between reading one meta page and the other somebody may commit
_META = struct.Struct("<16x I I 16x I 44x 48x Q Q")
_NEWER = struct.Struct("<24x I I")
assert _META.size == 152


def inspect(path: Path, verify: Callable[[str], list[str]]) -> None:
    """Refuse a file that LMDB could not map safely.

    Args:
        path: the file.
        verify: LMDB's own verifier, which lists what is wrong with a file. It is asked only when
            the file is too short: pages allocated last and freed again may legally be missing.

    Raises:
        NotADatabaseError: not a regular file, or no LMDB file.
        FormatVersionError: an LMDB file of another data format.
        CorruptionError: shorter than its own meta page says, or one meta page does not follow the
            other: then the last commit may be lost.
    """
    require_regular(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        page_size, last_page = _newest_meta(path, descriptor)
        needed = (last_page + 1) * page_size
        size = os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
    if size < needed and verify(str(path)):
        raise CorruptionError(
            f"{path} is truncated: {size:,} bytes of {needed:,}; "
            "run 'simdb repair' or restore a backup"
        )


def require_regular(path: Path) -> None:
    """Raise unless a path leads to a regular file; a pipe is not waited for.

    Raises:
        NotADatabaseError: it leads to something else.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise NotADatabaseError(f"{path} is not a regular file; name the store's own file")


def contradiction(first: int, second: int) -> str:
    """Say what is wrong with the transaction numbers of the meta pages, nothing if they agree.

    LMDB writes the meta page of commit n to page n % 2, and syncs it at the latest before that of
    commit n + 1: whatever happens, they are one commit apart. Both are 0 in a new file.
    """
    if abs(first - second) > 1 or first % 2 or (second and not second % 2):
        return f"its meta pages are of the commits {first:,} and {second:,}, which do not follow"
    return ""


def _newest_meta(path: Path, descriptor: int) -> tuple[int, int]:
    """Return page size and last page of the newer valid meta page."""
    wrong = ""
    for _ in range(READ_AGAIN):
        first = _parse(path, os.pread(descriptor, _META.size, 0))
        if first is None:
            raise NotADatabaseError(f"{path} is not a simdb store (no LMDB meta page)")
        second = _parse(path, os.pread(descriptor, _META.size, first[0]))
        if second is None:
            raise CorruptionError(f"{path}: the second meta page is missing or damaged")
        wrong = contradiction(first[2], second[2])
        if not wrong:
            return first[0], (first if first[2] > second[2] else second)[1]
    raise CorruptionError(f"{path}: {wrong}; one is damaged, and the last commit may be lost")


def _parse(path: Path, data: bytes) -> tuple[int, int, int] | None:
    if len(data) < _META.size:
        return None
    magic, version, page_size, last_page, transaction = _META.unpack(data)
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
    return page_size, last_page, transaction
