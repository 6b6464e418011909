"""The options before the command, and stores and collections opened under them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import typer

import simdb
from simdb.errors import CollectionNotFoundError, DatabaseNotFoundError, UsageError


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of ``simdb`` itself, before the command; ``--quiet`` may also stand after it."""

    threads: int | None = None
    memory: int = 2**30
    busy_timeout: float = 10.0
    quiet: bool = False
    mode: int | None = None
    untrusted: bool = False


def settings_of(context: typer.Context) -> Settings:
    """Return the options before the command."""
    settings = context.obj
    return settings if isinstance(settings, Settings) else Settings()


def mode_from(text: str | None) -> int | None:
    """Return the permissions that ``600``, ``0600`` or ``0o600`` spells, None for None."""
    if text is None:
        return None
    if re.fullmatch("(0o?)?[0-7]{3}", text, re.ASCII) is None:
        raise UsageError(f"--mode must be three octal digits, as 600, not {text!r}")
    mode = int(text, 8)
    if mode & 0o600 != 0o600:
        raise UsageError(f"--mode must let the owner read and write, as 600 does, not {text}")
    return mode


@contextlib.contextmanager
def opened(
    context: typer.Context,
    path: str,
    *,
    read_only: bool = False,
    create: bool = False,
    sync: Literal["full", "batch"] = "full",
) -> Iterator[simdb.Database]:
    """Open a store for a command; only ``create`` makes a new one.

    Raises:
        DatabaseNotFoundError: there is no such file and none was to be made.
    """
    settings = settings_of(context)
    if not create and not Path(path).exists():
        raise DatabaseNotFoundError(f"{path}: there is no such store; simdb create makes one")
    with simdb.open(
        path,
        read_only=read_only,
        sync=sync,
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
    sync: Literal["full", "batch"] = "full",
) -> Iterator[simdb.Collection]:
    """Open a collection that exists."""
    with opened(context, path, read_only=read_only, sync=sync) as database:
        yield existing(database, name)


@contextlib.contextmanager
def viewed_collection(
    context: typer.Context, path: str, name: str
) -> Iterator[simdb.CollectionView]:
    """Hold one state of a collection that exists, for several reads that agree."""
    with (
        opened(context, path, read_only=True) as database,
        database.snapshot() as state,
    ):
        existing(database, name)
        yield state[name]


def existing(database: simdb.Database, name: str) -> simdb.Collection:
    """Return a collection; an error names those that the store has.

    Raises:
        CollectionNotFoundError: the store has no such collection.
    """
    if name not in database:
        names = ", ".join(database.collection_names()) or "none"
        raise CollectionNotFoundError(f"no collection {name!r} in the store; it has: {names}")
    return database[name]
