"""The command that merges the index of a store and drops what is deleted."""

from __future__ import annotations

import typer

from simdb.cli.failures import told_when_interrupted
from simdb.cli.options import AsJson, OptionalCollectionName, Quiet, StorePath
from simdb.cli.output import ProgressBar, print_fields, print_json
from simdb.cli.stores import existing, opened


def compact(
    context: typer.Context,
    *,
    store: StorePath,
    collection: OptionalCollectionName = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Merge the index and drop what is deleted, in place."""
    with (
        opened(context, store) as database,
        told_when_interrupted(lambda: "the store is whole; the same command continues"),
        ProgressBar(quiet=quiet) as bar,
    ):
        target = existing(database, collection) if collection else database
        report = target.compact(progress=bar.callback)
    if as_json:
        print_json(report)
    else:
        print_fields(report)
