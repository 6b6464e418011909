"""The command that replaces a store with a backup."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import simdb
from simdb.cli.failures import left_alone, told_when_interrupted
from simdb.cli.output import Working
from simdb.cli.stores import settings_of


def restore(
    context: typer.Context,
    *,
    # What may not be read is told as of any store: the parser would call it wrong usage.
    backup: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="The file to restore from.", readable=False)
    ],
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="The store to replace.", readable=False)
    ],
    telling: Working,
) -> None:
    """Replace a store with a copy of a backup.

    The backup is verified first and is not changed. If a process has the store open, the command
    names it and changes nothing.

    Example: simdb restore corpus-monday.simdb corpus.simdb
    """
    with told_when_interrupted(lambda: left_alone(str(store))), telling.bar() as bar:
        asked = settings_of(context)
        simdb.restore(
            backup, store, mode=asked.mode, untrusted=asked.untrusted, progress=bar.callback
        )
    size = store.stat().st_size
    told = {"backup": str(backup), "store": str(store), "bytes": size}
    telling.tell(told, f"restored {store} from {backup}: {size:,} bytes")
