"""The command that copies a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simdb.cli.failures import told_when_interrupted
from simdb.cli.options import AsJson, Quiet, StorePath
from simdb.cli.output import note, print_json_line
from simdb.cli.stores import opened


def backup(
    context: typer.Context,
    *,
    store: StorePath,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The new file.")],
    compacted: Annotated[
        bool, typer.Option("--compact", help="Leave the free pages out: slower, smaller.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Copy a store to a new file, while others use it."""
    with (
        opened(context, store, read_only=True) as database,
        told_when_interrupted(lambda: "there is no complete backup"),
    ):
        database.backup(target, compact=compacted)
    size = Path(target).stat().st_size
    if as_json:
        print_json_line({"store": store, "target": target, "bytes": size})
    else:
        note(f"backed up to {target}: {size:,} bytes", quiet=quiet)
