"""One environment a file and process: who opens a file again shares it.

LMDB forbids a second one: its locks are POSIX record locks, which closing either would release.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from simdb.errors import ConfigurationError, DatabaseNotFoundError, StorageError
from simdb.storage.file.creation import create
from simdb.storage.file.environment import OPENING_PATIENCE, Environment, Sync
from simdb.storage.file.lmdb_errors import translated

_registry: dict[tuple[int, int], Environment] = {}
_registry_lock = threading.RLock()


def _before_fork() -> None:
    _registry_lock.acquire()
    for environment in _registry.values():
        environment.before_fork()


def _after_fork(*, child: bool) -> None:
    global _registry_lock  # noqa: PLW0603 - a child starts with a lock of its own
    for environment in _registry.values():
        environment.after_fork(child=child)
    if child:
        _registry_lock = threading.RLock()
    else:
        _registry_lock.release()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=lambda: _after_fork(child=False),
    after_in_child=lambda: _after_fork(child=True),
)


def acquire(
    path: Path,
    *,
    read_only: bool,
    sync: Sync,
    map_size: int | None,
    busy_timeout: float | None = OPENING_PATIENCE,
    mode: int | None = None,
    user: object = None,
) -> Environment:
    """Return the environment of a file, creating the file, with that mode, unless ``read_only``.

    It stays open until it is released, or ``user``, if one is given, is gone.

    Raises:
        DatabaseBusyError: another process was writing for longer than ``busy_timeout`` seconds.
        DatabaseNotFoundError: the file, or its folder, does not exist.
        NotADatabaseError, FormatVersionError, CorruptionError: it cannot be opened.
    """
    with _registry_lock:
        for known in list(_registry.values()):
            _close_if_unused(known)
        _require_not_replaced(path)
        if not path.exists():
            if read_only or not path.parent.is_dir():
                raise DatabaseNotFoundError(f"{path} does not exist")
            with translated(path):
                create(path, mode)
        status = path.stat()
        environment = _registry.get((status.st_dev, status.st_ino))
        if environment is None or environment.is_finished:
            environment = Environment(path, read_only=read_only, sync=sync, map_size=map_size)
            environment.open(busy_timeout)
            environment.users.add(user)
            _registry[environment.identity] = environment
        elif environment.sync != sync or (environment.read_only and not read_only):
            raise ConfigurationError(
                f"{path} is open in this process already, with sync={environment.sync!r} and "
                f"read_only={environment.read_only}; use the same, or close it first"
            )
        elif map_size not in (None, environment.map_size):
            raise ConfigurationError(
                f"{path} is open in this process already, with map_size={environment.map_size}; "
                "use the same or give none, or close it first"
            )
        else:
            environment.users.add(user)
        return environment


def _require_not_replaced(path: Path) -> None:
    """Raise if this process has another file open that was at this path."""
    try:
        status = path.stat()
        present = status.st_dev, status.st_ino
    except OSError:
        present = None
    for known in _registry.values():
        if known.path == path and known.identity != present and not known.is_finished:
            raise StorageError(
                f"{path} was removed or replaced while it was open in this process; close what is "
                "open first"
            )


def release(environment: Environment, user: object = None) -> None:
    """Give an environment back; the last user closes it. A second time does nothing."""
    with _registry_lock:
        environment.users.discard(user)
        _close_if_unused(environment)


def _close_if_unused(environment: Environment) -> None:
    if not environment.users.recount():
        environment.close()
        # One whose iterators are still open stays mapped, and known, until they end.
        if environment.is_finished:
            _registry.pop(environment.identity, None)
