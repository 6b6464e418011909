"""Restore: a backup takes the place of a store that nobody has open.

To copy or move a file over a store is not safe: who has the old file open goes on with it, and
LMDB's lock file, which both then share, speaks of the old one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO
from uuid import uuid4

from simdb.arguments import OWNER_MAY, require_mode, require_truth
from simdb.errors import (
    ConfigurationError,
    CorruptionError,
    FormatVersionError,
    NotADatabaseError,
    StorageError,
)
from simdb.recovery.pages import DamagedFile
from simdb.recovery.untrusted import require_sound
from simdb.results import Progress
from simdb.storage.file import creation, environment, preflight
from simdb.storage.file.errors import translated
from simdb.unfinished import sync_folder

_AT_ONCE = 2**20  # bytes


def restore(
    backup: str | os.PathLike[str],
    store: str | os.PathLike[str],
    *,
    mode: int | None = None,
    untrusted: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    """Replace a store by a copy of a backup, completely or not at all.

    The copy is first verified page by page; its records are not read (``check`` reads them). The
    store may be damaged, or not exist; an existing store keeps its permissions. The backup does not
    change. States of groups and tokens to resume after, made before, are refused from then on: the
    numbers in them may mean other items.

    Args:
        backup: a file that ``Database.backup`` or ``repair`` wrote, or another store.
        store: the store to replace.
        mode: permissions of a new store, as for ``open``; by default those of the backup.
        untrusted: the backup may be damaged, or made to do harm: all of the copy is verified, as
            ``open`` does it.
        progress: called now and then with the bytes copied, and before and after all of them are
            verified.

    Raises:
        DatabaseBusyError: the store is open; the message names the processes, but for those that
            have not used it since they forked.
        DatabaseNotFoundError: there is no such backup, or no folder for the store.
        NotADatabaseError: in the store's place is something that never was one, and is not empty.
        CorruptionError, NotADatabaseError, FormatVersionError: the backup cannot be used.
        StorageError, MissingExtraError: with ``untrusted``: it cannot be verified, as in ``open``.
    """
    permissions = require_mode(mode)
    untrusted = require_truth("untrusted", untrusted)
    source, target = preflight.resolved_path(backup), preflight.resolved_path(store)
    if source == target:
        raise ConfigurationError(f"{source} is both the backup and the store")
    with translated(source):
        preflight.require_regular(source)
    with translated(target):
        _require_replaceable(target)
    with creation.temporary_beside(target) as temporary:
        with translated(target), ExitStack() as reading:
            with translated(source):
                if permissions is None or target.exists():
                    permissions = preflight.file_mode(target if target.exists() else source)
                reading.enter_context(preflight.no_writer(source))
                read = reading.enter_context(source.open("rb"))
                whole = os.fstat(read.fileno()).st_size
            with creation.synced(temporary, permissions) as written:
                os.fchmod(written.fileno(), permissions)
                while some := _read(source, read):
                    written.write(some)
                    if progress is not None:
                        progress(Progress("copying", read.tell(), whole))
        with translated(target):
            if progress is not None:
                progress(Progress("verifying", 0, whole))
            _verify(source, target, temporary, wholly=untrusted)
            if progress is not None:
                progress(Progress("verifying", whole, whole))
            temporary.chmod(permissions | OWNER_MAY)
            _begin_history(temporary)
            temporary.chmod(permissions)
            if target.exists():
                environment.require_not_held(target)
                with preflight.held_alone(target):
                    temporary.replace(target)
                sync_folder(target.parent)
            else:
                creation.link_into_place(temporary, target)


def _require_replaceable(target: Path) -> None:
    """Raise NotADatabaseError if there is what never was a store, of LMDB too."""
    preflight.require_replaceable(target)
    try:
        file = DamagedFile(target)
    except (StorageError, FileNotFoundError, NotADirectoryError):
        return
    with file:
        if file.is_foreign:
            raise creation.foreign(target)


def _begin_history(temporary: Path) -> None:
    """Draw what tells states and tokens of another history: numbers may mean other items now."""
    opened = environment.acquire(temporary, read_only=False, sync="full", map_size=None)
    try:
        with opened.write(None) as transaction:
            transaction.change_header(history=uuid4().bytes)
    finally:
        environment.release(opened)


def _read(source: Path, file: IO[bytes]) -> bytes:
    with translated(source):
        return file.read(_AT_ONCE)


def _verify(source: Path, target: Path, temporary: Path, *, wholly: bool) -> None:
    """Raise what is wrong with the copy: of what is in it the backup, of the rest the store."""
    try:
        if wholly:
            require_sound(temporary)
        elif problems := creation.structure_problems(temporary):
            raise CorruptionError(f"{source} is damaged: {problems[0]}; nothing was replaced")
        # What is said of the header is said here, before anything is replaced.
        opened = environment.acquire(temporary, read_only=True, sync="full", map_size=None)
    except StorageError as error:
        of_content = isinstance(error, (CorruptionError, NotADatabaseError, FormatVersionError))
        named = source if of_content or wholly else target
        raise type(error)(str(error).replace(str(temporary), str(named))) from error
    environment.release(opened)
