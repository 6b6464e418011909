"""Names of files: what a caller gives becomes a path that LMDB and the system can take."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from simdb.errors import ConfigurationError, StorageError, WrongTypeError

_ABSENT = {errno.ENOENT, errno.ENOTDIR}


def parse_path(path: object) -> Path:
    """Return the path of a file, which need not exist.

    Raises:
        WrongTypeError, ConfigurationError: it is none, or its name is no UTF-8, which LMDB needs.
        StorageError: the system refuses it, as one that is too long or a circle of links.
    """
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(name, str):
        raise WrongTypeError(f"a file is named by str or Path, not {type(name).__name__}")
    if "\0" in name:
        raise ConfigurationError(f"the name of a file has no null character: {name!r}")
    _require_unicode(name)
    try:
        os.stat(name)  # noqa: PTH116 - Path.exists passes over circles of links
    except OSError as error:
        if error.errno not in _ABSENT:
            raise StorageError(f"{name}: {error.strerror}") from error
    return Path(name)


def resolved_path(path: object) -> Path:
    """Return the path of a file from the root on, links followed; see ``parse_path``."""
    found = parse_path(path)
    try:
        resolved = found.resolve()
    except (OSError, RuntimeError) as error:  # the present folder is gone, or a circle of links
        raise StorageError(f"{found}: {error}") from error
    _require_unicode(str(resolved))
    return resolved


def _require_unicode(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"the name of a store's file, and of its folders, must be UTF-8: {name!r} is not"
        ) from None
