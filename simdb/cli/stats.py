"""The command that prints what a store holds."""

from __future__ import annotations

from simdb.cli.output import AsJson, print_fields, print_json
from simdb.cli.stores import StoreOrCollection


def stats(
    *,
    described: StoreOrCollection,
    as_json: AsJson = False,
) -> None:
    """Print what a store holds and how much room it takes.

    Example: simdb stats corpus.simdb documents
    """
    with described.chosen(read_only=True) as source:
        found = source.stats()
    if as_json:
        print_json(found)
    else:
        print_fields(found)
