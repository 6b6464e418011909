"""The options before the command, and the stores and collections that commands open under them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer
from msgspec import Struct

import simdb
from simdb.cli.failures import COLLECTION, STORE
from simdb.errors import CollectionNotFoundError, DatabaseNotFoundError, StorageError, UsageError


class Settings(Struct, frozen=True):
    """Options of ``simdb`` itself, before the command; ``--quiet`` is also allowed after it."""

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
    """Return the permissions of ``600``, ``0600`` or ``0o600``; None for None."""
    if text is None:
        return None
    if re.fullmatch("(0o?)?[0-7]{3}", text, re.ASCII) is None:
        raise UsageError(f"--mode must be three octal digits, such as 600, not {text!r}")
    mode = int(text, 8)
    if mode & 0o600 != 0o600:
        raise UsageError(f"--mode must let the owner read and write, as 600 does, not {text}")
    return mode


class Store(Struct, frozen=True):
    """The store that a command is about."""

    context: typer.Context
    path: Annotated[str, typer.Argument(metavar="STORE", help="The file of the store.")]

    @contextlib.contextmanager
    def opened(
        self,
        *,
        read_only: bool = False,
        create: bool = False,
        sync: Literal["full", "batch"] = "full",
    ) -> Iterator[simdb.Database]:
        """Open it; only ``create`` makes a new one."""
        settings = settings_of(self.context)
        if not create:
            try:
                Path(self.path).stat()  # Path.exists passes over circles of links
            except (FileNotFoundError, NotADirectoryError):
                raise DatabaseNotFoundError(
                    f"{self.path}: there is no such store; 'simdb create' makes one"
                ) from None
            except OSError as error:  # a folder on the way to it may not be searched, say
                raise StorageError(f"{self.path}: {error.strerror}") from error
        with simdb.open(
            self.path,
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
    def view(self, name: str | None) -> Iterator[simdb.CollectionView]:
        """Hold one state of an existing collection, for several consistent reads."""
        with self.opened(read_only=True) as database, database.snapshot() as state:
            source = state[meant(state, name)]
            self.about(source.name)
            yield source

    @contextlib.contextmanager
    def change(
        self, name: str | None, sync: Literal["full", "batch"] = "full"
    ) -> Iterator[simdb.Collection]:
        """Open an existing collection for writing."""
        with self.opened(sync=sync) as database:
            target = database[meant(database, name)]
            self.about(target.name)
            yield target

    def about(self, name: str) -> None:
        """Let the commands that an error proposes name this store and collection.

        With a second collection it is unknown which one an error is about: they name neither.
        """
        known = self.context.meta
        if STORE in known:
            del known[STORE], known[COLLECTION]
        else:
            known[STORE], known[COLLECTION] = self.path, name


class NamedCollection(Store, frozen=True):
    """A collection that must be named: it is made, renamed or removed, or keys follow its name.

    If any number of keys may follow, an omitted name could not be distinguished from a key.
    """

    name: Annotated[str, typer.Argument(metavar="COLLECTION", help="The name of the collection.")]


class StoredCollection(Store, frozen=True):
    """The collection of a command; its name is optional if the store has only one.

    For the parser it is a list, which receives what the arguments after it leave.
    """

    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COLLECTION",
            help="The collection; optional if the store has only one.",
        ),
    ] = None

    @property
    def name(self) -> str | None:
        """The name that was given."""
        given = self.names or []
        if len(given) > 1:
            raise UsageError(f"name at most one collection, not {' and '.join(given)}")
        return given[0] if given else None


class OneOrTwo(StoredCollection, frozen=True):
    """The collection of a command, and a second one for pairs between two."""

    right: Annotated[
        str | None,
        typer.Option(
            "--right",
            metavar="NAME",
            help="The collection of the right-hand items, if it is a different one.",
        ),
    ] = None
    right_store: Annotated[
        str | None,
        typer.Option(
            "--right-store",
            metavar="STORE",
            help="The store of that collection, if it is not STORE.",
        ),
    ] = None

    @contextlib.contextmanager
    def both(self) -> Iterator[tuple[simdb.CollectionView, simdb.CollectionView | None]]:
        """Hold one state of each; the second is None if only one is given."""
        with self.view(self.name) as left:
            if self.right is None and self.right_store is None:
                yield left, None
                return
            others = Store(self.context, self.right_store or self.path)
            with others.view(self.right or left.name) as right:
                yield left, right

    @contextlib.contextmanager
    def changed_with_other(
        self,
    ) -> Iterator[tuple[simdb.Collection, simdb.CollectionView | None]]:
        """Open it for writing, and the second one, if it is given, for reading."""
        with self.change(self.name) as left:
            if self.right is None and self.right_store is None:
                yield left, None
                return
            others = Store(self.context, self.right_store or self.path)
            with others.opened(read_only=True) as database:
                yield left, database[self.right or left.name]


class StoreOrCollection(Store, frozen=True):
    """A whole store, or one collection in it."""

    name: Annotated[
        str | None, typer.Argument(metavar="COLLECTION", help="Only this collection.")
    ] = None

    @contextlib.contextmanager
    def chosen(self, *, read_only: bool) -> Iterator[simdb.Database | simdb.Collection]:
        """Open it."""
        with self.opened(read_only=read_only) as database:
            yield database[self.name] if self.name else database


def meant(database: simdb.Database | simdb.Snapshot, name: str | None) -> str:
    """Return the name of a collection; of the only one for None, an error lists those there are."""
    if name is not None:
        return name
    names = database.collection_names()
    if len(names) != 1:
        told = f"has several: name one of {', '.join(names)}" if names else "has none"
        raise CollectionNotFoundError(f"no collection is named, and the store {told}")
    return names[0]
