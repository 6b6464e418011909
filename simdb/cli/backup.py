"""The command that copies a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simdb.cli.failures import told_when_interrupted
from simdb.cli.output import Working
from simdb.cli.stores import Store


def backup(
    *,
    store: Store,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The new file.")],
    compacted: Annotated[
        bool, typer.Option("--compact", help="Leave out free pages: slower, but a smaller file.")
    ] = False,
    telling: Working,
) -> None:
    """Copy a store to a new file while others use it.

    Example: simdb backup corpus.simdb corpus-monday.simdb
    """
    with (
        store.opened(read_only=True) as database,
        told_when_interrupted(lambda: "there is no complete backup"),
        telling.bar() as bar,
    ):
        database.backup(target, compact=compacted, progress=bar.callback)
    size = Path(target).stat().st_size
    told = {"store": store.path, "target": target, "bytes": size}
    telling.tell(told, f"backed up to {target}: {size:,} bytes")
