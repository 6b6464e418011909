"""The command that makes a store from a dumped folder."""

from __future__ import annotations

from typing import Annotated

import typer

import simdb
from simdb.cli.failures import told_when_interrupted
from simdb.cli.output import Working
from simdb.cli.stores import settings_of


def load(
    context: typer.Context,
    *,
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="A folder that 'simdb dump' wrote.")
    ],
    store: Annotated[str, typer.Argument(metavar="STORE", help="The new store.")],
    sign: Annotated[
        bool,
        typer.Option("--sign", help="Sign all items anew, also if the folder has signatures."),
    ] = False,
    telling: Working,
) -> None:
    """Make a store from a folder that 'simdb dump' wrote.

    The store appears when it is complete. Needs the extra 'arrow'.

    Example: simdb load corpus-dump copy.simdb
    """
    asked = settings_of(context)
    with (
        told_when_interrupted(lambda: f"there is no {store}"),
        telling.bar() as bar,
    ):
        simdb.load(
            folder,
            store,
            signatures=not sign,
            threads=asked.threads,
            memory=asked.memory,
            mode=asked.mode,
            progress=bar.callback,
        )
    telling.tell({"folder": folder, "store": store}, f"loaded into {store}")
