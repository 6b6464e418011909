"""Open stores and collections for commands."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import typer

from simdb.cli.options import one_of, settings_of
from simdb.errors import CollectionNotFoundError, DatabaseNotFoundError

if TYPE_CHECKING:
    from simdb.collection import Collection, CollectionView
    from simdb.database import Database


@contextlib.contextmanager
def opened(
    context: typer.Context,
    path: str,
    *,
    read_only: bool = False,
    create: bool = False,
    sync: str = "full",
) -> Iterator[Database]:
    """Open a store for a command; only ``create`` makes a new one.

    Raises:
        DatabaseNotFoundError: there is no such file and none was to be made.
    """
    # The engine is imported here and not above: --help and usage errors do not wait for it.
    import simdb

    settings = settings_of(context)
    if not create and not Path(path).exists():
        raise DatabaseNotFoundError(f"{path}: there is no such store; simdb create makes one")
    with simdb.open(
        path,
        read_only=read_only,
        sync=cast('Literal["full", "batch"]', one_of("--sync", sync, "full", "batch")),
        busy_timeout=settings.busy_timeout,
        threads=settings.threads,
        memory=settings.memory,
        mode=settings.mode,
        untrusted=settings.untrusted,
    ) as database:
        yield database


@contextlib.contextmanager
def opened_collection(
    context: typer.Context,
    path: str,
    name: str,
    *,
    read_only: bool = False,
    sync: str = "full",
) -> Iterator[Collection]:
    """Open a collection that exists."""
    with opened(context, path, read_only=read_only, sync=sync) as database:
        yield existing(database, name)


@contextlib.contextmanager
def viewed_collection(context: typer.Context, path: str, name: str) -> Iterator[CollectionView]:
    """Hold one state of a collection that exists, for several reads that agree."""
    with (
        opened(context, path, read_only=True) as database,
        database.snapshot() as state,
    ):
        existing(database, name)
        yield state[name]


def existing(database: Database, name: str) -> Collection:
    """Return a collection; an error names those that the store has.

    Raises:
        CollectionNotFoundError: the store has no such collection.
    """
    if name not in database:
        names = ", ".join(database.collection_names()) or "none"
        raise CollectionNotFoundError(f"no collection {name!r} in the store; it has: {names}")
    return database[name]
