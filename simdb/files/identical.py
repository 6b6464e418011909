"""Identical files, found by reading a few positions of most of them (MMDS 3.9.1).

Files of different sizes differ, so only those of equal size are opened at all. Of these a few bytes
are read at positions that are random but the same for all files of the size: a common header at
the beginning does not make them collide. Only files that agree there are read on, from the front
and in step, and each only as far as another one still agrees with it.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from io import FileIO
from pathlib import Path
from typing import TypeAlias

import numpy as np

from simdb.arguments import require_function, require_whole
from simdb.errors import ConfigurationError
from simdb.results import Progress

# Sixteen bytes at a position tell more than one, and cost the same one page of the disk.
_SAMPLE_WIDTH = 16
_STEP = 1 << 20

Inode: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class IdenticalReport:
    """Which files are byte for byte the same, and what it took to find out."""

    groups: tuple[tuple[Path, ...], ...]  # of identical files, two or more a group; sorted
    files: int  # regular ones that were found
    bytes_total: int  # their sizes, added; a file with several names counts once
    bytes_read: int
    files_sampled: int  # read at the sampled positions
    files_read_in_full: int  # of which every byte was read
    unreadable: tuple[tuple[Path, str], ...]  # files and folders, and why
    skipped: int  # symbolic links, which are not followed, and special files


def identical_files(
    paths: Iterable[str | Path],
    *,
    positions: int = 8,
    progress: Callable[[Progress], None] | None = None,
) -> IdenticalReport:
    """Group files by content, reading in full only those that agree wherever they were sampled.

    Exact but for a collision of 256-bit digests (BLAKE2b). Empty files are identical. Folders are
    searched with all below them. So many ``positions``, at least 1, are sampled of each file that
    shares its size with another. ``progress`` is called with the number of files that are settled.
    ConfigurationError: a name is empty.
    """
    require_function("progress", progress)
    positions = require_whole("positions", positions, 1, optional=False)
    search = _Search(positions, progress)
    for path in paths:
        if not os.fspath(path):  # which Path takes for the current folder
            raise ConfigurationError("the name of a file is empty; . is the current folder")
        search.enter(Path(path))
    return search.report()


@dataclass(slots=True)
class _Search:
    """A search under way: the files by size and inode, and the running totals."""

    positions: int
    progress: Callable[[Progress], None] | None
    names: dict[Inode, list[Path]] = field(default_factory=lambda: defaultdict(list))
    by_size: dict[int, list[Inode]] = field(default_factory=lambda: defaultdict(list))
    entered: set[Path] = field(default_factory=set)
    unreadable: list[tuple[Path, str]] = field(default_factory=list)
    skipped: int = 0
    bytes_read: int = 0
    sampled: int = 0
    read_in_full: int = 0

    def enter(self, path: Path) -> None:
        """Note a file, or every file below a folder; a name that was noted before is passed by."""
        waiting = [path]
        while waiting:
            waiting += reversed(self._noted(waiting.pop()))

    def _noted(self, path: Path) -> list[Path]:
        """Note a file; return what is in a folder, in order."""
        place = Path(os.path.normpath(path.absolute()))  # resolve() would follow links
        if place in self.entered:
            return []
        self.entered.add(place)
        try:
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode):
                return sorted(path.iterdir())
            if stat.S_ISREG(status.st_mode):
                inode = (status.st_dev, status.st_ino)
                if inode not in self.names:
                    self.by_size[status.st_size].append(inode)
                self.names[inode].append(path)
            else:
                self.skipped += 1
        except (OSError, ValueError) as error:
            self.unreadable.append((path, _reason(error)))
        return []

    def report(self) -> IdenticalReport:
        groups = []
        settled = 0
        total = sum(len(paths) for paths in self.names.values())
        for size, inodes in self.by_size.items():
            for group in self._identical(size, inodes):
                paths = sorted(path for inode in group for path in self.names[inode])
                if len(paths) > 1:
                    groups.append(tuple(paths))
            settled += sum(len(self.names[inode]) for inode in inodes)
            if self.progress is not None:
                self.progress(Progress("comparing files", settled, total))
        return IdenticalReport(
            groups=tuple(sorted(groups)),
            files=total,
            bytes_total=sum(size * len(inodes) for size, inodes in self.by_size.items()),
            bytes_read=self.bytes_read,
            files_sampled=self.sampled,
            files_read_in_full=self.read_in_full,
            unreadable=tuple(sorted(self.unreadable)),
            skipped=self.skipped,
        )

    def _identical(self, size: int, inodes: list[Inode]) -> list[list[Inode]]:
        """Divide files of one size by a sample, then by all they contain, a piece at a time."""
        groups = [inodes]
        if len(inodes) > 1 and size > self.positions * _SAMPLE_WIDTH:
            self.sampled += len(inodes)
            generator = np.random.default_rng(size)  # any fixed positions will do
            last = size - _SAMPLE_WIDTH
            offsets = sorted(generator.integers(last, size=self.positions).tolist())
            groups = self._split(inodes, offsets, _SAMPLE_WIDTH)
        for offset in range(0, size, _STEP):
            width = min(_STEP, size - offset)
            alike = [group for group in groups if len(group) > 1]
            parts = [part for group in alike for part in self._split(group, [offset], width)]
            if offset + width == size:
                self.read_in_full += sum(map(len, parts))
            groups = parts + [group for group in groups if len(group) == 1]
        return groups

    def _split(self, inodes: list[Inode], offsets: list[int], width: int) -> list[list[Inode]]:
        """Divide files by the bytes at some offsets; those that cannot be read are dropped."""
        parts: dict[bytes, list[Inode]] = defaultdict(list)
        for inode in inodes:
            path = self.names[inode][0]
            try:
                with path.open("rb", buffering=0) as file:
                    content = [_read(file, offset, width) for offset in offsets]
            except OSError as error:
                self.unreadable.append((path, _reason(error)))
                continue
            self.bytes_read += sum(len(piece) for piece in content)
            if any(len(piece) < width for piece in content):
                self.unreadable.append((path, "it became shorter while it was read"))
                continue
            parts[blake2b(b"".join(content), digest_size=32).digest()].append(inode)
        return list(parts.values())


def _read(file: FileIO, offset: int, width: int) -> bytes:
    """Read so many bytes, fewer only at the end of the file: one call may bring less."""
    content = more = os.pread(file.fileno(), width, offset)
    while more and len(content) < width:
        more = os.pread(file.fileno(), width - len(content), offset + len(content))
        content += more
    return content


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)
