"""The command that prints what a store holds."""

from __future__ import annotations

import typer

from simdb.cli.options import AsJson, OptionalCollectionName, StorePath
from simdb.cli.output import print_fields, print_json
from simdb.cli.stores import existing, opened


def stats(
    context: typer.Context,
    *,
    store: StorePath,
    collection: OptionalCollectionName = None,
    as_json: AsJson = False,
) -> None:
    """Print what a store holds and how much room it takes."""
    with opened(context, store, read_only=True) as database:
        found = (existing(database, collection) if collection else database).stats()
    if as_json:
        print_json(found)
    else:
        print_fields(found)
