"""The command that writes a store as a folder of Parquet files."""

from __future__ import annotations

from typing import Annotated

import typer

from simdb.cli.failures import told_when_interrupted
from simdb.cli.output import Working, counted
from simdb.cli.stores import Store


def dump(
    *,
    store: Store,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="The new folder.")],
    signatures: Annotated[
        bool,
        typer.Option(
            "--signatures",
            help="Also write signatures, so that 'load' need not sign (not written).",
        ),
    ] = False,
    telling: Working,
) -> None:
    """Write a whole store as a folder of Parquet files.

    The folder contains items, metadata and settings, but no indexes: 'simdb load' makes them again,
    and the new store gives the same answers. It also contains the secrets of the collections, so
    only its owner may read it. Needs the extra 'arrow'.

    Example: simdb dump corpus.simdb corpus-dump
    """
    with (
        store.opened(read_only=True) as database,
        told_when_interrupted(lambda: f"there is no {folder}"),
        telling.bar() as bar,
    ):
        database.dump(folder, signatures=signatures, progress=bar.callback)
        count = len(database)
    told = {"store": store.path, "folder": folder, "collections": count}
    telling.tell(told, f"{counted(count, 'collection', 'collections')} in {folder}")
