"""Repair: a new store with all that can be read of a damaged one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from simdb import engine
from simdb.database import Database, open_database
from simdb.datatypes import RepairedCollection, RepairReport
from simdb.errors import DatabaseBusyError, DatabaseNotFoundError, StorageError
from simdb.recovery.pages import DamagedFile
from simdb.storage.file import creation
from simdb.storage.file.lmdb_errors import translated
from simdb.storage.file.paths import parse_path
from simdb.storage.file.watching import file_mode


def repair(
    damaged: str | os.PathLike[str], new: str | os.PathLike[str], *, threads: int | None = None
) -> RepairReport:
    """Write a new store with all that can be read of a damaged one, which stays as it is.

    Items, keys and metadata are read page by page, and believed if their checksums hold. Indexes
    are made anew from the items, under the settings and the secret of the old store. The new store
    is checked before it gets its name. Items keep their order; their numbers change.

    Args:
        damaged: the file; nobody may be writing to it.
        new: a file that does not exist yet.
        threads: to sign with; as many as there are processors if not given.

    Raises:
        DatabaseNotFoundError: there is no damaged file.
        NotADatabaseError: it is something else.
        DatabaseBusyError: somebody writes to it.
        StorageError: the new file exists, or cannot be written.
    """
    source, target = parse_path(damaged), parse_path(new)
    if not source.exists():
        raise DatabaseNotFoundError(f"{source} does not exist")
    if target.exists():
        raise StorageError(f"{target} exists; name a file that does not")
    if not target.parent.is_dir():
        raise DatabaseNotFoundError(f"there is no folder {target.parent} for {target.name}")
    temporary = creation.temporary_beside(target)
    mode = file_mode(source)  # what was private stays private
    try:
        with translated(target):
            creation.create(temporary, mode)
        with translated(source), _no_writer(source), DamagedFile(source) as file:
            salvage = engine.repairing.Salvage(file)
            with (
                translated(target),
                open_database(temporary, threads=threads, busy_timeout=None) as database,
            ):
                found = [_copy(database, salvage, number) for number in sorted(salvage.collections)]
                problems = database.check(deep=True).problems
        if problems:
            raise StorageError(f"the repaired store is not sound: {problems[0].problem}")
        try:
            target.hardlink_to(temporary)  # fails, unlike a rename, where the target exists
        except FileExistsError as error:
            raise StorageError(f"{target} exists; name a file that does not") from error
        return RepairReport(
            tuple(found), tuple(salvage.lost), salvage.certain, tuple(salvage.problems())
        )
    finally:
        creation.discard(temporary)


@contextlib.contextmanager
def _no_writer(path: Path) -> Iterator[None]:
    """Hold the lock that writers of a store take, on a descriptor that is only for reading."""
    import fcntl

    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DatabaseBusyError(
                f"{path}: somebody writes to it; repair it afterwards"
            ) from error
        yield
    finally:
        os.close(descriptor)


def _copy(database: Database, salvage: engine.repairing.Salvage, number: int) -> RepairedCollection:
    """Make a collection of the new store and fill it."""
    settings = salvage.collections[number].settings
    handle = database._handle
    with handle.write() as transaction:
        settings = engine.catalogue.create(transaction, settings)
    signer = engine.signing.Signer(settings)
    policy = engine.indexing.AddPolicy(
        on_existing="error", bound=None, drop_duplicates=False, skip_bad=False
    )
    rows = engine.repairing.RepairedRows(salvage, number)
    with handle.use() as environment:
        adder = engine.indexing.BatchAdder(
            environment,
            settings.encode(),
            settings,
            signer,
            policy=policy,
            busy_timeout=handle.busy_timeout,
        )
        for batch in rows.batches():
            adder.add(batch, signer.sign(batch.items, handle.pool()))
    return rows.report()
