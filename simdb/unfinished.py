"""Files and folders that are being made: durable, and told from what a killed run has left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

_SECONDS_TO_HOLD = 10  # that a folder may be there before it is held


def held(descriptor: int) -> bool:
    """Hold a temporary file or folder while it is open, so that no other run removes it.

    Returns:
        False if another run has it, or has removed it; True also where files cannot be locked:
        there nobody removes any.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return os.fstat(descriptor).st_nlink > 0


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, as a new file's has to be."""
    with _opened(folder, os.O_RDONLY) as descriptor:
        os.fsync(descriptor)


def remove_abandoned(folder: Path, pattern: str) -> None:
    """Remove the temporary files and folders of runs that were killed."""
    for path in abandoned(folder, pattern):
        with contextlib.suppress(OSError):
            if not path.is_dir():
                path.unlink()
            elif time.time() - path.stat().st_mtime > _SECONDS_TO_HOLD:
                from shutil import rmtree  # slow to load, with all it can unpack

                rmtree(path)


def abandoned(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield the temporary files and folders that nobody holds; each is held meanwhile."""
    found: list[Path] = []
    with contextlib.suppress(OSError):
        found += folder.glob(pattern)
    for path in found:
        with (
            contextlib.suppress(OSError),
            _opened(path, os.O_RDONLY | os.O_NOFOLLOW) as descriptor,
        ):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield path


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    """Open a file or a folder within a block."""
    opened: list[int] = []
    try:
        # By functions of C, which no interrupt parts: else it could be open and not noted here.
        opened.extend(map(os.open, [path], [flags]))
        yield opened[0]
    finally:
        for descriptor in opened:
            os.close(descriptor)
