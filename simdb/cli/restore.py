"""The command that puts a backup in the place of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import simdb
from simdb.cli.output import Working


def restore(
    *,
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="The file to restore from.")],
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The store to replace.")],
    telling: Working,
) -> None:
    """Replace a store by a copy of a backup.

    If a process has the store open, it is named and nothing is done. The backup is verified first
    and stays as it is.

    Example: simdb restore corpus-monday.simdb corpus.simdb
    """
    with telling.bar() as bar:
        simdb.restore(backup, store, progress=bar.callback)
    size = store.stat().st_size
    told = {"backup": str(backup), "store": str(store), "bytes": size}
    telling.tell(told, f"restored {store} from {backup}: {size:,} bytes")
